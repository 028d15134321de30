"""Data sets of the Hugging Face Hub and data frames, to sentences or to rows.

    hf:NAME, hf:USER/NAME, hf:USER/NAME/CONFIGURATION      on the Hub (or in its local cache)
    hf:./FOLDER                                            written by `save_to_disk`, or a folder of data files
    …:SPLIT                                                the split; required if there are several

A row is a record (see `records`); numbers of a ClassLabel become their names. A data frame has one row per sentence,
with lists in its columns, or one row per word, with a column that names its sentence, and so has a file:

    Sentence #,Word,POS,Tag          the sentence may be named at its first word alone
    Sentence: 1,Ada,NNP,B-PER
    ,left,VBD,O

Neither pandas nor polars is imported.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from boustro.choose import lazy, suggestion
from boustro.given import is_data_frame, is_missing, is_pandas
from boustro.metrics.spans import is_span_tag
from boustro.tasks import TEXT_KEYS
from boustro.tasks.data.reading import DEFAULT_OPTIONS, PREFIX, DataOptions, Note, RawData, note_unread
from boustro.text.columnar import arrow_table, class_columns, name_classes, with_classes
from boustro.text.columns import TAG_NAMES, WORD_NAMES, plain_name
from boustro.text.files import DataFile
from boustro.text.separated import cell_text
from boustro.text.tables import TableRow
from boustro.types import Sentence

read_records: Callable[..., RawData] = lazy("boustro.tasks.data.records:read_records")
TAGS = ("tag", "tags", "ner_tag", "ner_tags", "ner", "label", "labels", "pos", "upos")
SENTENCES = ("sentence_id", "sent_id", "sentence", "sentence_idx", "sent", "satz")
DOCUMENTS = ("document", "document_id", "doc_id", "doc")


def named_rows(data: Any) -> list[tuple[str, Any]] | None:
    """Return (place, row) of a data set, also of one that is named, or a data frame; else `None`. Raises as
    `open_hub`."""
    if isinstance(data, (str, PathLike)) and str(data).startswith(PREFIX):
        data = open_hub(str(data))
    if is_data_frame(data):
        return [(f"row {number} of the given table", row) for number, row in enumerate(_frame_rows(data), start=1)]
    if hasattr(data, "column_names"):
        return [(f"row {number} of the data set", row) for number, row in enumerate(_dataset_rows(data), start=1)]
    return None


def read_hub(name: str, options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences of a data set named `hf:NAME[/CONFIGURATION][:SPLIT]`; raises as `open_hub` and `read_records`."""
    return read_dataset(open_hub(name), name, options)


def open_hub(name: str) -> Any:
    """Return the `datasets.Dataset` named `hf:NAME[/CONFIGURATION][:SPLIT]`.

    Raises `FileNotFoundError` if it is not found, and `ValueError` if a split must be named.
    """
    import datasets

    where, _, split = name.removeprefix(PREFIX).partition(":")
    try:
        if Path(where).is_dir() and any((Path(where) / f).is_file() for f in ("state.json", "dataset_dict.json")):
            loaded = datasets.load_from_disk(where)
        else:
            parts = [where] if Path(where).is_dir() else where.split("/")
            loaded = datasets.load_dataset("/".join(parts[:2]), "/".join(parts[2:]) or None, split=split or None)
    except Exception as error:  # the Hub's client raises a dozen kinds
        raise FileNotFoundError(f"{name}: no data set of this name could be read: {error}") from error
    if isinstance(loaded, dict):
        splits = [str(s) for s in loaded]
        if (split or splits[0]) not in splits or (not split and len(splits) > 1):
            problem = f"no split {split!r}" if split else f"name a split, such as {name}:{splits[0]}"
            raise ValueError(f"{name}: {problem} (there are {', '.join(splits)})")
        loaded = loaded[split or splits[0]]
    return loaded


