"""Every door over one tagger that knows its names by heart: what each form of file is answered, and what each first
fault is said to be. Then each command needs one run with a trained model, and not one for every form and fault."""

import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pandas
import pyarrow
import pytest
from pyarrow import feather

pytest.importorskip("fastapi", reason="needs boustro[serve]")

from boustro.apps.batch.labeller import Predictor
from boustro.apps.label.texts import read_to_label, read_whole
from boustro.apps.serve.models import Served
from boustro.tasks.data.reading import DEFAULT_OPTIONS
from boustro.text.files import DataFile
from by_heart import stand_in
from labelled import rows
from test_serve import ask, client_of
from toy_tagger import ToyTagger
from world import run

TEXTS = ["Ada left Lisse , twice .", "It rained .", "Okonkwo saw Zürich"]
FOUND = [["Ada", "Lisse"], [], ["Okonkwo", "Zürich"]]
MASKED = ["[PER_1] left Lisse , twice .", "It rained .", "[PER_1] saw [LOC_1]"]
RECORDS = [{"id": n, "text": text} for n, text in enumerate(TEXTS)]
FRAME = pandas.DataFrame(RECORDS)
LINES, TABLE, JSON = "".join(f"{text}\n" for text in TEXTS), FRAME.to_csv(index=False), rows(*RECORDS)
COLUMNS = "\n".join("".join(f"{word}\tO\n" for word in text.split()) for text in TEXTS)
UD_LINE = "{}\t{}\t_\tX" + "\t_" * 6 + "\n"
UD = "\n".join("".join(UD_LINE.format(n, w) for n, w in enumerate(text.split(), 1)) for text in TEXTS) + "\n"


def as_views(path: Path) -> None:
    """As polars writes it."""
    table = pyarrow.Table.from_pandas(FRAME)
    feather.write_feather(table.set_column(1, "text", table["text"].cast("string_view")), path, "uncompressed")


FORMS: dict[str, str | bytes | Callable[[Path], object]] = {
    "a.txt": LINES,
    "a": LINES.replace("\n", "\r\n"),
    "a.txt.gz": gzip.compress(LINES.encode()),
    "a.csv": TABLE,
    "excel.csv": "\ufeff" + FRAME.to_csv(index=False, sep=";", lineterminator="\r\n"),
    "western.csv": TABLE.encode("cp1252"),
    "a.tsv": FRAME.to_csv(index=False, sep="\t"),
    "a.csv.gz": gzip.compress(TABLE.encode()),
    "a.jsonl": JSON,
    "lines.txt": JSON,
    "a.json": json.dumps(RECORDS, indent=1),
    "frame.json": FRAME.to_json(),
    "split.jsonl": FRAME.to_json(orient="split"),
    "a.jsonl.gz": gzip.compress(JSON.encode()),
    "a.xlsx": lambda path: FRAME.to_excel(path, index=False),
    "a.parquet": FRAME.to_parquet,
    "a.arrow": FRAME.to_feather,
    "views.arrow": as_views,
    "a.conll": COLUMNS,
    "columns.txt": COLUMNS,
    "a.conllu": UD,
}
OF_WORDS = ("a.conll", "columns.txt", "a.conllu")
OF_LINES = ("a.txt", "a", "a.txt.gz")
NO_STREAMS = ("western.csv", "a.json", "a.xlsx", "a.parquet", "a.arrow", "views.arrow", *OF_WORDS[:2])
"""Forms that a stream is not known to have."""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The tagger, which commands open in the folder `model`."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("names.tsv").write_text("Ada\tPER\n")
    monkeypatch.setattr("boustro.apps.live.structured.open_tagger", lambda *_: ToyTagger())
    return stand_in(tmp_path / "model", monkeypatch)


