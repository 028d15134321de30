"""Files that are not plain text are named for what they are; plain text never is."""

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.batch.rows import read_rows
from boustro.apps.cli.main import main
from boustro.tasks.data import load_data
from boustro.tasks.data.pairs import read_pairs
from boustro.tasks.data.questions import read_questions
from boustro.tasks.data.texts import read_texts
from boustro.text.kinds import START, kind_of_file, refuse_kind


def zipped(*names: str, mimetype: str = "") -> bytes:
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
    "zip": lambda path: zipped("train.txt"),
    "xlsx": lambda path: zipped("[Content_Types].xml", "xl/workbook.xml"),
    "docx": lambda path: zipped("[Content_Types].xml", "word/document.xml"),
    "odt": lambda path: zipped("content.xml", mimetype="application/vnd.oasis.opendocument.text"),
    "epub": lambda path: zipped("META-INF/container.xml", mimetype="application/epub+zip"),
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


@pytest.mark.parametrize("kind", ["zip", "xlsx", "PDF", "parquet", "gzip", "UTF-16", "Git LFS"])
@pytest.mark.parametrize("name", ["train.txt", "train.csv", "train.jsonl", "train.conllu", "train.json", "train.tsv"])
def test_every_reader_names_it(kind, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[kind](path))
    readers = [load_data, read_texts, lambda p: read_pairs(p, "label"), read_questions]
    readers.append(lambda p: list(read_rows([str(p)])))
    for read in readers:
        with pytest.raises(ValueError, match=rf"{name}: this is .*{kind}"):
            read(path)


def test_a_compressed_file_is_named_for_what_it_holds(tmp_path):
    for ending, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        path = tmp_path / f"train.txt{ending}"
        path.write_bytes(pack(tarred()))
        with pytest.raises(ValueError, match="this is a tar archive, which is not read as text; unpack it first"):
            load_data(path)


def test_commands_name_it(tmp_path, capsys):
    path = tmp_path / "train.csv"
    path.write_bytes(FILES["xlsx"](path))
    said = "this is an Excel workbook (xlsx), which is not read as text; save it as CSV (UTF-8)"
    for words in ([], ["--task", "classify"], ["--task", "qa"]):
        assert main(["check", str(path), *words]) == 1 and said in capsys.readouterr().out
    assert main(["fit", "--train", str(path), "--out", str(tmp_path / "out")]) == 1
    assert said in capsys.readouterr().err


def test_what_is_no_file_has_no_kind(tmp_path):
    assert kind_of_file(tmp_path) is None
    assert kind_of_file(tmp_path / "absent") is None
