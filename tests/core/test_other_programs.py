"""Files and frames of other programs, read as these mean them."""

import io
import json
import os
import zipfile

import datasets
import numpy as np
import openpyxl
import pandas
import pyarrow
import pytest
from pyarrow import feather

from boustro.given import are_inputs, are_texts, as_list, plain_labels
from boustro.tasks.data import read_data
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.texts import read_texts
from boustro.tasks.rows import read_rows
from boustro.text.columnar import Types, are_alike
from boustro.text.files import KEYS, DataFile
from boustro.text.places import check_data
from boustro.text.written import WrittenFile
from labelled import spans


def topics(names: list[str]) -> datasets.Dataset:
    named = datasets.ClassLabel(names=names)
    features = {"text": datasets.Value("string"), "label": named, "all": datasets.List({"is": named})}
    rows = {"text": ["Ada left.", "It rained."], "label": [0, 1], "all": [[{"is": 1}, {"is": 0}], None]}
    return datasets.Dataset.from_dict(rows, features=datasets.Features(features))


@pytest.mark.parametrize("form", ["parquet", "feather", "arrow"])
def test_classes_of_a_data_set_have_their_names_in_its_files(tmp_path, form):
    dataset, path = topics(["news", "rain"]), tmp_path / f"a.{form}"
    if form == "parquet":
        dataset.to_parquet(path)
    elif form == "feather":
        feather.write_feather(dataset.data.table, str(path))
    else:
        dataset.save_to_disk(tmp_path / "saved")
        path = next((tmp_path / "saved").glob("*.arrow"))
    assert [text.label for text in read_texts(path)] == ["news", "rain"]
    opened = DataFile(path).open()
    assert [record["all"] for _, record in opened] == [[{"is": "rain"}, {"is": "news"}], None]
    types = Types()
    types.add(opened)
    assert types.table([record for _, record in DataFile(path).open()]).column("label").to_pylist() == ["news", "rain"]
    assert not are_alike(opened.schema, opened.schema.with_metadata(None))


def test_the_class_minus_one_is_no_label(tmp_path):
    features = topics(["news", "rain"]).features
    rows = {"text": ["Ada left.", "It rained.", "Hm."], "label": [0, 1, -1], "all": [None] * 3}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.to_parquet(path := tmp_path / "a.parquet")
    for data in (path, dataset, dataset.data.table):
        texts = read_texts(data, DataOptions(unlabelled=True))
        assert [text.label for text in texts] == ["news", "rain", None]


def test_tags_of_a_parquet_file_are_those_of_its_data_set(tmp_path):
    tags = datasets.List(datasets.ClassLabel(names=["O", "B-PER"]))
    features = datasets.Features(words=datasets.List(datasets.Value("string")), ner_tags=tags)
    rows = {"words": [["Ada", "left"]], "ner_tags": [[1, 0]]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(path := tmp_path / "a.parquet")
    assert spans(read_data(path)[0]) == [("PER", "Ada")]


class Polars:
    """A frame with the interface of those of polars."""

    def __init__(self, **columns):
        self.table = pyarrow.table(columns)
        self.columns = self.table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def to_dict(self, *, as_series=True):
        return dict(zip(self.columns, self.table.columns, strict=True))


def test_frames_that_give_themselves_as_arrow_are_read():
    texts = pyarrow.array(["Ada left.", "It rained."], pyarrow.string_view())
    frame = Polars(text=texts, label=pyarrow.array(["a", "b"]).dictionary_encode())
    assert [(text.words[0], text.label) for text in read_texts(frame)] == [("Ada", "a"), ("It", "b")]
    words = {"sentence_id": [1, 1, 2], "word": ["Ada", "left", "Bo"], "tag": ["B-PER", "O", "B-PER"]}
    for table in (Polars(**words), pyarrow.table(words)):
        assert [spans(s) for s in read_data(table)] == [[("PER", "Ada")], [("PER", "Bo")]]
    named = Polars(body=["Ada left."], entities=[[{"start": 0, "end": 3, "label": "PER"}]])
    assert spans(read_data(named, text_column="body")[0]) == [("PER", "Ada")]


def test_columns_of_arrow_are_texts_and_their_labels():
    texts = pyarrow.array(["Ada left.", None], pyarrow.string_view())
    labels = pyarrow.chunked_array([["a"], ["b"]]).dictionary_encode()
    assert are_texts(texts[:1]) and not are_texts(texts) and are_inputs(texts, labels, False)
    assert (as_list(texts, "texts"), as_list(labels, "labels")) == (["Ada left.", None], ["a", "b"])
    of_polars = type("Series", (), {"to_list": lambda self: [["a", "b"], []]})()  # its items are columns too
    of_pandas = pandas.Series([np.array(["a", "b"]), np.array([])])
    assert plain_labels([[1, 0], [0, 1]]) == [[1, 0], [0, 1]]  # tags of words, which a tagger refuses by themselves
    assert plain_labels(of_pandas) == plain_labels(of_polars) == [["a", "b"], []]
    with pytest.raises(ValueError, match="got LazyFrame; collect it first"):
        as_list(type("LazyFrame", (), {"collect": None, "columns": ()})(), "texts")


def test_texts_that_arrow_holds_as_views_are_read_and_written(tmp_path):
    views = pyarrow.list_(pyarrow.string_view())
    columns = {"text": pyarrow.array(["Ada", None], pyarrow.string_view()), "all": pyarrow.array([["a"], []], views)}
    feather.write_feather(pyarrow.table(columns), str(tmp_path / "a.feather"), compression="uncompressed")
    file = WrittenFile(DataFile(tmp_path / "a.feather"), "columns", ["text"])
    file.write([(row, {"text": f"so {row.value['text']}"}) for row in file.rows()], tmp_path / "b.feather")
    rows = [record for _, record in DataFile(tmp_path / "b.feather").open()]
    assert rows == [{"text": "so Ada", "all": ["a"]}, {"text": "so None", "all": []}]


def workbook(path, rows):
    """A workbook as Excel writes it: texts in a part of their own, texts that begin with # as errors."""
    texts, lines = [], []
    for row in rows:
        cells = []
        for value in row:
            if isinstance(value, str) and value.startswith("#"):
                cells.append(f'<c t="e"><v>{value}</v></c>')
            elif isinstance(value, str):
                cells.append(f'<c t="s"><v>{len(texts)}</v></c>')
                texts.append(f"<si><t>{value}</t></si>")
            else:
                cells.append(f"<c><v>{value}</v></c>")
        lines.append(f"<row>{''.join(cells)}</row>")
    openpyxl.Workbook().save(plain := io.BytesIO())
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    with zipfile.ZipFile(plain) as given, zipfile.ZipFile(path, "w") as made:
        for name in given.namelist():
            content = given.read(name).decode().replace("</Types>", part)
            made.writestr(name, content.replace("<sheetData></sheetData>", f"<sheetData>{''.join(lines)}</sheetData>"))
        made.writestr("xl/sharedStrings.xml", f"<sst {space}>{''.join(texts)}</sst>")
    return path


def test_an_error_of_a_workbook_is_no_value_and_stays(tmp_path):
    rows = [["text", "label"], ["Ada left.", "rain"], ["It rained.", "#N/A"], ["#REF!", "#REF!"]]
    file = DataFile(workbook(tmp_path / "a.xlsx", rows))
    written = WrittenFile(file, "sheet", ["text"])
    read = [*written.rows()]
    assert [row.value["label"] for row in read] == ["rain", None, None] and not any(row.is_blank for row in read)
    where = [(note.where.rpartition(": ")[2], note.detail) for note in written.notes]
    assert where == [("cell B3", "#N/A"), ("cell A4", "#REF!"), ("cell B4", "#REF!")]
    written.write([(row, {"text": row.value["text"]}) for row in read], tmp_path / "b.xlsx")
    cells = [
        [(cell.value, cell.data_type) for cell in row] for row in openpyxl.load_workbook(tmp_path / "b.xlsx").active
    ]
    assert cells[2:] == [[("It rained.", "s"), ("#N/A", "e")], [("#REF!", "e"), ("#REF!", "e")]]


def test_escapes_in_the_texts_of_a_workbook_mean_characters(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["text"], ["A_x005F_x000D_B"], ["A_x000D_B"], ["x005F_"]])
    assert [row["text"] for _, row in DataFile(path).open()] == ["A_x000D_B", "A\rB", "x005F_"]


