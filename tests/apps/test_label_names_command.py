"""Labels and types given by their names at the command line."""

import json
import pickle
import re
from multiprocessing.reduction import ForkingPickler

import pytest

from boustro import Classifier, Tagger
from boustro.apps.batch.models import OpenedModel
from boustro.apps.cli.main import main
from boustro.store import write_manifest

WRITTEN = "delivery,payment,praise: thanks or a compliment"
TEXTS = [
    *(f"My parcel number {n} has not arrived yet." for n in range(5)),
    *(f"I was charged {n} euros twice by your shop." for n in range(2, 7)),
    *(f"Thank you, {name} was wonderful on the phone!" for name in ("Nina", "Omar", "Ida", "Paulo", "Mei")),
]
GOLD = ["delivery"] * 5 + ["payment"] * 5 + ["praise"] * 5


def test_fit_reads_documents_without_labels_and_names_without_texts(tmp_path, capsys):
    few = [0, 1, 2, 5, 6, 7, 10, 11, 12, 13]
    rows = [(text, GOLD[n] if n in few else "") for n, text in enumerate(TEXTS)]
    rows += [(f"The driver came {n} hours late.", "") for n in range(2, 9)]
    table, documents = tmp_path / "t.csv", tmp_path / "d.txt"
    table.write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows if label), "utf-8")
    documents.write_text("".join(f"{text}\n" for text, label in rows if not label), "utf-8")
    words = ["fit", "--train", str(table), "--documents", str(documents), "--types", "tax", "--no-cache"]
    assert main([*words, "--cross-validate", "0", "--out", str(tmp_path / "m")]) == 0
    said = "".join(capsys.readouterr())
    assert "12 texts without a label" in said
    assert "1 label without an example, known by its names alone: tax" in said
    opened = Classifier.from_pretrained(tmp_path / "m")
    assert opened.types == ["delivery", "payment", "praise", "tax"]
    assert opened.predict("Which tax office is mine?").label == "tax"
    assert [answer.label for answer in opened.predict(TEXTS)] == GOLD


def test_predict_without_a_model(tmp_path, capsys, monkeypatch):
    table = tmp_path / "messages.csv"
    rows = "\n".join(f"{n};{text}" for n, text in enumerate(TEXTS))
    table.write_text(f"id;message\n{rows}\n", "utf-8")
    out = tmp_path / "answers.csv"
    words = ["predict", "--labels", WRITTEN, str(table), "--text-column", "message", "--none", "0"]
    assert main([*words, "--out", str(out)]) == 0
    assert "next:" not in capsys.readouterr().err
    assert [line.split(";")[2] for line in out.read_text("utf-8").splitlines()[1:]] == GOLD
    shares = [line.split(";")[3] for line in out.read_text("utf-8").splitlines()[1:]]
    assert all(re.fullmatch(r"[01],\d+", share) for share in shares)  # as a spreadsheet with semicolons reads it
    for share, said in (("0.1", "rows that fit no label, which have none"), ("0", "")):
        found = [*words[:-1], share, "--format", "jsonl"]
        assert main(found) == 0
        shown = capsys.readouterr()
        assert bool(re.search(r'"label": null', shown.out)) == (said != "") and said in shown.err
    table.write_text(f"id;message\n1.5;{TEXTS[0]}\n", "utf-8")
    assert main([*words, "--format", "csv"]) == 0 and re.search(r"; ?0\.\d+", capsys.readouterr().out)
    table.write_text(f"id;message\n{rows}\n", "utf-8")
    assert main([*words, "--several", "--format", "jsonl"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["labels"] for line in lines] == [[label] for label in GOLD]
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"text": TEXTS[0]}) + '\n{"text": 5}\n', "utf-8")
    found = ["predict", "--labels", WRITTEN, str(rows), "--format", "jsonl"]
    assert main(found) == 1 and "rows.jsonl:2 is 5" in (said := capsys.readouterr().err) and "--errors FILE" in said
    assert main([*found, "--errors", str(tmp_path / "bad.jsonl")]) == 0 and capsys.readouterr().out.count("\n") == 1
    assert '"place": "' in (tmp_path / "bad.jsonl").read_text("utf-8")
    monkeypatch.setattr("boustro.tasks.label_names.MOST_TEXTS", 1)  # a broken row that comes later ends the run there
    monkeypatch.setattr("boustro.apps.batch.predict.ROWS", 1)
    found = [*found, "--out", str(tmp_path / "found.jsonl")]
    assert main(found) == 1 and "1 row is kept" in capsys.readouterr().err
    assert main([*found, "--resume", "--errors", str(tmp_path / "late.jsonl")]) == 0
    for more in (["--recall", "0.9"], ["--live"]):
        assert main([*words, *more]) != 0 and f"{more[0]} is not read with --labels" in capsys.readouterr().err


TEXT = "Jonas Brandt led the Christian Liberal Party in Lisbon."


def test_processes_answer_as_one_does():
    opened = OpenedModel(Tagger.from_labels("city"), threshold=0.5)
    sent = bytes(ForkingPickler.dumps(opened))
    assert b"rebuild_storage" not in sent  # which another process would open by a file that is closed then
    arrived = pickle.loads(sent)
    assert arrived.open().predict(TEXT) == opened.open().predict(TEXT) and arrived.fingerprint == opened.fingerprint
    assert OpenedModel(Tagger.from_labels("town")).fingerprint != opened.fingerprint


def test_a_type_that_says_nothing_is_told(capsys, tmp_path):
    (tmp_path / "text").write_text(TEXT, "utf-8")
    assert main(["predict", "--types", "city,class_b", str(tmp_path / "text"), "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    assert [e["label"] for e in json.loads(out)["entities"]] == ["city"] and "says nothing" in err and "class_b" in err


def test_a_table_gets_a_column_for_each_type(tmp_path):
    (tmp_path / "rows.csv").write_text(f'id,message\n1,"{TEXT}"\n2,\n', "utf-8")
    words = ["predict", "--types", "city,politician,party: a political party", str(tmp_path / "rows.csv")]
    words += ["--text-column", "message"]
    assert main([*words, "--out", str(tmp_path / "out.csv")]) == 0
    head, first, second = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert head == "id,message,city,party,politician,entities" and second == "2,,,,,[]"
    assert f'{TEXT}",Lisbon,Christian Liberal Party,Jonas Brandt,' in first


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--labels", "a,b"], "give one of them"),
        (["--several"], "read with --labels alone"),
        (["--live"], "not read with --types"),
        (["--encoder", "starter"], "not read with --types"),
    ],
)
def test_options_that_types_do_not_read_are_refused(options, said, tmp_path, capsys):
    (tmp_path / "text").write_text(TEXT, "utf-8")
    assert main(["predict", "--types", "city", str(tmp_path / "text"), *options]) == 2
    assert said in capsys.readouterr().err
    write_manifest(tmp_path, "tagger")
    assert main(["predict", str(tmp_path), "--types", "city", str(tmp_path / "text")]) == 2
    assert f"predict with --types is without a model, and {tmp_path} is one; remove one" in capsys.readouterr().err


def test_redact_masks_names_of_given_types(tmp_path, capsys):
    (tmp_path / "text").write_text(TEXT, "utf-8")
    assert main(["redact", "--types", "city", str(tmp_path / "text")]) == 0
    assert capsys.readouterr().out == TEXT.replace("Lisbon", "[city_1]")
    assert main(["redact", "--types", "city", "--labels", "city", str(tmp_path / "text")]) == 2
    assert "give one of them" in capsys.readouterr().err