def read_dataset(dataset: Any, name: str = "the given data set", options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences of a `datasets.Dataset`; each row is a record."""
    if isinstance(dataset, dict):
        raise ValueError(f"{name} has several splits; give one of them ({', '.join(dataset)})")
    return read_records(enumerate(_dataset_rows(dataset), start=1), name, "data set", options)


def _dataset_rows(dataset: Any) -> Iterator[dict[str, Any]]:
    classes = with_classes(dataset.features.to_dict()) if dataset.features else {}
    return (name_classes(row, classes) for row in dataset)


def columns_of(frame: Any) -> list[str]:
    """Return the names of the columns of a data frame."""
    return [str(name) for name in (frame.columns if is_pandas(frame) else arrow_table(frame).column_names)]


def renamed(frame: Any, name: str, new: str) -> Any:
    """Return a data frame with another name of a column."""
    return frame.rename(columns={name: new}) if is_pandas(frame) else arrow_table(frame).rename_columns({name: new})


def _frame_rows(frame: Any) -> list[dict[str, Any]]:
    if is_pandas(frame):
        return [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")]
    table = arrow_table(frame)
    classes = class_columns(table.schema)
    return [name_classes(row, classes) for row in table.to_pylist()]


def read_frame(frame: Any, options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences of a data frame, with one row per sentence or per word.

    Raises `ValueError` if no column names the sentence of a word, and for a missing word.
    """
    name, form = "the given table", "data frame"
    rows = [*enumerate(_frame_rows(frame), start=1)]
    found = find_words(rows, options)
    columns = columns_of(frame)
    word = _named(columns, options.word_column, WORD_NAMES)
    if found is None and rows and word is not None and isinstance(rows[0][1][word], (str, float, type(None))):
        raise ValueError(f"{name} has no column with tags ({', '.join(TAGS)}); found: {', '.join(columns)}")
    if found is None:
        return read_records(rows, name, form, options, in_memory=True)
    return _read_words(rows, found, name, form, options, in_memory=True)


def read_word_table(file: DataFile, options: DataOptions = DEFAULT_OPTIONS) -> RawData | None:
    """Sentences of a file with one row per word, as Kaggle has it; `None` where it has no columns of words and of tags,
    and for columns between tabs with a blank line behind each sentence, which are CoNLL's.

    Raises as `DataFile.open`, and `ValueError` if nothing parts the sentences, and for a missing word.
    """
    notes: list[Note] = []
    rows = rows_of_words(file, options, notes)
    found = None if rows is None else find_words(rows, options)
    if rows is None or found is None:
        return None
    raw = _read_words(rows, found, file.name, "table", options)
    return replace(raw, notes=[*notes, *raw.notes])


def rows_of_words(file: DataFile, options: DataOptions, notes: list[Note]) -> list[Any] | None:
    """Return (number, row) of a table with a column of words; `None` in place of a blank row, and of a table without
    one."""
    try:
        table = file.open(None, options.delimiter, notes)
        if _named([key for key in table.keys if key], options.word_column, WORD_NAMES) is None:
            return None
    except (OSError, ValueError):
        if file.is_separated:  # what is no table may be words in columns
            return None
        raise
    rows = [(int(re.findall(r"\d+", place)[-1]), None if _is_blank(row) else row) for place, row in table]
    of_conll = table.dialect is not None and table.dialect.separator == "\t" and any(row is None for _, row in rows)
    return None if of_conll else rows


class WordColumns(NamedTuple):
    """Columns of a table with one row per word; without `sentence`, blank rows part the sentences."""

    word: str
    tag: str | None
    sentence: str | None
    document: str | None


def find_words(rows: Sequence[Any], options: DataOptions = DEFAULT_OPTIONS, tagged: bool = True) -> WordColumns | None:
    """Return the columns of (number, row) pairs with one word each; `None` where they are no such rows.

    The column of the sentences has one of the usual names, or one value for all words of a sentence, or a value at its
    first word alone. Unless the data are known to be `tagged` a name is not enough: a column `sentence` may hold texts.
    """
    full = [row for _, row in rows if row is not None]
    columns = [key for key in full[0] if key] if full else []
    word, document = _named(columns, options.word_column, WORD_NAMES), _column(columns, DOCUMENTS)
    if word is None or isinstance(full[0][word], (list, dict)) or (not tagged and TEXT_KEYS[0] in columns):
        return None
    tag = _named(columns, options.tag_column, (*TAGS, *sorted(TAG_NAMES)))
    if tagged and tag is None:
        return None

    def spell(column: str) -> bool:
        """Return whether the first words are those of the text in a column."""
        text = "".join(cell_text(full[0][column]).split())
        return bool(text) and "".join(cell_text(row[word]) for row in full[: len(text)]).startswith(text)

    sizes = {c: _num_sentences([row[c] for row in full]) for c in columns if c not in (word, tag, document)}
    known = [
        name
        for name in [_column(list(sizes), SENTENCES)]
        if name is not None and (tagged or sizes[name] or spell(name))
    ]
    parting = sorted((c for c in sizes if sizes[c] > 1), key=lambda c: -sizes[c])
    sentence = next(iter([*known, *parting]), None)
    if not tagged and sentence is None and len(full) == len(rows):
        return None
    return WordColumns(word, tag, sentence, document)


def _num_sentences(cells: Sequence[Any]) -> int:
    """Return how many sentences a column parts words into; 0 where it does not, as its values come again elsewhere."""
    runs = [value for value, _ in groupby(str(cell) for cell in cells if not _is_empty(cell))]
    parts = 0 < len(runs) == len({*runs}) and 3 * len(runs) <= 2 * len(cells) and not _is_empty(cells[0])
    return len(runs) if parts else 0


def _is_blank(row: TableRow) -> bool:
    """Return whether a row is empty, or has empty cells alone, as spreadsheets write it."""
    return row.is_blank or all(map(_is_empty, row.values()))


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _read_words(
    rows: Sequence[Any], found: WordColumns, name: str, form: str, options: DataOptions, in_memory: bool = False
) -> RawData:
    columns = [key for key in next(row for _, row in rows if row is not None) if key]
    if found.sentence is None and all(row is not None for _, row in rows):
        shown = f"{', '.join(SENTENCES)}, or a blank row between sentences"
        raise ValueError(f"{name} has no column with the sentence of a word ({shown}); found: {', '.join(columns)}")
    assert found.tag is not None
    key = "upos" if found.tag.lower() in ("pos", "upos") else "labels"
    records = []
    for group in group_words(rows, found, name, in_memory):
        number, row = group[0]
        words, tags = ([_cell(row[c], n, c, name, in_memory) for n, row in group] for c in (found.word, found.tag))
        document = "" if found.document is None or _is_empty(row[found.document]) else row[found.document]
        records.append((number, {"words": words, key: tags, "document": document}))
    if in_memory:
        records = [*enumerate((record for _, record in records), start=1)]
    raw = read_records(records, name, form, DataOptions(scheme=options.scheme, tag_column=key), in_memory)
    others = {c: {cell_text(row[c]) for _, row in rows if row is not None} for c in columns if c not in found}
    left = [c for c, values in others.items() if values - {"O"} and all(map(is_span_tag, values))]
    note_unread([(f"{name}:{rows[0][0]}", left)], raw.notes)
    return raw


def group_words(
    rows: Sequence[Any], found: WordColumns, name: str, in_memory: bool = False
) -> Iterator[list[tuple[int, Any]]]:
    """Yield (number, row) of the words of each sentence.

    A sentence is known by its document, where there is one, and its own name; a row without either belongs to the one
    before. A name may be the text of the sentence, which another one has too; equal sentences that follow each other
    are told apart where something tells (`_equal_parts`). Raises `ValueError` for a sentence whose rows are not
    together.
    """
    identity = [column for column in (found.document, found.sentence) if column is not None]
    last: dict[str, Any] = dict.fromkeys(identity)
    named: list[tuple[tuple[Any, ...], int, Any, int]] = []
    blanks = 0
    for number, row in rows:
        if row is None:
            blanks += 1
            continue
        last = {column: last[column] if _is_empty(row[column]) else row[column] for column in identity}
        named.append(((*last.values(), *([blanks] if found.sentence is None else [])), number, row, blanks))
    groups = [[one[1:] for one in group] for _, group in groupby(named, key=lambda one: one[0])]
    counters = _counters(groups, found)
    seen = set()
    for (identifier, _), group in zip(groupby(one[0] for one in named), groups, strict=True):
        parts, is_text = _equal_parts(group, found, counters)
        if identifier in seen and not is_text:
            shown = " of ".join(repr(part) for part in reversed(identifier))
            raise ValueError(
                f"{_place(group[0][0], name, in_memory)}: the sentence {shown} ended before; sort the rows"
            )
        seen.add(identifier)
        yield from ([(number, row) for number, row, _ in part] for part in parts)


def _equal_parts(group: list[Any], found: WordColumns, counters: Sequence[str]) -> tuple[list[list[Any]], bool]:
    """Return the equal sentences that rows of one name are, and whether the name is the text that the words of each
    spell.

    What tells them apart is this text, a blank row between them, or a column that counts the words of each.
    """
    words, size = ["".join(cell_text(row[found.word]).split()) for _, row, _ in group], len(group)
    text = "" if found.sentence is None else "".join(cell_text(group[0][1][found.sentence]).split())
    if text == "".join(words):
        return [group], True
    for part in (n for n in range(1, size // 2 + 1) if size % n == 0 and words == words[:n] * (size // n)):
        is_text = text == "".join(words[:part])
        parted = all(group[n - 1][2] < group[n][2] for n in range(part, size, part))
        numbers = ([_whole(row[column]) for _, row, _ in group] for column in counters)
        counted = any(own[:part] * (size // part) == own and own[0] not in own[1:part] for own in numbers)
        if is_text or parted or counted:
            return [group[n : n + part] for n in range(0, size, part)], is_text
    return [group], False


def _counters(groups: Sequence[list[Any]], found: WordColumns) -> list[str]:
    """Return the columns that count the words of each sentence, three at least in one of them."""

    def counts(column: str) -> bool:
        most = 0
        for group in groups:
            numbers = [_whole(row[column]) for _, row, _ in group]
            first = numbers[0]
            if first not in (0, 1) or any(b not in (first, a + 1) for a, b in pairwise(numbers)):
                return False
            most = max(most, max(numbers) - first)
        return most > 1

    return [column for column in (groups[0][0][1] if groups else ()) if column not in found and counts(column)]


def _whole(cell: Any) -> int:
    """Return the whole number in a cell; -1 for anything else."""
    text = str(cell).removesuffix(".0")
    return int(text) if text.isdecimal() else -1


def sentences_of(rows: Sequence[Any], found: WordColumns, name: str) -> Iterator[Sentence]:
    """Yield the words of a file alone, whatever their tags; raises as `group_words`, and for a missing word."""
    for group in group_words(rows, found, name):
        words = [_cell(row[found.word], number, found.word, name, in_memory=False) for number, row in group]
        named = None if found.document is None else group[0][1][found.document]
        document = "" if _is_empty(named) else f"{name} {named}"
        yield Sentence(tuple(word.strip() for word in words), document=document, where=f"{name}:{group[0][0]}")


def _place(number: int, name: str, in_memory: bool) -> str:
    return f"row {number} of {name}" if in_memory else f"{name}:{number}"


def _cell(value: Any, number: int, column: str, name: str, in_memory: bool) -> str:
    """Return the text of a cell; `ValueError`, with its place, for one without any, and for a number in a data
    frame."""
    place = _place(number, name, in_memory)
    if in_memory and not isinstance(value, str):
        raise ValueError(
            f"{place}: {column} is {value!r}, which is not a string; pandas.read_csv keeps a word such as None or NA "
            "with keep_default_na=False"
        )
    if _is_empty(value):
        raise ValueError(f"{place}: expected a word and a tag, and the cell under {column!r} is empty")
    return cell_text(value)


def _named(columns: Sequence[str], given: int | str | None, names: Sequence[str]) -> str | None:
    """Return the column that is given, or the first with one of the usual names; `None` for a number, which no column
    has as its name. Raises `ValueError` for a given name that no column has."""
    if given is None:
        return _column(columns, names)
    if str(given) in columns or str(given).lstrip("-").isdigit():
        return str(given) if str(given) in columns else None
    raise ValueError(f"no column {given!r}{suggestion(str(given), columns)} (found: {', '.join(columns) or 'nothing'})")


def _column(columns: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first of these names that is a column, whatever its case and the marks between its words."""
    plain = {plain_name(column): column for column in reversed([*columns])}
    return next((plain[name] for name in map(plain_name, names) if name in plain), None)


def _plain(value: Any) -> Any:
    """Arrays as lists, and missing values as None."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return None if is_missing(value) else value
