"""JSON lines: one labelled record per line (`records` describes a record).

    {"text": "Ada left.", "entities": [{"start": 0, "end": 3, "label": "PER"}]}

Also reads the output of `boustro predict --format jsonl`, the prediction files of a comparison, and a .json file with
one list of records.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from boustro.tasks.data.reading import DataOptions, Lines, RawData
from boustro.tasks.data.records import read_records
from boustro.text.documents import OPENERS
from boustro.text.rows import parse_record

SPACE, END = re.compile(r"\s*"), re.compile(r"\]\s*\Z")


def read_jsonl(path: Path, options: DataOptions, lines: Lines) -> RawData:
    """Sentences of a file of records, see `records_of`."""
    return read_records(records_of(path, lines), str(path), "JSON lines", options)


def records_of(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    """(line number, record) of a file with one record per line, or of a .json file with one list of records."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix not in OPENERS]
    if suffixes[-1:] == [".json"]:  # elsewhere a line may be a list: spaCy's pairs
        lines = list(lines)
        text = "\n".join(line for _, line in lines)
        if text.lstrip().startswith("["):
            return _items(text, path)
    return ((number, parse_record(line, f"{path}:{number}")) for number, line in lines if line.strip())


def _past_space(text: str, position: int) -> int:
    found = SPACE.match(text, position)
    return found.end() if found else position


def _items(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """(line, record) of every item of a JSON list."""
    decoder, position, counted, line = json.JSONDecoder(), text.index("[") + 1, 0, 1
    while True:
        position = _past_space(text, position)
        line, counted = line + text.count("\n", counted, position), position
        if END.match(text, position):
            return
        try:
            record, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            number = error.lineno if isinstance(error, json.JSONDecodeError) else line
            raise ValueError(f"{path}:{number}: not a JSON list of records ({error})") from None
        yield line, record
        position = _past_space(text, position)
        if text[position : position + 1] == ",":
            position += 1
        elif text[position : position + 1] != "]":
            number = text.count("\n", 0, position) + 1
            raise ValueError(f"{path}:{number}: not a JSON list of records (expected a comma or ])")
