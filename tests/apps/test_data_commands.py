"""Files of data at the command line: the task found in them, and what is said of them."""

import gzip
import json
import os
from threading import Thread

import pytest

import boustro
from annotated import choice, record, region, span, task
from boustro import RelationClassifier, Tagger
from boustro.apps.cli.check import report_files
from boustro.apps.cli.generate import _records as prompts_of
from boustro.apps.cli.main import main
from boustro.apps.cli.prompt import _records as records_to_prompt
from boustro.apps.label.answers import SPANS
from boustro.apps.label.texts import read_to_label, read_whole
from boustro.tasks.data import annotations
from boustro.tasks.data.named import guess_task
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions
from boustro.tasks.rows import Columns, read_rows
from boustro.tasks.sets import AROUND, NOT_FOUND, in_documents
from boustro.text import documents
from boustro.text.documents import WESTERN
from boustro.text.files import DataFile
from boustro.text.gazetteer import Gazetteer
from boustro.types import Sentence
from labelled import RECORDS, rows

GUESSED = {"embed": "similarity"}
"""Data that may be for several tasks, and what they are taken for."""


@pytest.mark.parametrize("name", RECORDS)
def test_the_task_is_found_in_the_data(name, file):
    assert guess_task(file("train.jsonl", rows(*RECORDS[name]))) == GUESSED.get(name, name)


WORDS = "Sentence #,Word,Tag\n1,Ada,B-PER\n1,left,O\n"
TASK_OF = [
    ("a.csv", 'text,label\n"Ada said ""no"", twice.",x\nMira left.,y\n', "classify"),
    ("a.tsv", "sentence\tlabel\nAda left.\tx\n", "classify"),
    ("a.csv", "text,score\nAda left.,1.5\nIt rained.,-2\n", "regress"),
    ("a.csv", 'sentence1,sentence2,score\nAda left.,"Ada went, too.",4.5\n', "similarity"),
    ("a.csv", WORDS, "tag"),
    ("a.tsv", WORDS.replace(",", "\t"), "tag"),
    ("a.csv", "word,tag\nM\xfcller,B-per\nleft,O\n\nVellmar,B-geo\n", "tag"),
    ("a.csv", "text;label\nHi there;x\n", "classify"),
    ("a.csv", 'sep=^\ntext^label\n"Hi;\nthere"^x\n', "classify"),
    ("a.csv", "sentence,word,label\nIt rained.,It,x\nWe won.,We,y\n", "classify"),
    ("a.csv", 'text,labels\nIt is late.,[]\nIt broke.,"[""x"", ""y""]"\n', "classify"),
    ("a.csv", "text,labels\nIt is late.,[]\n", "tag"),
    ("a.jsonl", [{"text": "a", "label": 0}], "classify"),
    ("a.jsonl", [{"text": "a", "labels": ["x"]}], "classify"),
    ("a.jsonl", [{"text": "a", "labels": [[0, 1, "PER"]]}], "tag"),
    ("a.jsonl", [{"text": "a", "labels": []}], "tag"),
    ("a.jsonl", [{"text": "a", "tokens": ["a"], "labels": ["O"]}], "tag"),
    ("a.jsonl", [{"words": ["a"], "tags": ["O"]}], "tag"),
    ("a.jsonl", [{"text": "Ada left.", "label": [[0, 3, "PER"]]}], "tag"),
    ("a.jsonl", [{"text": "Rain fell.", "label": label} for label in ("", None, "weather")], "classify"),
    ("a.jsonl", [{"text": "It is late.", "label": []}, {"text": "It broke.", "label": ["a", "b"]}], "classify"),
    ("e.json", [task(region(9, 19, "PER")), task()], "tag"),
    ("e.json", [record(ner=[span(9, 19, "PER")])], "tag"),
    ("e.json", [task() | {"annotations": []}, task(region(9, 19, "PER"))], "tag"),  # the first one is not annotated
    (
        "e.json",
        [task({**region(9, 19, "PER"), "type": "hypertextlabels", "value": {"hypertextlabels": ["PER"]}})],
        "tag",
    ),
    ("e.json", [task(choice("news"))], "classify"),
    ("e.json", [record(topic="news")], "classify"),
]


