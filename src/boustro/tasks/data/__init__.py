"""Labelled data in any format: one function from a file, a data set's name or Python lists to sentences.

    read_data("train.txt")                                   CoNLL columns, CoNLL-U or JSON lines, by name and content
    read_data("hf:user/name:train")                          a data set of the Hugging Face Hub, or a saved one
    read_data([(["Ada", "left"], ["B-PER", "O"])])           words and tags; also dicts, Sentences, a data frame

Each format has a reader in its own file, which returns `RawData` and is imported when the format is met;
`reading.label` converts the tags to BIO.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from boustro.choose import later
from boustro.given import as_list
from boustro.metrics.spans import is_span_tag
from boustro.options import command_line
from boustro.tasks.data.reading import (
    DEFAULT_OPTIONS,
    PREFIX,
    DataOptions,
    Labelled,
    Lines,
    Loaded,
    RawData,
    label,
    missing_file,
    named_of,
    refuse_delimiter,
    refuse_text_options,
    warn_of,
)
from boustro.tasks.data.records import is_text_pair, read_records
from boustro.tasks.data.schemes import ALL_LETTERS, BARE, Scheme, respell
from boustro.text.columns import LOOKED_AT, ColumnLayout, is_conllu, split_cells
from boustro.text.documents import is_stream
from boustro.types import Sentence


def read_jsonl(path: Path, options: DataOptions, lines: Lines) -> RawData:
    """Sentences of a file of records, see `records_of` and `records`."""
    from boustro.text.rows import records_of

    return read_records(records_of(path, lines), str(path), "JSON lines", options)


Data: TypeAlias = Any
"""A path, `hf:NAME`, (words, tags) pairs, dicts, `Sentence`s, a `datasets.Dataset` or a pandas data frame."""
Reader = Callable[[Path, DataOptions, Lines], RawData]
read_columns: Reader = later("boustro.tasks.data.conll:read_columns")
read_conllu: Reader = later("boustro.tasks.data.conllu:read_conllu")
READERS: dict[str, Reader] = dict.fromkeys((".jsonl", ".ndjson", ".json"), read_jsonl)
READERS |= dict.fromkeys((".conllu", ".conllup"), read_conllu)
"""By suffix; `sniff` chooses for any other file."""


def read_data(
    data: Data,
    scheme: Scheme = "auto",
    *,
    delimiter: str | None = None,
    word_column: int | str | None = None,
    tag_column: int | str | None = None,
    unlabelled: bool = False,
) -> list[Sentence]:
    """Read sentences tagged in BIO, or with plain labels where the scheme is `labels`.

    Raises `FileNotFoundError`, and `ValueError` with file:line for what cannot be read and, unless `unlabelled`, for
    sentences without labels. A warning counts what was changed (repaired tags, widened entities).
    """
    options = DataOptions(scheme=scheme, delimiter=delimiter, word_column=word_column, tag_column=tag_column)
    labelled = load_data(data, options)
    if not unlabelled:
        refuse_unlabelled(labelled.sentences)
    warn_of(labelled.notes, labelled.name)
    return labelled.sentences


def load_data(data: Data, options: DataOptions = DEFAULT_OPTIONS) -> Labelled:
    """Read labelled sentences, also those without labels, with the scheme that was detected and all notes."""
    refuse_text_options(options)
    try:
        return label(read_raw(data, options), options.scheme)
    except ValueError as error:
        from boustro.text.files import maybe_texts

        if "the sentence of a word" in str(error) or "expected a word and a tag, and" in str(error):
            raise
        if isinstance(data, (str, Path)) and (columns := maybe_texts(Path(data))):
            raise ValueError(_is_a_table(Path(data), columns)) from None
        if isinstance(data, (str, Path)) and "no labels under" in str(error):
            said = command_line("label", data, out="labelled.jsonl")
            raise ValueError(f"{error}; or label it first: {said}") from None
        if isinstance(data, (str, Path)) and _is_running_text(Path(data)):
            said = command_line("label", data, labels=("PERSON", "PLACE"), out="labelled.jsonl")
            raise ValueError(f"{data}: this is running text, not words with labels; label it first: {said}") from None
        raise


def with_kept(options: DataOptions, kept: Mapping[str, Any], data: Data) -> DataOptions:
    """The options and, where none is given, those that a trained folder keeps and that this data has."""
    return replace(options, **kept_for(data, kept, named_of(vars(options))))


def like(options: DataOptions, data: Data) -> DataOptions:
    """The options of a training set for data that belongs to it, which may name its columns as everybody does."""
    return replace(DataOptions(), **kept_for(data, named_of(vars(options))))


def kept_for(data: Data, kept: Mapping[str, Any], given: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The options that a trained folder keeps (`named_of`) and whose columns this data has, but for those given; none
    of data that cannot be read, whose reader says why. Its scheme of tags, where all tags of this data are of it."""
    wanted: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in kept.items() if n not in given}
    if isinstance(data, (str, Path)) and is_stream(str(data)):
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
            label(read_raw(data, DataOptions(**{**known, **named_of(given), "scheme": scheme})), scheme)
            known["scheme"] = scheme
    return known


