"""Labelled data in any format: one function from a file, a data set's name or Python lists to sentences.

    read_data("train.txt")                                   CoNLL columns, CoNLL-U or JSON lines, by name and content
    read_data("hf:user/name:train")                          a data set of the Hugging Face Hub, or a saved one
    read_data([("Ada left.", [("Ada", "PER")])])             texts and their entities; also words and tags, dicts,
                                                             Sentences, a data frame

Each format has a reader in its own file, which returns `RawData` and is imported when the format is met;
`reading.label_words` converts the tags to BIO.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from boustro.choose import lazy
from boustro.errors import count_of
from boustro.given import as_list, is_data_frame, is_missing
from boustro.options import command_line
from boustro.tasks import TEXT_KEYS
from boustro.tasks.data.reading import (
    DEFAULT_OPTIONS,
    PREFIX,
    DataOptions,
    Lines,
    Loaded,
    RawData,
    label_words,
    missing_file,
    named_of,
    refuse_delimiter,
    refuse_text_options,
    warn_of,
)
from boustro.tasks.data.schemes import Scheme
from boustro.text.conllu import is_conllu
from boustro.text.documents import is_stream
from boustro.text.files import TABULAR, DataFile, Rows
from boustro.types import Note, Sentence

Data: TypeAlias = Any
"""A path, `hf:NAME`, (text, entities) or (words, tags) pairs, dicts, `Sentence`s, a `datasets.Dataset`, a frame."""
DataReader = Callable[[Path, DataOptions, Lines], RawData]
read_columns: DataReader = lazy("boustro.tasks.data.conll:read_columns")
read_conllu: DataReader = lazy("boustro.tasks.data.conll:read_conllu")
read_records: Callable[..., RawData] = lazy("boustro.tasks.data.records:read_records")


def read_data(
    data: Data,
    scheme: Scheme = "auto",
    *,
    delimiter: str | None = None,
    word_column: int | str | None = None,
    tag_column: int | str | None = None,
    text_column: str | Sequence[str] = (),
    unlabelled: bool = False,
) -> list[Sentence]:
    """Read sentences tagged in BIO, or with plain labels where the scheme is `labels`.

    Raises `FileNotFoundError`, and `ValueError` with file:line for what cannot be read and, unless `unlabelled`, for
    sentences without labels. A warning counts what was changed (repaired tags, widened entities).
    """
    options = DataOptions(scheme=scheme, delimiter=delimiter, word_column=word_column, tag_column=tag_column)
    if column := text_column if isinstance(text_column, str) else next(iter(text_column), None):
        data, options = _under_text(data, column, options)
    labelled = load_data(data, options)
    if not unlabelled:
        refuse_unlabelled(labelled.sentences)
    warn_of(labelled.notes, labelled.name)
    return labelled.sentences


def _under_text(data: Data, column: str, options: DataOptions) -> tuple[Data, DataOptions]:
    """Return the data with this column as that of the text, which of files the reader looks for."""
    if is_data_frame(data):
        from boustro.tasks.data.tables import columns_of, renamed

        if column not in (found := columns_of(data)):
            raise ValueError(f"the given table has no column {column!r}; found: {', '.join(found)}")
        return renamed(data, column, TEXT_KEYS[0]), options
    if isinstance(data, (str, PathLike)) or hasattr(data, "column_names"):
        return data, replace(options, word_column=column)
    items = as_list(data, "a file, a data set's name, or labelled sentences")
    return [{TEXT_KEYS[0] if k == column else k: v for k, v in item.items()} for item in items], options


def load_data(data: Data, options: DataOptions = DEFAULT_OPTIONS) -> Loaded:
    """Read labelled sentences, also those without labels, with the scheme that was detected and all notes."""
    refuse_text_options(options)
    try:
        return label_words(read_raw(data, options), options.scheme)
    except ValueError as error:
        if "the sentence of a word" in str(error) or "expected a word and a tag, and" in str(error):
            raise
        if not isinstance(data, (str, PathLike)):
            raise
        if said := _is_a_table(DataFile.of(data)):
            raise ValueError(said) from None
        if "no labels under" in str(error):
            said = command_line("label", data, out="labelled.jsonl")
            raise ValueError(f"{error}; or label it first: {said}") from None
        if _is_running_text(DataFile.of(data)):
            said = command_line("label", data, labels=("PERSON", "PLACE"), out="labelled.jsonl")
            raise ValueError(f"{data}: this is running text, not words with labels; label it first: {said}") from None
        raise


def with_kept(options: DataOptions, kept: Mapping[str, Any], data: Data) -> DataOptions:
    """Return the options and, where none is given, those that a trained folder keeps and that this data has."""
    return replace(options, **kept_for(data, kept, named_of(vars(options))))


def like(options: DataOptions, data: Data) -> DataOptions:
    """Return the options of a training set for data that belongs to it, which may name its columns as everybody
    does."""
    return replace(DataOptions(), **kept_for(data, named_of(vars(options))))


def with_columns(data: Data, text_column: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of texts where this data has them, none elsewhere: those that are named may be of other
    data."""
    return kept_for(data, {"text_column": tuple(text_column)}).get("text_column", ()) if text_column else ()