@pytest.mark.parametrize(("name", "content", "task"), TASK_OF)
def test_the_task_is_found_in_tables_records_and_exports(name, content, task, file):
    if not isinstance(content, str):
        content = json.dumps(content) if name == "e.json" else rows(*content)
    assert guess_task(file(name, content)) == task


def test_a_table_with_a_row_a_word_is_answered_and_labelled_by_its_sentences(file):
    path, words = file("a.csv", WORDS), ("Ada", "left")
    assert [row.value.words for row in read_rows([str(path)], columns=Columns.of(Tagger))] == [words]
    (text,) = read_to_label(path, "auto", DataOptions())
    assert (text.sentence.words, len(text.gold)) == (words, 1)


def test_places_in_utf_16_units_are_converted_in_files_and_come_back_as_they_were(tiny_lm, file, tmp_path, capsys):
    """Two emoji before the names: what is at [3, 13) in characters is at [5, 15) in UTF-16 units."""
    moved = [{**r, **{key: [n + 5 for n in r[key]] for key in ("head", "tail")}} for r in RECORDS["relation"]]
    moved = [{**r, "text": f"🚀🚀 {r['text']}"} for r in moved]
    made = RelationClassifier(str(tiny_lm("llama")), epochs=1, cache=False).fit(RECORDS["relation"])
    made.save_pretrained(tmp_path / "r")
    source = file("moved.jsonl", rows(*moved))
    assert main(["predict", str(tmp_path / "r"), str(source), "--out", str(tmp_path / "out.jsonl")]) == 0
    assert "note: 4 places given in" in capsys.readouterr().err
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(r["head"], r["tail"]) for r in found] == [(r["head"], r["tail"]) for r in moved]
    assert main(["predict", str(tmp_path / "r"), str(source)]) == 0
    assert "[Ada Brandt head] left [Vellmar tail]" in capsys.readouterr().out


TOPICS = [{"text": "Ada left.", "label": "news"}, {"text": "It rained.", "label": "weather"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", rows(*TOPICS)),
        ("a.json", json.dumps(TOPICS, indent=1)),
        ("a.csv", "text,label\nAda left.,news\nIt rained.,weather\n"),
        ("a.jsonl", rows(*RECORDS["qa"])),
        ("a.conll", "Ada B-PER\nleft O\n"),
    ],
)
def test_labelled_data_are_looked_at_once_and_read_once(name, content, file, monkeypatch, capsys):
    opened, open_binary = [], documents.open_binary
    monkeypatch.setattr(documents, "open_binary", lambda path: opened.append(path) or open_binary(path))
    assert main(["check", str(file(name, content))]) == 0
    assert len(opened) <= 2


NOTED = [
    ("a.csv", "text,label\nGrüße für 5 €,a\nplain,b\n", "cp1252", 1),
    ("a.csv.gz", "text,label\nGrüße für 5 €,a\n„zwei“,b\n", "cp1252", 2),
    ("a.txt", "one\ncafé", "latin1", 0),  # cut off within é, as UTF-8 has it: the only byte that is not ASCII
    ("a.txt", "one\nthe café\n", "latin1", 1),
    ("a.conll", "Müller B-PER\nging O\n", "latin1", 1),
    ("a.jsonl", '{"text": "Grüße"}\n', "cp1252", 0),  # JSON and CoNLL-U are UTF-8
    ("a.csv", "text,label\nПривет мир,a\n", "cp1251", 0),
    ("a.csv", "text,label\n日本語のテキスト,a\n", "shift-jis", 0),
]


@pytest.mark.parametrize(("name", "content", "encoding", "noted"), NOTED, ids=range(len(NOTED)))
def test_windows_1252_is_read_with_a_note(file, name, content, encoding, noted):
    coded = content.encode(encoding)
    path = file(name, gzip.compress(coded) if name.endswith("gz") else coded)
    notes = []
    try:
        rows = [row for row in read_rows([str(path)], notes=notes) if row is not None]
        problems = "".join(row.problem for row in rows)
    except ValueError as error:
        problems = str(error)
    assert [n.what for n in notes] == [WESTERN] * noted and ("is not UTF-8" in problems) == (not noted)
    if noted and path.suffix != ".conll":
        said = "".join(str(row.value["text"] if isinstance(row.value, dict) else row.value) for row in rows)
        assert "€" in said or "café" in said