def _columns_in(data: Data, delimiter: str | None) -> tuple[str | None, Callable[[str], bool]]:
    """The delimiter, where the data has it, and whether there is a column, or a key, of a name or a number."""
    if isinstance(data, (str, Path)) and str(data).startswith(PREFIX):
        from boustro.tasks.data.tables import open_hub

        data = open_hub(str(data))
    if not isinstance(data, (str, Path)):
        columns = getattr(data, "column_names", getattr(data, "columns", None))
        if columns is None:
            first = next(iter(data)) if isinstance(data, (list, tuple)) else None
            columns = first if isinstance(first, Mapping) else ()
        return None, {*map(str, columns)}.__contains__
    from boustro.text.columns import LOOKED_AT, UD_COLUMNS, ColumnLayout
    from boustro.text.documents import read_lines
    from boustro.text.files import columns_of, is_separated, is_table
    from boustro.text.rows import SEPARATORS, file_ending, records_of

    path = Path(data)
    if is_table(path) and not is_separated(path):
        return None, {*columns_of(path)}.__contains__
    lines = list(islice(read_lines(path, []), LOOKED_AT))
    reader = READERS.get(file_ending(path)) or sniff(lines)
    if reader is read_jsonl:
        _, record = next(iter(records_of(path, read_lines(path))))
        return None, {*map(str, record if isinstance(record, Mapping) else ())}.__contains__
    if reader is read_conllu:
        return None, lambda name: name.isdigit() or name.partition(":")[0] in UD_COLUMNS
    mark = None if delimiter is None else SEPARATORS.get(delimiter, delimiter)
    delimiter = delimiter if mark and any(mark in line for _, line in lines) else None
    layout = ColumnLayout.of(lines, delimiter)
    names = columns_of(path, delimiter) if is_separated(path) else layout.names if layout else ()
    size = layout.num_columns if layout else 0
    return delimiter, {*map(str, range(-size, size)), *names}.__contains__


def _is_a_table(path: Path, columns: Sequence[str]) -> str:
    """Say that a table has no rows of words with tags, and which columns may be meant."""
    from boustro.tasks.data.named import propose_columns, say_columns
    from boustro.text.files import read_table

    texts, label = propose_columns(row for _, row in read_table(path, notes=[]))
    shown = f"{path}: a table with the columns {', '.join(columns)}, and no words with tags, one a line"
    named = say_columns(str(path), texts, label or "LABEL").removeprefix("; ")
    return f"{shown}; if each row is a text with its label, {named}" if named else shown


def _is_running_text(path: Path) -> bool:
    """Whether the first lines of a file look like text: several words each, not equally many, and no tag at the end."""
    if not path.is_file() or path.suffix in READERS:
        return False
    from boustro.text.documents import read_lines
    from boustro.text.files import is_table

    if is_table(path):
        return False
    lines = [line.split() for _, line in islice(read_lines(path, []), 50) if line.strip()]
    lengths = [len(words) for words in lines]
    tagged = any(words[-1] == "O" or words[-1][1:2] == "-" for words in lines)
    return not tagged and len(set(lengths)) > 1 and sum(lengths) >= 4 * len(lengths)


def load_sentences(data: Data, options: DataOptions = DEFAULT_OPTIONS) -> Loaded:
    """Read labelled sentences, as `load_data`, in the form of all tasks."""
    loaded = load_data(data, options)
    return Loaded(loaded.sentences, {}, loaded.notes, loaded.name, loaded.form, loaded.scheme)


def refuse_unlabelled(examples: Sequence[Any]) -> None:
    """`ValueError`, with the place, for the first sentence without labels."""
    for number, example in enumerate(examples, start=1):
        if isinstance(example, Sentence) and not example.is_labelled:
            place = example.where or f"sentence {number} of the given data"
            what = f"{len(example)} words without labels"
            raise ValueError(f"{place}: {what}, which only the training set of a tagger may have")


