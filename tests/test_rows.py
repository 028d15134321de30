"""Corpora in the formats of the field: every one gives the same documents, and what is none of them is named."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest

from boustro.apps.cli.main import main
from boustro.text.documents import read_documents
from boustro.text.shards import Shards, tokenize
from boustro.text.tokenizers import load_tokenizer

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import feather, ipc, parquet  # noqa: E402

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


def read(*corpora: object, **options) -> list[str]:
    return list(read_documents([str(corpus) for corpus in corpora], **options))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("name", AS_TEXT)
def test_every_format_of_rows_gives_its_texts_compressed_or_not(tmp_path, name, suffix):
    path = write(tmp_path / f"{name}{suffix}", COMPRESSORS[suffix](AS_TEXT[name].encode()))
    assert read(path) == TEXTS


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_plain_text_is_read_from_every_compression(tmp_path, suffix):
    text = "one\nstill one\n\ntwo\n"
    assert read(write(tmp_path / f"a.txt{suffix}", COMPRESSORS[suffix](text.encode()))) == ["one\nstill one", "two"]


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


@pytest.mark.parametrize("text", ['{"body": "one"}\n', "{one}\n\ntwo", "[1] one", '"one"'])
def test_text_that_only_looks_like_json_is_text(tmp_path, text):
    assert "".join(read(write(tmp_path / "a.txt", text))) == text.replace("\n\n", "").strip("\n")


def test_one_object_over_several_lines_is_one_document(tmp_path):
    assert read(write(tmp_path / "a.json", json.dumps(ROWS[0], indent=1))) == TEXTS[:1]


def test_an_empty_file_of_rows_has_no_document(tmp_path):
    assert read(*(write(tmp_path / name, "") for name in AS_TEXT)) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '[{"text": "one"},\n{"text": ]', r"a\.json:2: not a JSON list"),
        ("a.json", '{"text": "one"}\n{"text": \n', r"a\.json:2: not a JSON object"),
        (
            "a.json",
            '[{"text": "one"}, {"body": "two"}]',
            r"a\.json:1, item 2: no text under the key 'text' .found: body.",
        ),
        ("a.json", '{"rows": [{"text": "one"}]}', r"a\.json:1: no text under the key 'text' .found: rows."),
        ("a.json", '["one"]', r"a\.json:1, item 1: no text under the key 'text' .found: str."),
        ("a.csv", "id,text\n1,one,two\n", r"a\.csv:2: 3 cells, but the header has 2; put a text .* into quotes"),
        ("a.csv", "id,text\n1\n", r"a\.csv:2: 1 cells, but the header has 2"),
        ("a.csv", 'id,text\n1,"one\n', r"a\.csv:2: unexpected end of data"),
        ("a.csv", "id,body\n1,one\n", r"a\.csv:2: no text under the key 'text' .found: id, body.; name it with --text"),
        ("a.tsv", "one\ttwo\n1\tone\n", r"a\.tsv:2: no text under the key 'text' .found: one, two."),
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


def tar(texts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return file.getvalue()


def zipped(texts: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tar.gz", gzip.compress(tar({"one.txt": "one"}), mtime=0), "a tar archive, .*unpack it first"),
        ("a.tar", tar({"one.txt": "one"}), "a tar archive"),
        ("a.zip", zipped({"one.txt": "one"}), "a zip archive, .*unpack it first"),
        ("a.docx", zipped({"word/document.xml": "<w/>"}), r"a Word document \(docx\)"),
        ("a.txt", zstd(b"one"), r"a zstd file, .*\.zst"),
        ("a.csv", b"%PDF-1.4", "a PDF"),
        ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a pointer of Git LFS"),
    ],
)
def test_what_is_no_corpus_is_named_for_what_it_is_with_the_way_on(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / name, content))


def test_tokenize_reads_them_all(tmp_path, tiny_tokenizer, capsys):
    """And a key other than text, by command."""
    write(tmp_path / "corpus" / "a.json.gz", gzip.compress(lines().encode()))
    write(tmp_path / "corpus" / "b.csv.zst", zstd(separated(",").encode()))
    parquet.write_table(TABLE, tmp_path / "corpus" / "c.parquet")
    tokenize((str(tmp_path / "corpus"),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    shards = Shards.open(tmp_path / "shards")
    tokenizer, ends = load_tokenizer(shards.tokenizer_path), [0, *shards.ends[0].astype(int)]
    found = [tokenizer.decode(shards.pieces[0][a : b - 1].tolist()) for a, b in pairwise(ends)]
    assert found == 3 * TEXTS
    write(tmp_path / "other.json", json.dumps([{"body": "one"}]))
    command = ["tokenize", str(tmp_path / "other.json"), "--out", str(tmp_path / "o"), "--tokenizer"]
    assert main([*command, str(tiny_tokenizer), "--workers", "1"]) == 1
    assert "found: body" in capsys.readouterr().err
    assert main([*command, str(tiny_tokenizer), "--workers", "1", "--text-key", "body"]) == 0
