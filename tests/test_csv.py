"""Answers for a spreadsheet: one row an entity, no cell that would run, and a row for every text."""

import csv
import io
import json

import boustro
from boustro.apps.batch.labeller import csv_head, csv_rows
from boustro.apps.cli.main import main

LINES = ['In Vellmar it "rained", twice.', "=1+1", "It rained.", "@Ada; +1", "-", "żółw,🐢"]


def read(path):
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_cells_that_a_spreadsheet_would_run_are_text():
    for cell in ("=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "＝1"):
        (row,) = csv.reader(io.StringIO(csv_rows("a:1", [(cell, -0.5)]), newline=""))
        assert row == ["a:1", f"'{cell}", "-0.5"]
    assert csv_rows("a:1", [("plain = text", -0.5, 0)]) == "a:1,plain = text,-0.5,0\r\n"
    assert csv_head(("label", "text")) == "\ufeffplace,label,text\r\n"


def test_a_row_for_each_entity(tagger_folder, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    (tmp_path / "b.txt").write_text("Professor Ada Calloway sold umbrellas.\n", "utf-8")
    files, out = [str(tmp_path / name) for name in ("a.txt", "b.txt")], tmp_path / "o.csv"
    assert main(["predict", str(tagger_folder), *files, "--out", str(out)]) == 0
    assert main(["predict", str(tagger_folder), *files, "--out", str(tmp_path / "o.jsonl")]) == 0
    said = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    rows = read(out)
    assert [*rows[0]] == ["place", "label", "entity", "start", "end", "score", "text"]
    places = [f"{files[0]}:{n}" for n in range(1, 7)] + [f"{files[1]}:1"]
    assert list(dict.fromkeys(row["place"] for row in rows)) == places  # also of texts without an entity
    for place, own in zip(places, said, strict=True):
        mine = [row for row in rows if row["place"] == place]
        bare = {row["text"].removeprefix("'") for row in mine}
        assert bare == {own["text"]} and len(mine) == max(1, len(own["entities"]))
        found = [
            (row["label"], int(row["start"]), int(row["end"]), float(row["score"])) for row in mine if row["label"]
        ]
        assert found == [(e["label"], e["start"], e["end"], e["score"]) for e in own["entities"]]
    assert sum(bool(row["label"]) for row in rows) > 1


def test_a_row_for_each_text(tiny_pair, tmp_path, capsys):
    how = {"epochs": 1, "hidden": 8, "cache": False}
    boustro.Classifier(tiny_pair, **how).fit(["Ada left.", "It rained."], ["=news", "b"]).save(tmp_path / "one")
    boustro.Classifier(tiny_pair, **how).fit(["Ada left.", "It rained."], [["c", "b"], []]).save(tmp_path / "several")
    boustro.TextRegressor(tiny_pair, **how).fit(["Ada left.", "It rained."], [1.0, 2.0]).save(tmp_path / "number")
    (tmp_path / "a.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    for name, first in (("one", "label"), ("several", "label"), ("number", "score")):
        assert main(["predict", str(tmp_path / name), str(tmp_path / "a.txt"), "--format", "csv"]) == 0
        rows = list(csv.DictReader(capsys.readouterr().out.removeprefix("\ufeff").splitlines()))
        assert len(rows) == len(LINES) and first in rows[0] and rows[0]["text"] == LINES[0]
        assert name != "one" or all(row["label"] in ("'=news", "b") for row in rows)
