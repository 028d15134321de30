"""What another library's error says, fitted into a sentence of ours."""

import json
from pathlib import Path

import pytest

import boustro
from boustro.errors import count_of, lacks_memory, reason
from boustro.output import as_json


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no such repository.\nMore about it:"), "no such repository"),
        (ValueError("\n  unknown model type:\n"), "unknown model type"),
        (OSError(), "OSError"),
        (RuntimeError("  \n"), "RuntimeError"),
        (KeyError("shape"), "no 'shape'"),
        (ValueError("a\u2028b\x85c.txt: damaged:\r\nmore"), "a\u2028b\x85c.txt: damaged"),
    ],
)
def test_reason_is_one_line_without_the_mark_at_its_end_and_never_empty(error: Exception, said: str) -> None:
    assert reason(error) == said


def test_lines_end_as_they_do_in_files_and_never_where_only_unicode_says_so():
    """`str.splitlines` also ends a line at these; of bytes it does not, and the reader of lines splits bytes."""
    marks = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    assert len(as_json({"text": marks}).splitlines()) == 1 and json.loads(as_json(marks)) == marks
    sources = Path(boustro.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if ".splitlines(" in path.read_text("utf-8")] == ["documents.py"]


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 20 MiB"), True),
        (RuntimeError("The size of tensor a (3) must match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_too_little_memory_is_told_from_other_errors(error: Exception, lacks: bool) -> None:
    assert lacks_memory(error) is lacks


@pytest.mark.parametrize(
    ("things", "one"),
    [
        ("rows", "1 row"),
        ("different texts", "1 different text"),
        ("nested entities left out", "1 nested entity left out"),
        ("batches", "1 batch"),
        ("rows are done", "1 row is done"),
        ("tables with columns that are not read", "1 table with columns that are not read"),
        ("names that begin in another one and end after it", "1 name that begins in another one and ends after it"),
        ("tags that do not fit their neighbours", "1 tag that does not fit its neighbours"),
        ("of 80 texts look German", "1 of 80 texts look German"),
        ("rows that fit no label, which have none", "1 row that fits no label, which has none"),
        ("sheets behind it, which are not read and stay", "1 sheet behind it, which is not read and stays"),
        ("gold spans that cross another one", "1 gold span that crosses another one"),
        ("texts without a label, which say what others are", "1 text without a label, which says what others are"),
        ("lines that name the columns, left out", "1 line that names the columns, left out"),
    ],
)
def test_one_thing_is_not_many(things, one):
    assert count_of(1, things) == one and count_of(1200, things) == f"1,200 {things}"