@pytest.mark.parametrize("ending", ["xlsm", "xltx", "xltm"])
def test_workbooks_with_macros_and_templates_are_read(tmp_path, ending):
    path = workbook(tmp_path / f"a.{ending}", [["text", "label"], ["Ada left.", "rain"]])
    DataFile(path).check(check_data)
    assert [text.label for text in read_texts(path)] == ["rain"]
    with pytest.raises(
        ValueError, match=r"is an Excel workbook \(xlsx\).*; give it as a file whose name ends in .xlsx"
    ):
        DataFile(path.rename(tmp_path / "a.data")).check()


FRAME = pandas.DataFrame({"text": ["Ada left.", "It rained."], "label": ["news", "rain"]}, index=[3, 5])


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a", "-"])
@pytest.mark.parametrize("form", ["columns", "index", "split", "table", "records"])
def test_json_of_pandas_is_read_in_every_form(file, form, name, indent):
    written, stream = FRAME.to_json(orient=form, indent=indent), 0
    if name == "-":
        stream, writer = os.pipe()
        os.write(writer, written.encode())
        os.close(writer)
    path = f"/dev/fd/{stream}" if name == "-" else file(name, written)
    records = [record for _, record in DataFile(path).open(notes=[], keys=KEYS)]
    assert records == FRAME.to_dict("records")
    if name != "-":
        assert [text.label for text in read_texts(path)] == ["news", "rain"]


def test_json_that_only_looks_like_a_frame_is_a_record(file):
    for given in ({"text": "Ada left.", "data": []}, {"a": {"b": "c"}}, {"data": [], "columns": [["a"]]}, {"text": {}}):
        assert [record for _, record in DataFile(file("a.json", json.dumps(given))).open()] == [given]
    lines = [{"text": {"0": "a"}}, {"text": {"0": "b"}}]
    assert [record for _, record in DataFile(file("a.jsonl", "\n".join(map(json.dumps, lines)))).open()] == lines


UD = "1\tAda\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tleft\t_\tVERB\t_\t_\t0\troot\t_\t_\n"


@pytest.mark.parametrize("before", ["", "0.1\t_\t_\t_\t_\t_\t_\t_\t0:root\t_\n", "# sent_id = 1\n", "\n# newdoc\n"])
def test_conllu_is_known_under_any_name_and_in_a_stream(file, before):
    reader, writer = os.pipe()
    os.write(writer, (before + UD).encode())
    os.close(writer)
    for path in (file("a.txt", before + UD), f"/dev/fd/{reader}"):
        assert [row.value.words for row in read_rows([str(path)]) if row] == [("Ada", "left")]
    os.close(reader)