def piped(name: str, *words: str) -> tuple[int, str, str]:
    """What a command answers to a file on its standard input, which is named as the file in its messages."""
    os.mkfifo("pipe")
    content = Path(name).read_bytes()
    thread = Thread(target=lambda: Path("pipe").write_bytes(content), daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch, Path("pipe").open() as stream:
        patch.setattr("sys.stdin", stream)
        code, out, errors = run([*words])
    Path("pipe").unlink()
    return code, out, errors.replace("standard input:", f"{name}:").replace(": -:", f": {name}:")


def entities(lines: str) -> list[list[str]]:
    return [[entity["text"] for entity in json.loads(line)["entities"]] for line in lines.splitlines()]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_the_same_answers_at_every_door(name, model):
    content, source, out = FORMS[name], Path("in", name), f"masked-{name.removesuffix('.gz')}"
    if callable(content):
        content(source)
    else:
        source.write_bytes(content if isinstance(content, bytes) else content.encode())
    words, has_ids = name in OF_WORDS, name not in OF_LINES + OF_WORDS
    code, said, errors = run(["predict", "model", str(source), "--format", "jsonl"])
    answers = [json.loads(line) for line in said.splitlines()]
    assert code == 0 and entities(said) == FOUND, errors
    assert [("tags" in row, str(row.get("id"))) for row in answers] == [
        (words, str(n if has_ids else None)) for n in range(3)
    ]
    if name not in NO_STREAMS:
        assert entities(piped(str(source), "predict", "model", "-", "--format", "jsonl")[1]) == FOUND
    assert run(["predict", "model", "in", "--out", "out"])[0] == 0
    (answered,) = [path for path in Path("out").iterdir() if path.name != "job.json"]
    assert entities(answered.read_text("utf-8")) == FOUND

    code, _, errors = run(["redact", str(source), "--out", out, "--model", "model"])
    assert code == words and ("words in columns" in errors) == words, errors
    if not words:
        made = DataFile(out).open().items()
        masked = [row.value if isinstance(row.value, str) else row.value["text"] for row in made]
        assert masked == MASKED

    if name != "a.conllu":  # whose tags are no entities
        assert [text.written for text in read_to_label(source, "auto", DEFAULT_OPTIONS)] == TEXTS
    if words:
        with pytest.raises(ValueError, match=f"{name}: words in columns; texts are expected"):
            read_whole(source, "auto")
    else:
        assert [text.text for text in read_whole(source, "auto")] == TEXTS


NAMED = "{} (found: id, my body); name the column, such as {} 'my body'"
FAULTS: dict[str, tuple[str, bytes | None, str]] = {
    "no file": ("a.csv", None, "a.csv: no such file"),
    "empty lines": ("a.txt", b"", "there is no text in this file"),
    "empty table": ("a.csv", b"", "there is no text in this file"),
    "empty JSON": ("a.jsonl", b"", "there is no text in this file"),
    "broken line": ("a.jsonl", b'{"text": "Ada"}\n{"text": \n', "a.jsonl:2: not a JSON object (Expecting value"),
    "broken list": ("a.json", b'[{"text": "Ada"},\n{"text": ]', "a.json:2: not a JSON list of records (Expecting"),
    "broken row": ("a.csv", b"text,label\nAda,x\nLi,y,z\n", "a.csv:3: more cells than columns (text, label)"),
    "open quote": ("a.csv", b'text,label\nAda,x\n"Li,y\n', "a.csv:3: this line opens a quote that is never closed"),
    "other column": ("a.csv", b"id,my body\n1,Ada\n", NAMED.format("no column 'text'", "--text-column")),
    "other key": ("a.jsonl", b'{"body": "Ada"}\n', "a.jsonl:1: no text"),
    "key twice": ("a.jsonl", b'{"text": "Ada", "text": "Li"}\n', "a.jsonl:1: not a JSON object (the key 'text' comes"),
    "column twice": ("a.csv", b"text,text\nAda,Li\n", "a.csv:1: several columns are named 'text'; give each column"),
    "byte": ("a.txt", b"Ada\n\x81\n", "a.txt:2: byte 0x81 is not UTF-8"),
    "byte in JSON": ("a.jsonl", b'{"text": "Ada"}\n{"text": "\xff"}\n', "a.jsonl:2: byte 0xff is not UTF-8"),
    "half a character": ("a.jsonl", b'{"text": "\\ud800"}\n', "a.jsonl:1: '\\ud800' holds half a character"),
    "no number": (
        "a.jsonl",
        b'{"text": "Ada", "n": NaN}\n',
        "a.jsonl:1: not a JSON object (NaN is no JSON; write null",
    ),
    "no text": ("a.jsonl", b'{"text": 7}\n', "a.jsonl:1"),
    "PDF": ("a.csv", b"%PDF-1.7\n", "a.csv: this is a PDF, which is not read as text; convert it to text first"),
    "UTF-16": ("a.txt", "Ada".encode("utf-16"), "a.txt: this is text in UTF-16, which is not read as text; save it in"),
    "workbook": ("a.xlsx", b"PK\x03\x04 broken", "a.xlsx: the workbook is damaged; save it as CSV (UTF-8)"),
    "parquet": ("a.parquet", b"PAR1", "a.parquet: the file is damaged"),
    "gzip": ("a.txt.gz", gzip.compress(b"Ada\n" * 500)[:30], "a.txt.gz: the compressed file is damaged after line 500"),
    "columns": ("a.conll", b"Ada O\nleft\n", "a.conll:2: expected a word and a tag, got 'left'"),
}
"""A file, what it holds, and what is said of it."""
COPIES = {"redact", "redact -", "redact in"}
"""What masks names and keeps all else."""
FINE: dict[str, set[str]] = {
    "empty lines": {"predict", "predict -", "predict in", *COPIES},
    "empty table": {"predict -", "predict in", *COPIES},
    "empty JSON": {"predict", "predict -", "predict in", *COPIES},
    "broken list": {"predict -"},  # a stream is not known to be a list, a table or columns by its name
    "other column": {"predict -", "redact -"},
    "other key": {"predict -", *COPIES},
    "half a character": COPIES,
    "no text": {"predict -", *COPIES},
    "parquet": {"predict -", "redact -"},
    "columns": {"predict -", "redact -"},
}
"""The doors at which it is no fault."""
LABELLED, CORPUS, VECTORS = ("check", "fit", "evaluate"), ("weak", "tokenize"), ("embed", "similarity")
NO_COLUMNS = "words in columns; texts are expected: lines, JSON lines or a table"
OTHERWISE = {
    **{(fault, door): "no sentences; expected" for fault in FAULTS if "empty" in fault for door in LABELLED},
    **{(fault, "weak"): "no entity was found" for fault in FAULTS if "empty" in fault},
    **{(fault, "tokenize"): "the corpus holds no text" for fault in FAULTS if "empty" in fault},
    ("empty table", "predict"): "no column 'text' (found: nothing)",
    ("other column", "predict in"): "no text under 'text' (found: id, my body)",
    **{("other column", door): "a table with the columns id, my body, and no words with tags" for door in LABELLED},
    **{("other column", door): "(found: id, my body); name it with --text-key 'my body'" for door in CORPUS},
    **{("other key", door): "no words and no text" for door in LABELLED},
    **{("other key", door): "no column 'text' (found: body)" for door in VECTORS},
    ("workbook", "predict -"): "this is a zip archive",
    ("workbook", "redact -"): "this is a zip archive",
    **{("columns", door): "a.conll:2: 1 columns, but line 1 has 2" for door in ("predict", "predict in")},
    **{("columns", door): NO_COLUMNS for door in ("topics", "redact in", *CORPUS, *VECTORS)},
    ("columns", "redact"): "words in columns, and texts, tables or JSON are redacted",
}
"""What else is said of it at a door."""
DOORS: dict[str, Callable[[str], tuple[int, str, str]]] = {
    "predict": lambda name: run(["predict", "model", name]),
    "predict -": lambda name: piped(name, "predict", "model", "-"),
    "predict in": lambda name: run(["predict", "model", "in", "--out", "out"]),
    "redact": lambda name: run(["redact", name, "--model", "model", "--out", f"new-{name.removesuffix('.gz')}"]),
    "redact -": lambda name: piped(name, "redact", "-", "--model", "model"),
    "redact in": lambda name: run(["redact", "in", "--model", "model", "--out", "new"]),
    "label": lambda name: called(lambda: read_to_label(Path(name), "auto", DEFAULT_OPTIONS)),
    "topics": lambda name: called(lambda: read_whole(Path(name), "auto")),
    "check": lambda name: run(["check", name]),
    "fit": lambda name: run(["fit", "--train", name, "--out", "new"]),
    "evaluate": lambda name: run(["evaluate", "model", name]),
    "embed": lambda name: run(["embed", name, "--out", "new.npy"]),
    "similarity": lambda name: run(["similarity", name, "--query", "Ada"]),
    "weak": lambda name: run(["weak", name, "--gazetteer", "names.tsv", "--out", "new.jsonl"]),
    "tokenize": lambda name: run(["lab", "tokenize", name, "--tokenizer", "starter", "--out", "new", "--workers", "1"]),
}


def called(call: Callable[[], object]) -> tuple[int, str, str]:
    """What a call raises, as a command says it."""
    try:
        call()
    except (OSError, ValueError) as error:
        return 1, "", str(error)
    return 0, "", ""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_fault_is_said_in_one_sentence_at_every_door(fault, model):
    """A folder of files goes on with the others; the rows of a file that have no answer are written down."""
    name, content, sentence = FAULTS[fault]
    if content is not None:
        Path(name).write_bytes(content)
        Path("in", name).write_bytes(content)
    for door, open_door in DOORS.items():
        if (content is None and door.endswith(("-", "in"))) or (fault, door) == ("gzip", "redact -"):
            continue
        code, out, errors = open_door(name)
        kept = [json.loads(line)["error"] for path in Path("out").glob("errors.jsonl") for line in path.open()]
        said, fine = "\n".join([out, errors, *kept]), door in FINE.get(fault, ())
        assert (code == 0) == (fine or (door == "predict in" and bool(kept))), (door, said)
        assert fine or OTHERWISE.get((fault, door), sentence) in said, (door, said)
        assert "internal error" not in said, (door, said)
        made = [path for path in Path().glob("new*") if path.suffix not in (".part", ".progress")]
        assert bool(made) == (fine and door in ("redact", "redact in")), (door, made)
        for path in made:
            path.rename(f"{door} made")


VALUES = [
    ({"body": "Ada"}, "{}: no text under 'text' (found: body)"),
    ({"text": 7}, "{} is 7, which is not a string"),
    ({"words": ["Ada", 7]}, "{}, word 2 is 7, which is not a string"),
    ({"text": "\ud800"}, "half a character (a lone surrogate)"),
]


@pytest.mark.parametrize(("value", "sentence"), VALUES)
def test_a_value_that_is_no_input_is_said_in_one_sentence_by_files_columns_and_the_service(value, sentence, model):
    Path("a.jsonl").write_text(rows({"text": "Ada"}) + json.dumps(value) + "\n")
    assert sentence.format("a.jsonl:2") in run(["predict", "model", "a.jsonl"])[2]
    with pytest.raises(ValueError, match=re.escape(sentence.format("row 1"))):
        Predictor("model")({key: [given] for key, given in value.items()})
    with client_of({"names": Served("names", model)}) as client:
        body = json.dumps({"inputs": [{"text": "Ada"}, value]})
        refused = client.post("/v1/predict", content=body, headers={"content-type": "application/json"})
        assert refused.status_code == 422 and sentence.format("input 2") in refused.json()["error"]["message"]


def test_columns_and_the_service_answer_as_files_do(model):
    """Texts and words; of columns those that are beside them come back too."""
    words = [text.split() for text in TEXTS]
    for key, given in (("text", TEXTS), ("words", words)):
        Path("a.jsonl").write_text(rows(*({key: one} for one in given)), "utf-8")
        answers = [
            json.loads(line) for line in run(["predict", "model", "a.jsonl", "--format", "jsonl"])[1].splitlines()
        ]
        columns = Predictor("model")(pandas.DataFrame({"id": range(3), key: given}))
        assert columns == {"id": [0, 1, 2], **{name: [row[name] for row in answers] for name in answers[0]}}
        with client_of({"names": Served("names", model)}) as client:
            outputs = ask(client, *given).json()["outputs"]
        assert [{key: one, **output} for one, output in zip(given, outputs, strict=True)] == answers
