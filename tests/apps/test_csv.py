"""Tables in, tables out: the rows that were read come back in order, with the answers in columns behind them."""

import csv
import datetime
import decimal
import io
import json
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import openpyxl
import pandas
import pyarrow.parquet
import pytest

import boustro
from boustro.apps.batch.labeller import AnswerForm, Labeller
from boustro.apps.batch.models import OpenedFolder
from boustro.apps.cli.main import main
from boustro.output import as_json
from boustro.tasks.data.texts import read_texts
from boustro.tasks.forms import FORMS
from boustro.tasks.rows import Survey
from boustro.text.files import DataFile
from boustro.text.separated import no_formula
from boustro.text.tables import free_names
from boustro.text.workbooks import MORE_SHEETS, UNSTORED
from by_heart import NamesByHeart, stand_in

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
    return [dict(item.value) for item in DataFile(path).open().items() if item is not None]


ENDINGS = (".csv", ".xlsx", ".tsv", ".json", ".jsonl", ".parquet")
PAIRS = [*zip(ENDINGS, ENDINGS[1:] + ENDINGS[:1], strict=True), *((ending, ".csv") for ending in ENDINGS)]


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A folder with a tagger that knows its names by heart."""
    stand_in(tmp_path / "by heart", monkeypatch)
    return tmp_path / "by heart"


@pytest.mark.parametrize(("source", "target"), dict.fromkeys([*PAIRS, (".xlsx", ".xlsx"), (".parquet", ".xlsx")]))
def test_the_rows_of_a_table_come_back_with_what_was_found(known, tmp_path, source, target):
    path, out = write(tmp_path / f"a{source}", ROWS), tmp_path / f"o{target}"
    assert main(["predict", str(known), str(path), "--text-column", "message", "--out", str(out)]) == 0
    found, tagger = read(out, marked=source != target), NamesByHeart()
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
            names = [" ".join(e["text"].split()) for e in own if e["label"] == label]
            assert (row[label] or "").removeprefix("'") == "; ".join(names)


def test_lines_have_their_place_and_cells_do_not_run(known, tmp_path):
    (tmp_path / "a.txt").write_text("Ada left Vellmar.\n=1+1\n", "utf-8")
    (tmp_path / "b.txt").write_text("@Ada; +1\n", "utf-8")
    files, out = [str(tmp_path / name) for name in ("a.txt", "b.txt")], tmp_path / "o.csv"
    assert main(["predict", str(known), *files, "--out", str(out)]) == 0
    rows = read(out)
    assert [row["place"] for row in rows] == [f"{files[0]}:1", f"{files[0]}:2", f"{files[1]}:1"]
    assert [row["text"] for row in rows] == ["Ada left Vellmar.", "'=1+1", "'@Ada; +1"]
    assert [row["file"] for row in rows] == [files[0], files[0], files[1]]
    for cell in ("=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "＝1"):
        assert no_formula(cell) == f"'{cell}"
    assert [no_formula("plain = text"), no_formula(-0.5)] == ["plain = text", -0.5]
    assert FORMS["csv"].dialect.format(["a:1", "plain = text", -0.5, None]) == "a:1,plain = text,-0.5,\r\n"


AS_IT_CAME = {
    "Excel.csv": '\ufeff;id; text ;n\r\n0;7;"Ada\r\nleft Vellmar.";1,5\r\n\r\n1;8;;2\r\n',
    "declared.csv": "sep=;\r\nid;text\r\n1;Ada left.\r\n",
    "pandas.csv": ',text,"a, b"\n0,Ada left.,"x, y"\n1,It rained.,\n',
    "two without a name.csv": ",text,\n0,Ada left.,x\n",
    "one column.csv": 'text\nAda left.\n""\n\nIt rained.\n',
    "head alone.csv": "id,text\n",
    "numbers.csv": "2020,text,2021\n1,Ada left.,12345678901234567890\n",
    "bare.tsv": 'text\tx\n"Ada left\t1\nEve said "no"\t2\n',
    "quoted.tsv": 'text\tx\n"a ""b"" c"\t1\n"It\training"\t2\n',
    "short.csv": "id,text,x\n1,Ada left.\n",
}


def table_of(path):
    rows = DataFile(path).open()
    return rows.heads, rows.dialect, [(place.partition(":")[2], row.is_blank, [*row.values()]) for place, row in rows]


@pytest.mark.parametrize("name", AS_IT_CAME)
def test_a_table_comes_back_as_it_came(known, tmp_path, name):
    path, out = tmp_path / name, tmp_path / f"o{Path(name).suffix}"
    path.write_bytes(AS_IT_CAME[name].encode())
    assert main(["predict", str(known), str(path), "--out", str(out), "--quiet"]) == 0
    heads, dialect, rows = table_of(path)
    own_heads, own_dialect, found = table_of(out)
    assert own_heads == (*heads, "LOC", "PER", "entities") and own_dialect == dialect
    assert [(place, blank, [v or "" for v in values[: len(heads)]]) for place, blank, values in found] == [
        (place, blank, [v or "" for v in values]) for place, blank, values in rows
    ]
    assert all(blank or json.loads(values[-1]) == [] or values[-1][0] == "[" for _, blank, values in found)
    given, made = path.read_bytes().decode(), out.read_bytes().decode()
    assert made.startswith(given[: given.index("text")])
    cells = [line for line in given.replace("\r\nleft", "@").splitlines() if line.strip() and "sep=" not in line]
    written = [line for line in made.replace("\r\nleft", "@").splitlines() if line.strip() and "sep=" not in line]
    assert all(one.startswith(row) for one, row in zip(written, cells, strict=True))


FRAME = pandas.DataFrame(
    {
        "id": [2**62, 1],
        "text": ["Ada left Vellmar.", "It rained."],
        "day": [datetime.date(2024, 1, 5), None],
        "at": pandas.to_datetime(["2024-01-05 10:00:00.123456789", None]).tz_localize("Europe/Berlin"),
        "price": [decimal.Decimal("1.10"), None],
        "raw": [b"\x00\xff", b"a"],
        "kind": pandas.Categorical(["x", "y"]),
        "count": pandas.array([1, None], "Int64"),
        "ratio": [float("nan"), 1.5],
        "parts": [[1, 2], []],
        "label": ["gold", "gold"],
        "entities": ["own", "own"],
    },
    index=["a", "b"],
)


TYPED = [("p.parquet", ".arrow"), ("p.feather", ".arrow"), ("several.parquet", ".parquet")]


@pytest.mark.parametrize(("source", "target"), TYPED)
def test_columns_keep_their_types(known, tmp_path, source, target):
    path, out = tmp_path / source, tmp_path / f"o{target}"
    FRAME.reset_index().to_feather(path) if path.suffix == ".feather" else FRAME.to_parquet(path)
    files = [str(path)] * (2 if source.startswith("several") else 1)
    assert main(["predict", str(known), *files, "--out", str(out), "--quiet"]) == 0
    given, found = (pyarrow.Table.from_batches(DataFile(p).open().batches()) for p in (path, out))
    assert found.select(given.column_names).equals(pyarrow.concat_tables([given] * len(files)), check_metadata=True)
    assert found.column_names[given.num_columns] == "answer_entities"


def test_values_have_the_form_that_json_and_workbooks_have(known, tmp_path):
    path = tmp_path / "p.parquet"
    FRAME.to_parquet(path)
    for ending in ("jsonl", "xlsx"):
        assert main(["predict", str(known), str(path), "--out", str(tmp_path / f"o.{ending}"), "--quiet"]) == 0
    first, second = (json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines())
    assert (first["id"], first["day"], first["price"], first["raw"]) == (2**62, "2024-01-05", "1.10", "AP8=")
    assert first["ratio"] is None and second["day"] is None and first["entities"] == "own"
    head, *rows = openpyxl.load_workbook(tmp_path / "o.xlsx").active.values
    cells = dict(zip(head, rows[0], strict=True))
    assert cells["id"] == str(2**62) and cells["day"] == datetime.datetime(2024, 1, 5) and cells["count"] == 1
    assert as_json({"a": [float("nan"), 1.0, float("inf")]}) == '{"a": [null, 1.0, null]}'


def make_workbook(path):
    """A nameless column, a head that is a number, a blank row, formulas, formats, escapes, and a wrong dimension."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([None, "id", "text", "day", 2021, "ok", "share", "sum"])
    sheet.append([0, 7, "Ada left.", datetime.datetime(2024, 1, 5), 1.5, True, 0.25, "=1+1"])
    sheet.append([])
    sheet.append([1, 8, "A_x005F_x000D_B _x000D_\nx", datetime.datetime(2024, 1, 5, 10), 2, False])
    for cell, shown in {"D2": "dd.mm.yyyy", "G2": "0%", "J9": "0%"}.items():
        sheet[cell].number_format = shown
    book.create_sheet("more").append(["x"])
    book.create_sheet("empty")
    book.save(path.with_suffix(".whole"))
    with zipfile.ZipFile(path.with_suffix(".whole")) as whole, zipfile.ZipFile(path, "w") as made:
        for name in whole.namelist():
            content = whole.read(name)
            made.writestr(name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', content))
    return path


def test_a_workbook_is_read_whole_and_comes_back_with_its_types(known, tmp_path):
    path, out = make_workbook(tmp_path / "a.xlsx"), tmp_path / "o.xlsx"
    rows = DataFile(path).open()
    read = [*rows]
    assert rows.heads[:5] == (None, "id", "text", "day", 2021) and rows.keys[:5] == ("", "id", "text", "day", "2021")
    assert [place.rpartition(": ")[2] for place, _ in read] == ["row 2", "row 3", "row 4"]
    assert [row.is_blank for _, row in read] == [False, True, False]
    assert [row["text"] for _, row in read] == ["Ada left.", None, "A_x000D_B \r\nx"]
    assert read[0][1]["day"] == datetime.date(2024, 1, 5) and read[0][1]["sum"] is None
    assert [note.what for note in rows.notes] == [MORE_SHEETS, UNSTORED]
    assert main(["predict", str(known), str(path), "--out", str(out), "--quiet"]) == 0
    found = DataFile(out).open()
    assert found.heads == (*rows.heads, "LOC", "PER", "entities")
    for (place, row), (own_place, own) in zip(read, found, strict=True):
        assert own_place.rpartition(":")[2] == place.rpartition(":")[2] and own.is_blank == row.is_blank
        assert {key: own[key] for key in row} == row
        assert all(own.formats[key] == row.formats[key] for key in row.formats)


def test_what_a_workbook_cannot_hold_is_refused_before_the_work(known, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("boustro.apps.batch.models.load", lambda *_, **__: pytest.fail("the work has begun"))
    book, path, out = openpyxl.Workbook(), tmp_path / "a.xlsx", tmp_path / "o.xlsx"
    book.active.append(["id", "text"])
    book.active.append([1, "Ada left.", "more"])
    book.save(path)
    lines = {"long.jsonl": {"text": "x", "y": "🐢" * 16_384}, "control.jsonl": {"text": "x", "y": "\x01"}}
    for name, record in lines.items():
        (tmp_path / name).write_text(json.dumps({"text": "x"}) + "\n" + json.dumps(record) + "\n")
    (tmp_path / "mixed.jsonl").write_text('{"text": "x", "y": 1}\n{"text": "x", "y": {"z": 1}}\n')
    for name, target, said in (
        ("a.xlsx", out, "a.xlsx: row 2: more cells than columns (id, text)"),
        ("long.jsonl", out, "long.jsonl:2 has 16,384 characters under 'y', and a cell of a workbook holds 32,767"),
        ("control.jsonl", out, "control.jsonl:2 has a control character under 'y'; write .csv"),
        ("mixed.jsonl", tmp_path / "o.parquet", "the values under 'y' do not fit into one table"),
    ):
        assert main(["predict", str(known), str(tmp_path / name), "--out", str(target)]) == 1
        assert said in capsys.readouterr().err and not target.exists()


def test_a_row_of_a_table_that_cannot_be_read_costs_that_row_where_errors_are_kept(known, file, tmp_path):
    path, out, errors = file("a.csv", "id,text\n1,Ada,x\n2,Ada\n"), tmp_path / "o.csv", tmp_path / "e.jsonl"
    assert main(["predict", str(known), str(path), "--out", str(out), "--errors", str(errors)]) == 0
    assert [row["id"] for _, row in DataFile(out).open()] == ["2"] and "a.csv:2: more cells" in errors.read_text()


def test_answers_never_take_the_name_of_a_column():
    names = free_names(["label", "score"], {"label": 1, "answer_label": 2})
    assert names == {"label": "answer_answer_label", "score": "score"}
    survey = Survey({"a": "a", "=2": "=2"})  # of a table
    survey.add({"a": 1, "=3": 3}, FORMS["csv"])  # of JSON lines
    labeller = Labeller(OpenedFolder(Path("x")), AnswerForm(FORMS["csv"], columns=survey.heads))
    labeller.__dict__["model"] = SimpleNamespace(columns=("=cmd|x", "a"))
    assert labeller.heads == ["a", "=2", "'=3", "'=cmd|x", "answer_a"]


def test_labels_and_numbers_have_columns_too(tiny_pair, tmp_path, capsys):
    how = {"epochs": 1, "hidden": 8, "cache": False}
    kinds = {"one": boustro.Classifier, "several": boustro.Classifier, "number": boustro.TextRegressor}
    for (name, kind), gold in zip(kinds.items(), (["=news", "b"], [["c, d", "b"], []], [1.0, 2.0]), strict=True):
        kind(tiny_pair, **how).fit(["Ada left.", "It rained."], gold).save(tmp_path / name)
    path = write(tmp_path / "a.csv", [{"text": text, "label": "gold"} for text in TEXTS if text])
    for name, own in (("one", ["answer_label", "score", "probabilities"]), ("number", ["score"])):
        assert main(["predict", str(tmp_path / name), str(path), "--format", "csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out.removeprefix("\ufeff"), newline="")))
        assert [*rows[0]] == ["text", "label", *own] and {row["label"] for row in rows} == {"gold"}
        assert [row["text"] for row in rows] == [text for text in TEXTS if text]
        assert name != "one" or all(row["answer_label"] in ("'=news", "b") for row in rows)
    (tmp_path / "a.jsonl").write_text('{"text": "Ada left."}\n{"text": " "}\n{"text": "It rained."}\n')
    for name, empty in (("one", {"label": None, "score": None, "probabilities": None}), ("number", {"score": None})):
        assert main(["predict", str(tmp_path / name), str(tmp_path / "a.jsonl"), "--format", "jsonl"]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out.splitlines()[1]) == {"text": " ", **empty}
        assert "note: 1 row without a text, which has an empty answer" in shown.err
    assert main(["predict", str(tmp_path / "one"), str(tmp_path / "a.jsonl"), "--format", "conll"]) == 2
    assert "has text, jsonl, html, labelstudio, argilla, csv, tsv;" in capsys.readouterr().err
    (tmp_path / "b.jsonl").write_text('{"body": "Ada left."}\n')
    assert main(["predict", str(tmp_path / "one"), str(tmp_path / "b.jsonl")]) == 1
    assert "(found: body); --text-column names its columns; --errors FILE" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "one"), str(tmp_path / "a.jsonl"), "--format", "html"]) == 0
    assert capsys.readouterr().out.count("<mark") == 2
    out = tmp_path / "o.csv"
    assert main(["predict", str(tmp_path / "several"), str(tmp_path / "a.jsonl"), "--out", str(out), "--quiet"]) == 0
    cells = [row["label"] for row in read(out) if row["label"]]
    kept = [line for line in out.read_text("utf-8-sig").splitlines() if not line.startswith(" ,")]
    (tmp_path / "b.csv").write_text("\n".join(kept), "utf-8")
    assert [list(text.labels or ()) for text in read_texts(tmp_path / "b.csv")] == [json.loads(cell) for cell in cells]