@pytest.mark.parametrize("given", ["text,label\nHi,a\n", '{"text": "Hi", "label": "a"}\n', "message;label\nHi;a\n"])
def test_labelled_texts_are_read_from_a_stream(given, tmp_path, capsys):
    """Of a stream the task is not found, because it can be read only once."""
    pipe, named = tmp_path / "pipe", ["--text-column", "message"] if ";" in given else []
    os.mkfifo(pipe)
    Thread(target=pipe.write_text, args=(given,)).start()
    assert main(["check", str(pipe), "--task", "classify", *named]) == 0
    assert "1 text, 1 word" in capsys.readouterr().out
    assert guess_task(pipe) == "tag" and "pipe is read only once" in capsys.readouterr().err


ANNOTATED = [
    ("Ada met Brandt .".split(), "B-PER O B-PER O".split()),
    ("Brandt sold umbrellas .".split(), None),
    ("Nobody reads the bulletin in Lisse .".split(), "O O O O O B-LOC O".split()),
    ("Vellmar closes on Mondays .".split(), None),
]
PARTLY = [{"words": w, "tags": t, "document": "first" if n < 3 else "second"} for n, (w, t) in enumerate(ANNOTATED)]


def test_sentences_without_labels_are_context_and_have_no_score(tiny_pair, tmp_path, capsys):
    file = tmp_path / "partly.jsonl"
    file.write_text(rows(*PARTLY))
    how = ["--encoder", tiny_pair, "--epochs", "2", "--no-cache"]
    assert main(["fit", "--train", str(file), *how, "--out", str(tmp_path / "ner")]) == 0
    assert "2 sentences without labels, read as context only" in capsys.readouterr().err
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "2 sentences, 11 words, 2 documents" in said and "2 sentences without labels, read as context only" in said
    assert main(["evaluate", str(tmp_path / "ner"), str(file), "--no-cache", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["num_sentences"] == 2 and "2 sentences without labels, read as context only" in err
    assert main(["fit", "--train", str(file), "--dev", str(file), *how, "--out", str(tmp_path / "b")]) == 1
    assert f"{file}:2: 4 words without labels" in capsys.readouterr().err


def test_texts_without_labels_have_no_score(tiny_lm, tmp_path, capsys):
    lm = str(tiny_lm("llama", sentinel=True))
    file, how = tmp_path / "a.csv", ["--label-column", "topic", "--encoder", lm, "--no-cache"]
    file.write_text("text,topic\nAda left.,a\nIt rained.,\nBo came.,b\nWe won.,a\n")
    said = "note: 1 text without a label under 'topic', which no score counts"
    head = ["--head", "ridge-pool", "--cross-validate", "0"]
    assert main(["fit", "--train", str(file), "--dev", str(file), *how, *head, "--out", str(tmp_path / "m")]) == 0
    assert capsys.readouterr().err.count(said) == 2
    assert main(["evaluate", str(tmp_path / "m"), str(file), "--no-cache", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["num_texts"] == 3 and said in err
    file = tmp_path / "a.jsonl"
    file.write_text(rows({"text": "Ada left.", "topic": {}}))
    assert main(["evaluate", str(tmp_path / "m"), str(file), "--no-cache"]) == 1
    assert f"{file}:1: the label under 'topic' is" in capsys.readouterr().err


def test_a_tagger_of_entities_is_not_judged_on_labels_of_words(tagger_folder, tmp_path, capsys):
    file = tmp_path / "a.conllu"
    file.write_text("1\tAda\tAda\tPROPN\t_\t_\t0\troot\t_\t_\n")
    assert main(["evaluate", str(tagger_folder), str(file), "--no-cache"]) == 1
    said = capsys.readouterr().err
    assert "'PROPN' marks no entity" in said and "name the column of entities with --tag-column" in said


DOCUMENTS = ["It rained. Ada  left. Nobody knew.", "Nothing here.", "Ada left. So did Brandt."]


def shown(sentences):
    return [(" ".join(s.words), s.tags, s.document) for s in sentences]


def test_a_labelled_sentence_is_put_into_the_first_document_that_has_it():
    ada = Sentence(("Ada", "left."), ("B-PER", "O"), document="mine", where="a.conll:3")
    found, counts = in_documents([ada], DOCUMENTS)
    assert shown(found) == [
        ("It rained .", None, "text 1"),
        ("Ada left.", ("B-PER", "O"), "text 1"),  # its own words
        ("Nobody knew .", None, "text 1"),
    ]
    assert counts == {AROUND: 2, NOT_FOUND: 0} and found[1].where == "a.conll:3"


def test_each_is_placed_once_and_none_is_lost():
    first, second = (Sentence(("Ada", "left", "."), (tag, "O", "O")) for tag in ("B-PER", "O"))
    other = Sentence(("Ada", "came", "."), ("B-PER", "O", "O"), document="d")
    found, counts = in_documents([first, other, second], DOCUMENTS)
    assert [s.tags and s.tags[0] for s in found] == [None, "B-PER", None, "O", None, "B-PER"]
    assert [s.document for s in found] == ["text 1"] * 3 + ["text 3"] * 2 + ["d"]
    assert counts == {AROUND: 3, NOT_FOUND: 1}


def test_documents_from_the_command_line(tiny_pair, tmp_path, capsys):
    train, texts = tmp_path / "train.jsonl", tmp_path / "texts.txt"
    train.write_text(rows({"words": ["Ada", "left", "."], "tags": ["B-PER", "O", "O"]}))
    texts.write_text("\n".join(DOCUMENTS))
    how = ["--train", str(train), "--documents", str(texts), "--encoder", tiny_pair, "--epochs", "1", "--no-cache"]
    assert main(["fit", *how, "--out", str(tmp_path / "ner")]) == 0
    said = capsys.readouterr().err
    assert f"2 {AROUND}" in said and NOT_FOUND not in said
    record = boustro.Tagger.from_pretrained(tmp_path / "ner").record
    assert record["train"]["sentences"] == 3 and record["train"]["labelled"] == 1
    assert main(["fit", "--task", "regress", *how, "--out", str(tmp_path / "topics")]) == 2
    assert "--documents is for taggers and for classifiers of texts" in capsys.readouterr().err


def test_a_sentence_without_labels_has_no_gold_on_the_labelling_page(tmp_path, capsys):
    file = tmp_path / "partly.jsonl"
    file.write_text(rows(*PARTLY))
    texts = read_to_label(file, "auto", DEFAULT_OPTIONS)
    assert [text.gold is None for text in texts] == [False, True, False, True]
    file.write_text('{"text": "Ada left.", "label": "travel"}\n')  # a topic, as beside the texts of a table
    assert [text.gold for text in read_to_label(file, "auto", DEFAULT_OPTIONS)] == [None]
    assert "context" not in capsys.readouterr().err
    with pytest.raises(ValueError, match="--train needs labelled sentences"):
        SPANS.examples(file, DEFAULT_OPTIONS)


def test_documents_are_counted_and_near_duplicates_left_out(tmp_path, tiny_tokenizer, file, capsys):
    one, other = (" ".join(f"{start}{n}" for n in range(60)) for start in "ab")
    words = ["lab", "tokenize", str(file("t.json", json.dumps([{"body": text} for text in (one, other, one, one)])))]
    words += ["--tokenizer", str(tiny_tokenizer), "--workers", "1", "--out"]
    assert main([*words, str(tmp_path / "none")]) == 1 and "found: body" in capsys.readouterr().err
    words.insert(2, "--text-key=body")
    assert main([*words, str(tmp_path / "all")]) == 0 and "4 documents" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "few"), "--near-duplicates", "0.8"]) == 0
    said = capsys.readouterr().out
    assert "2 documents" in said and "2 near-duplicates left out" in said


def test_a_stream_is_not_read_twice(tmp_path, capsys):
    os.mkfifo(pipe := tmp_path / "pipe")
    assert main(["lab", "tokenize", str(pipe), "--out", str(tmp_path / "shards"), "--train-tokenizer", "300"]) == 1
    assert "is a stream, and --train-tokenizer reads the corpus twice" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["classify", "qa"])
