"""The promise to those who add something: a task, a head or an encoder is one file and one line, and every command
takes it. Each addition of `tests/apps/additions` is put into its dict and walked through all of them."""

import ast
import json
import re
import socketserver
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from additions.agreement import FIELDS, Agreement, AgreementConfig
from additions.biaffine import Biaffine
from additions.remote import RemoteEncoder, fingerprint
from boustro.apps.cli.main import main
from boustro.encoders.spec import KINDS, Kind
from boustro.heads.options import HeadOptions, RelationOptions
from boustro.heads.registry import HEADS, HeadKind
from boustro.tasks import TASKS, Entry, Fields, task_class
from boustro.tasks.data.reading import NOT_READ, named_columns
from conftest import ROOT
from labelled import rows

WORDS = {"dogs": "many", "ships": "many", "dog": "one", "ship": "one", "bark": "many", "sinks": "one"}
AGREEMENT = [
    {"text": f"The {noun} {verb} now.", "first": 1, "second": 2, "agree": "yes" if WORDS[noun] == WORDS[verb] else "no"}
    for noun in ("dogs", "ships", "dog", "ship")
    for verb in ("bark", "sinks")
]
RELATIONS = [
    {"text": f"{one} caused {other}.", "head": [0, len(one)], "tail": [-len(other) - 1, -1], "label": label}
    for one in ("Rain", "Wind", "Frost", "Fog")
    for other, label in (("floods", "Cause-Effect(e1,e2)"), ("nothing", "Other"))
]
for record in RELATIONS:
    record["tail"] = [len(record["text"]) + end for end in record["tail"]]
TEXTS = [{"text": record["text"], "label": record["agree"]} for record in AGREEMENT]


def test_the_fields_of_a_task_say_how_its_records_are_read():
    record, notes = AGREEMENT[1], []
    columns = {"body": record["text"], "first": 1, "second": 2, "answer": "no"}
    (plain,) = Agreement.collect([record | {"colour": "red"}], notes=notes)
    (of_tuple,) = Agreement.collect([tuple(record.values())])
    (renamed,) = Agreement.collect([columns], named_columns("body", "answer"))
    assert [note.what for note in notes] == [NOT_READ.format("colour")]
    assert plain.label == of_tuple.label == renamed.label == "no" and plain.words == of_tuple.words == renamed.words
    assert FIELDS(record) and not FIELDS(columns) and not Fields()(record)


def test_a_head_without_weights_has_no_preference():
    body, marks = Biaffine(6, 2, HeadOptions()), torch.tensor([[1.0, 0], [0, 1]])
    scores = body(torch.cat([torch.ones(2, 4), marks], 1), torch.tensor([2]))
    assert scores.tolist() == [[0, 0]]


class Vectors(socketserver.StreamRequestHandler):
    """Counts letters: 26 numbers for each word."""

    def handle(self) -> None:
        question = json.loads(self.rfile.readline())
        about = {"weights": "letters-1", "width": 26}
        counts = [[word.lower().count(chr(97 + i)) for i in range(26)] for word in question]
        self.wfile.write(json.dumps(about if question == "about" else counts).encode() + b"\n")


@contextmanager
def listening():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Vectors) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


ADDITIONS = {
    "task": (
        TASKS,
        {"agreement": Entry("additions.agreement", "Agreement", AgreementConfig, "agreement_model", suits=FIELDS)},
    ),
    "head": (
        HEADS,
        {"biaffine": HeadKind("relation", ".relation:RelationHead", "additions.biaffine:Biaffine", RelationOptions)},
    ),
    "encoder": (KINDS, {"remote": Kind(RemoteEncoder, (), elsewhere=fingerprint)}),
}
"""The dict, and the line in it."""
DATA = {"task": AGREEMENT, "head": RELATIONS, "encoder": TEXTS}
KNOWN = {"task": "agreement", "head": "relation", "encoder": "classify"}
OPTIONS = {"head": ["--head", "biaffine"]}
MOVED = {"task": {"first": 0}, "head": {"head": [5, 11]}}
"""Other places in the same text, where an example has places."""


@pytest.fixture
def added(request, monkeypatch):
    """The name of an addition, which is in its dict now, and the spec of an encoder."""
    where, line = ADDITIONS[request.param]
    for name, value in line.items():
        monkeypatch.setitem(where, name, value)
    if request.param != "encoder":
        return request.param, str(request.getfixturevalue("tiny_lm")("llama"))
    address = request.getfixturevalue("enter")(listening())
    return request.param, f"remote:{address}"


@pytest.fixture
def enter(request):
    """Enter a context until the test ends."""

    def open_it(context):
        value = context.__enter__()
        request.addfinalizer(lambda: context.__exit__(None, None, None))
        return value

    return open_it


def ran(*words: object, out: Path | None = None) -> Any:
    assert main([*map(str, words)]) == 0, words
    return json.loads(out.read_text("utf-8")) if out else None


