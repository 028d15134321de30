"""boustro.text.documents and duplicates: kinds of corpora, what ends a document, errors with their line, copies."""

import bz2
import contextlib
import gzip
import json
import lzma
import os
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.text.documents import WESTERN, read_arriving, read_documents, read_lines
from boustro.text.duplicates import RUNS_AT_ONCE, NearDuplicates
from boustro.text.files import DataFile

COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
POEM = "First line,\nsecond line.\n\nAfter the break:\na third.\n"


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(*corpora: object, **options) -> list[str]:
    return list(read_documents([str(corpus) for corpus in corpora], **options))


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


# What a document is


@pytest.mark.parametrize(
    ("split", "text", "documents"),
    [
        ("blank-line", POEM, ["First line,\nsecond line.", "After the break:\na third."]),
        ("line", POEM, ["First line,", "second line.", "After the break:", "a third."]),
        ("file", POEM, ["First line,\nsecond line.\n\nAfter the break:\na third."]),
        ("blank-line", "one\n\n\n\ntwo\n\n", ["one", "two"]),
        ("blank-line", "one\n  \t\ntwo\n \n", ["one", "two"]),  # a line of spaces is blank, and leaves no trace
        ("blank-line", "    verse\n  chorus  \n", ["    verse\n  chorus  "]),
        ("blank-line", "\ufeffone\r\nstill one\r\n\r\ntwo\r\n", ["one\nstill one", "two"]),
        ("line", "one\u2028still\x0bone\x85line\n", ["one\u2028still\x0bone\x85line"]),
    ],
)
def test_a_text_file_is_split_where_it_is_asked_to_be(tmp_path, split, text, documents):
    assert read(write(tmp_path / "poem.txt", text), split=split) == documents