def test_what_is_no_text_is_named_by_check_of_every_task(task, file, capsys):
    assert main(["check", str(file("train.csv", b"%PDF-1.7\n")), "--task", task]) == 1
    assert "this is a PDF" in capsys.readouterr().out


def test_numbers_of_a_row_keep_their_spelling(tagger_folder, file, capsys):
    line = '{"text": "", "a": 1.10, "b": [1E5, -0, 1e400, 1.000000000000000005]}'
    assert main(["predict", str(tagger_folder), str(file("a.jsonl", line)), "--format", "jsonl", "--quiet"]) == 0
    assert capsys.readouterr().out == f'{line[:-1]}, "entities": []}}\n'


def test_the_task_is_found_in_named_columns(file):
    assert guess_task(file("a.csv", "message,topic\nAda left.,news\n"), ["message"], "topic") == "classify"
    assert guess_task(file("b.csv", "left,right,how\nIt rained.,Rain fell.,4.5\n"), ["left", "right"], "how") == "pair"


def test_check_counts_what_an_export_has_without_a_label(file):
    (report,) = report_files([file("f.json", json.dumps([task(choice("news")), task(choice())]))], task="classify")
    assert [*report.notes] == [annotations.LABELLESS]


NAMED, CONLL = ("Ada\tPER\n", "Lisse\tLOC\n"), ("Ada B-PER\nleft O\n\n", "Lisse B-LOC\nslept O\n")
JOINED = {
    "gazetteer": ("a.tsv", NAMED, lambda path: Gazetteer.read(path).entities("Ada, Lisse")),
    "texts to label": ("a.conll", CONLL, lambda path: [t.sentence for t in read_to_label(path, "auto", DataOptions())]),
    "texts to tag": ("a.txt", ("Ada left.\n\nIt rained.\n", "Lisse slept.\n"), lambda path: read_rows([str(path)])),
    "columns to tag": ("a.conll", CONLL, lambda path: read_rows([str(path)])),
}