def kept_for(data: Data, kept: Mapping[str, Any], given: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the options that a trained folder keeps (`named_of`) and whose columns this data has, but for those
    given; none of data that cannot be read, whose reader says why. Its scheme of tags, where all tags of this data
    are of it."""
    wanted: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in kept.items() if n not in given}
    if isinstance(data, (str, PathLike)) and is_stream(str(data)):
        return wanted  # it can be read only once
    scheme = wanted.pop("scheme", None)
    known: dict[str, Any] = {}
    if wanted:
        with suppress(OSError, ValueError, ImportError, StopIteration):
            delimiter, has = _columns_in(data, wanted.get("delimiter"))
            known = {"delimiter": delimiter} if delimiter else {}
            for name, value in wanted.items():
                columns = value if isinstance(value, tuple) else [value]
                if name != "delimiter" and all(has(str(column)) for column in columns):
                    known[name] = value
    if scheme is not None and not isinstance(data, Iterator):
        with suppress(OSError, ValueError, ImportError):
            label_words(read_raw(data, DataOptions(**{**known, **named_of(given), "scheme": scheme})), scheme)
            known["scheme"] = scheme
    return known


def _columns_in(data: Data, delimiter: str | None) -> tuple[str | None, Callable[[str], bool]]:
    """Return the delimiter, where the data has it, and whether there is a column, or a key, of a name or a number."""
    if isinstance(data, (str, PathLike)) and str(data).startswith(PREFIX):
        from boustro.tasks.data.tables import open_hub

        data = open_hub(str(data))
    if not isinstance(data, (str, PathLike)):
        columns = getattr(data, "column_names", getattr(data, "columns", None))
        if columns is None:
            first = next(iter(data)) if isinstance(data, (list, tuple)) else None
            columns = first if isinstance(first, Mapping) else ()
        return None, {*map(str, columns)}.__contains__
    from boustro.text.columns import LOOKED_AT, ColumnLayout
    from boustro.text.conllu import UD_COLUMNS
    from boustro.text.rows import SEPARATORS

    rows = _open(file := DataFile.of(data))
    if rows.form in ("sheet", "columns"):
        return None, {*rows.keys}.__contains__
    if rows.form == "json":
        _, record = next(iter(rows))
        return None, {*map(str, record if isinstance(record, Mapping) else ())}.__contains__
    if rows.form == "conllu":
        return None, lambda name: name.isdigit() or name.partition(":")[0] in UD_COLUMNS
    lines = list(islice(file.open("text", notes=[]).sound_lines(), LOOKED_AT))
    mark = None if delimiter is None else SEPARATORS.get(delimiter, delimiter)
    delimiter = delimiter if mark and any(mark in line for _, line in lines) else None
    layout = ColumnLayout.of(lines, delimiter)
    names = file.columns(delimiter) if file.is_separated else layout.names if layout else ()
    size = layout.num_columns if layout else 0
    return delimiter, {*map(str, range(-size, size)), *names}.__contains__


def _is_a_table(file: DataFile) -> str:
    """Say that a table has no rows of words with tags, and which columns may be meant; nothing of what may be CoNLL
    columns, which have blank lines."""
    from boustro.tasks.data.named import propose_columns, say_columns

    path = file.path
    if not file.is_separated or not path.is_file():
        return ""
    lines = [line.strip() for _, line, _ in filter(None, file.open("text", notes=[]).lines())]
    table = file.open(notes=[])
    if "" in lines[:-1] or not table.keys:
        return ""
    texts, label = propose_columns(row for _, row in table.rows())
    shown = (
        f"{path}: a table with the columns {', '.join(filter(None, table.keys))}, and no words with tags, one a line"
    )
    named = say_columns(str(path), texts, label or "LABEL").removeprefix("; ")
    return f"{shown}; if each row is a text with its label, it is for a classifier; {named}" if named else shown


def _is_running_text(file: DataFile) -> bool:
    """Return whether the first lines of a file look like text: several words each, not equally many, and no tag at the
    end."""
    if not file.path.is_file() or file.form() != "text":
        return False
    lines = [line.split() for _, line in islice(file.open("text", notes=[]), 50) if line.strip()]
    lengths = [len(words) for words in lines]
    tagged = any(words[-1] == "O" or words[-1][1:2] == "-" for words in lines)
    return not tagged and len(set(lengths)) > 1 and sum(lengths) >= 4 * len(lengths)


def refuse_unlabelled(examples: Sequence[Any]) -> None:
    """`ValueError`, with the place, for the first sentence without labels."""
    for number, example in enumerate(examples, start=1):
        if isinstance(example, Sentence) and not example.is_labelled:
            place = example.where or f"sentence {number} of the given data"
            what = count_of(len(example), "words without labels")
            raise ValueError(f"{place}: {what}, which only the training set of a tagger may have")


def read_raw(data: Data, options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences with their tags unchanged."""
    if isinstance(data, (str, PathLike)):
        of_hub = str(data).startswith(PREFIX)
        return _of_table("read_hub", str(data), options=options) if of_hub else _read_file(DataFile.of(data), options)
    if is_data_frame(data):
        return _of_table("read_frame", data, options=options)
    if hasattr(data, "column_names"):
        return _of_table("read_dataset", data, options=options)
    if isinstance(data, Mapping):
        raise ValueError(f"the given data is a dict of {', '.join(map(str, data))}; give one of them")
    from boustro.tasks.data.records import UNLABELLED, is_marked_text, is_text_pair

    name, items = "the given data", as_list(data, "a file, a data set's name, or labelled sentences")
    if items and all(isinstance(item, Mapping) or is_text_pair(item) or is_marked_text(item) for item in items):
        return read_records(enumerate(items, start=1), name, "records", options, in_memory=True)
    fallback = "labels" if items and all(isinstance(item, Sentence) for item in items) else None  # read before
    sentences = [_sentence(item, n) for n, item in enumerate(items, start=1)]
    notes = [
        Note(UNLABELLED, f"sentence {number} of {name}", "no labels")
        for number, (item, sentence) in enumerate(zip(items, sentences, strict=True), start=1)
        if item is not sentence and not sentence.is_labelled
    ]
    return RawData(name=name, form="lists", sentences=sentences, notes=notes, fallback=fallback)


def _of_table(reader: str, data: Any, **how: Any) -> RawData:
    return lazy(f"boustro.tasks.data.tables:{reader}")(data, **how)


def data_name(examples: Sequence[Any]) -> str:
    """Return the file that examples were read from."""
    return examples[0].where.rpartition(":")[0] or "data given in memory"


def _read_file(file: DataFile, options: DataOptions) -> RawData:
    path = file.path
    if path.is_dir():
        raise ValueError(f"{path} is a folder; for a data set saved there by `datasets` write {PREFIX}{path}")
    if not path.exists():
        expected = f"expected labelled sentences; a data set of the Hugging Face Hub is named {PREFIX}NAME"
        raise missing_file(path, expected)
    notes: list[Note] = []
    tabular = file.form() in TABULAR
    if tabular and (raw := _of_table("read_word_table", file, options=options)) is not None:
        return raw
    rows = _open(file, options.delimiter, notes)
    if rows.is_table:
        return read_records(rows.numbered(), str(path), "table", options)
    if rows.form == "json":
        refuse_delimiter(options, path)
        return read_records(rows.numbered(), str(path), "JSON lines", options)
    lines = [*rows.sound_lines()]  # once, because a stream cannot be read again
    reader = read_columns
    if rows.form == "conllu" or is_conllu(lines):
        refuse_delimiter(options, path)
        reader = read_conllu
    raw = reader(path, options, lines)
    return replace(raw, notes=[*notes, *raw.notes])


def _open(file: DataFile, delimiter: str | None = None, notes: list[Note] | None = None) -> Rows:
    """Labelled sentences, where .csv and .tsv files have words and tags, one a line."""
    return file.open("conll" if file.is_separated else None, delimiter, notes)


def _sentence(item: Any, number: int) -> Sentence:
    if isinstance(item, Sentence):
        return item
    if isinstance(item, (list, tuple)) and len(item) == 2 and not any(isinstance(part, str) for part in item):
        if is_missing(item[1]):
            return Sentence(tuple(as_list(item[0], f"words of sentence {number}")))
        words, tags = (tuple(as_list(part, f"words and tags of sentence {number}")) for part in item)
        return Sentence(words, tags)
    expected = "expected a text and its entities, words and tags as two lists, a dict or a Sentence"
    raise ValueError(f"sentence {number} of the given data: {expected}, got {type(item).__name__}")
