"""Corpora in the formats of the field: each gives the same documents; files that are no text are named as such."""

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from itertools import cycle
from pathlib import Path
from threading import Thread

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from boustro.output import as_json
from boustro.tasks.data import load_data
from boustro.tasks.data.texts import read_texts
from boustro.tasks.pairs import PAIRS
from boustro.tasks.questions.data import read_questions
from boustro.text.documents import read_documents
from boustro.text.places import START, kind_of_file, kind_of_start, refuse_kind
from boustro.text.rows import parse_record
from boustro.types import TypedLabel
from test_documents import read, write

pyarrow = pytest.importorskip("pyarrow")

TEXTS = ["Ada, who left.\n\nShe came back; twice.", 'He said: "no".', "1", "NA", "naïve 🙂 日本", "x" * 200_000]
ROWS = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]


def zstd(data: bytes) -> bytes:
    return pyarrow.compress(data, codec="zstd", asbytes=True)


COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def lines(rows=ROWS) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def separated(delimiter: str) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, ["id", "text"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return file.getvalue()


AS_TEXT = {
    "a.jsonl": lines(),
    "a.ndjson": lines(),
    "c4-train.00000-of-01024.json": lines(),
    "lines-of-a-stream.txt": lines(),
    "part-00000": lines(),
    "array.json": json.dumps(ROWS),
    "pretty.json": json.dumps(ROWS, indent=2),
    "blank-before.json": "\n\n" + json.dumps(ROWS, indent=2) + "\n",
    "a.csv": separated(","),
    "semicolons.csv": separated(";"),
    "A.CSV": separated("\t"),
    "a.tsv": separated("\t"),
}


@pytest.mark.parametrize(("name", "suffix"), zip(AS_TEXT, cycle(COMPRESSORS)))  # each name once, each suffix twice
def test_every_format_of_rows_gives_its_texts_compressed_or_not(tmp_path, name, suffix):
    path = write(tmp_path / f"{name}{suffix}", COMPRESSORS[suffix](AS_TEXT[name].encode()))
    assert read(path) == TEXTS


TABLE = pyarrow.table({"id": list(range(len(TEXTS))), "text": TEXTS})


def write_arrow(path: Path, make) -> Path:
    with make(path, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    return path


COLUMNAR = {
    "a.parquet": lambda path: parquet.write_table(TABLE, path, row_group_size=2),
    "wiki[1]*.parquet": lambda path: parquet.write_table(TABLE, path, compression="zstd"),
    "no-ending": lambda path: parquet.write_table(TABLE, path),
    "a.arrow": lambda path: write_arrow(path, ipc.new_stream),
    "a-file.arrow": lambda path: write_arrow(path, ipc.new_file),
    "a.feather": lambda path: feather.write_feather(TABLE, path),
}


@pytest.mark.parametrize("name", COLUMNAR)
def test_columns_are_read_whatever_the_file_is_called(tmp_path, name):
    COLUMNAR[name](tmp_path / name)
    assert read(tmp_path / name) == TEXTS
    assert read(tmp_path) == TEXTS
    with pytest.raises(ValueError, match=r"no text under the key 'body' \(found: id, text\); name it with --text-key"):
        read(tmp_path / name, text_key="body")


@pytest.mark.parametrize("name", COLUMNAR)
def test_a_damaged_file_of_columns_is_named(tmp_path, name):
    COLUMNAR[name](tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="damaged"):
        read(tmp_path / name)


def test_a_dataset_saved_to_disk_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    saved = datasets.Dataset.from_dict({"text": TEXTS})
    saved.save_to_disk(tmp_path / "one")
    assert read(tmp_path / "one") == TEXTS
    datasets.DatasetDict(train=saved, test=saved).save_to_disk(tmp_path / "two")
    with pytest.raises(ValueError, match=r"two holds several datasets, .* name those to read: .*two/test .*two/train"):
        read(tmp_path / "two")
    assert read(tmp_path / "two" / "train") == TEXTS


def test_lines_of_json_are_known_in_a_stream(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=lambda: (tmp_path / "pipe").write_text(lines()), daemon=True)
    writer.start()
    assert read(tmp_path / "pipe") == TEXTS
    writer.join()


def test_one_object_over_several_lines_is_one_document(tmp_path):
    assert read(write(tmp_path / "a.json", json.dumps(ROWS[0], indent=1))) == TEXTS[:1]


def test_an_empty_file_of_rows_has_no_document(tmp_path):
    assert read(*(write(tmp_path / name, "") for name in AS_TEXT)) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '[{"text": "one"},\n{"text": ]', r"a\.json:2: not a JSON list"),
        ("a.json", '[{"text": "one"},\n]', r"a\.json:2: not a JSON list of records .a comma before"),
        ("a.json", '[{"text": "one"},\n{"text": "a",\n"text": "b"}]', r"a\.json:2: .* .the key 'text' comes twice"),
        ("a.json", '{\n"text": "one",\n"n": -Infinity}', r"a\.json:1: .*-Infinity is no JSON; write null"),
        ("a.json", '{"text": "one"}\n{"text": \n', r"a\.json:2: not a JSON object"),
        (
            "a.json",
            '[{"text": "one"}, {"body": "two"}]',
            r"a\.json:1, item 2: no text under the key 'text' .found: body.",
        ),
        ("a.json", '{"rows": [{"text": "one"}]}', r"a\.json:1: no text under the key 'text' .found: rows."),
        ("a.json", '["one"]', r"a\.json:1, item 1: no text under the key 'text' .found: str."),
        ("a.csv", "id,text\n1,one,two\n", r"a\.csv:2: more cells than columns .id, text.; quote a cell with commas"),
        ("a.csv", 'id,text\n1,"one\n', r"a\.csv:2: this line opens a quote that is never closed"),
        ("a.csv", "id,body\n1,one\n", r"a\.csv:2: no text under the key 'text' .found: id, body.; name it with --text"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / name, content))