@pytest.mark.parametrize("split", ["blank-line", "line", "file"])
def test_a_file_without_text_gives_no_document(tmp_path, split):
    assert read(write(tmp_path / "a.txt", "\n \n\n"), write(tmp_path / "b.txt", ""), split=split) == []


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")).filter(str.strip), max_size=5))
def test_any_documents_of_one_line_are_read_back(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    bare = [d.lstrip("\ufeff") for d in documents]
    expected = [
        d if i and own[:1] in ("\t", " ") else own for i, (d, own) in enumerate(zip(documents, bare, strict=True))
    ]
    assert read(write(path, "\n\n".join(documents))) == [d for d in expected if d.strip()]


# Where documents come from


def test_jsonl_holds_a_document_a_line(tmp_path):
    records = {"text": "one\n\nstill one", "id": 3}, {"text": "two", "body": "2"}, {"text": " \n"}, {"text": ""}
    path = write(tmp_path / "a.jsonl", jsonl(*records) + "\n")
    assert read(path) == ["one\n\nstill one", "two"]
    assert read(write(tmp_path / "a.ndjson", jsonl(records[1])), text_key="body") == ["2"]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_are_read_as_what_they_hold(tmp_path, suffix):
    compress = COMPRESSORS[suffix]
    poem = write(tmp_path / f"poem.txt{suffix}", compress(POEM.encode()))
    records = write(tmp_path / f"poem.jsonl{suffix}", compress(jsonl({"text": "third"}).encode()))
    assert read(poem, records) == ["First line,\nsecond line.", "After the break:\na third.", "third"]


def test_a_folder_is_read_file_by_file_in_the_order_of_names_with_what_is_hidden_left_out(tmp_path):
    b = write(tmp_path / "b.txt", "second")
    a = write(tmp_path / "a.txt", "first\n\n")
    write(tmp_path / "c" / "d.jsonl.gz", gzip.compress(jsonl({"text": "third"}).encode()))
    for hidden in (".DS_Store", ".git/index"):
        write(tmp_path / hidden, b"\xff\x00")
    assert read(tmp_path) == ["first", "second", "third"]
    assert read(b, a, b) == ["second", "first", "second"]


# Streaming


@pytest.mark.parametrize("suffix", ["", *COMPRESSORS])
def test_the_first_documents_come_before_the_rest_is_read(tmp_path, suffix):
    """The second line is no UTF-8: reading it would raise."""
    content = b"one\n\n" + b"\xff\n"
    path = write(tmp_path / f"a.txt{suffix}", COMPRESSORS.get(suffix, bytes)(content))
    documents = read_documents([str(path), str(tmp_path / "absent.txt")])
    assert next(documents) == "one"
    with pytest.raises(ValueError, match=r"a\.txt.*:3: byte 0xff"):
        next(documents)


# Errors


@pytest.mark.parametrize("suffix", ["", *COMPRESSORS])
def test_bytes_that_are_not_utf8_are_named_with_file_and_line(tmp_path, suffix):
    content = b"one\ntwo\ncaf\x81\n"  # no character of Windows-1252 either
    path = write(tmp_path / f"a.txt{suffix}", COMPRESSORS.get(suffix, bytes)(content))
    with pytest.raises(ValueError, match=rf"{path}:3: byte 0x81 is not UTF-8"):
        read(path)


def test_damaged_utf8_is_never_taken_for_windows_1252(tmp_path):
    good = "text,label\nGrüße,a\nKöln,b\nüber,c\n".encode()
    for at in range(len(good)):  # one byte is lost: no file is read, or it is UTF-8 still
        path, notes = write(tmp_path / f"{at}.csv", good[:at] + good[at + 1 :]), []
        with contextlib.suppress(ValueError):
            list(DataFile(path).open(notes=notes).rows())
        assert WESTERN not in {note.what for note in notes}


@pytest.mark.parametrize(
    "broken", ['{"text": "tw', "[" * 9999, '{"text": "a", "text": "b"}', '{"text": "a", "n": {"x": 1, "x": 2}}', "NaN"]
)
def test_a_line_that_is_not_json_is_named(tmp_path, broken):
    path = write(tmp_path / "a.jsonl", jsonl({"text": "one"}) + f"\n{broken}\n")
    with pytest.raises(ValueError, match=rf"{path}:3: not a JSON object"):
        read(path)


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"body": "one", "id": 1}, "body, id"),
        ({"text": 3}, "text"),
        ({"text": None}, "text"),
        (["text"], "list"),
        ("text", "str"),
    ],
)
def test_a_record_without_its_text_is_named_with_what_it_has(tmp_path, record, found):
    path = write(tmp_path / "a.jsonl", jsonl({"text": "one"}, record))
    with pytest.raises(
        ValueError, match=rf"{path}:2: no text under the key 'text' \(found: {found}\); name it with --text-key"
    ):
        read(path)


def test_a_text_with_half_a_character_is_named(tmp_path):
    """A lone surrogate is JSON, but no text that could be written as UTF-8."""
    path = write(tmp_path / "a.jsonl", jsonl({"text": "one"}, {"text": "half \ud83d"}))
    with pytest.raises(ValueError, match=rf"{path}:2: "):
        read(path)


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def scrambled(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(b ^ 0xFF for b in data[middle : middle + 50]) + data[middle + 50 :]


def foreign(data: bytes) -> bytes:
    return b"no compressed file at all\n"


@pytest.mark.parametrize("damage", [half, scrambled, foreign])
@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_damaged_compressed_file_is_named(tmp_path, suffix, damage):
    lines = "\n".join(f"line {i * i}" for i in range(2000)).encode()
    path = write(tmp_path / f"a.txt{suffix}", damage(COMPRESSORS[suffix](lines)))
    with pytest.raises(ValueError, match=rf"{path}: the compressed file is damaged after line \d+"):
        read(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, f"{name}: no such file or folder") for name in ("absent.txt", "./absent", "a/b/absent", "/absent")),
        ("somebody/corpus", "somebody/corpus: no such file or folder, and no dataset of this name"),
        ("empty", "empty: the folder holds no file"),
    ],
)
def test_a_missing_path_is_named(tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises((FileNotFoundError, ValueError), match=said):
        read(name)


@pytest.mark.parametrize("suffix", ["", *COMPRESSORS])
def test_a_line_ends_as_on_unix_windows_and_old_macs_and_nowhere_else(tmp_path, monkeypatch, suffix):
    content = "one\rtwo\r\nthree\n\r\rsix\x0b\x0c\x1c\x85\u2028seven\r".encode()
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESSORS.get(suffix, bytes)(content))
    for block in (1, 2, 3, 5, 1 << 16):
        monkeypatch.setattr("boustro.text.documents.BLOCK", block)
        lines = [(1, "one"), (2, "two"), (3, "three"), (4, ""), (5, ""), (6, "six\x0b\x0c\x1c\x85\u2028seven")]
        assert list(read_lines(path)) == lines


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_line_of_a_pipe_is_given_before_the_next_one_comes(end):
    reader, writer = os.pipe()
    lines = read_arriving(Path(f"/dev/fd/{reader}"))
    for number, text in enumerate(("one", "two"), start=1):
        os.write(writer, f"{text}{end}".encode())
        assert next(line for line in lines if line is not None) == (number, text)
        assert next(lines) is None  # nothing more is here
    os.write(writer, b"three")
    os.close(writer)
    assert [line for line in lines if line is not None] == [(3, "three")]
    os.close(reader)


