"""Rows of a corpus that is not plain text, in the formats of the field: a text, and perhaps more, in each.

    c4.jsonl.zst, c4.json.gz    JSON lines: {"text": "Ada left."} in every line
    texts.json                  an array of such objects, or one, over any number of lines; under any name
                                what pandas writes: {"text": {"0": "Ada left."}}
    wiki/                       a folder that `save_to_disk` of datasets wrote

An array is read as a whole. Tables are in `files`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, count
from operator import getitem
from pathlib import Path
from typing import Any

from boustro.errors import reason, shorten
from boustro.given import refuse_half_characters
from boustro.output import SpelledNumber

Row = tuple[str, Any]
"""Where it is, such as file:line, and what it holds."""
Lines = Sequence[tuple[int, str]]
"""The input of a file's reader: line numbers, from 1, and lines."""
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""The names that --delimiter has for them."""
JSON_LINES, JSON = (".jsonl", ".ndjson"), ".json"
CONLLU_FILES = (".conllu", ".conllup")
COLUMN_FILES = (".conll", ".bio", ".iob", ".iob2", *CONLLU_FILES)
"""Files of words in columns, one a line."""
TABLES = (".parquet", ".arrow", ".feather")
WORKBOOKS = (".xlsx", ".xlsm", ".xltx", ".xltm")
"""Without macros, or templates; the first is written."""
COLUMNS = ("a parquet file", "an Arrow file", "a Feather file")  # of `places`
PACKED = (".gz", ".bz2", ".xz", ".zst")
OPENS = re.compile(r'[\[{]\s*[{"]')
"""How JSON begins that is more than one line: not `[1] Ada left.`"""
SPACE, END = re.compile(r"[ \t\r\n]*"), (re.compile(r"\Z"), re.compile(r"\]\s*\Z"))
DECLARED = re.compile(r'"?sep=(.?)"?', re.IGNORECASE)
"""Excel's first line of a table, which says what separates the cells."""


class JsonFault(ValueError):
    """A text that Python reads as JSON, and would lose or make up a value for."""


def object_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; `JsonFault` for a key that comes twice, whose first value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise JsonFault(f"the key {shorten(twice)} comes twice in one object; remove one of them")
    return found


def refuse_constant(name: str) -> Any:
    """`JsonFault` for NaN, Infinity and -Infinity, which Python writes and JSON does not have."""
    raise JsonFault(f"{name} is no JSON; write null for a missing value")


def number(digits: str) -> int | float:
    """Return a number of JSON, one that Python would write otherwise with its spelling."""
    is_whole = digits.lstrip("-").isdigit() and len(digits) <= MOST_DIGITS
    made = int(digits) if is_whole else float(digits)
    return made if str(made) == digits else SpelledNumber(digits)


MOST_DIGITS = 4300  # Python reads no longer whole number, as that takes the square of the time
STRICT: dict[str, Any] = {
    "object_pairs_hook": object_once,
    "parse_constant": refuse_constant,
    "parse_float": number,
    "parse_int": number,
}
"""How JSON of strangers is read."""


def parse_record(line: str, where: str) -> Any:
    """Return the value of a line of JSON; `ValueError`, with its place, where it is none, or has half a character."""
    value = parse_json(line, where)
    _refuse_escaped(value, line, where)
    return value


def parse_json(line: str, where: str) -> Any:
    """Return the value of a line of JSON; `ValueError`, with its place, where it is none."""
    try:
        return json.loads(line, **STRICT)
    except (ValueError, RecursionError) as error:
        is_json = isinstance(error, JsonFault) or line.lstrip()[:1] in tuple("{[")
        why = error if is_json else f"it begins with {shorten(line.strip())}"
        raise ValueError(f"{where}: not a JSON object ({why})") from None


def _refuse_escaped(value: Any, text: str, where: str) -> None:
    """`JsonFault` for half a character in a value, where its text may have one, as `\\ud83d`."""
    if "\\u" in text:
        try:
            refuse_half_characters(value, where)
        except ValueError as error:
            raise JsonFault(str(error)) from None


def whole_rows(path: Path, lines: Iterable[tuple[int, str]], first: str) -> Iterator[Row]:
    """Rows of JSON that is read as a whole: an array, or values over any number of lines; `first` is its first line.

    Raises `ValueError` with file:line for what is no JSON, and `JsonFault` for half a character.
    """
    text = "\n".join(line for _, line in lines)
    for place, value, *_ in spelled_items(text, path, int(first[:1] == "[")):
        _refuse_escaped(value, text, place)
        yield place, value


def is_whole(path: Path, first: str) -> bool:
    """Return whether JSON goes on after its first line, or is an array of rows there: it is read as a whole, not by
    lines.

    An array on one line is one of rows where it holds objects alone, or where the name ends in .json; elsewhere it is a
    row, such as a list of words.
    """
    value, named = _value(first), file_ending(path) == JSON
    if first[:1] == "[":
        objects = isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
        return named or objects or first == "[" or (value is None and bool(OPENS.match(first)))
    return value is None and (named or first == "{" or bool(OPENS.match(first)))


def begins_rows(first: str) -> bool:
    """Return whether the first line of a file of labelled data begins JSON: an object, an array of objects, or either
    over several lines."""
    return isinstance(_value(first), dict) or is_whole(Path(), first)


def file_ending(path: Path) -> str:
    """Return the ending of a file's name in lower case, without those of compression: `"a.JSON.gz"` → `".json"`"""
    return ([s.lower() for s in path.suffixes if s.lower() not in PACKED] or [""])[-1]