@pytest.mark.parametrize("cut", [0.5, 0.9])
def test_a_damaged_zstd_file_is_named_with_its_line(tmp_path, cut):
    data = zstd("".join(f"line {number}\n" for number in range(50_000)).encode())
    path = write(tmp_path / "a.txt.zst", data[: int(len(data) * cut)])
    with pytest.raises(ValueError, match=r"a\.txt\.zst: the compressed file is damaged after line \d+"):
        read(path)


def zipped(texts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return file.getvalue()


def test_a_workbook_is_known_where_its_name_or_its_end_is_missing(tmp_path):
    pytest.importorskip("openpyxl")
    content = zipped({"[Content_Types].xml": "", "xl/workbook.xml": ""})
    with pytest.raises(
        ValueError, match=r"an Excel workbook \(xlsx\), .*; give it as a file whose name ends in \.xlsx"
    ):
        read(write(tmp_path / "a", content))
    assert (kind_of_start(Path("-"), content[:90]) or ("",))[0] == "an Excel workbook (xlsx)"
    assert (kind_of_start(Path("-"), zipped({"a/xl/b": ""})) or ("",))[0] == "a zip archive"


def test_a_folder_of_them_is_one_corpus(tmp_path):
    write(tmp_path / "corpus" / "a.json.gz", gzip.compress(lines().encode()))
    write(tmp_path / "corpus" / "b.csv.zst", zstd(separated(",").encode()))
    parquet.write_table(TABLE, tmp_path / "corpus" / "c.parquet")
    assert list(read_documents([str(tmp_path / "corpus")])) == 3 * TEXTS


def zipped_names(*names: str, mimetype: str = "") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        if mimetype:
            archive.writestr("mimetype", mimetype)
        for name in names:
            archive.writestr(name, "x" * 2000)
    return file.getvalue()


def tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("train.txt")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"Ada"))
    return file.getvalue()


def written(path: Path, write) -> bytes:
    write(path)
    return path.read_bytes()


def database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table t (a)")
    connection.commit()
    connection.close()


def weights(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"w": np.zeros(3, np.float32)}, path)