@pytest.mark.parametrize("reader", JOINED)
def test_marks_between_joined_files_are_no_text(reader, file):
    name, parts, read = JOINED[reader]
    plain, marked = (list(read(file(name, "".join(mark + part for part in parts)))) for mark in ("", "\ufeff"))
    assert marked == plain and len(plain) > 0


TEXTS_OF = {
    "predict": lambda path: [row.value["text"] for row in read_rows([str(path)]) if row],
    "generate": lambda path: [dict(r)["text"] for batch in prompts_of(DataFile(path), ("text",)) for _, r in batch],
    "prompt": lambda path: [record["text"] for batch in records_to_prompt(DataFile(path)) for _, record in batch],
    "label": lambda path: [text.text for text in read_whole(path, "auto")],
}


@pytest.mark.parametrize("command", TEXTS_OF)
def test_json_is_read_as_what_it_is_and_columns_are_no_texts(command, file):
    records = [{"text": 'Ada "left", 🚒', "label": "x"}, {"text": "It\nrained; <b>", "label": "y z"}]
    forms = {"a.txt": rows(*records), "a.json": json.dumps(records), "a.jsonl": json.dumps(records, indent=2)}
    forms |= {"a": "\n".join(json.dumps(record, indent=2) for record in records)}
    for name, content in forms.items():
        path = file(name, content)
        assert TEXTS_OF[command](path) == [record["text"] for record in records] and guess_task(path) == "classify"
    columns = b"Ada B-PER\nleft O\n"
    words = [file("a.conll", columns), file("a.iob2.gz", gzip.compress(columns)), file("b.txt", columns)]
    for path in words:
        if command != "predict":  # which reads the words
            with pytest.raises(ValueError, match=r"words in columns|CoNLL columns|not a JSON"):
                TEXTS_OF[command](path)
