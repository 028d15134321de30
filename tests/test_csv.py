"""Tables in, tables out: the rows that were read come back in order, with the answers in columns behind them."""

import csv
import io
import json

import openpyxl
import pyarrow.parquet
import pytest

import boustro
from boustro.apps.batch.labeller import TABULAR, _no_formula
from boustro.apps.cli.main import main
from boustro.text.documents import read_items

TEXTS = ["Ada\nleft\n\nVellmar.", 'In Vellmar it "rained", twice.', "=1+1", "", "-", "żółw,🐢; x"]
ROWS = [{"id": f"{n}", "message": text, "entities": "old"} for n, text in enumerate(TEXTS, start=1)]


def write(path, rows, **how):
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in ([*rows[0]], *(row.values() for row in rows)):
            book.active.append([*row])
            for cell in book.active[book.active.max_row]:
                cell.data_type = "s" if isinstance(cell.value, str) else cell.data_type
        book.save(path)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]], delimiter="\t" if path.suffix == ".tsv" else ",", **how)
            writer.writeheader()
            writer.writerows(rows)
    return path


def read(path, marked=True):
    if path.suffix in (".csv", ".tsv"):
        assert path.read_bytes().startswith(b"\xef\xbb\xbf") == marked
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    return [dict(item.value) for item in read_items(str(path)) if item is not None]


ENDINGS = (".csv", ".xlsx", ".tsv", ".json", ".jsonl", ".parquet")


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in ENDINGS for b in ENDINGS if {a, b} & {*ENDINGS[:2]}])
def test_the_rows_of_a_table_come_back_with_what_was_found(tagger_folder, tmp_path, source, target):
    path, out = write(tmp_path / f"a{source}", ROWS), tmp_path / f"o{target}"
    assert main(["predict", str(tagger_folder), str(path), "--text-column", "message", "--out", str(out)]) == 0
    found, tagger = read(out, marked=source != target), boustro.load(tagger_folder)
    said = [[e.to_dict() for e in tagger.predict(text)] for text in TEXTS]
    assert len(found) == len(ROWS) and any(said)
    flat = target in (".csv", ".tsv", ".xlsx")
    guarded = source in (".json", ".jsonl") and target in (".csv", ".tsv")  # these were in no spreadsheet before
    for row, given, own in zip(found, ROWS, said, strict=True):
        assert [*row][: len(given)] == [*given] and str(row["id"]) == given["id"]
        message = (row["message"] or "").removeprefix("'" if guarded else "")
        assert message == given["message"]
        if not flat:
            assert [*row["answer_entities"]] == own and row["entities"] == "old"
            continue
        assert [*row][3:] == [*tagger.types, "answer_entities"] and row["entities"] == "old"
        assert json.loads(row["answer_entities"]) == own
        for label in tagger.types:
            assert (row[label] or "") == "; ".join(" ".join(e["text"].split()) for e in own if e["label"] == label)


def test_lines_have_their_place_and_cells_do_not_run(tagger_folder, tmp_path):
    (tmp_path / "a.txt").write_text("Ada left Vellmar.\n=1+1\n", "utf-8")
    (tmp_path / "b.txt").write_text("@Ada; +1\n", "utf-8")
    files, out = [str(tmp_path / name) for name in ("a.txt", "b.txt")], tmp_path / "o.csv"
    assert main(["predict", str(tagger_folder), *files, "--out", str(out)]) == 0
    rows = read(out)
    assert [row["place"] for row in rows] == [f"{files[0]}:1", f"{files[0]}:2", f"{files[1]}:1"]
    assert [row["text"] for row in rows] == ["Ada left Vellmar.", "'=1+1", "'@Ada; +1"]
    assert [row["file"] for row in rows] == [files[0], files[0], files[1]]
    for cell in ("=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "＝1"):
        assert _no_formula(cell) == f"'{cell}"
    assert [_no_formula("plain = text"), _no_formula(-0.5)] == ["plain = text", -0.5]
    assert TABULAR["csv"].format(["a:1", "plain = text", -0.5, None]) == "a:1,plain = text,-0.5,\r\n"


def test_labels_and_numbers_have_columns_too(tiny_pair, tmp_path, capsys):
    how = {"epochs": 1, "hidden": 8, "cache": False}
    boustro.Classifier(tiny_pair, **how).fit(["Ada left.", "It rained."], ["=news", "b"]).save(tmp_path / "one")
    boustro.Classifier(tiny_pair, **how).fit(["Ada left.", "It rained."], [["c", "b"], []]).save(tmp_path / "several")
    boustro.TextRegressor(tiny_pair, **how).fit(["Ada left.", "It rained."], [1.0, 2.0]).save(tmp_path / "number")
    path = write(tmp_path / "a.csv", [{"text": text, "label": "gold"} for text in TEXTS if text])
    for name, own in (("one", ["answer_label", "score", "probabilities"]), ("number", ["score"])):
        assert main(["predict", str(tmp_path / name), str(path), "--format", "csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out.removeprefix("\ufeff"), newline="")))
        assert [*rows[0]] == ["text", "label", *own] and {row["label"] for row in rows} == {"gold"}
        assert [row["text"] for row in rows] == [text for text in TEXTS if text]
        assert name != "one" or all(row["answer_label"] in ("'=news", "b") for row in rows)


@pytest.mark.parametrize(
    ("name", "content", "words", "said"),
    [
        ("a.csv", "id,mesage\n1,hi\n", ["--text-column", "message"], "no column 'message'; did you mean 'mesage'?"),
        ("a.csv", "id,message\n1,hi\n", [], "(found: id, message); name the column of the texts, such as --text-"),
        ("a.csv", "text\nhi\n", ["--out", "o.docx"], "no file of answers ends so; end it in one of"),
        ("a.csv", "text\nhi\n", ["--out", "o.csv.gz", "--format", "csv"], "no file of answers ends so"),
        ("a.csv", "text\nhi\n", ["--text-column", "text", "text"], "--text-column names 2 columns; a Tagger reads 1"),
        ("a.csv", "text,text\nhi,ho\n", [], "a.csv:1: several columns are named 'text'"),
        ("a.xlsx", "PK\x03\x04 broken", [], "a.xlsx: the workbook is damaged"),
    ],
)
def test_what_is_no_table_of_texts_is_refused(tagger_folder, tmp_path, monkeypatch, capsys, name, content, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    assert main(["predict", str(tagger_folder), name, *words]) in (1, 2)
    assert said in capsys.readouterr().err
    assert not [own for own in tmp_path.iterdir() if own.name.startswith("o.")]
