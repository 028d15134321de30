"""Record what every door of the program answers over fixed inputs, and compare two records.

    python bench/doors.py make INPUTS --tree TREE            fixed inputs, and a small trained folder of each task
    python bench/doors.py record INPUTS OUT --tree TREE      run all cases with TREE/src on PYTHONPATH
    python bench/doors.py compare BEFORE AFTER               what differs; status 0 where nothing does

One tree makes the inputs, once; every tree is recorded over the same ones. A door is a command line, a route over HTTP
or a call in Python. Each case runs in a folder of its own with copies of the inputs. A record has a folder for each:

    stdout, stderr   of all steps of the case, each under its own line
    code             the exit codes
    tree             the files that were written, changed or removed
    files/           what is in them: text as it is, tensors and other binary files as hashes, tables as rows too

So `diff -r` compares two records as well. What changes by nature has a name in its place: `<tree>`, `<inputs>`,
`<work>`, `<seconds>`, `<port>` and so on (`NORMAL`). Nothing else is changed.

The cases run from a copy of TREE, so that TREE may change meanwhile. Most commands run in forks of a process that has
loaded all modules of the tree; a line that begins with `$` is a process of its own. Threads, hash seeds, caches and the
home folder are the same in each run. Both records need the same processor, the same libraries and this very script.
"""

import argparse
import ast
import concurrent.futures
import contextlib
import difflib
import gzip
import hashlib
import http.client
import io
import json
import os
import pkgutil
import queue
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

STEP_SECONDS = 300
LIBRARIES = "numpy torch safetensors.torch tokenizers transformers sklearn.linear_model scipy.optimize pandas pyarrow"
"""What a process loads once, before it forks for each command."""
MOST_TEXT = 1 << 19
"""Characters of a file that a record keeps; of a longer one it keeps the hash too."""

# ---------------------------------------------------------------------------------------------------------- inputs

PEOPLE = ["Ada Brandt", "Nina Okafor", "Tom Reyes", "Priya Raman", "Marco Bianchi", "Ingrid Solberg", "Élodie Müller"]
PLACES = ["Vellmar", "Port Lisse", "Leipzig", "Zürich", "Harbour Street", "Bergen"]
SAYINGS = [
    "{person} left {place} on Monday.",
    "My parcel for {person} has been in {place} since May.",
    "Nobody in {place} knows who {person} is.",
    "It rained for 40 days.",
    "Please write to {person}; the old address in {place} is wrong.",
]
TEXTS = [
    "My parcel for Nina Okafor has been in Leipzig since Monday.",
    "I cannot log in since I changed my password.",
    "“Thank you, Marco,” said Élodie Müller of Zürich; it cost 3.5 million.",
    "",
    "  Tom Reyes  promised me a refund in Port Lisse. Ada Brandt did not. Nobody knew.  ",
    "IBM and the University of Bergen sued Acme Corp. in 2019 🚒 about 日本 and Köln.",
    "x",
    "Dr. O'Neil-Smith (see http://example.org/a?b=c) e-mailed ada@example.org at 10:30.",
]
GERMAN = [
    "Frau Ingrid Solberg wohnt seit Montag mit ihrer Familie in einem kleinen Haus in Leipzig.",
    "Das Paket für Herrn Müller ist gestern noch nicht angekommen, sagte die Nachbarin aus Köln.",
    "Wir haben die Rechnung schon zweimal bezahlt und warten immer noch auf eine Antwort von Ihnen.",
]
TOPICS = {
    "delivery": [
        "My parcel is late.",
        "The driver left the box outside.",
        "Do you deliver to Lisse?",
        "It never came.",
    ],
    "payment": ["You charged me twice.", "Where is my refund?", "The invoice is wrong.", "Can I pay by card?"],
    "account": ["I cannot log in.", "Delete my account.", "My password is gone.", "Change my address, please."],
}
CONTEXT = "Ada Brandt left Vellmar in May. Tom Reyes stayed in Port Lisse, where it rained."
UD = """\
# newdoc id = letters
# sent_id = 1
# text = We don't know it (yet).
1\tWe\twe\tPRON\tPRP\tCase=Nom|Number=Plur\t4\tnsubj\t_\tNER=O
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tknow\tknow\tVERB\tVB\t_\t0\troot\t_\t_
5\tit\tit\tPRON\tPRP\tNumber=Sing\t4\tobj\t_\t_
6\t(\t(\tPUNCT\t-LRB-\t_\t7\tpunct\t_\tSpaceAfter=No
7\tyet\tyet\tADV\tRB\t_\t4\tadvmod\t_\tNER=B-TIME|SpaceAfter=No
8\t)\t)\tPUNCT\t-RRB-\t_\t7\tpunct\t_\tSpaceAfter=No
9\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# sent_id = 2
1\tAda\tAda\tPROPN\tNNP\t_\t2\tnsubj\t_\t_
2\tleft\tleave\tVERB\tVBD\t_\t0\troot\t_\t_
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_
"""
XML = """\
<?xml version="1.0" encoding="UTF-8"?>
<corpus lang="en" source="own">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="d000.s000.t000" lemma="bank" pos="NOUN">bank</instance>
<instance id="d000.s000.t001" lemma="rise" pos="VERB">rose</instance>
</sentence>
</text>
</corpus>
"""