def read_raw(data: Data, options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences with their tags unchanged."""
    if isinstance(data, (str, Path)):
        of_hub = str(data).startswith(PREFIX)
        return _of_table("read_hub", str(data), options=options) if of_hub else _read_file(Path(data), options)
    if hasattr(data, "column_names"):
        return _of_table("read_dataset", data, options=options)
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        return _of_table("read_frame", data, options=options)
    if isinstance(data, Mapping):
        raise ValueError(f"the given data is a dict of {', '.join(map(str, data))}; give one of them")
    name, items = "the given data", as_list(data, "a file, a data set's name, or labelled sentences")
    if items and all(isinstance(item, Mapping) or is_text_pair(item) for item in items):
        return read_records(enumerate(items, start=1), name, "records", options, in_memory=True)
    fallback = "labels" if items and all(isinstance(item, Sentence) for item in items) else None  # read before
    sentences = [_sentence(item, n) for n, item in enumerate(items, start=1)]
    return RawData(name=name, form="lists", sentences=sentences, fallback=fallback)


def _of_table(reader: str, data: Any, **how: Any) -> RawData:
    return later(f"boustro.tasks.data.tables:{reader}")(data, **how)


def data_name(examples: Sequence[Any]) -> str:
    """The file that examples were read from."""
    return examples[0].where.rpartition(":")[0] or "data given in memory"


def sniff(lines: Lines) -> Reader:
    """The reader of a file without a known suffix, by its first lines with content."""
    from boustro.text.rows import begins_rows

    for _, line in lines:
        if begins_rows(line.strip()):
            return read_jsonl
        if line.strip() and not line.startswith("#"):
            break
    return read_conllu if is_conllu(lines) else read_columns


def columns_form(lines: Lines, scheme: Scheme = "auto") -> Literal["conll", "conllu"] | None:
    """Columns of words and their tags, as the first lines of a file of any name say; `None` for anything else.

    "Ada B-PER", "left O" → "conll": as many cells in each line, of which the last is a tag, or which a head names. Tags
    of a `scheme` without letters are known by tabs alone, or by an O among them.
    """
    if sniff(lines) is read_conllu:
        return "conllu"
    lines = lines[:LOOKED_AT]
    layout = ColumnLayout.of(lines)
    if layout is None or layout.num_columns < 2:
        return None
    head = layout.head[1] if layout.head else None
    full = [line for _, line in lines if line.strip() and not line.startswith(("-DOCSTART-", "#")) and line != head]
    rows = [split_cells(line, layout.delimiter) for line in full]
    if {*map(len, rows)} != {layout.num_columns}:
        return None
    tags = {row[layout.tag].strip() for row in rows}
    tabs = all("\t" in line and " " not in line for line in full)
    bare = (tabs and "O" in tags) or (scheme in BARE and (tabs or "O" in tags))  # types without letters
    are_tags = bare or all(is_span_tag(tag, ALL_LETTERS) for tag in tags) or ("O" in tags and respell(tags))
    known = tags != {"O"} or len(rows) > 1  # not the text "blood type O"
    return "conll" if layout.names or (are_tags and known) else None


def _read_file(path: Path, options: DataOptions) -> RawData:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; for a data set saved there by `datasets` write {PREFIX}{path}")
    if not path.exists():
        expected = f"expected labelled sentences; a data set of the Hugging Face Hub is named {PREFIX}NAME"
        raise missing_file(path, expected)
    from boustro.text.documents import OPENERS, read_lines
    from boustro.text.files import is_separated, is_table, read_table

    if is_table(path) and (raw := _of_table("read_word_table", path, options=options)) is not None:
        return raw
    if is_table(path) and not is_separated(path):
        rows = ((int(where.rpartition(" ")[2]), row) for where, row in read_table(path))
        return read_records(rows, str(path), "table", options)
    suffixes = [suffix for suffix in path.suffixes if suffix not in OPENERS]
    named, notes = READERS.get(suffixes[-1].lower() if suffixes else ""), []
    lines = list(read_lines(path, None if named else notes))  # once, because a stream cannot be read again
    reader = named or sniff(lines)
    if reader is not read_columns:
        refuse_delimiter(options, path)
        lines = list(read_lines(path)) if notes else lines  # which says that they are not UTF-8
    raw = reader(path, options, lines)
    return replace(raw, notes=[*notes, *raw.notes])


def _sentence(item: Any, number: int) -> Sentence:
    if isinstance(item, Sentence):
        return item
    if isinstance(item, (list, tuple)) and len(item) == 2 and not any(isinstance(part, str) for part in item):
        words, tags = (tuple(as_list(part, f"words and tags of sentence {number}")) for part in item)
        return Sentence(words, tags)
    expected = "expected words and tags as two lists, a dict or a Sentence"
    raise ValueError(f"sentence {number} of the given data: {expected}, got {type(item).__name__}")