def test_a_dataset_of_the_hub_is_streamed_by_its_name(monkeypatch):
    import datasets

    asked = []

    def load(name, configuration, **options):
        asked.append((name, configuration, options))
        rows = [{"body": "One."}, {"body": " "}, {"body": "Two."}]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert list(read_documents(["someone/corpus:en"], text_key="body")) == ["One.", "Two."]
    assert asked == [("someone/corpus", "en", {"split": "train", "streaming": True})]
    with pytest.raises(ValueError, match=r"no text under the key 'text' .found: body."):
        list(read_documents(["someone/corpus"]))
    assert list(read_documents(["someone/corpus-2.0"], text_key="body")) == ["One.", "Two."]


def test_a_stream_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Thread(target=pipe.write_text, args=(POEM,)).start()
    assert len(read(pipe)) == 2


WORDS = [f"word{number}" for number in range(500)]


def document(seed: int, num_words: int = 200) -> list[str]:
    return [*np.random.default_rng(seed).choice(WORDS, num_words)]


def changed(words: list[str], last: int) -> str:
    """Its last words are others: of n - 4 runs of five, `last` differ on either side."""
    return " ".join([*words[: len(words) - last], *document(999, last)])


def left(threshold: float, *documents: str) -> list[str]:
    sieve = NearDuplicates(threshold)
    kept = list(sieve.filter(documents))
    assert len(kept) + sieve.left_out == len(documents)
    return kept


def test_the_first_of_near_duplicates_stays_and_others_keep_their_order():
    one, other = document(1), document(2)
    texts = [" ".join(one), changed(one, 5), " ".join(other), changed(other, 5), changed(one, 8)]
    assert left(0.8, *texts) == [texts[0], texts[2]]


@pytest.mark.parametrize(("last", "alike"), [(10, True), (35, False)])
def test_similarity_is_the_share_of_common_runs_of_words(last, alike):
    """196 runs: with 10 others the similarity is 186 / 206 = 0.90, with 35 it is 161 / 231 = 0.70."""
    words = document(3)
    assert len(left(0.8, " ".join(words), changed(words, last))) == (1 if alike else 2)


def test_case_and_punctuation_do_not_count_and_short_texts_are_alike_when_they_are_the_same():
    words = document(4)
    assert len(left(1.0, " ".join(words), ", ".join(words).title() + "!")) == 1
    assert left(0.5, "A bell.", "a bell", "A bell rang.", "…", "…") == ["A bell.", "A bell rang.", "…"]


def test_a_long_document_is_read_to_its_end():
    words = document(5, RUNS_AT_ONCE + 4000)
    half = " ".join(words[: len(words) // 2])
    assert len(left(0.8, " ".join(words), half, " ".join(words))) == 2


def test_what_no_sieve_can_be_made_of_is_refused(monkeypatch):
    for threshold in (0.0, 1.5):
        with pytest.raises(ValueError, match=f"above 0 and at most 1, not {threshold}"):
            NearDuplicates(threshold)
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(ImportError, match=r"pip install 'boustro\[dedup\]'"):
        NearDuplicates(0.8)