def lines(*records: Any) -> str:
    """JSON lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def said(number: int) -> tuple[str, list[list[Any]]]:
    """A text of a few words by its number, and its entities."""
    person, place = PEOPLE[number % len(PEOPLE)], PLACES[number % len(PLACES)]
    text = SAYINGS[number % len(SAYINGS)].format(person=person, place=place)
    found = [(text.find(name), name, label) for name, label in ((person, "PERSON"), (place, "PLACE"))]
    return text, [[start, start + len(name), label] for start, name, label in sorted(found) if start >= 0]


def labelled(numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [{"text": text, "entities": entities} for text, entities in map(said, numbers)]


def conll(numbers: Sequence[int], scheme: str = "bio") -> str:
    """Words and their tags, a document for each four sentences."""
    parts = []
    for place, number in enumerate(numbers):
        text, entities = said(number)
        rows = []
        for match in re.finditer(r"\w+|[^\w\s]", text):
            inside = [entity for entity in entities if entity[0] <= match.start() < entity[1]]
            begins = any(entity[0] == match.start() for entity in inside)
            last = any(entity[1] == match.end() for entity in inside)
            mark = {(True, True): "S", (True, False): "B", (False, True): "E", (False, False): "I"}[begins, last]
            mark = mark if scheme == "bioes" else "B" if begins else "I"
            rows.append(f"{match[0]}\t{mark}-{inside[0][2]}\n" if inside else f"{match[0]}\tO\n")
        parts.append(("-DOCSTART-\tO\n\n" if place % 4 == 0 else "") + "".join(rows))
    return "\n".join(parts)


def topics(*numbers: int) -> list[dict[str, Any]]:
    return [{"text": TOPICS[label][number], "label": label} for number in numbers for label in TOPICS]


def pairs(key: str, *values: Any) -> list[dict[str, Any]]:
    given = [TOPICS[label][number] for label in TOPICS for number in range(4)]
    return [
        {"sentence1": given[n % 12], "sentence2": given[(n * n + 1) % 12], key: values[n % len(values)]}
        for n in range(14)
    ]


def questions(numbers: Sequence[int]) -> list[dict[str, Any]]:
    made = []
    for number in numbers:
        person, place = PEOPLE[number % len(PEOPLE)], PLACES[number % len(PLACES)]
        context = f"{person} left {place} in May. Nobody knew why."
        asked = [("Who left?", person), ("Which place was left?", place), ("When?", "May")][number % 3]
        made.append(
            {"context": context, "question": asked[0], "answers": [{"text": asked[1], "start": context.find(asked[1])}]}
        )
    return made


def squad() -> dict[str, Any]:
    asked = [
        {"id": "q1", "question": "Who left?", "answers": [{"text": "Ada Brandt", "answer_start": 0}]},
        {"id": "q2", "question": "Who stayed?", "answers": [{"text": "Tom Reyes", "answer_start": 32}]},
        {"id": "q3", "question": "What did it cost?", "answers": [], "is_impossible": True},
    ]
    return {"version": "2.0", "data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}


def relations() -> list[dict[str, Any]]:
    made = []
    for number in range(12):
        person, place = PEOPLE[number % len(PEOPLE)], PLACES[number % len(PLACES)]
        verb = ("left", "reached")[number % 2]
        text = f"{person} {verb} {place} in May."
        head, tail = [0, len(person)], [text.find(place), text.find(place) + len(place)]
        label = f"{verb}(e1,e2)" if number % 3 else "Other"
        made.append({"text": text, "head": head, "tail": tail, "label": label})
    return made


def senses() -> list[dict[str, Any]]:
    told = {"the river bank was wet": "bank%1:17:01::", "the bank raised its rates": "bank%1:14:00::"}
    return [
        {"words": text.split(), "senses": [[text.split().index("bank"), "bank", "NOUN", [key]]], "document": f"d{n}"}
        for n, (text, key) in enumerate([*told.items()] * 3)
    ]


def csv(records: Sequence[Mapping[str, Any]], separator: str = ",") -> str:
    def cell(value: Any) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if re.search(r'[",;\t\n]', text) else text

    heads = [*records[0]]
    return "".join(separator.join(map(cell, row)) + "\n" for row in [heads, *([*r.values()] for r in records)])


TICKETS = [{"id": 100 + n, "message": text, "amount": f"{n},50"} for n, text in enumerate(TEXTS)]
NESTED = {
    "customer": {"name": "Ada Brandt", "age": 41, "tags": ["Vellmar", "vip"], "note": None},
    "log": json.dumps({"by": "Tom Reyes", "at": "Port Lisse"}),
    "messages": [{"role": "user", "content": "I am Nina Okafor from Leipzig."}, {"role": "bot", "content": "Hello."}],
    "numbers": [1.50, 1e5, -0, 12345678901234567890],
    "Ingrid Solberg": True,
}
BIG = 1400
"""Records of a file that takes several batches."""


def big(broken: bool) -> str:
    made = [json.dumps({"id": n, "text": f"{n}: {said(n)[0]}"}, ensure_ascii=False) for n in range(BIG)]
    if broken:
        made[BIG - 100] = '{"text": "Ada'
    return "\n".join(made) + "\n"


FILES: dict[str, str | bytes] = {
    "plain.txt": "\n".join(TEXTS) + "\n",
    "windows.txt": ("\ufeff" + "\r\n".join(TEXTS[:3])).encode(),
    "german.txt": "\n".join(GERMAN * 4) + "\n",
    "empty.txt": "",
    "latin1.txt": "Frau Müller left.\n".encode("latin-1"),
    "plain.txt.gz": gzip.compress("\n".join(TEXTS).encode(), mtime=0),
    "semicolons.csv": ("\ufeff" + csv(TICKETS, ";")).encode(),
    "commas.csv": csv([{"id": n, "text": text, "note": 'a "b", c'} for n, text in enumerate(TEXTS)]),
    "tabs.tsv": csv([{"id": n, "text": text} for n, text in enumerate(TEXTS)], "\t"),
    "array.json": json.dumps([{"id": n, "text": text} for n, text in enumerate(TEXTS[:4])], ensure_ascii=False),
    "rows.jsonl": lines(*({"id": n, "text": text, "meta": {"n": [n]}} for n, text in enumerate(TEXTS))),
    "rows.jsonl.gz": gzip.compress(lines(*({"text": text} for text in TEXTS)).encode(), mtime=0),
    "nested.json": json.dumps(NESTED, ensure_ascii=False, indent=2),
    "nested.jsonl": lines(NESTED, {"text": "Tom Reyes left."}, ["Ada Brandt", 3], "Nina Okafor"),
    "page.html": "<p>Dear <b>Ada Brandt</b>,</p>\n<p>greetings from Port&nbsp;Lisse</p>\n",
    "letters.conllu": UD,
    "senses.xml": XML,
    "big.jsonl": big(broken=False),
    "big-broken.jsonl": big(broken=True),
    "broken.jsonl": lines({"text": "Ada Brandt left."}, {"text": "It rained."})
    + '{"text": "Tom\n'
    + lines({"text": 7}, {"other": "x"}, {"text": "Tom Reyes stayed."}),
    "wide.csv": "id,text\n1,Ada Brandt left.\n2,Tom Reyes, of Bergen, left.\n3,It rained.\n",
    "short.csv": "id,text,note\n1,Ada Brandt left.\n2,It rained.,x\n",
    "unclosed.csv": 'id,text\n1,"Ada Brandt left.\n2,It rained.\n',
    "doubled.csv": "text,text\nAda,Tom\n",
    "gazetteer.tsv": "Ada Brandt\tPERSON\nPort Lisse\tPLACE\nLisse\tPLACE\nx\tLETTER\n",
    "lists.jsonl": lines({"text": "Ada left Lisse.", "entities": [{"text": "Ada", "label": "PER"}]}),
    # labelled
    "train.conll": conll(range(60)),
    "dev.conll": conll(range(100, 120)),
    "bioes.conll": conll(range(12), "bioes"),
    "odd.conll": "Ada\tI-PER\nBrandt\tB-PER\nleft\tI-LOC\n\nIt\tO\nrained\tO\n\n\nAda\tB-PER\n",
    "broken.conll": "Ada\tB-PER\nleft\n\nIt\tX-PER\n",
    "train.jsonl": lines(*labelled(range(60))),
    "dev.jsonl": lines(*labelled(range(100, 120))),
    "one.jsonl": lines(*labelled([0])),
    "three.jsonl": lines(*labelled(range(3))),
    "ten.jsonl": lines(*labelled(range(10))),
    "outside.jsonl": lines(
        {"text": "Ada left.", "entities": [[0, 3, "PER"]]}, {"text": "Ada", "entities": [[0, 9, "P"]]}
    ),
    "words.jsonl": lines(
        *({"words": said(n)[0].split(), "tags": ["O"] * (len(said(n)[0].split()) - 1) + ["B-LAST"]} for n in range(12))
    ),
    "documents.txt": "".join(f"It was late. {said(n)[0]} Nobody knew.\n" for n in range(20)),
    "topics.jsonl": lines(*topics(0, 1, 2)),
    "dev-topics.jsonl": lines(*topics(3)),
    "topics.csv": csv(topics(0, 1, 2)),
    "named.csv": csv([{"message": r["text"], "subject": r["label"], "n": 1} for r in topics(0, 1, 2)], ";"),
    "one-topic.jsonl": lines(*topics(0)[:1]),
    "three-topics.jsonl": lines(*topics(0)),
    "several.jsonl": lines(
        *(
            {"text": r["text"], "labels": [r["label"], "urgent"] if n % 2 else []}
            for n, r in enumerate(topics(0, 1, 2, 3))
        )
    ),
    "scores.jsonl": lines(*({"text": r["text"], "score": n % 5 + 0.5} for n, r in enumerate(topics(0, 1, 2)))),
    "pairs.jsonl": lines(*pairs("label", "same", "other")),
    "similar.jsonl": lines(*pairs("score", 0.5, 2, 4.5)),
    "similar.csv": csv(pairs("score", 0.5, 2, 4.5)),
    "questions.jsonl": lines(*questions(range(12))),
    "squad.json": json.dumps(squad()),
    "relations.jsonl": lines(*relations()),
    "senses.jsonl": lines(*senses()),
    "bad-topics.jsonl": lines({"text": "Ada left.", "label": "a"}, {"text": 5, "label": "b"}, {"text": "x"}),
    "bad-pairs.jsonl": lines({"sentence1": "a", "sentence2": "b", "score": "high"}),
    "bad-questions.jsonl": lines(
        {"context": "Ada left.", "question": "Who?", "answers": [{"text": "Tom", "start": 0}]}
    ),
    "bad-relations.jsonl": lines({"text": "Ada left.", "head": [0, 3], "tail": [4, 99], "label": "a"}),
    "bad-senses.jsonl": lines({"words": ["the", "bank"], "senses": [[7, "bank", "NOUN", ["x"]]]}),
    "prompts.jsonl": lines(*({"prompt": text[:12], "text": text[12:]} for text in TEXTS if len(text) > 20)),
    "gaps.txt": "The capital of France is ___ , on the river.\nHe was born in ___ and died ___ Paris.\n",
    "no-gap.txt": "He was born in ___ .\nNo gap.\n",
    "reviews.jsonl": lines(*({"text": r["text"], "label": n % 2} for n, r in enumerate(topics(0, 1)))),
    "queries.txt": "Where is my box?\nmoney back\n",
    "web/dist/ort.wasm.bundle.min.mjs": "const made={run(){}};export{made as InferenceSession};\n",
    "web/dist/ort-wasm-simd-threaded.wasm": b"\0asm\1\0\0\0",
    "choices/openbookqa-train.jsonl": lines(
        *({"question": "Ada left", "choices": [".", "Vellmar"], "answer": n % 2} for n in range(4))
    ),
    "tokens.txt": "secret-one\nsecret-two\n",
    "recipe.yaml": "train: train.conll\nencoder: starter-memory\nhead: ridge\ncross-validate: 0\n",
    "kinds.json": json.dumps({"PERSON": "PERSON", "PLACE": "PLACE"}),
    "folder/a.txt": "\n".join(TEXTS[:3]) + "\n",
    "folder/b.csv": csv([{"id": n, "text": text} for n, text in enumerate(TEXTS[4:7])]),
    "folder/sub/c.jsonl": lines(*({"text": text} for text in TEXTS[:2])),
    "folder/sub/d.json": json.dumps(NESTED),
    "mixed/good.jsonl": lines({"text": "Ada Brandt left."}),
    "mixed/bad.jsonl": lines({"text": "Tom Reyes left."}) + "{\n",
    "shards/one.jsonl": lines(*({"id": n, "text": said(n)[0]} for n in range(40))),
    "shards/two.jsonl": lines(
        *({"id": n, "text": said(n)[0]} for n in range(40, 60)), {"id": 1}, {"id": 2, "text": "x"}
    ),
}


def tables(folder: Path) -> None:
    """The inputs that libraries write."""
    import openpyxl
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"id": range(len(TEXTS)), "text": TEXTS, "score": [n / 4 for n in range(len(TEXTS))]})
    pyarrow.parquet.write_table(table, folder / "table.parquet")
    with pyarrow.OSFile(str(folder / "table.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["id", "text", "amount", "when"])
    for number, text in enumerate(TEXTS[:6]):
        sheet.append([number, text or None, number / 3, "=1+1" if number == 2 else f"2024-01-{number + 1:02}"])
    book.create_sheet("second").append(["other"])
    book.save(folder / "table.xlsx")
    book = openpyxl.Workbook()
    for record in [{"text": "text", "label": "label"}, *topics(0, 1, 2)]:
        book.active.append([*record.values()])
    book.save(folder / "topics.xlsx")


MODELS: dict[str, str] = {
    "tagger": "fit --train train.jsonl --dev dev.jsonl --encoder starter-memory --epochs 4",
    "ridge": "fit --train train.conll --encoder starter --head ridge --cross-validate 0",
    "span": "fit --train train.conll --encoder starter-forward --head span --epochs 2 --hidden 32 --cross-validate 0",
    "forward": "fit --train train.jsonl --encoder starter-forward --head linear --epochs 4 --cross-validate 0",
    "live": "fit --train train.conll --encoder starter --head linear --live --epochs 4 --cross-validate 0",
    "topics": "fit --train topics.jsonl --dev dev-topics.jsonl --encoder starter --epochs 4",
    "words": "fit --train topics.jsonl --encoder starter-words --cross-validate 0",
    "several": "fit --train several.jsonl --encoder starter-words --cross-validate 0",
    "scores": "fit --train scores.jsonl --encoder starter-forward --cross-validate 0 --epochs 3 --hidden 16",
    "pairs": "fit --train pairs.jsonl --encoder starter --cross-validate 0 --epochs 3 --hidden 16",
    "similarity": "fit --train similar.jsonl --task similarity --encoder starter-words --cross-validate 0 --epochs 3",
    "questions": "fit --train questions.jsonl --encoder starter --cross-validate 0 --epochs 3",
    "relations": "fit --train relations.jsonl --encoder starter --cross-validate 0 --epochs 3",
    "senses": "fit --train senses.jsonl --encoder starter --cross-validate 0",
    "vectors": "fit --train similar.jsonl --task embed --encoder starter-words --cross-validate 0 --epochs 2",
    "statistics": "fit --train plain.txt --task embed --encoder starter --head statistics --cross-validate 0",
    "memory": "lab memory plain.txt documents.txt --encoder starter-forward --words 50",
    "network": "lab names train.conll --encoder starter-memory --epochs 1",
    "shards": "lab tokenize documents.txt --tokenizer starter-forward --workers 1",
    "graph": "export models/tagger --agreement 0",
}
"""Folders that `make` writes once, by the commands that make them."""


def damage(models: Path) -> None:
    """Folders that no command should read."""
    shutil.copytree(models / "tagger", models / "half")
    (models / "half" / "manifest.json").unlink()
    shutil.copytree(models / "tagger", models / "cut")
    head = models / "cut" / "head.safetensors"
    head.write_bytes(head.read_bytes()[:1000])
    shutil.copytree(models / "tagger", models / "changed")
    config = models / "changed" / "config.json"
    config.write_text(config.read_text("utf-8").replace("0.1.0", "0.1.1"), "utf-8")
    shutil.copytree(models / "tagger", models / "lost")
    (models / "lost" / "config.json").unlink()
    shutil.copytree(models / "tagger", models / "pointer")
    (models / "pointer" / "head.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (models / "foreign").mkdir()
    (models / "foreign" / "config.json").write_text('{"model_type": "gpt2"}')
    (models / "bare").mkdir()


# ------------------------------------------------------------------------------------------------------------- cases


class Server(NamedTuple):
    """A command that serves, and what it is asked."""

    command: str
    asked: list[tuple[Any, ...]]
    """(method, path, body, headers): a body is a text, or what becomes JSON. (`"WS"`, path, messages) is a WebSocket.
    (`"SEND"`, path, body) tells the status alone, of what depends on threads.
    (`"WAIT"`, path, key, value, others) asks until the answer of a POST has this value, and tells some others."""


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def each(template: str, *values: str) -> str:
    """A command with each of several words, or groups of words, between semicolons, in place of `{}`; `{.}` makes a
    name of a file of it."""
    given = [word.strip() for value in values for word in value.split("; ")]
    return "\n".join(template.replace("{}", word).replace("{.}", slug(word)) for word in given)


NAMES_OF_COMMANDS = ["label; fit; evaluate; predict; serve; export; check; weak; redact; cache; compare; fewshot; demo"]
NAMES_OF_COMMANDS += ["backward; pack; distill; embed; similarity; doctor; lab language; lab tokenize; lab pretrain"]
NAMES_OF_COMMANDS += [
    "lab fuse; lab adapt; lab elmo; lab seq2seq; lab memory; lab names; lab distill-words; lab generate"
]
NAMES_OF_COMMANDS += ["lab infill; lab score; lab prompt; lab harness; lab scaling; lab geometry"]
FORMATS = ("text", "jsonl", "csv", "tsv", "conll", "html", "labelstudio", "argilla", "parquet")
READ = ("plain.txt", "windows.txt", "empty.txt", "plain.txt.gz", "semicolons.csv --text-column message", "commas.csv")
READ += ("tabs.tsv", "table.xlsx", "array.json", "rows.jsonl", "rows.jsonl.gz", "table.parquet", "table.arrow")
READ += ("train.conll", "bioes.conll", "letters.conllu", "nested.jsonl", "german.txt", "page.html")
WRITTEN = ("csv", "tsv", "xlsx", "jsonl", "json", "parquet", "arrow", "conll", "html", "txt", "xml")

CASES: dict[str, Any] = {
    # predict: what is read and what is written
    "predict reads": each("boustro predict models/tagger {} --format jsonl", *READ),
    "predict reads in files": each("boustro predict models/tagger {} --out {.}.jsonl --quiet", *READ),
    "predict reads with a form": """
        boustro predict models/tagger plain.txt --reads jsonl
        boustro predict models/tagger rows.jsonl --reads text
        boustro predict models/tagger train.conll --reads text --format conll
        boustro predict models/tagger letters.conllu --reads conll --format conll
        boustro predict models/tagger table.parquet --reads arrow
        boustro predict models/tagger senses.xml --reads xml
    """,
    "predict formats of lines": each("boustro predict models/tagger plain.txt --format {}", *FORMATS),
    "predict formats of a table": each("boustro predict models/tagger commas.csv --format {}", *FORMATS),
    "predict formats of records": each("boustro predict models/tagger rows.jsonl --format {}", *FORMATS),
    "predict formats of words": each("boustro predict models/tagger dev.conll --format {}", *FORMATS),
    "predict out of lines": each("boustro predict models/tagger plain.txt --out answers.{}", *WRITTEN),
    "predict out of a table": each(
        "boustro predict models/tagger semicolons.csv --text-column message --out a.{}", *WRITTEN
    ),
    "predict out of a workbook": each("boustro predict models/tagger table.xlsx --out a.{}", *WRITTEN),
    "predict out of records": each("boustro predict models/tagger rows.jsonl --out a.{}", *WRITTEN),
    "predict out of parquet": each("boustro predict models/tagger table.parquet --out a.{}", *WRITTEN),
    "predict from standard input": """
        boustro predict models/tagger < plain.txt
        boustro predict models/tagger - --format csv < semicolons.csv
        boustro predict models/tagger - --text-column message < semicolons.csv
        boustro predict models/tagger - --text-column text --format jsonl < rows.jsonl
        boustro predict models/tagger - < plain.txt.gz
        boustro predict models/tagger - < train.conll
        boustro predict models/tagger - --reads conll --format conll < dev.conll
        boustro predict models/tagger /dev/stdin --format jsonl < commas.csv
        boustro predict models/tagger - --out from-stdin.parquet < rows.jsonl
        boustro predict models/tagger - < table.parquet
        boustro predict models/tagger - < table.xlsx
    """,
    "predict in processes": """
        $ boustro predict models/tagger plain.txt
        $ boustro predict names plain.txt --format jsonl
        $ boustro predict models/tagger rows.jsonl commas.csv --out both.jsonl --workers 2
        $ boustro predict models/tagger shards --out shard-answers --workers 2
    """,
    "predict several files": """
        boustro predict models/tagger plain.txt rows.jsonl commas.csv
        boustro predict models/tagger plain.txt rows.jsonl --format jsonl
        boustro predict models/tagger commas.csv tabs.tsv --format csv
        boustro predict models/tagger commas.csv tabs.tsv --out together.csv
        boustro predict models/tagger commas.csv commas.csv --out together.xlsx
        boustro predict models/tagger plain.txt - --out together.jsonl < plain.txt
        boustro predict models/tagger plain.txt dev.conll --format conll
    """,
    "predict a folder of files": """
        boustro predict models/tagger shards --out out1
        boustro predict models/tagger shards --out out1
        boustro predict models/tagger shards --out out1 --resume
        boustro predict models/tagger shards --out out2 --format parquet
        boustro predict models/tagger shards --out out3 --format arrow --quiet
        boustro predict models/tagger folder --out out4
        boustro predict models/tagger mixed --out out5
        boustro predict models/tagger shards
        boustro predict models/tagger shards plain.txt --out out6
        boustro predict models/tagger shards --out out7 --format csv
        boustro predict models/tagger shards --out out8 --overwrite
        boustro predict models/words shards --out out9
        boustro predict models/tagger shards --out plain.txt
    """,
    "predict labels without training": """
        boustro predict --labels delivery,payment,account topics.jsonl
        boustro predict --labels "delivery,payment,praise: thanks or a compliment" topics.csv --format jsonl --none 0
        boustro predict --labels delivery,payment plain.txt --several --format jsonl
        boustro predict --labels delivery,payment named.csv --text-column message --out labelled.csv
        boustro predict --labels delivery topics.jsonl
        boustro predict --labels delivery,payment --types person plain.txt
        boustro predict --labels delivery payment
        boustro predict --labels delivery,payment german.txt --none 0 --threshold 0.5
    """,
    "predict types without training": """
        boustro predict --types "politician,city,law: an act or a treaty" plain.txt
        boustro predict --types person,city plain.txt --format jsonl --threshold 0.2
        boustro predict --types person,city plain.txt --recall 0.9
        boustro predict --types person plain.txt --out typed.html
    """,
    "predict recall and threshold": """
        boustro predict models/tagger plain.txt --recall 0.95 --format jsonl
        boustro predict models/tagger plain.txt --recall 0.8
        boustro predict models/tagger plain.txt --threshold 0.05 --format jsonl
        boustro predict models/tagger plain.txt --threshold 0.9
        boustro predict models/tagger plain.txt --threshold 0.5 --recall 0.9
        boustro predict models/ridge plain.txt --threshold 0.05
        boustro predict models/ridge plain.txt --recall 0.9
        boustro predict models/span plain.txt --threshold 0.1
        boustro predict models/span plain.txt --format jsonl
        boustro predict models/words topics.jsonl --recall 0.9
        boustro predict models/words topics.jsonl --threshold 0.9
        boustro predict names plain.txt --threshold 0.1 --format jsonl
        boustro predict models/tagger plain.txt --threshold 1.5
    """,
    "predict with explanations": """
        boustro predict models/tagger plain.txt --explain
        boustro predict models/topics dev-topics.jsonl --explain
        boustro predict models/words dev-topics.jsonl --explain --out why.jsonl
        boustro predict models/scores dev-topics.jsonl --explain
        boustro predict models/pairs pairs.jsonl --explain
        boustro predict models/tagger plain.txt --explain --format text
        boustro predict names plain.txt --explain
    """,
    "predict live": """
        boustro predict models/live plain.txt --live
        boustro predict models/live --live --delay 0 < plain.txt
        boustro predict models/tagger - --live --delay 2 < windows.txt
        boustro predict names plain.txt --live --threshold 0.2
        boustro predict models/tagger latin1.txt --live
        boustro predict models/tagger rows.jsonl --live
        boustro predict models/topics plain.txt --live
        boustro predict models/span plain.txt --live
        boustro predict models/tagger plain.txt german.txt --live
        boustro predict models/tagger plain.txt --live --format text
        boustro predict models/tagger plain.txt --delay 2
        $ boustro predict models/live plain.txt --live --delay 256
    """,
    "predict goes on": """
        boustro predict models/words big-broken.jsonl --out a.jsonl
        boustro predict models/words big-broken.jsonl --out a.jsonl
        boustro predict models/several big-broken.jsonl --out a.jsonl --resume
        boustro predict models/words big.jsonl --out a.jsonl --resume
        boustro predict models/words big-broken.jsonl --out a.jsonl --resume
        boustro predict models/words big-broken.jsonl --out a.jsonl --resume --errors e.jsonl
        boustro predict models/words big-broken.jsonl --out a.jsonl --resume --errors e.jsonl
        boustro predict models/words big-broken.jsonl --out b.parquet --errors f.jsonl
        boustro predict models/words big-broken.jsonl --out c.csv
        boustro predict models/words big-broken.jsonl --out c.csv --overwrite
    """,
    "predict goes on with repaired rows": [
        "boustro predict models/tagger big-broken.jsonl --out a.parquet",
        ">>> done = Path('big-broken.jsonl').write_text(Path('big.jsonl').read_text('utf-8'), 'utf-8')",
        "boustro predict models/tagger big-broken.jsonl --out a.parquet --resume",
        ">>> done = Path('big-broken.jsonl').write_text('{}' + Path('big.jsonl').read_text('utf-8'), 'utf-8')",
        "boustro predict models/tagger big-broken.jsonl --out a.parquet --overwrite --resume",
    ],
    "predict leaves rows out": each(
        "boustro predict models/tagger {} --errors {.}.errors --format jsonl",
        *("broken.jsonl", "wide.csv", "short.csv", "unclosed.csv", "doubled.csv", "latin1.txt", "nested.jsonl"),
        *("broken.conll", "table.xlsx", "array.json"),
    ),
    "predict refuses to overwrite": """
        boustro predict models/tagger plain.txt --out a.jsonl
        boustro predict models/tagger plain.txt --out a.jsonl
        boustro predict models/tagger plain.txt --out a.jsonl --overwrite
        boustro predict models/tagger plain.txt --out plain.txt
        boustro predict models/tagger plain.txt --out folder
        boustro predict models/tagger plain.txt --out nowhere/a.jsonl
        boustro predict models/tagger plain.txt --out b.jsonl --errors b.jsonl
        boustro predict models/tagger plain.txt --errors a.jsonl
        boustro predict models/tagger plain.txt --out a.unknown
        boustro predict models/tagger plain.txt --out a.csv --format jsonl
        boustro predict models/tagger plain.txt --out a.parquet --format text
        boustro predict models/tagger plain.txt --out a
        boustro predict models/tagger plain.txt --resume
        boustro predict models/tagger - --out c.jsonl --resume < plain.txt
        boustro predict models/tagger plain.txt --out models/tagger/a.jsonl
    """,
    "predict bad inputs": each(
        "boustro predict models/tagger {}",
        *("nowhere.txt", "commas.csv --text-column nothing", "named.csv", "broken.jsonl", "wide.csv", "unclosed.csv"),
        *("doubled.csv", "latin1.txt", "plain.txt --text-column text", "broken.conll --reads conll", "one.jsonl x.csv"),
        *("pairs.jsonl", "plain.txt --reads parquet", "table.xlsx --text-column nothing", "short.csv", "''"),
        *(
            "nested.json",
            "questions.jsonl",
            "empty.txt --out e.xlsx",
            "empty.txt --out e.parquet",
            "plain.txt --encoder x",
        ),
    ),
    "predict bad folders": each(
        "boustro predict {} plain.txt",
        *(
            f"models/{name}"
            for name in ("half", "cut", "changed", "lost", "pointer", "foreign", "bare", "memory", "shards")
        ),
        *("models", "nowhere", "plain.txt", "starter", "names --encoder starter", "models/tagger --encoder starter"),
        *("models/tagger --encoder nowhere", "models/network", "''", "starter-large", "languages-names", "gpt2"),
    ),
    "predict options that do not go together": """
        boustro predict
        boustro predict plain.txt models/tagger
        boustro predict models/tagger plain.txt --format xml
        boustro predict models/tagger plain.txt --frmat jsonl
        boustro predict models/tagger plain.txt --format
        boustro predict models/tagger plain.txt --format jsonl --format text
        boustro predict models/tagger plain.txt -o a.jsonl
        boustro predict models/tagger plain.txt --engine ray
        boustro predict models/tagger plain.txt --several
        boustro predict models/tagger plain.txt --workers 0
        boustro predict models/tagger shards --out x --explain
        boustro predict models/tagger plain.txt --states plain.txt
        boustro predict models/tagger plain.txt --state-layers 1
        boustro predict models/words topics.jsonl --format conll
        boustro predict models/scores topics.jsonl --format labelstudio
        boustro predict models/tagger plain.txt --config recipe.yaml
        boustro predict models/tagger plain.txt --device nowhere
        boustro predict models/tagger plain.txt --overwrite
        boustro tag models/tagger plain.txt
        boustro nothing
        boustro
    """,
    # predict of other tasks
    "predict texts": each(
        "boustro predict models/topics {}",
        *("dev-topics.jsonl", "dev-topics.jsonl --format jsonl", "topics.csv --format csv", "topics.xlsx --out t.xlsx"),
        *("plain.txt --format html", "topics.csv --format labelstudio", "plain.txt --format argilla", "table.parquet"),
        *("named.csv --text-column message --out named.tsv", "rows.jsonl --out r.json", "german.txt", "letters.conllu"),
        *("broken.jsonl", "broken.jsonl --errors errors.jsonl", "pairs.jsonl", "nested.jsonl"),
    ),
    "predict texts by words and of several labels": """
        boustro predict models/words dev-topics.jsonl --format jsonl
        boustro predict models/words plain.txt
        boustro predict models/several dev-topics.jsonl --format jsonl
        boustro predict models/several dev-topics.jsonl --out several.csv
        boustro predict models/several dev-topics.jsonl --out several.parquet
        boustro predict models/several dev-topics.jsonl --format labelstudio
        boustro predict models/scores dev-topics.jsonl
        boustro predict models/scores topics.csv --format csv
        boustro predict models/scores topics.csv --out scores.xlsx
    """,
    "predict pairs": """
        boustro predict models/pairs pairs.jsonl
        boustro predict models/pairs similar.csv --format csv
        boustro predict models/pairs similar.csv --text-column sentence1,sentence2 --out p.jsonl
        boustro predict models/pairs plain.txt
        boustro predict models/pairs topics.csv
        boustro predict models/pairs topics.csv --text-column text
        boustro predict models/similarity similar.csv --format jsonl
        boustro predict models/similarity pairs.jsonl --out s.parquet
        boustro predict models/similarity bad-pairs.jsonl --format text
    """,
    "predict questions, relations and senses": """
        boustro predict models/questions questions.jsonl
        boustro predict models/questions squad.json --format jsonl
        boustro predict models/questions questions.jsonl --out q.csv
        boustro predict models/questions questions.jsonl --format html
        boustro predict models/questions plain.txt
        boustro predict models/relations relations.jsonl
        boustro predict models/relations relations.jsonl --format jsonl
        boustro predict models/relations bad-relations.jsonl
        boustro predict models/relations plain.txt
        boustro predict models/senses senses.jsonl
        boustro predict models/senses senses.jsonl --format jsonl
        boustro predict models/senses senses.xml --reads xml --format jsonl
        boustro predict models/senses bad-senses.jsonl
        boustro predict models/vectors plain.txt --format jsonl
        boustro predict models/statistics rows.jsonl --out v.parquet
    """,
    "predict by the packaged taggers": """
        boustro predict names plain.txt
        boustro predict starter-names commas.csv --out named.csv
        boustro predict models/network plain.txt --format jsonl
        boustro predict names german.txt
        boustro predict models/graph plain.txt --format jsonl
        boustro predict models/graph rows.jsonl --out graph.csv
        boustro predict models/graph plain.txt --recall 0.9
        boustro predict models/graph plain.txt --live
    """,
    # redact
    "redact reads": each("boustro redact {} --model models/tagger --out {.}.out", *READ, "nested.json", "nested.jsonl"),
    "redact to the same kind": """
        boustro redact plain.txt --out a.txt
        boustro redact windows.txt --out b.txt
        boustro redact plain.txt.gz --out c.txt.gz
        boustro redact semicolons.csv --text-column message --out d.csv
        boustro redact commas.csv --out e.csv
        boustro redact tabs.tsv --out f.tsv
        boustro redact table.xlsx --out g.xlsx
        boustro redact array.json --out h.json
        boustro redact rows.jsonl --out i.jsonl
        boustro redact table.parquet --out j.parquet
        boustro redact table.arrow --out k.arrow
        boustro redact nested.json --out l.json
        boustro redact page.html --out m.html
        boustro redact rows.jsonl.gz --out n.jsonl.gz
    """,
    "redact to another kind": """
        boustro redact commas.csv --out a.tsv
        boustro redact commas.csv --out a.jsonl
        boustro redact rows.jsonl --out b.csv
        boustro redact table.xlsx --out c.csv
        boustro redact table.parquet --out d.arrow
        boustro redact plain.txt --out e.csv
        boustro redact plain.txt --out f
    """,
    "redact to standard output": """
        boustro redact plain.txt
        boustro redact < plain.txt
        boustro redact - --text-column message < semicolons.csv
        boustro redact - < commas.csv
        boustro redact - < nested.json
        boustro redact - < rows.jsonl
        boustro redact - --text-column text < rows.jsonl
        boustro redact - < plain.txt.gz
        boustro redact - < table.parquet
        boustro redact - --out t.parquet < table.parquet
        boustro redact - --out t.xlsx < table.xlsx
        boustro redact table.xlsx
        boustro redact german.txt
        boustro redact empty.txt
        $ boustro redact plain.txt --json facts.json
        $ boustro redact - --with label < commas.csv
    """,
    "redact options": """
        boustro redact plain.txt --same-everywhere
        boustro redact plain.txt --with label
        boustro redact plain.txt --labels PERSON
        boustro redact plain.txt --labels PERSON,PLACE,ORGANISATION,OTHER --threshold 0.5
        boustro redact plain.txt --labels PERSON,OTHER
        boustro redact plain.txt --labels NOTHING
        boustro redact plain.txt --threshold 1
        boustro redact plain.txt --threshold 0
        boustro redact plain.txt --model models/tagger --labels PERSON --with label
        boustro redact plain.txt --model models/ridge --threshold 0.3
        boustro redact plain.txt --model models/span
        boustro redact plain.txt --model models/span --threshold 0.1
        boustro redact plain.txt --types "politician,city"
        boustro redact plain.txt --types politician --threshold 0.1 --with label
        boustro redact commas.csv --text-column text,note
        boustro redact commas.csv --text-column text,note --same-everywhere --out two.csv --json two.json
        boustro redact nested.json --text-column content,name
        boustro redact nested.jsonl --text-column log
        boustro redact plain.txt --out quiet.txt --quiet --json -
    """,
    "redact a folder": """
        boustro redact folder --out a
        boustro redact folder --out a
        boustro redact folder --out b --same-everywhere --with label --json b.json
        boustro redact folder --out c --text-column text
        boustro redact mixed --out d
        boustro redact mixed --out e --errors errors.jsonl
        boustro redact mixed --out d --resume
        boustro redact folder
        boustro redact folder --out folder/inside
        boustro redact folder --out plain.txt
    """,
    "redact goes on": """
        boustro redact big-broken.jsonl --model models/tagger --out a.jsonl
        boustro redact big-broken.jsonl --model models/tagger --out a.jsonl
        boustro redact big-broken.jsonl --model models/ridge --out a.jsonl --resume
        boustro redact big-broken.jsonl --model models/tagger --out a.jsonl --resume
        boustro redact big-broken.jsonl --model models/tagger --out a.jsonl --resume --errors e.jsonl --json facts.json
        boustro redact big-broken.jsonl --model models/tagger --out b.jsonl --errors f.jsonl --same-everywhere
        boustro redact plain.txt --out a.jsonl
        boustro redact plain.txt --resume
        boustro redact - --out c.txt --resume < plain.txt
    """,
    "redact leaves rows out": each(
        "boustro redact {} --errors {.}.errors --out {.}.out",
        *("broken.jsonl", "wide.csv", "short.csv", "unclosed.csv", "doubled.csv", "latin1.txt", "broken.conll"),
    ),
    "redact bad inputs": each(
        "boustro redact {}",
        *("nowhere.txt", "commas.csv --text-column nothing", "named.csv", "broken.jsonl", "wide.csv", "unclosed.csv"),
        *("latin1.txt", "plain.txt --text-column text", "plain.txt --out plain.txt", "plain.txt --out folder"),
        *("plain.txt --model models/topics", "plain.txt --model models/half", "plain.txt --model nowhere"),
        *("plain.txt --json -", "plain.txt --labels ,", "plain.txt --types person --model models/tagger"),
        *(
            "plain.txt --types person --labels PERSON",
            "plain.txt --with nothing",
            "plain.txt rows.jsonl",
            "doubled.csv",
        ),
        *(
            "plain.txt --model models/graph",
            "rows.jsonl --text-column nothing",
            "table.xlsx --text-column nothing --out x.xlsx",
        ),
    ),
    # fit
    "fit taggers": """
        boustro fit --train train.jsonl --dev dev.jsonl --encoder starter-memory --epochs 2 --hidden 16 \
            --out a --json a.json
        boustro evaluate a dev.jsonl
        boustro fit --train train.conll --encoder starter-forward --out b --json -
        boustro fit --train bioes.conll --encoder starter-forward --head linear --tag-scheme bioes --epochs 2 --out c
        boustro fit --train odd.conll --encoder starter-forward --head ridge --out d
        boustro fit --train letters.conllu --encoder starter-forward --head ridge --out e
        boustro fit --train letters.conllu --tag-column misc:NER --encoder starter-forward --head ridge --out f
        boustro fit --train words.jsonl --scheme bio --encoder starter-forward --head linear --epochs 2 --out g
        boustro fit --train train.conll --scheme labels --encoder starter-forward --head ridge --out h
        $ boustro fit --train train.conll --dev dev.conll --encoder starter --epochs 1 --hidden 16 --out i
    """,
    "fit heads of taggers": each(
        "boustro fit --train train.conll --dev dev.conll --encoder starter-forward --head {} --quiet --out {.}",
        "linear --epochs 2; linear --epochs 2 --no-crf --decode argmax; mlp --epochs 2 --hidden 8 --combine concat",
        "block --epochs 1 --hidden 16; bilstm --epochs 1 --hidden 8; span --epochs 1 --hidden 8 --max-span 3; ridge",
        "linear --epochs 1 --calibrate 2; ridge --spelling; ridge --pool-mentions; ridge --memory",
        "linear --epochs 2 --threshold 0.4 --max-span 4; ridge --layers last --pooling mean --context sentence",
        "linear --epochs 1 --live --seed 7 --lr 0.01 --dropout 0 --batch-sentences 4 --no-standardise",
    ),
    "fit few examples": """
        boustro fit --train one.jsonl --encoder starter-memory --out a
        boustro predict a plain.txt
        boustro fit --train three.jsonl --encoder starter-memory --out b
        boustro fit --train ten.jsonl --encoder starter-memory --out c
        boustro fit --train dev.jsonl --encoder starter-memory --out h
        boustro fit --train ten.jsonl --encoder starter-memory --preset few --out d
        boustro fit --train one-topic.jsonl --encoder starter-words --out e
        boustro fit --train three-topics.jsonl --encoder starter-words --out f
        boustro predict f plain.txt
        boustro fit --train topics.jsonl --encoder starter-words --out g
    """,
    "fit by default": """
        boustro fit --train ten.jsonl --out a
        boustro predict a plain.txt --format jsonl
        boustro fit --train topics.jsonl --out b
        boustro predict b plain.txt --format jsonl
    """,
    "fit with documents and weak labels": """
        boustro weak plain.txt documents.txt --gazetteer gazetteer.tsv --out silver.jsonl
        boustro weak documents.txt --gazetteer gazetteer.tsv --ignore-case --out loud.jsonl
        boustro weak lists.jsonl --out listed.jsonl
        boustro weak plain.txt --out none.jsonl
        boustro weak plain.txt --gazetteer nowhere.tsv --out none.jsonl
        boustro fit --train train.conll --documents documents.txt --encoder starter-forward --head ridge --out a
        boustro fit --train ten.jsonl --weak silver.jsonl --encoder starter-forward --head linear --epochs 2 --out b
        boustro fit --train ten.jsonl --weak silver.jsonl --weak-weight 0.3 --encoder starter-forward --epochs 1 --out c
        boustro fit --train topics.jsonl --documents plain.txt --encoder starter-texts --cross-validate 0 --out d
        boustro fit --train topics.jsonl --types tax --encoder starter-texts --cross-validate 0 --out e
        boustro fit --train topics.jsonl --none 0.1 --encoder starter-texts --cross-validate 0 --out f
        boustro fit --train relations.jsonl --documents plain.txt --out g
    """,
    "fit classifiers": each(
        "boustro fit --encoder starter --out {.} --train {}",
        "topics.jsonl --head mlp-pool --epochs 2 --hidden 8; topics.csv --head bilstm-pool --epochs 1 --hidden 4",
        "topics.xlsx --head ridge-pool; topics.jsonl --head lda-pool; topics.jsonl --head centroid-pool",
        "named.csv --text-column message --label-column subject --head ridge-pool --dev dev-topics.jsonl",
        "named.csv --delimiter semicolon --text-column message --label-column subject --head ridge-pool",
        "several.jsonl --head auto-pool --epochs 2 --hidden 8; several.jsonl --head ridge-pool --dev several.jsonl",
        "topics.jsonl --head ridge-pool --words; topics.jsonl --head mlp-pool --epochs 1 --class-weights balanced",
        "topics.jsonl --head mlp-pool --epochs 2 --dev dev-topics.jsonl --calibrate 2 --json -",
    ),
    "fit other tasks": each(
        "boustro fit --cross-validate 0 --out {.} --train {}",
        "scores.jsonl --encoder starter-words --epochs 2; scores.jsonl --dev scores.jsonl --encoder starter --epochs 1",
        "pairs.jsonl --dev pairs.jsonl --encoder starter-forward --epochs 1 --hidden 8; similar.csv --epochs 1",
        "similar.jsonl --task similarity --encoder starter-words --dev similar.jsonl --epochs 2",
        "squad.json --encoder starter-forward --epochs 1",
        "questions.jsonl --dev questions.jsonl --encoder starter --epochs 2",
        "relations.jsonl --dev relations.jsonl --encoder starter-forward --epochs 2",
        "senses.jsonl --encoder starter-forward --dev senses.jsonl",
        "similar.jsonl --task embed --encoder starter-words --epochs 1 --dev similar.jsonl",
        "neighbours:documents.txt --task embed --encoder starter-words --epochs 1",
        "plain.txt --task embed --head statistics --encoder starter-forward",
    ),
    "fit wrong data": each(
        "boustro fit --out out-{.} --encoder starter-forward --train {}",
        "nowhere.conll; broken.conll; empty.txt; plain.txt; broken.jsonl; outside.jsonl; bad-topics.jsonl",
        "bad-pairs.jsonl",
        "bad-questions.jsonl; bad-relations.jsonl; bad-senses.jsonl; latin1.txt; unclosed.csv; wide.csv; doubled.csv",
        "topics.csv --label-column nothing; named.csv; named.csv --text-column nothing; train.conll --tag-column 7",
        "train.conll --scheme bioes; train.conll --task classify; topics.jsonl --task tag; rows.jsonl; one-topic.jsonl",
        "train.conll --dev broken.conll; train.conll --dev topics.jsonl; train.conll --weak nowhere.jsonl; folder; hf:",
        "train.conll --documents nowhere.txt; array.json; squad.json --task tag; nested.json",
        "letters.conllu --tag-column x",
    ),
    "fit wrong options": each(
        "boustro fit {}",
        "--train train.conll; --out a; --train train.conll --out models/tagger",
        "--train train.conll --out models/memory",
        "--train train.conll --out folder; --train train.conll --out a --head ridge-pool",
        "--train train.conll --out a --epochs 0",
        "--train train.conll --out a --head ridge --epochs 3",
        "--train train.conll --out a --head nothing --encoder starter",
        "--train train.conll --out a --encoder starterr; --train train.conll --out a --encoder models/memory",
        "--train train.conll --out a --preset nothing",
        "--train train.conll --out a --layers 99 --encoder starter-forward",
        "--train train.conll --out train.conll; --train train.conll --out a --json folder; train.conll --out a",
        "--train topics.jsonl --out a --scheme bio --crf; --train train.conll --out a --sed 3",
        "--train train.conll --out a b",
        "--train train.conll --out a --quantise int3; --config nowhere.yaml --out a; --train train.conll --outt a",
    ),
    "fit from recipes and over folders": """
        boustro fit --config recipe.yaml --out a
        boustro fit --config recipe.yaml --out a
        boustro fit --config recipe.yaml --out a --overwrite --seed 2
        boustro fit --config a --out b --head linear --epochs 1
        boustro fit --config a --out b --dry-run --overwrite
        boustro fit --train train.conll --encoder starter-forward --dry-run --out c
        boustro fit --config models/memory --out d
        boustro train --config recipe.yaml --out e
        boustro fit --train topics.jsonl --encoder starter-words --out a --overwrite
    """,
    "fit over encoders of one's own": """
        boustro fit --train train.conll --encoder memory:models/memory --head ridge --cross-validate 0 --out a
        boustro fit --train train.conll --encoder names:models/network --head ridge --cross-validate 0 --out b
        boustro fit --train train.conll --encoder starter-forward+starter-words --head ridge --cross-validate 0 --out c
        boustro fit --train train.conll --encoder unmasked:3-4:starter-forward --head ridge --cross-validate 0 --out d
        boustro fit --train german.txt --task embed --head statistics --encoder starter-texts --out e
        boustro predict a plain.txt
        boustro predict b plain.txt
        boustro predict c plain.txt
        boustro predict a plain.txt --encoder memory:models/network
    """,
    # evaluate, check
    "evaluate": each(
        "boustro evaluate models/{}",
        "tagger dev.jsonl; tagger dev.conll --json scores.json; tagger dev.conll --json -",
        "tagger dev.jsonl --recall 0.9",
        "ridge dev.conll; span dev.conll; live dev.jsonl; topics dev-topics.jsonl; words dev-topics.jsonl --json -",
        "several several.jsonl; scores scores.jsonl; pairs pairs.jsonl; similarity similar.csv",
        "questions questions.jsonl",
        "questions squad.json; relations relations.jsonl; senses senses.jsonl; vectors similar.jsonl; graph dev.conll",
        "statistics similar.jsonl; network dev.conll; words topics.csv",
    ),
    "evaluate wrongly": each(
        "boustro evaluate {}",
        "models/tagger; models/tagger plain.txt; models/tagger nowhere.conll; models/tagger letters.conllu",
        "models/tagger topics.jsonl; models/topics dev.conll; models/half dev.conll; dev.conll models/tagger",
        "names dev.conll",
        "models/topics dev-topics.jsonl --recall 0.9; models/words bad-topics.jsonl; models/tagger broken.conll",
        "models/words named.csv; models/words named.csv --text-column message --label-column subject",
        "nowhere dev.conll",
    ),
    "check": each(
        "boustro check {}",
        "train.conll; train.conll dev.conll; train.jsonl dev.jsonl --json report.json; odd.conll; bioes.conll --json -",
        "letters.conllu; words.jsonl; topics.jsonl dev-topics.jsonl; topics.csv; several.jsonl; scores.jsonl",
        "pairs.jsonl",
        "similar.csv; questions.jsonl; squad.json; relations.jsonl; senses.jsonl; similar.jsonl --task embed",
        "topics.xlsx",
        "named.csv --text-column message --label-column subject; rows.jsonl; plain.txt; broken.conll; outside.jsonl",
        "bad-topics.jsonl; bad-pairs.jsonl; bad-questions.jsonl; bad-relations.jsonl; bad-senses.jsonl; nowhere.conll",
        "train.conll train.conll; train.conll topics.jsonl; broken.jsonl; latin1.txt; folder",
    ),
    # vectors
    "embed": """
        boustro embed plain.txt --out a.npy
        boustro embed rows.jsonl --out b.npy --encoder starter --normalize
        boustro embed named.csv --text-column message --out c.npy --encoder starter-texts
        boustro embed plain.txt --out d.npy --model models/vectors
        boustro embed plain.txt --out e.npy --model models/statistics
        boustro embed - --out f.npy < plain.txt
        boustro embed table.xlsx --out g.npy
        boustro embed plain.txt --out a.npy
        boustro embed plain.txt --out a.npy --model models/tagger
        boustro embed nowhere.txt --out h.npy
        boustro embed broken.jsonl --out i.npy
        boustro embed empty.txt --out j.npy
        boustro similarity topics.jsonl --query "Where is my box?" --top 3
        boustro similarity topics.jsonl --query - --top 2 --json - < queries.txt
        boustro similarity topics.csv --query refund --model models/vectors
        boustro similarity table.parquet --query rain --encoder starter --json found.json
        boustro similarity plain.txt --query ""
        boustro similarity empty.txt --query x
    """,
    # export
    "export": """
        boustro export models/ridge --out b --precision int8 --agreement 0 --json b.json
        boustro predict b plain.txt --format jsonl
        boustro export models/span --out c --agreement 0 --data dev.conll --sentences 5
        boustro export models/topics --out d --precision float16 --agreement 0
        boustro predict d dev-topics.jsonl
        boustro export models/ridge --out b
        boustro export models/half --out g
        boustro export models/senses --out h
        boustro export models/words --out i
        boustro export models/tagger --out j --precision int3
        boustro export models/graph --out k
    """,
    "export a memory": """
        boustro export models/tagger --out a --agreement 0
        boustro predict a plain.txt --format jsonl
        boustro evaluate a dev.conll
        boustro export models/tagger --out a
    """,
    "export pages": """
        boustro export models/ridge --format html --precision int8 --agreement 0 --out a.html --onnxruntime-web web
        boustro export models/ridge --format module --precision int8 --agreement 0 --out module
        boustro export models/tagger --format html --agreement 0 --out memory.html --onnxruntime-web nowhere
        boustro export models/topics --format html --agreement 0 --out topics.html
    """,
    # studies and labs
    "compare and fewshot": """
        boustro compare --encoders starter-forward,starter --heads ridge --train train.conll \
            --dev dev.conll --seeds 1 --out a
        boustro compare --encoders starter-forward,starter --heads ridge --train train.conll \
            --dev dev.conll --out a --report-only
        boustro compare --encoders starter-words --train topics.jsonl --dev dev-topics.jsonl --seeds 2 --out b --json -
        boustro compare --encoders starter-forward --train train.conll --dev dev.conll \
            --vary pooling=exit,mean --heads ridge --seeds 1 --out c
        boustro fewshot --encoders starter-forward --train train.conll --dev dev.conll --shots 1,4 --seeds 2 --out d
        boustro compare --encoders starterr --train train.conll --dev dev.conll --out e
        boustro compare --encoders starter-forward --train train.conll --dev dev.conll --heads ridge-pool --out e
        boustro compare --encoders starter-forward --train train.conll --dev topics.jsonl --out e
        boustro compare --encoders starter-forward --train train.conll --dev dev.conll --dry-run --out e
    """,
    "lab encoders": """
        boustro lab memory plain.txt documents.txt --encoder starter-forward --words 40 --out a
        boustro lab memory plain.txt --data train.conll --encoder starter --words 20 --out b
        boustro lab names train.conll dev.jsonl --kinds kinds.json --encoder starter-forward --epochs 1 --out c
        boustro predict c plain.txt
        boustro lab distill-words documents.txt --encoder starter-texts --words 40 --texts 20 --epochs 1 --out d
        boustro similarity plain.txt --query rain --encoder table:d
        boustro pack starter-forward --blocks 2 --bits 8 --out e
        boustro pack starter-forward --bits 4 --out f
        boustro embed plain.txt --encoder e --out e.npy
        boustro distill models/tagger --student starter-forward --texts documents.txt --epochs 1 --dev dev.conll --out g
        boustro memory plain.txt --encoder starter-forward --words 5 --out h
        boustro lab memory nowhere.txt --out i
        boustro lab names plain.txt --out j
        boustro pack nowhere --out k
        boustro pack starter-words --out l
    """,
    "lab language models": """
        $ boustro lab tokenize documents.txt rows.jsonl --train-tokenizer 300 --out tokens --workers 1
        $ boustro lab tokenize documents.txt --tokenizer starter-forward --out more --workers 2 --near-duplicates 0.8
        boustro lab pretrain --direction forward --shards models/shards --preset tiny --tokens 64 --segment-length 16 \
            --batch-segments 2 --no-compile --out lm
        boustro lab generate prompts.jsonl --encoder lm --length 3
        boustro lab pretrain --direction forward --shards models/shards --preset tiny --tokens 64 --segment-length 16 \
            --batch-segments 2 --no-compile --out lm
        boustro lab fuse --forward starter-forward --backward starter-backward --shards models/shards \
            --width 8 --tokens 64 --segment-length 16 --batch-segments 2 --out fusion
        boustro lab adapt --lm starter-forward --shards models/shards --tokens 64 --segment-length 16 \
            --batch-segments 2 --out adapted
        boustro lab elmo documents.txt --width 8 --cells 16 --words 50 --letter-window 1 --out elmo
        boustro fit --train train.conll --encoder elmo:elmo --head ridge --cross-validate 0 --out tagger
        boustro fit --train train.conll --encoder fused:fusion --head ridge --cross-validate 0 --out fused
        boustro backward starter-forward --text shards/one.jsonl --preset tiny --no-compile --segment-length 16 \
            --batch-segments 4 --passes 1 --sampled-pieces 20 --workers 1 --out back
        boustro fit --train train.conll --encoder starter-forward+./back --head ridge --cross-validate 0 --out pair
        boustro lab seq2seq --lm starter-forward --train prompts.jsonl --target-key text --epochs 1 --out written
        boustro lab tokenize nowhere.txt --tokenizer starter-forward --out x
        boustro lab pretrain --shards models/memory --out x
    """,
    "lab language": [
        """
        boustro lab language --text documents.txt --train train.conll --dev dev.conll --vocabulary 300 --preset tiny \
            --segment-length 8 --batch-segments 1 --minutes 30 --passes 1 --epochs 1 --no-compile --out a
        boustro lab language --text documents.txt --train train.conll --dev dev.conll --out a
        """,
        """>>>
        import shutil
        [print(path) for path in sorted(Path("a").rglob("*")) if "memory_" not in str(path)]
        [shutil.rmtree(path) for path in (Path("a/report"), Path("a/tagger"))]  # they name the memory by its place
        Path("a/seconds.json").unlink()
        """,
    ],
    "lab studies": """
        boustro lab scaling --shards models/shards --validation models/shards --sizes tiny --budgets 32 \
            --objectives causal --segment-length 16 --batch-segments 2 --no-compile --validation-pieces 64 --out a
        boustro lab scaling --shards models/shards --validation models/shards --report-only --sizes tiny \
            --budgets 32 --out a
        boustro lab harness --tasks openbookqa --data choices --encoder starter-forward
        boustro lab harness --tasks openbookqa --data choices --encoder starter-forward+starter-backward --json -
        boustro lab harness --tasks nothing --data choices
        boustro demo --seeds 1 --out b
        boustro demo --copy-sample c
    """,
    "lab writing": """
        boustro lab infill gaps.txt
        boustro lab infill "He was born in London and died ___ Paris." --candidates 3 --tokens-per-gap 1-2
        boustro lab infill gaps.txt --format jsonl --candidates 2 --tokens-per-gap 1
        boustro lab infill - < gaps.txt
        boustro lab infill no-gap.txt
        boustro lab generate prompts.jsonl --encoder starter-forward --length 5
        boustro lab generate queries.txt --encoder starter-forward --length 3 --temperature 1 --top-p 0.9 --seed 3
        boustro lab generate plain.txt --encoder starter-forward --length 3
        boustro lab generate plain.txt --encoder starter-words
        boustro lab score prompts.jsonl --encoder starter-forward
        boustro lab score prompts.jsonl --encoder starter-forward --pmi
        boustro lab score prompts.jsonl --target-key text --json -
        boustro lab prompt reviews.jsonl --encoder starter-forward --template sentiment
        boustro lab prompt reviews.jsonl --encoder starter --template sentiment --calibrate --json scores.json
        boustro lab prompt plain.txt --encoder starter-backward --template question-type
        boustro lab prompt reviews.jsonl --encoder starter-forward --template nothing
        boustro lab geometry measure plain.txt --encoder starter-forward --json -
        boustro lab geometry map senses.jsonl --word bank --encoder starter-forward --out bank.html
        boustro lab geometry measure plain.txt --encoder nowhere
        boustro infill gaps.txt --quiet
    """,
    # help and the rest
    "help": each(
        "boustro {}",
        "--help; lab --help; lab; --version; version; help; help nothing; help lab fit; -h; lab nothing; prdict; eval",
    )
    + "\n"
    + each("boustro {} --help", *NAMES_OF_COMMANDS),
    "help of all options": each("boustro {} --help-all", *NAMES_OF_COMMANDS),
    "help of tasks": each(
        "boustro fit --task {} --help-all", "classify; pair; similarity; regress; relation; qa; sense; embed"
    ),
    "help pages": each(
        "boustro help {}",
        "data; tasks; training; streaming; redaction; serving; labelling; export.md; integrations; fit",
        "predict; starter",
    ),
    "doctor and caches": """
        boustro cache list
        boustro fit --train ten.jsonl --encoder starter-forward --head ridge --out a
        boustro cache list
        boustro cache clear
        boustro cache list --folder nowhere
        boustro cache nothing
        boustro doctor
        boustro doctor --encoder starter-forward
        boustro doctor --encoder nowhere
        boustro fit --train ten.jsonl --encoder starter-forward --head ridge --no-cache --out b
        boustro cache list
    """,
    # HTTP
    "serve": Server(
        "boustro serve models/tagger models/topics several=models/several models/vectors models/graph --port 0",
        [
            ("GET", "/livez"),
            ("HEAD", "/readyz"),
            ("GET", "/health"),
            ("GET", "/v1/models"),
            ("GET", "/"),
            ("GET", "/docs"),
            ("GET", "/openapi.json"),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": [TEXTS[0]]}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": TEXTS}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": [["Ada", "Brandt", "left", "."], TEXTS[1]]}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": TEXTS[:3], "min_score": 0.95}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": TEXTS[:3], "recall": 0.9}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": TEXTS[:3], "threshold": 0.1}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": TEXTS[:3], "threshold": 0.1, "recall": 0.9}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": TEXTS[:2], "explain": True}),
            ("POST", "/v1/predict", {"model": "topics", "inputs": TEXTS[:3]}),
            ("POST", "/v1/predict", {"model": "topics", "inputs": TEXTS[:2], "explain": True}),
            ("POST", "/v1/predict", {"model": "topics", "inputs": TEXTS[:3], "min_score": 0.5}),
            ("POST", "/v1/predict", {"model": "topics", "inputs": TEXTS[:3], "recall": 0.9}),
            ("POST", "/v1/predict", {"model": "several", "inputs": TEXTS[:3]}),
            ("POST", "/v1/predict", {"model": "graph", "inputs": TEXTS[:3]}),
            ("POST", "/v1/predict", {"model": "graph", "inputs": TEXTS[:3], "explain": True}),
            ("POST", "/v1/predict", {"model": "vectors", "inputs": TEXTS[:1]}),
            ("POST", "/v1/embed", {"model": "vectors", "inputs": TEXTS[:2]}),
            ("POST", "/v1/embed", {"model": "vectors", "inputs": TEXTS[:2], "normalize": True}),
            ("POST", "/v1/embed", {"model": "tagger", "inputs": TEXTS[:2]}),
            ("POST", "/v1/predict", {"inputs": TEXTS[:1]}),
            ("POST", "/v1/predict", {"model": "nothing", "inputs": TEXTS[:1]}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": []}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": [7]}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": "text"}),
            ("POST", "/v1/predict", {"model": "tagger"}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"], "min_score": 2}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"], "nothing": 2}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"] * 1001}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x" * 100_001]}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x" * 1_100_000]}),
            ("POST", "/v1/predict", '{"model": "tagger", "inputs": ["\\ud800"]}'),
            ("POST", "/v1/predict", "{"),
            ("POST", "/v1/predict", '{"model": "tagger", "inputs": [NaN]}'),
            ("POST", "/v1/predict", '{"model": "tagger", "model": "topics", "inputs": ["x"]}'),
            ("POST", "/v1/predict", ""),
            ("POST", "/v1/predict", "model=tagger", {"Content-Type": "application/x-www-form-urlencoded"}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"]}, {"Content-Type": "text/plain"}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"]}, {"Content-Encoding": "gzip"}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"]}, {"Host": "example.org"}),
            ("POST", "/v1/predict", {"model": "tagger", "inputs": ["x"]}, {"Origin": "https://example.org"}),
            ("GET", "/v1/predict"),
            ("GET", "/nothing"),
            ("POST", "/v1/live?model=tagger", " ".join(TEXTS), {"Content-Type": "text/plain"}),
            ("POST", "/v1/live?model=tagger&delay=0&wait=0", TEXTS[2], {"Content-Type": "text/plain; charset=utf-8"}),
            ("POST", "/v1/live?model=tagger&delay=all", TEXTS[0], {"Content-Type": "text/plain"}),
            ("POST", "/v1/live?model=tagger&delay=x", TEXTS[0], {"Content-Type": "text/plain"}),
            ("POST", "/v1/live?model=topics", TEXTS[0], {"Content-Type": "text/plain"}),
            ("POST", "/v1/live?model=tagger", TEXTS[0]),
            (
                "WS",
                "/v1/live?model=tagger",
                ["Nina Oka", "for left Leipzig on Monday, and it rained. ", "Tom Reyes left.", ""],
            ),
            ("WS", "/v1/live?model=topics", ["x"]),
            ("WS", "/v1/live?model=nothing", ["x"]),
            ("GET", "/v1/models"),
        ],
    ),
    "serve with a token": [
        Server(
            "boustro serve models/words --port 0 --token-file tokens.txt --inputs 2 --characters 100 "
            "--allow-hosts example.org",
            [
                ("POST", "/v1/predict", {"inputs": TEXTS[:1]}),
                ("POST", "/v1/predict", {"inputs": TEXTS[:1]}, {"Authorization": "Bearer secret-two"}),
                ("POST", "/v1/predict", {"inputs": TEXTS[:1]}, {"Authorization": "Bearer other"}),
                ("POST", "/v1/predict", {"inputs": TEXTS[:3]}, {"Authorization": "Bearer secret-one"}),
                ("POST", "/v1/predict", {"inputs": ["x" * 101]}, {"Authorization": "Bearer secret-one"}),
                ("GET", "/v1/models", None, {"Authorization": "bearer secret-one", "Host": "example.org"}),
                ("GET", "/docs"),
            ],
        ),
        Server(
            "boustro serve models/questions models/relations models/senses models/pairs models/similarity "
            "models/scores --port 0",
            [
                ("POST", "/v1/predict", {"model": "questions", "inputs": [{"question": "Who?", "context": CONTEXT}]}),
                ("POST", "/v1/predict", {"model": "questions", "inputs": ["x"]}),
                (
                    "POST",
                    "/v1/predict",
                    {"model": "relations", "inputs": [{"text": CONTEXT, "head": [0, 10], "tail": [16, 23]}]},
                ),
                ("POST", "/v1/predict", {"model": "relations", "inputs": [{"text": CONTEXT, "head": [0, 1000]}]}),
                (
                    "POST",
                    "/v1/predict",
                    {"model": "senses", "inputs": [{"words": ["the", "bank"], "senses": [[1, "bank", "NOUN"]]}]},
                ),
                (
                    "POST",
                    "/v1/predict",
                    {"model": "pairs", "inputs": [["a", "b"], {"sentence1": "a", "sentence2": "b"}]},
                ),
                ("POST", "/v1/predict", {"model": "similarity", "inputs": [["a", "b"], ["a"]]}),
                ("POST", "/v1/predict", {"model": "similarity", "inputs": [["a", "b"]]}),
                ("POST", "/v1/predict", {"model": "scores", "inputs": TEXTS[:2]}),
            ],
        ),
        """
        boustro serve models/half --port 0
        boustro serve models/tagger models/tagger --port 0
        boustro serve models/tagger --port 99999
        boustro serve --port 0
        boustro serve nowhere --port 0
        boustro serve models/tagger --host 192.0.2.1 --port 0
        boustro serve models/tagger --token-file empty.txt --port 0
        boustro serve models/memory --port 0
        """,
    ],
    "label entities": [
        Server(
            "boustro label plain.txt --labels PERSON,PLACE --out answers.jsonl --encoder starter-forward "
            "--order in-order "
            "--port 0 --no-browser",
            [
                ("GET", "/"),
                ("GET", "/favicon.ico"),
                ("POST", "/api/state", {}),
                ("POST", "/api/claim", {"page": "one"}),
                ("WAIT", "/api/panel", "ready", 7),
                ("POST", "/api/state", {}),
                (
                    "POST",
                    "/api/answer",
                    {"number": 0, "entities": [{"start": 3, "end": 5, "label": "PERSON"}], "note": "n"},
                ),
                ("POST", "/api/answer", {"number": 1, "entities": []}),
                ("POST", "/api/answer", {"number": 1, "entities": [{"start": 3, "end": 99, "label": "PERSON"}]}),
                ("POST", "/api/answer", {"number": 99, "entities": []}),
                ("POST", "/api/answer", {"number": "x"}),
                ("POST", "/api/answer", "{"),
                ("POST", "/api/undo", {}),
                ("POST", "/api/redo", {}),
                ("POST", "/api/back", {}),
                ("POST", "/api/ahead", {}),
                ("POST", "/api/label", {"name": "ORG"}),
                ("POST", "/api/label", {"name": "B-"}),
                ("POST", "/api/skip", {"number": 2}),
                ("POST", "/api/unskip", {}),
                ("POST", "/api/order", {"order": "nothing"}),
                ("POST", "/api/groups", {}),
                ("POST", "/api/tell", {"names": ["Tom Reyes"], "label": "PERSON"}),
                ("POST", "/api/untell", {}),
                ("POST", "/api/compare", {}),
                ("POST", "/api/export", {}),
                ("POST", "/api/nothing", {}),
                ("POST", "/api/claim", {"page": "two"}),
                ("POST", "/api/state", {}, {"X-Boustro-Key": "other"}),
                ("POST", "/api/state", {}, {"Authorization": "Bearer other"}),
                ("POST", "/api/state", {}, {"Origin": "https://example.org"}),
            ],
        ),
        Server(
            "boustro label plain.txt --labels PERSON,PLACE --out answers.jsonl --encoder starter-forward "
            "--order in-order "
            "--out-tagger tagger --port 0 --no-browser",
            [
                ("POST", "/api/claim", {"page": "one"}),
                ("WAIT", "/api/panel", "ready", 7),
                ("POST", "/api/state", {}),
                ("POST", "/api/show", {"number": 4}),
                ("POST", "/api/answer", {"number": 4, "entities": [{"start": 0, "end": 1, "label": "PERSON"}]}),
                ("POST", "/api/train", {}),
                ("WAIT", "/api/panel", "training", False, "training_problem", "trained"),
            ],
        ),
        Server(
            "boustro label dev.jsonl --out gold.jsonl --encoder starter --order in-order --head linear --epochs 1 "
            "--labels PERSON,PLACE --port 0 --no-browser",
            [
                ("POST", "/api/claim", {"page": "one"}),
                ("WAIT", "/api/panel", "ready", 20),
                *(
                    ("SEND", "/api/answer", {"number": n, "entities": [{"start": 0, "end": 1, "label": "PERSON"}]})
                    for n in range(12)
                ),
                ("POST", "/api/compare", {}),
                ("POST", "/api/groups", {}),
                ("POST", "/api/train", {}),
                ("WAIT", "/api/panel", "training", False, "training_problem", "trained"),
                ("POST", "/api/export", {}),
            ],
        ),
        """
        boustro predict tagger plain.txt
        boustro check answers.jsonl
        boustro label plain.txt --out answers.jsonl --task classify --labels a,b --port 0 --no-browser
        boustro label nowhere.txt --labels A --out x.jsonl --port 0 --no-browser
        boustro label plain.txt --out plain.txt --port 0 --no-browser
        boustro label
        boustro label plain.txt --labels A --out x.jsonl --order nothing
        """,
    ],
    "label topics": [
        Server(
            "boustro label topics.jsonl --task classify --labels delivery,payment,account --out topics-out.jsonl "
            "--encoder starter-texts --order in-order --port 0 --no-browser",
            [
                ("POST", "/api/claim", {"page": "one"}),
                ("WAIT", "/api/panel", "ready", 9),
                ("POST", "/api/state", {}),
                ("POST", "/api/answer", {"number": 0, "entities": [{"start": 0, "end": 1, "label": "delivery"}]}),
                ("POST", "/api/answer", {"number": 0, "entities": [{"start": 0, "end": 5, "label": "delivery"}]}),
                ("POST", "/api/answer", {"number": 1, "entities": [{"start": 0, "end": 5, "label": "payment"}]}),
                ("POST", "/api/state", {}),
                ("POST", "/api/compare", {}),
                ("POST", "/api/export", {}),
                ("POST", "/api/groups", {}),
            ],
        ),
    ],
    # Python
    "python load and predict": """>>>
        import boustro
        tagger = boustro.load("names")
        tagger
        tagger.predict(TEXTS[0])
        tagger.predict(TEXTS)
        [found.to_dict() if hasattr(found, "to_dict") else found for found in tagger.predict(TEXTS[5])]
        list(tagger.predict(text for text in TEXTS[:2]))
        tagger.predict([["Ada", "Brandt", "left"], "It rained."])
        tagger.predict(frame(text=TEXTS[:2])["text"])
        tagger.predict(frame(text=TEXTS[:2]))
        tagger.predict(7)
        tagger.predict([7])
        tagger.predict([])
        tagger.predict("")
        tagger.tag([["Ada", "Brandt", "left", "."]])
        tagger.with_threshold(0.1).predict(TEXTS[5])
        tagger.with_recall(0.9)
        model = boustro.load("models/tagger")
        model.predict(TEXTS[:3])
        model.with_recall(0.9).predict(TEXTS[0])
        model.record["dev_scores"]
        boustro.load("models/topics").predict(TEXTS[:2])
        boustro.load("models/topics").predict_proba(TEXTS[:2]).round(5).tolist()
        boustro.load("models/several").predict(TEXTS[:2])
        boustro.load("models/scores").predict(TEXTS[:2])
        boustro.load("models/pairs").predict(("Ada left.", "It rained."))
        boustro.load("models/similarity").predict([("Ada left.", "It rained."), ("a", "a")])
        boustro.load("models/questions").predict("Who left?", "Ada Brandt left Vellmar.")
        boustro.load("models/questions").predict({"question": "Who left?", "context": "Ada Brandt left Vellmar."})
        boustro.load("models/relations").predict({"text": "Ada left Lisse.", "head": [0, 3], "tail": [9, 14]})
        boustro.load("models/senses").predict({"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NOUN"]]})
        sha(boustro.load("models/vectors").predict(TEXTS))
        sha(boustro.load("models/statistics").predict(TEXTS))
        boustro.load("nowhere")
        boustro.load("models/half")
        boustro.load("models/foreign")
        boustro.load("models/memory")
        boustro.Classifier.from_pretrained("models/tagger")
        boustro.nothing
        boustro.__all__
        boustro.__version__
    """,
    "python fit a tagger": """>>>
        import boustro
        texts = ["Ada left Vellmar.", "Tom saw Lisse.", "It rained."]
        marks = [[("Ada", "PER"), ("Vellmar", "PLACE")], [("PER", 0, 3), ("PLACE", 8, 13)], []]
        tagger = boustro.Tagger("starter-memory", cache=False)
        tagger
        tagger.fit(texts, marks)
        tagger
        tagger.predict(["Ada left Lisse.", "Tom"])
        tagger.evaluate(texts, marks)
        tagger.score(texts, marks)
        tagger.classes_
        tagger.get_params()
        tagger.save("tagger")
        again = boustro.load("tagger")
        again.predict(["Ada left Lisse.", "Tom"]) == tagger.predict(["Ada left Lisse.", "Tom"])
        small = {"head": "mlp", "hidden": 16, "epochs": 2, "cache": False}
        boustro.Tagger("starter-memory", **small).fit("train.jsonl", dev="dev.jsonl").record
        boustro.Tagger("starter", **small).fit([(["Ada", "left"], ["B-PER", "O"])] * 3)
        boustro.Tagger("starter", **small).fit(frame(text=texts[:2], entities=[[[0, 3, "PER"]], []]))
        boustro.Tagger("starter", cache=False).fit(texts, marks[:2])
        boustro.Tagger("starter", cache=False).fit(texts, [[("Brandt", "PER")], [], []])
        boustro.Tagger("starter", cache=False).fit(texts, [[], [], []])
        boustro.Tagger("starter", cache=False).fit([])
        boustro.Tagger("starter", cache=False).predict("Ada")
        boustro.Tagger(head="mlpp")
        boustro.Tagger(epoch=3)
        boustro.Tagger("starter", nothing=3)
        boustro.Tagger("starterr").fit(texts, marks)
    """,
    "python fit classifiers": """>>>
        import boustro
        texts = ["Where is my parcel?", "You charged me twice.", "The box is late.", "I want my money back."]
        labels = ["delivery", "billing", "delivery", "billing"]
        topics = boustro.Classifier("starter-words", cache=False).fit(texts, labels)
        topics
        topics.predict("My parcel is late.")
        topics.predict(texts)
        sha(topics.predict_proba(texts))
        topics.classes_
        topics.evaluate(texts, labels)
        topics.save("topics")
        boustro.load("topics").predict(texts) == topics.predict(texts)
        boustro.Classifier("starter-words", cache=False).fit(frame(text=texts, label=[0, 1, 0, 1])).predict(texts)
        boustro.Classifier("starter", head="ridge-pool", cache=False).fit(list(zip(texts, labels))).predict(texts)
        small = {"head": "mlp-pool", "hidden": 8, "epochs": 2, "cache": False}
        boustro.Classifier("starter", **small).fit("topics.jsonl", seed=3).record
        named = boustro.Classifier.from_labels({"delivery": "", "billing": "money and invoices"}, texts)
        named
        named.predict(texts)
        named.save("named")
        boustro.load("named").predict(texts) == named.predict(texts)
        boustro.Classifier.from_labels("delivery")
        boustro.TextRegressor("starter-words", cache=False, epochs=2).fit(texts, [1, 2.5, 1, 3]).predict(texts)
        both = [("a b", "a c"), ("it rained", "it snowed"), ("Ada", "Tom"), ("x", "x")]
        boustro.PairClassifier("starter-words", cache=False, epochs=2).fit(both, ["y", "n", "y", "n"]).predict(both)
        boustro.PairRegressor("starter-words", cache=False, epochs=2).fit(both, [1, 0, 3, 4]).predict(both)
        boustro.Classifier("starter-words").fit(texts, labels[:1])
        boustro.Classifier("starter-words").fit(texts, ["x"] * 4)
        boustro.Classifier("starter-words").fit(texts)
        boustro.Classifier("starter-words").predict(texts)
        boustro.TextRegressor("starter-words").fit(texts, labels)
        boustro.Classifier(head="ridge")
        from sklearn.model_selection import cross_val_score
        model = boustro.Classifier("starter-words", cache=False)
        cross_val_score(model, texts * 2, labels * 2, cv=2, scoring="f1_macro")
    """,
    "python types without training": """>>>
        import boustro
        typed = boustro.Tagger.from_labels({"politician": "", "city": "", "law": "an act or a treaty"})
        typed
        typed.predict(TEXTS)
        typed.save("typed")
        boustro.load("typed").predict(TEXTS) == typed.predict(TEXTS)
        boustro.Tagger.from_labels([])
        boustro.Tagger.from_labels("a,a")
    """,
    "python encoders": [
        f">>> {call}"
        for call in (
            *(f'states("{name}")' for name in ("starter", "starter-forward", "starter-backward", "starter-memory")),
            *(f'states("{name}")' for name in ("starter-names", "starter-lm", "starter-texts", "starter-words")),
            'states("starter-large")',
            *(f'states("{name}")' for name in ("memory:models/memory", "names:models/network", "languages")),
            'states("starter-forward+starter-words")',
            'states("starter-forward", layers="last", pooling="first+last")',
            'states("starter", layers="25%,50%,last", pooling="mean", prefix="none", start_piece="none")',
            'states("starter-lm", dtype="bfloat16")',
            'states("unmasked:3-4:starter-forward")',
            'states("repeated:2:starter-forward")',
            'states("starter-texts", reads="text")',
            'states("starter-forward", context="sentence", spacing="always")',
        )
    ],
    "python encoders in int8": """>>>
        import os, torch, boustro
        told = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line for line in told if line.startswith("model name")).partition(":")[2].strip()
        facts = processor, torch.backends.cpu.get_cpu_capability(), f"torch {torch.__version__}"
        cache = Path(os.environ["XDG_CACHE_HOME"], "boustro", "features")
        cache.mkdir(parents=True)
        tried = {", ".join([*facts, "1 threads"]): {"torch.float32": 1.0, "torch.int8": 0.1}}
        (cache / "speeds.json").write_text(json.dumps(tried)) > 0
        del os.environ["BOUSTRO_BF16"]
        states("starter-lm")
        states("starter-texts")
        states("starter-large")
        texts = ["Where is my parcel?", "You charged me twice.", "The box is late.", "I want my money back."]
        topics = boustro.Classifier(cache=False).fit(texts, ["delivery", "billing"] * 2)
        topics.predict(texts)
        boustro.Tagger(cache=False).fit("three.jsonl").predict(TEXTS)
        sorted(json.loads((cache / "speeds.json").read_text())) == sorted(tried)
    """,
    "python encoders that are not there": """>>>
        states("starterr")
        states("starter-forwrd")
        states("memry:models/memory")
        states("memory:models/network")
        states("names:models/memory")
        states("table:models/memory")
        states("names:models/tagger")
        states("models/tagger")
        states("models/foreign")
        states("models/bare")
        states("./nowhere")
        states("owner/nothing")
        states("starter@v1")
        states("fused:models/memory")
        states("masked:starter-forward")
        states("unmasked:9-12:starter-forward")
        states("repeated:1:starter-forward")
        states("starter-forward+starter-forward")
        states("starter", layers="99")
        states("starter", pooling="nowhere")
        states("starter", nothing=1)
        states("")
    """,
    "python redactors": """>>>
        Redactor = find("Redactor", "boustro.apps.live.redactor")
        Masks = find("Masks", "boustro.apps.live.masks")
        Restorer = find("Restorer", "boustro.apps.live.masks")
        Checker = find("Checker", "boustro.apps.live.structured")
        Conversation = find("Conversation", "boustro.apps.live.chat")
        ChatStream = find("ChatStream", "boustro.apps.live.chat")
        redactor = Redactor()
        parts = ("Nina Oka", "for of Leip", "zig met Tom Reyes. N", "ina Okafor left, and then it rained for days.")
        [redactor.feed(part) for part in parts]
        redactor.end()
        redactor.counted
        str(redactor.counted)
        masks = Masks([])
        masks
        text = "Ada Brandt left Vellmar on Monday, she said."
        Redactor("models/tagger", delay=2, labels=["PERSON"], write="label").feed(text)
        Redactor("models/tagger", delay=0, write="event").feed(text)
        Redactor(labels=["NOTHING"])
        Redactor("models/topics")
        Redactor("nowhere")
        Redactor(threshold=2)
        checker = Checker()
        checker = Checker("models/tagger")
        talk = Conversation(checker)
        def asked(content): return {"model": "m", "messages": [{"role": "user", "content": content}]}
        def chunk(reason=None, **delta):
            return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        talk.ask(asked("I am Nina Okafor. Write to Tom Reyes in Bergen."))
        message = {"role": "assistant", "content": "Dear [PERSON_1], Ingrid Solberg knows."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        talk.answer({"id": "c", "model": "m", "object": "chat.completion", "choices": [choice]})
        talk.ask(asked([{"type": "image_url", "image_url": {"url": "x"}}]))
        stream = ChatStream(talk)
        stream.take(chunk(role="assistant", content="Dear [PERS"))
        stream.take(chunk(content="ON_1], Marco Bianchi of Bergen wrote to you about it."))
        stream.take(chunk("stop"))
        stream.end()
        restorer = Restorer({"[PERSON_1]": "Ada Brandt"})
        [restorer.feed(part) for part in ("Dear [PER", "SON_1], [PERSON_2]", " and [")]
        restorer.end()
        masks = Masks(["PERSON", "PLACE"])
        inner = json.dumps({"by": "Nina Okafor", "n": 1.50})
        Checker("models/tagger").json(json.dumps({"to": "Ada Brandt", "log": inner}), masks)
        masks.names
    """,
    "python live and predictor": """>>>
        import boustro
        live = boustro.Live(boustro.load("models/live"), delay=2, wait=0)
        parts = ("Nina Oka", "for of Leip", "zig met Tom Reyes. N", "ina left.")
        [[event.to_dict() for event in live.feed(part)] + [live.safe] for part in parts]
        [event.to_dict() for event in live.end()]
        boustro.Live(boustro.load("models/topics"))
        boustro.Live(boustro.load("names"), delay=-1)
        predictor = boustro.Predictor("models/tagger")
        predictor({"id": [1, 2], "text": TEXTS[:2]})
        predictor({"id": [1], "words": ["x"]})
        predictor({"text": [TEXTS[0], 7]})
        predictor(frame(id=[1], text=TEXTS[:1]))
        boustro.Predictor("models/topics", text="body")({"body": TEXTS[:2]})
        boustro.Predictor("nowhere")({"text": ["x"]})
        import pickle
        pickle.loads(pickle.dumps(predictor))({"text": TEXTS[:1]})
    """,
    "python states from elsewhere": [
        """>>>
        import boustro, torch, transformers
        from safetensors.torch import save_file
        place = Path(boustro.__file__).parent / "data" / "starter" / "forward"
        pieces = torch.tensor([[0, *transformers.AutoTokenizer.from_pretrained(place)(TEXTS[0])["input_ids"]]])
        pieces.shape
        lm = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
        given = lm(pieces, output_hidden_states=True).hidden_states
        layers = {number: state[0].detach() for number, state in enumerate(given)}
        [sha(state) for state in layers.values()]
        tagger = boustro.Tagger.from_pretrained("models/forward", given_states=True)
        boustro.from_states(tagger, pieces[0].tolist(), layers)
        boustro.from_states(tagger, pieces[0].tolist()[1:], {n: state[1:] for n, state in layers.items()})
        boustro.from_states(tagger, pieces[0].tolist(), {0: layers[0]})
        boustro.from_states(tagger, pieces[0].tolist(), {n: state[:, :9] for n, state in layers.items()})
        boustro.from_states(tagger, pieces[0].tolist(), {n: state * float("nan") for n, state in layers.items()})
        tensors = {f"layer.{n}": state.clone().contiguous() for n, state in layers.items()}
        save_file({"token_ids": pieces[0], **tensors}, "a.safetensors")
        save_file({"token_ids": pieces[0], "hidden_states": torch.stack([*layers.values()], 1)}, "b.safetensors")
        started = transformers.set_seed(1)
        watched = boustro.Watch(tagger, lm, delay=2)
        with watched as seen: done = lm.generate(pieces[:, :6], max_new_tokens=12, do_sample=False, pad_token_id=0)
        seen[0].prompt, seen[0].text, seen[0].entities, seen[0].events
        """,
        """
        boustro predict models/forward --states a.safetensors
        boustro predict models/forward --states a.safetensors,b.safetensors --state-layers 0,1,2,3,4 --format jsonl
        boustro predict models/forward --states b.safetensors
        boustro predict models/forward --states models/forward/head.safetensors
        boustro predict models/forward --states nowhere.safetensors
        boustro predict models/topics --states a.safetensors
        boustro predict models/tagger --states a.safetensors
        """,
    ],
    "python writers": """>>>
        import boustro
        writer = boustro.Writer("starter-forward", length=4)
        writer.write(["He was born in"])
        infiller = boustro.Infiller("starter", tokens_per_gap="1")
        infiller.fill("He was born in London and died ___ Paris.")
        boustro.Writer("starter-words")
        boustro.Infiller("starter-forward")
        boustro.SentenceEncoder("starter-words", head="statistics", cache=False).fit(TEXTS)
        example = {"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21], "label": "a"}
        other = {"text": "Rain saw the flood.", "head": [0, 4], "tail": [13, 18], "label": "b"}
        boustro.RelationClassifier("starter-forward", epochs=1, cache=False).fit([example, other]).predict(example)
        asked = {"context": CONTEXT, "question": "Who?", "answers": [{"text": "Ada Brandt", "start": 0}]}
        boustro.QuestionAnswerer("starter-forward", epochs=1, cache=False).fit([asked] * 2).predict("Who?", CONTEXT)
        boustro.SenseTagger("starter-forward", cache=False).fit("senses.jsonl")
        boustro.load("models/ridge").push_to_hub("owner/name")
        boustro.Tagger.from_pretrained("owner/name")
    """,
    "python in spacy and others": """>>>
        import boustro.integrations.spacy, spacy
        nlp = spacy.blank("en")
        pipe = nlp.add_pipe("sentencizer")
        pipe = nlp.add_pipe("boustro", config={"tagger": "models/tagger"})
        doc = nlp(TEXTS[0] + " " + TEXTS[5])
        [(span.label_, span.text, span.start) for span in doc.spans["boustro"]]
        doc.spans["boustro"].attrs["scores"]
        [(ent.label_, ent.text) for ent in doc.ents]
        nlp.pipe_labels["boustro"]
        nlp.to_disk("pipeline")
        [(ent.label_, ent.text) for ent in spacy.load("pipeline")(TEXTS[0]).ents]
        nlp = spacy.blank("en")
        pipe = nlp.add_pipe("boustro_text", config={"model": "models/topics"})
        nlp(TEXTS[0]).cats
        nlp = spacy.blank("en")
        pipe = nlp.add_pipe("boustro", config={"tagger": "models/topics"})
        nlp("x")
        nlp = spacy.blank("en")
        pipe = nlp.add_pipe("boustro", config={"tagger": "nowhere"})
        nlp("x")
        from boustro.integrations.presidio import BoustroRecognizer
        recognizer = BoustroRecognizer("models/tagger")
        recognizer.supported_entities
        [(r.entity_type, r.start, r.end, r.score) for r in recognizer.analyze(TEXTS[0], [])]
        BoustroRecognizer("models/topics")
        import boustro
        from sentence_transformers import SentenceTransformer
        from boustro.integrations.sentence_transformers import BoustroModule
        sha(SentenceTransformer(modules=[BoustroModule("models/vectors")], device="cpu").encode(TEXTS))
        from boustro.runtime import load
        load("models/graph").predict(TEXTS[:3])
        load("models/tagger").predict(TEXTS[:1])
        boustro.read_data([{"text": "Ada of Port Lisse left.", "entities": [[0, 3, "PER"], [7, 17, "LOC"]]}])
        boustro.read_data("odd.conll")
        boustro.read_data("broken.conll")
        boustro.read_data("outside.jsonl")
        boustro.read_data("letters.conllu")
    """,
}

# --------------------------------------------------------------------------------------------------- what is written

NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
DURATION = rf"(?:less than )?(?:about )?{NUMBER} (?:ms|s|seconds?|minutes?|min|hours?|h)\b"
NORMAL: list[tuple[str, str]] = [
    # what takes long says so twice a minute, so a busy machine says it more often
    (r"(?m)^[^\n]*: [\d,]+(?: of [\d,]+)? \w+, [\d.,e+]+ \w+/s[^\n]*\n", ""),
    (rf"trained in {NUMBER} s after {NUMBER} s of encoding", "trained in <seconds> after <seconds> of encoding"),
    (rf'("\w*(?:seconds|_ms|_at|per_second|speed|peak_bytes)\w*"): {NUMBER}', r'\1: "<seconds>"'),
    (r'("\w+_seconds"): (\{[^{}]*\}|\[[^\[\]]*\])', r'\1: "<seconds>"'),
    # what a study costs: in its page, its report and its table
    (r"(?s)(<section id=cost .*?<tbody>).*?</tbody>", r"\1<seconds></tbody>"),
    (r"(?m)^(\| system \| LMs \| head \| features .*\n.*\n)(?:\| .*\n)+", r"\1<seconds>\n"),
    (r"(?m)^(\S.*\d\.\d+M) +[\d.,]+ s$", r"\1  <seconds>"),
    (r'"ms": [\d.]+', '"ms": "<seconds>"'),
    (r"[\d.,]+ (pieces|pairs|words|texts|sentences)/s", r"<rate> \1/s"),
    (r"\b(computed|trained) in [\d.,]+ s\b", r"\1 in <seconds>"),
    (r"(?m)^(minutes +shards|plan:|dry run:|memory:) .*$", r"\1 <seconds>"),
    (r"(?m)^(│ tiny .*│)[ \d.,]+│$", r"\1 <seconds> │"),
    (r"/#[\w-]{24}(?= )", "/#<token>"),
    (r"[\d,]+ words a second", "<rate> words a second"),
    # of a model card; the size has that of the digits of these times
    (r"(time in seconds|size of this folder in bytes) \| [\d.,]+", r"\1 | <seconds>"),
    (r"\bboustro-\w+\.log\b", "boustro-<random>.log"),
    (r"\b127\.0\.0\.1:\d+|\blocalhost:\d+", "127.0.0.1:<port>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+\d\d:?\d\d)?", "<time>"),
    (r"(?m)^\S+\.py:\d+: (?=\w*Warning)", "<place>: "),
    (r" at 0x[0-9a-f]{6,}", " at <address>"),
    (rf"('\w*seconds'): {NUMBER}", r"\1: '<seconds>'"),
    (r"\b[0-9a-f]{32}\b", "<random>"),
]
"""What changes by nature, and what stands for it."""


class Normal(NamedTuple):
    """Text without what changes by nature."""

    paths: Sequence[tuple[str, str]]
    """Paths of this run and their names, the longest first."""

    def __call__(self, text: str) -> str:
        for path, name in self.paths:
            text = text.replace(path, name)
        for pattern, name in NORMAL:
            text = re.sub(pattern, name, text)
        return text


def digest(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()}, {len(content)} bytes\n"


def of_tensors(content: bytes) -> str:
    """The tensors of a file of safetensors: names, types, shapes and hashes."""
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    told = [f"metadata {json.dumps(head.pop('__metadata__', None), sort_keys=True)}"]
    for name, fact in sorted(head.items()):
        start, end = fact["data_offsets"]
        data = hashlib.sha256(content[8 + length + start : 8 + length + end]).hexdigest()[:24]
        told.append(f"{name} {fact['dtype']} {fact['shape']} {data}")
    return "\n".join(told) + "\n"


def of_zip(content: bytes) -> str:
    """The members of an archive, without their dates."""
    told = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            told.append(f"--- {name}\n" + (data.decode() + "\n" if name.endswith((".xml", ".rels")) else digest(data)))
    return "".join(told)


def of_table(content: bytes) -> str:
    """The schema and the rows of a table of parquet or Arrow, and the hash of the file."""
    import pyarrow
    import pyarrow.parquet

    if content[:4] == b"PAR1":
        table = pyarrow.parquet.read_table(io.BytesIO(content))
    else:
        table = pyarrow.ipc.open_file(io.BytesIO(content)).read_all()
    rows = [json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist()]
    return "\n".join([str(table.schema), *rows, digest(content)])


def of_array(content: bytes) -> str:
    import numpy as np

    array = np.load(io.BytesIO(content))
    return f"{array.dtype} {array.shape} {array.ravel()[:4].tolist()}\n{digest(content)}"


def of_manifest(path: Path, normal: Normal) -> str:
    """A manifest; of files that hold what changes by nature, the hash of what is left of them."""
    given = json.loads(path.read_text("utf-8"))
    for name, fact in given.get("files", {}).items():
        with contextlib.suppress(ValueError, OSError):
            content = (path.parent / name).read_bytes()
            if name.endswith(".safetensors"):
                fact["sha256"] = f"<normal> {sha(of_tensors(content))}"  # the order of its metadata is a chance
            elif (cleaned := normal(content.decode())) != content.decode():
                fact |= {"bytes": "<normal>", "sha256": f"<normal> {sha(cleaned)}"}
    return normal(json.dumps(given, indent=1, ensure_ascii=False))


FORMS: dict[str, Callable[[bytes], str]] = {
    ".safetensors": of_tensors,
    ".xlsx": of_zip,
    ".parquet": of_table,
    ".arrow": of_table,
    ".npy": of_array,
}


def shown(path: Path, normal: Normal) -> str:
    """What a record has of a file."""
    content = path.read_bytes()
    if path.name == "manifest.json":
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            return of_manifest(path, normal)
    if path.suffix in FORMS:
        try:
            return normal(FORMS[path.suffix](content))
        except Exception as error:
            return f"{type(error).__name__}\n{digest(content)}"
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    try:
        text = normal(content.decode())
    except UnicodeDecodeError:
        return digest(content)
    text = text.replace("\r", "\\r") if "\r" in text else text
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n…\n{digest(text.encode())}"


def files_in(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What tells files and folders of a case apart, by their names; links are not followed."""
    found: dict[str, tuple[Any, ...]] = {}
    for root, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(root, name)
            fact = path.lstat()
            link = path.is_symlink()
            what = "link" if link else "folder" if path.is_dir() else "file"
            state = (fact.st_mtime_ns, fact.st_size, fact.st_ino) if what == "file" else ()
            found[path.relative_to(folder).as_posix()] = (what, *state)
    return found


# -------------------------------------------------------------------------------------------------------- processes


class Step(NamedTuple):
    """A command or a snippet, and where it runs."""

    kind: str
    """fork, process or python."""
    words: list[str]
    stdin: str
    """The file that is standard input; empty for none."""


def read_step(line: str) -> Step:
    """`boustro predict names < plain.txt`, or `$ boustro …` for a process of its own."""
    alone = line.startswith("$ ")
    words = shlex.split(line.removeprefix("$ "))
    stdin = ""
    if len(words) > 2 and words[-2] == "<":
        words, stdin = words[:-2], words[-1]
    return Step("process" if alone else "fork", words[1:], stdin)


def environment(tree: Path, private: Path) -> dict[str, str]:
    """The variables of every process: nothing of the machine's but where programs and libraries are."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV") if name in os.environ}
    return kept | {
        "PYTHONPATH": str(tree / "src"),
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "default::UserWarning",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(private / "huggingface"),
        "HOME": str(private / "home"),
        "XDG_CACHE_HOME": str(private / "cache"),
        "TMPDIR": str(private / "tmp"),
        "BOUSTRO_BF16": "0",
        "TRANSFORMERS_VERBOSITY": "error",  # as the command sets it, which forks are too late for
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


class Forks:
    """A process that has the libraries, and forks for each command."""

    def __init__(self, variables: Mapping[str, str], log: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("ab"),
            env=dict(variables),
            text=True,
        )

    def run(self, **job: Any) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that forks has ended; see its log")
        return json.loads(answer)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve_forks() -> None:
    """Read jobs, a line of JSON each, run each in a fork, and answer with its exit code."""
    import gc
    from importlib import import_module

    for name in LIBRARIES.split():
        import_module(name)
    import boustro

    for module in pkgutil.walk_packages(boustro.__path__, "boustro.", onerror=str):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(Exception):  # it needs a package that is not installed
                import_module(module.name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            run_job(job)
        print(json.dumps(wait_for(child)), flush=True)


def wait_for(child: int) -> int:
    end = time.monotonic() + STEP_SECONDS
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1000


def run_job(job: dict[str, Any]) -> None:
    """In a fork: run a command or a snippet as a process of its own would, and end."""
    import atexit

    for number, (name, how) in enumerate(
        (("stdin", os.O_RDONLY), *[(n, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for n in ("stdout", "stderr")])
    ):
        opened = os.open(job[name] or os.devnull, how)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(job["cwd"])
    os.environ.update(job["variables"])
    streams = [os.fdopen(number, how, encoding="utf-8", closefd=False) for number, how in enumerate("rww")]
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    tempfile.tempdir = None
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv, code = job["words"], 1
    try:
        if job["kind"] == "python":
            code = run_snippet(job["words"][0])
        else:
            sys.argv = ["boustro", *job["words"]]
            from boustro.__main__ import main

            code = main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        with contextlib.suppress(Exception):
            threading._shutdown()
            atexit._run_exitfuncs()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


# ---------------------------------------------------------------------------------------------------------- snippets


def run_snippet(code: str) -> int:
    """Run a snippet as a prompt does: each statement that has a value prints it, and what is raised is printed."""
    names: dict[str, Any] = {"find": find, "sha": sha, "states": states, "frame": frame, "lines": lines, "said": said}
    names |= {"TEXTS": TEXTS, "CONTEXT": CONTEXT, "json": json, "Path": Path}
    for statement in ast.parse(textwrap.dedent(code)).body:
        source = ast.unparse(statement)
        print(f">>> {source}")
        try:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), "<snippet>", "eval"), names)
                if value is not None:
                    print(value if isinstance(value, str) else repr(value))
            else:
                exec(compile(ast.Module([statement], []), "<snippet>", "exec"), names)
        except Exception as error:
            print(f"{type(error).__name__}: {'; '.join([str(error), *getattr(error, '__notes__', [])])}")
        sys.stdout.flush()
    return 0


def find(name: str, module: str) -> Any:
    """A class or function by its name: in the module that has it today, else in the one that defines it now."""
    from importlib import import_module

    import boustro

    with contextlib.suppress(ImportError, AttributeError):
        return getattr(import_module(module), name)
    root = Path(boustro.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if re.search(rf"(?m)^(?:class|def) {name}\b", path.read_text("utf-8")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            return getattr(import_module(".".join(parts).removesuffix(".__init__")), name)
    raise ImportError(f"no module defines {name}")


def sha(value: Any) -> str:
    """The shape, the type and the hash of an array or a tensor; the hash of a text."""
    import numpy as np

    if isinstance(value, (str, bytes)):
        return hashlib.sha256(value.encode() if isinstance(value, str) else value).hexdigest()[:24]
    array = np.ascontiguousarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:24]}"


def states(spec: str, **options: Any) -> str:
    """What an encoder is, and the hashes of its states of two sentences."""
    import boustro

    encoder = boustro.load_encoder(spec, **options)
    words = [["Ada", "Brandt", "left", "Vellmar", "."], ["It", "rained", "in", "Zürich", "."]]
    told = [f"{type(encoder).__name__} {encoder.spec}"]
    told += [f"{encoder.num_parameters} parameters, {encoder.bytes_per_word} bytes a word"]
    told += [f"{stream.name} {stream.shape}" for stream in encoder.streams]
    told += [sha(array) for arrays in encoder.encode(words) for array in arrays]
    return "\n".join([*told, json.dumps(encoder.identity().to_dict(), sort_keys=True, default=str)])


def frame(**columns: Any) -> Any:
    import pandas

    return pandas.DataFrame(columns)


# -------------------------------------------------------------------------------------------------------------- HTTP


class Client:
    """Asks a server on this machine, and tells what it answers."""

    def __init__(self, address: str, token: str) -> None:
        self.host, self.token, self.key = address, token, ""

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[Any, str]:
        given = {"Content-Type": "application/json"} if body is not None else {}
        given |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        given |= {"X-Boustro-Key": self.key} if self.key else {}
        given |= headers or {}
        data = (
            body
            if isinstance(body, (bytes, type(None)))
            else (body if isinstance(body, str) else json.dumps(body)).encode()
        )
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method, path, data, given)
            answer = connection.getresponse()
            return answer, answer.read().decode()
        finally:
            connection.close()

    def told(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> str:
        """What was asked, and the status, the type and the body of the answer."""
        shown = f">>> {method} {path}"
        if body is not None:
            said = body if isinstance(body, str) else repr(body)
            shown += f" {said if len(said) < 300 else sha(said)}"
        shown += f" {json.dumps(dict(headers))}" if headers else ""
        try:
            answer, text = self.ask(method, path, body, headers)
        except Exception as error:
            return f"{shown}\n{type(error).__name__}: {error}\n"
        with contextlib.suppress(ValueError, TypeError):
            self.key = json.loads(text).get("key", "") or self.key if path == "/api/claim" else self.key
        kept = {name.lower(): value for name, value in answer.getheaders()}
        for name in ("date", "x-request-id", "content-length"):
            kept.pop(name, None)
        return f"{shown}\n{answer.status} {json.dumps(kept, sort_keys=True)}\n{text}\n"

    def wait(self, path: str, key: str, value: Any, *also: str) -> str:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            _, text = self.ask("POST", path, {})
            with contextlib.suppress(ValueError):
                said = json.loads(text)
                if (found := said.get(key)) == value:
                    return f">>> {path}: {key} is {found!r}\n{json.dumps({name: said[name] for name in also})}\n"
            time.sleep(0.05)
        return f">>> {path}: {key} did not become {value!r}\n"

    def talk(self, path: str, messages: Sequence[str]) -> str:
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        told = [f">>> WS {path} {json.dumps(messages, ensure_ascii=False)}"]
        try:
            with connect(f"ws://{self.host}{path}") as socket:
                for message in messages:
                    with contextlib.suppress(ConnectionClosed):
                        socket.send(message)
                        told.append(str(socket.recv(timeout=60)))
                try:
                    while True:
                        told.append(str(socket.recv(timeout=60)))
                except ConnectionClosed as closed:
                    told.append(f"closed: {closed}")
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
        return "\n".join(told) + "\n"


def run_server(case: Server, folder: Path, variables: Mapping[str, str], out: Path, err: Path) -> int:
    """Start a server, ask it, and stop it with SIGTERM; the exit code."""
    begun = err.stat().st_size
    with out.open("ab") as stdout, err.open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", *shlex.split(case.command)],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        end, found = time.monotonic() + 120, None
        while process.poll() is None and time.monotonic() < end and found is None:
            found = re.search(r"http://([\w.:]+)(?:/#(\S+))?\s", err.read_text("utf-8", "replace")[begun:])
            time.sleep(0.05)
        if found is not None and process.poll() is None:
            client = Client(found[1], found[2] or "")
            if not found[2]:
                while (
                    process.poll() is None and time.monotonic() < end and client.ask("GET", "/readyz")[0].status != 200
                ):
                    time.sleep(0.05)
            for method, path, *rest in case.asked:
                if method == "WS":
                    told = client.talk(path, *rest)
                elif method == "SEND":
                    told = f">>> {path} {client.ask('POST', path, *rest)[0].status}\n"
                elif method == "WAIT":
                    told = client.wait(path, *rest)
                else:
                    told = client.told(method, path, *rest)
                told = told.replace(client.token, "<token>") if client.token else told
                told = told.replace(client.key, "<key>") if client.key else told
                with out.open("ab") as file:
                    file.write(told.encode("utf-8", "replace"))
            process.send_signal(signal.SIGTERM)
        return process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


# ---------------------------------------------------------------------------------------------------------- recording


class Run(NamedTuple):
    """What all cases of a record share."""

    inputs: Path
    tree: Path
    """The copy that runs."""
    private: Path
    out: Path
    normal: Normal


def steps_of(case: Any) -> Iterator[Any]:
    """The steps of a case: lines of commands, a snippet, a server, or several of them."""
    for part in case if isinstance(case, (list, tuple)) and not isinstance(case, Server) else [case]:
        if isinstance(part, Server):
            yield part
        elif ">>>" in part:
            yield Step("python", [part.replace(">>>", "", 1)], "")
        else:
            yield from (read_step(line.strip()) for line in part.splitlines() if line.strip())


def run_case(name: str, case: Any, run: Run, forks: Forks) -> float:
    """Run the steps of a case, and write what came of them."""
    begun = time.monotonic()
    target, private = run.out / slug(name), run.private / slug(name)
    for part in ("home", "tmp", "cache"):
        (private / part).mkdir(parents=True)
    work = private / "work"
    shutil.copytree(run.inputs / "files", work)
    (work / "models").symlink_to(run.inputs / "models")
    variables = environment(run.tree, private)
    raw = {kind: private / kind for kind in ("stdout", "stderr")}
    for path in raw.values():
        path.touch()
    before, codes = files_in(work), []
    for step in steps_of(case):
        line = step.command if isinstance(step, Server) else shlex.join(["boustro", *step.words])
        title = "snippet" if not isinstance(step, Server) and step.kind == "python" else line
        for path in raw.values():
            with path.open("a") as file:
                file.write(f"$ {title}\n")
        codes.append(f"{run_step(step, work, variables, raw, forks)}\t{title}\n")
    after = files_in(work)
    (target / "files").mkdir(parents=True)
    told = [f"{fact[0]} {name}" for name, fact in sorted(after.items()) if before.get(name) != fact]
    told += [f"removed {name}" for name in sorted(before) if name not in after]
    (target / "tree").write_text("".join(f"{line}\n" for line in told), "utf-8")
    paths = sorted([(str(private), "<case>"), (str(work), "<work>"), *run.normal.paths], key=lambda p: -len(p[0]))
    normal = Normal(paths)
    for kind, path in raw.items():
        (target / kind).write_text(normal(path.read_text("utf-8", "backslashreplace")).replace("\r", "\\r"), "utf-8")
    (target / "code").write_text(normal("".join(codes)), "utf-8")
    for file, fact in after.items():
        if fact[0] == "file" and before.get(file) != fact:
            path = target / "files" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(shown(work / file, normal), "utf-8", "backslashreplace")
    shutil.rmtree(private, ignore_errors=True)
    return time.monotonic() - begun


def run_step(step: Any, work: Path, variables: Mapping[str, str], raw: Mapping[str, Path], forks: Forks) -> int:
    if isinstance(step, Server):
        return run_server(step, work, variables, raw["stdout"], raw["stderr"])
    stdin = str(work / step.stdin) if step.stdin else ""
    if step.kind != "process":
        job = {"kind": step.kind, "words": step.words, "cwd": str(work), "variables": dict(variables), "stdin": stdin}
        return forks.run(**job, **{kind: str(path) for kind, path in raw.items()})
    with (
        Path(stdin or os.devnull).open("rb") as given,
        raw["stdout"].open("ab") as out,
        raw["stderr"].open("ab") as err,
    ):
        command = [sys.executable, "-m", "boustro", *step.words]
        how: dict[str, Any] = {"stdin": given, "stdout": out, "stderr": err, "cwd": work, "env": dict(variables)}
        try:
            return subprocess.run(command, timeout=STEP_SECONDS, **how).returncode
        except subprocess.TimeoutExpired:
            return -1000


@contextlib.contextmanager
def running(tree: Path, inputs: Path, out: Path) -> Iterator[Run]:
    """A private place with a copy of the tree."""
    with tempfile.TemporaryDirectory(prefix="doors-", ignore_cleanup_errors=True) as place:
        private = Path(os.path.realpath(place))
        copy = private / "tree"
        for part in ("src", "docs"):
            shutil.copytree(tree / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "figures*"))
        for part in ("home", "tmp", "cache"):
            (private / "shared" / part).mkdir(parents=True)
        libraries = sorted({str(Path(path)) for path in (sys.prefix, sys.base_prefix)})
        paths = [(str(copy), "<tree>"), (str(inputs), "<inputs>"), (str(out), "<out>"), (str(private), "<private>")]
        paths += [(path, "<python>") for path in libraries]
        yield Run(inputs, copy, private, out, Normal(paths))


def make(inputs: Path, tree: Path) -> None:
    """Write the inputs, and the trained folders by the commands of a tree."""
    if inputs.exists():
        raise SystemExit(f"{inputs} exists; remove it first, and every record that was made with it")
    files = inputs / "files"
    for name, content in FILES.items():
        path = files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    tables(files)
    models = inputs / "models"
    models.mkdir()
    with running(tree, inputs, inputs) as run:
        variables = environment(run.tree, run.private / "shared")
        for path in files.iterdir():
            (run.private / "shared" / path.name).symlink_to(path)
        (run.private / "shared" / "models").symlink_to(models)
        for name, command in MODELS.items():
            words = [sys.executable, "-m", "boustro", *shlex.split(command), "--out", f"models/{name}"]
            done = subprocess.run(words, cwd=run.private / "shared", env=variables, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"boustro {command}\n{done.stdout}{done.stderr}")
            print(f"{name}: {command}", flush=True)
    damage(models)


def record(inputs: Path, out: Path, tree: Path, only: str, jobs: int) -> None:
    """Run the cases, each in a folder of its own."""
    if not (inputs / "models" / "bare").is_dir():
        raise SystemExit(f"{inputs} holds no complete inputs; make them with: python bench/doors.py make {inputs}")
    chosen = {name: case for name, case in CASES.items() if re.search(only, name)}
    if not chosen:
        raise SystemExit(f"no case has {only!r} in its name: {', '.join(CASES)}")
    for name in chosen:
        shutil.rmtree(out / slug(name), ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in chosen:
        waiting.put(name)
    begun, used = time.monotonic(), computed()
    with running(tree, inputs, out) as run:

        def work(number: int) -> None:
            forks = Forks(environment(run.tree, run.private / "shared"), run.private / f"forks{number}.log")
            try:
                with contextlib.suppress(queue.Empty):
                    while True:
                        name = waiting.get_nowait()
                        print(f"{run_case(name, chosen[name], run, forks):6.1f} s  {name}", flush=True)
            finally:
                forks.close()

        with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
            for done in [threads.submit(work, number) for number in range(jobs)]:
                done.result()
    print(f"{out}: {len(chosen)} cases in {time.monotonic() - begun:.0f} s, {computed() - used:.0f} s of computing")


def computed() -> float:
    """The seconds that processors have computed for the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(before: Path, after: Path, shown_lines: int) -> int:
    """Print what differs between two records; the exit code."""
    names = [{path.name for path in place.iterdir() if path.is_dir()} for place in (before, after)]
    differing = 0
    for name in sorted(names[0] | names[1]):
        if not all(name in some for some in names):
            print(f"=== {name}: only in {before if name in names[0] else after}")
            differing += 1
            continue
        found = [
            {p.relative_to(r / name).as_posix() for p in (r / name).rglob("*") if p.is_file()} for r in (before, after)
        ]
        different = [
            file for file in sorted(found[0] | found[1]) if _text(before, name, file) != _text(after, name, file)
        ]
        differing += bool(different)
        for file in different:
            print(f"=== {name}: {file}")
            old, new = (_text(place, name, file) for place in (before, after))
            if old is None or new is None:
                print(f"only in {after if old is None else before}")
                continue
            changes = [*difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "after", n=1, lineterm="")]
            print(*(line[:400] for line in changes[:shown_lines]), sep="\n")
            if changes[shown_lines:]:
                print(f"… and {len(changes) - shown_lines} more lines")
    if not differing:
        print(f"{len(names[0])} cases are equal")
    else:
        print(f"{differing} of {len(names[0] | names[1])} cases differ")
    return int(differing > 0)


def _text(place: Path, name: str, file: str) -> str | None:
    path = place / name / file
    return path.read_bytes().decode("utf-8", "backslashreplace") if path.is_file() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the inputs")
    recording = commands.add_parser("record", help="run the cases")
    comparing = commands.add_parser("compare", help="print what differs between two records")
    commands.add_parser("forks")
    for one in (making, recording):
        one.add_argument("inputs", type=Path)
        one.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="whose src and docs are run")
    recording.add_argument("out", type=Path)
    recording.add_argument("--only", default="", help="a regular expression for names of cases")
    recording.add_argument("--jobs", type=int, default=2)
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--lines", type=int, default=20, help="lines of a difference that are shown")
    given = parser.parse_args()
    if given.command == "forks":
        serve_forks()
    elif given.command == "make":
        make(given.inputs.resolve(), given.tree.resolve())
    elif given.command == "record":
        record(given.inputs.resolve(), given.out.resolve(), given.tree.resolve(), given.only, given.jobs)
    else:
        return compare(given.before, given.after, given.lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