@pytest.mark.parametrize("added", ADDITIONS, indirect=True)
def test_every_command_takes_an_addition(added, tmp_path, capsys):
    kind, encoder = added
    task, options = KNOWN[kind], OPTIONS.get(kind, [])
    data, folder, scores = tmp_path / "train.jsonl", tmp_path / "model", tmp_path / "scores.json"
    data.write_text(rows(*DATA[kind]), "utf-8")
    small = ["--epochs", "1", "--hidden", "8"]

    (report,) = ran("check", data, "--json", scores, out=scores)
    assert report["error"] is None and report["num_sentences"] == 8 and not report["contradictions"]

    words = ["--train", data, "--dev", data, "--encoder", encoder, "--out", folder]
    fitted = ran("fit", *words, *options, *small, "--json", scores, out=scores)
    evaluated = ran("evaluate", folder, data, "--json", scores, out=scores)
    assert {**evaluated, "calibration": 0} == {**fitted, "calibration": 0}
    assert (folder / "README.md").read_text("utf-8").count(f"boustro.{TASKS[task].name}")

    capsys.readouterr()
    ran("predict", folder, data, "--format", "jsonl")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == 8 and all(0 <= answer["score"] <= 1 for answer in answers)

    model = task_class(task).from_pretrained(folder)
    model.save_pretrained(tmp_path / "again")
    again = task_class(task).from_pretrained(tmp_path / "again")
    inputs = [model.inputs.parse_value(record, "input") for record in DATA[kind]]
    assert again.predict(inputs) == model.predict(inputs)
    assert [found.label for found in model.predict(inputs)] == [*map(label_of, answers)]
    own = {"head": "biaffine"} if kind == "head" else {}
    made = task_class(task)(encoder, **own, epochs=1, hidden=8).fit(DATA[kind], dev=DATA[kind])
    assert made.predict(inputs) == model.predict(inputs)
    assert made.evaluate(DATA[kind]).to_dict() == {n: v for n, v in evaluated.items() if n != "calibration"}
    capsys.readouterr()
    for form in (*model.formats, "csv"):
        ran("predict", folder, data, "--format", form)
        told = capsys.readouterr().out
        assert all(label in told for label in map(label_of, answers)), form
    for label, answer in zip(map(label_of, answers), model.answer_checked(inputs), strict=True):
        assert label in str(model.show(answer, "text", colour=True))
    if kind in MOVED:
        moved = model.inputs.parse_value({**DATA[kind][0], **MOVED[kind]}, "input")
        assert model.predict(moved).probabilities != model.predict(inputs[0]).probabilities

    study = ["--train", data, "--dev", data, "--encoders", encoder, "--json", scores]
    heads = ["--heads", "biaffine,relation"] if kind == "head" else []
    compared = ran("compare", *study, *heads, *small, "--seeds", "1", "--out", tmp_path / "c", out=scores)
    assert len(compared["systems"]) == 1 + bool(heads)
    shots = ran("fewshot", *study, "--shots", "6", "--seeds", "1", "--out", tmp_path / "f", out=scores)
    assert len(shots["systems"]) == 1
    for out in ("c", "f"):
        assert (tmp_path / out / "report.html").stat().st_size > 1000

    served(folder, DATA[kind], answers)

    shards = tmp_path / "shards"
    shards.mkdir()
    (shards / "a.jsonl").write_text(rows(*DATA[kind]), "utf-8")
    ran("predict", folder, shards, "--out", tmp_path / "answered")
    found = [json.loads(line) for line in (tmp_path / "answered/a.jsonl").read_text("utf-8").splitlines()]
    assert [*map(label_of, found)] == [*map(label_of, answers)]


def label_of(record):
    """That of the answer, beside a row's own."""
    return record.get("answer_label", record.get("label"))


def served(folder, records, answers):
    """The service gives the answers of `predict`."""
    pytest.importorskip("fastapi", reason="needs boustro[serve]")
    from boustro.apps.serve.models import name_folders, open_model
    from test_serve import ask, client_of

    named = name_folders([str(folder)])
    with client_of({name: open_model(name, path) for name, path in named.items()}) as client:
        answer = ask(client, *records)
        assert answer.status_code == 200, answer.text
        assert client.get("/").status_code == 200
        (about,) = client.get("/v1/models").json()["models"]
        assert about["example"] == task_class(about["task"]).inputs.example
        outputs = answer.json()["outputs"]
        assert [output["label"] for output in outputs] == [*map(label_of, answers)]


def test_the_guide_shows_these_additions():
    """docs/extending.md has each file without its imports, and its line."""
    guide, lines = (ROOT / "docs/extending.md").read_text("utf-8"), Path(__file__).read_text("utf-8")
    for name, home in {"agreement": "tasks", "biaffine": "heads", "remote": "encoders"}.items():
        code = (ROOT / "tests/apps/additions" / f"{name}.py").read_text("utf-8")
        imports = (node for node in ast.parse(code).body if isinstance(node, (ast.Import, ast.ImportFrom)))
        left_out = {number for node in imports for number in range(node.lineno, (node.end_lineno or 0) + 1)}
        kept = [line for number, line in enumerate(code.splitlines(), 1) if number not in left_out and line]
        (shown,) = re.findall(rf"^\+\+\+ src/boustro/{home}/{name}\.py\n(.*?)^---", guide, re.DOTALL | re.MULTILINE)
        assert [line.removeprefix("+") for line in shown.splitlines() if line != "+"] == kept
        (line,) = re.findall(rf'^\+    ("{name}": .*),$', guide, re.MULTILINE)
        assert line.replace("boustro.tasks.agreement", "additions.agreement").replace('".bi', '"additions.bi') in lines