def spelled_items(text: str, path: Path, first: int) -> Iterator[tuple[str, Any, int, int]]:
    """Yield (place, value, start, end) of values of JSON: of an array, with `first` 1, or those that follow each other,
    with 0."""
    decoder, position, counted, line = json.JSONDecoder(**STRICT), text.find("[") + 1 if first else 0, 0, 1
    for number in count(1):
        position = _past_space(text, position)
        line, counted = line + text.count("\n", counted, position), position
        if END[first].match(text, position):
            return
        start = position
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            fault_line = error.lineno if isinstance(error, json.JSONDecodeError) else line
            kind = JsonFault if isinstance(error, JsonFault) else ValueError
            raise kind(f"{path}:{fault_line}: not a JSON list of records ({error})") from None
        place = f"{path}:{line}, item {number}" if first else f"{path}:{line}"
        yield place, value, start, position
        position = _past_space(text, position)
        if first and text[position : position + 1] == ",":
            position = _past_space(text, position + 1)
            if text[position : position + 1] == "]":
                fault_line = text.count("\n", 0, position) + 1
                raise ValueError(f"{path}:{fault_line}: not a JSON list of records (a comma before ])")
        elif first and text[position : position + 1] != "]":
            fault_line = text.count("\n", 0, position) + 1
            raise ValueError(f"{path}:{fault_line}: not a JSON list of records (expected a comma or ])")


def _past_space(text: str, position: int) -> int:
    space = SPACE.match(text, position)
    return space.end() if space else position


def hold_records(line: str, keys: Iterable[str]) -> bool:
    """Return whether the first line of a text file is an object with one of these keys, so that the file holds JSON
    lines."""
    return line.startswith("{") and has_key(_value(line), keys)


def frame_records(value: Any) -> list[dict[str, Any]]:
    """Return the records of a data frame as pandas writes it to JSON, in any of its forms with names; none of other
    JSON.

    {"text": {"0": "a", "1": "b"}}, {"0": {"text": "a"}, "1": {"text": "b"}}, {"columns": ["text"], "data": [["a"],
    ["b"]]} and {"schema": …, "data": [{"index": 0, "text": "a"}, …]} → [{"text": "a"}, {"text": "b"}]
    """
    return [{name: reduce(getitem, keys, value) for name, keys in row.items()} for row in frame_cells(value)]


def frame_cells(value: Any) -> list[dict[str, tuple[Any, ...]]]:
    """Return where the cells of each record of a data frame stand (`frame_records`), by the names of their columns.

    {"text": {"0": "a", "1": "b"}} → [{"text": ("text", "0")}, {"text": ("text", "1")}]
    """
    if not isinstance(value, dict):
        return []
    data, names, schema = (value.get(key) for key in ("data", "columns", "schema"))
    if isinstance(data, list):
        if value.keys() == {"schema", "data"} and isinstance(schema, dict) and "fields" in schema:
            counted = {"index"} & {*schema.get("primaryKey", ())}
            are_records = all(isinstance(row, dict) for row in data)
            rows = enumerate(data) if are_records else ()
            return [{name: ("data", n, name) for name in row if name not in counted} for n, row in rows]
        if {"columns", "data"} <= value.keys() <= {"columns", "index", "data"} and isinstance(names, list):
            fits = all(isinstance(row, list) and len(row) == len(names) for row in data)
            return [{str(name): ("data", n, i) for i, name in enumerate(names)} for n in range(len(data) * fits)]
    parts = [*value.values()]
    if not parts or not all(isinstance(part, dict) and part.keys() == parts[0].keys() for part in parts):
        return []
    if all(map(str.isdecimal, value)) and not all(map(str.isdecimal, parts[0])):
        return [{name: (number, name) for name in part} for number, part in value.items()]
    if all(map(str.isdecimal, parts[0])) and not all(map(str.isdecimal, value)):
        return [{name: (name, number) for name in value} for number in parts[0]]
    return []


def has_key(value: Any, keys: Iterable[str]) -> bool:
    """Return whether this is an object, or a data frame, with a text or a list of words under one of these keys."""
    records = [*frame_records(value)[:1], value] if isinstance(value, dict) else []
    return any(isinstance(record.get(key), (str, list)) for record in records for key in keys)


def first_line(lines: Iterator[tuple[int, str]]) -> tuple[str, Iterator[tuple[int, str]]]:
    """Return the first line that is not blank, or "", and the same lines from their beginning."""
    read = []
    for number, line in lines:
        read.append((number, line))
        if line.strip():
            return line.strip(), chain(read, lines)
    return "", iter(read)


def declared_separator(line: str) -> str | None:
    """Return the separator of a table's cells that Excel's first line `sep=;` declares, if this is one."""
    declared = DECLARED.fullmatch(line.strip())
    return None if declared is None else declared[1] or "\t"  # a tab at the end is stripped


def saved_rows(folder: Path) -> Iterator[Row] | None:
    """Of a folder that datasets saved; None for any other. `ValueError` for one of several splits."""
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(f"{p.parent}" for p in folder.glob("*/state.json"))
        raise ValueError(f"{folder} holds several datasets, one for each split; name those to read: {' '.join(splits)}")
    if not (folder / "state.json").is_file() or not (folder / "dataset_info.json").is_file():
        return None
    import datasets

    try:
        rows: Any = datasets.load_from_disk(str(folder))
    except Exception as error:  # a damaged file makes the library raise anything
        raise ValueError(f"{folder}: the dataset is damaged: {reason(error)}") from error
    return ((f"{folder}: row {number}", row) for number, row in enumerate(rows, 1))


def _value(line: str) -> Any:
    """Of a line of JSON; None where it is none."""
    try:
        return json.loads(line, parse_int=number)
    except (ValueError, RecursionError):
        return None