FRAME = pd.DataFrame({"text": ["Ada left."], "label": ["news"]})
FILES = {
    "zip": lambda path: zipped_names("train.txt"),
    "xlsx": lambda path: zipped_names("[Content_Types].xml", "xl/workbook.xml"),
    "docx": lambda path: zipped_names("[Content_Types].xml", "word/document.xml"),
    "odt": lambda path: zipped_names("content.xml", mimetype="application/vnd.oasis.opendocument.text"),
    "epub": lambda path: zipped_names("META-INF/container.xml", mimetype="application/epub+zip"),
    "PDF": lambda path: b"%PDF-1.7\n%\xe2\xe3",
    "parquet": lambda path: written(path, FRAME.to_parquet),
    "Arrow": lambda path: written(path, FRAME.to_feather),
    "SQLite": lambda path: written(path, database),
    "pickle": lambda path: pickle.dumps({"text": "Ada"}),
    "gzip": lambda path: gzip.compress(b"Ada"),
    "bzip2": lambda path: bz2.compress(b"Ada"),
    "xz": lambda path: lzma.compress(b"Ada"),
    "zstd": lambda path: b"\x28\xb5\x2f\xfd\x04\x00",
    "tar": lambda path: tarred(),
    "GGUF": lambda path: b"GGUF\x03\x00\x00\x00" + bytes(40),
    "safetensors": lambda path: written(path, weights),
    "Git LFS": lambda path: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
    "image": lambda path: b"\x89PNG\r\n\x1a\n" + bytes(20),
    "UTF-16": lambda path: "text\tlabel\n".encode("utf-16"),
    "HTML": lambda path: b"\n<!DOCTYPE html>\n<html lang=en>",
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_named_for_what_it_is(kind, tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(FILES[kind](path))
    assert kind in (kind_of_file(path) or "")
    with pytest.raises(ValueError, match=rf"train\.txt: this is an? .*{kind}|this is .*{kind}"):
        refuse_kind(path, path.read_bytes()[:START])


@pytest.mark.parametrize(
    "text", ["", "\ufeffAda left.", "PK is a dog.", "GGUF, RIFF", "<b>", "BZh9", "MZ\nA", "fourftyp"]
)
def test_plain_text_is_no_kind(text, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(text, encoding="utf-8")
    assert kind_of_file(path) is None
    refuse_kind(path, path.read_bytes())


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from("\t\n\r"), max_size=80))
def test_no_text_is_taken_for_another_kind(text):
    if not text.lstrip("\ufeff \t\n\r").lower().startswith(("<", "%pdf-", "{\\rtf", "version ")):
        refuse_kind(Path("corpus.txt"), text.encode())


@pytest.mark.parametrize(
    ("kind", "name"),
    zip(
        ["zip", "xlsx", "PDF", "SQLite", "gzip", "UTF-16", "Git LFS"],
        cycle(["train.txt", "train.csv", "train.jsonl", "train.conllu", "train.json", "train.tsv"]),
    ),
)
def test_every_reader_names_it(kind, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[kind](path))
    for reader in (load_data, read_texts, lambda p: PAIRS["pair"].read(p), read_questions, read):
        with pytest.raises(ValueError, match=rf"{name}: this is .*{kind}"):
            reader(path)


def test_a_compressed_file_is_named_for_what_it_holds(tmp_path):
    for ending, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        path = tmp_path / f"train.txt{ending}"
        path.write_bytes(pack(tarred()))
        for reader in (load_data, read):
            with pytest.raises(ValueError, match="this is a tar archive, which is not read as text; unpack it first"):
                reader(path)
    with pytest.raises(ValueError, match=r"a zstd file, .*\.zst"):
        read(write(tmp_path / "a.txt", zstd(b"one")))


def test_what_is_no_file_has_no_kind(tmp_path):
    assert kind_of_file(tmp_path) is None
    assert kind_of_file(tmp_path / "absent") is None


NUMBERS = '{"a": 1.10, "b": [1E5, -0, -0.0, 1e400, 1.000000000000000005, 0.1, 12345678901234567890], "c": {"d": 1.0}}'


def test_numbers_keep_their_spelling():
    value = parse_record(NUMBERS, "a:1")
    assert as_json(value) == as_json(pickle.loads(pickle.dumps(value))) == NUMBERS
    assert value["a"] == 1.1 and TypedLabel(value["a"]) == "1.1" and type(TypedLabel(value["a"]).value) is float
