"""Data sets of the Hugging Face Hub, data frames, CSV and TSV files, to sentences or to rows.

    hf:NAME, hf:USER/NAME, hf:USER/NAME/CONFIGURATION      on the Hub (or in its local cache)
    hf:./FOLDER                                            written by `save_to_disk`, or a folder of data files
    …:SPLIT                                                the split; required if there are several

A row is a record (see `records`); numbers of a ClassLabel become their names. A data frame has one row per sentence,
with lists in its columns, or one row per word, with a column that names its sentence. pandas is not imported.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from boustro.tasks.data.reading import DEFAULT_OPTIONS, PREFIX, DataOptions, Note, RawData, missing_file
from boustro.tasks.data.records import read_records
from boustro.text.files import is_table, read_table

WORDS = ("word", "words", "token", "tokens", "form")
TAGS = ("tag", "tags", "ner_tag", "ner_tags", "ner", "label", "labels", "pos", "upos")
SENTENCES = ("sentence_id", "sent_id", "sentence #", "sentence", "sentence_idx")
DOCUMENTS = ("document", "document_id", "doc_id", "doc")


def named_rows(
    data: Any, options: DataOptions = DEFAULT_OPTIONS, notes: list[Note] | None = None
) -> list[tuple[str, Any]] | None:
    """(place, row) of a data set, a data frame, or a CSV or TSV file whose first line names its columns; else `None`.

    Raises `FileNotFoundError`, and as `read_table`.
    """
    if isinstance(data, (str, Path)):
        if str(data).startswith(PREFIX):
            data = open_hub(str(data))
        else:
            path = Path(data)
            if not is_table(path):
                return None
            if not path.is_file():
                raise missing_file(path, "labelled examples are expected")
            return list(read_table(path, options.delimiter, [] if notes is None else notes))
    if hasattr(data, "column_names"):
        return [(f"row {number} of the data set", row) for number, row in enumerate(_dataset_rows(data), start=1)]
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        return [(f"row {number} of the given table", row) for number, row in enumerate(_frame_rows(data), start=1)]
    return None


def read_hub(name: str, options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences of a data set named `hf:NAME[/CONFIGURATION][:SPLIT]`; raises as `open_hub` and `read_records`."""
    return read_dataset(open_hub(name), name, options)


def open_hub(name: str) -> Any:
    """The `datasets.Dataset` named `hf:NAME[/CONFIGURATION][:SPLIT]`.

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
    features = dataset.features or {}
    return ({column: _decode(value, features.get(column)) for column, value in row.items()} for row in dataset)


def _frame_rows(frame: Any) -> list[dict[str, Any]]:
    return [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")]


def read_frame(frame: Any, options: DataOptions = DEFAULT_OPTIONS) -> RawData:
    """Sentences of a data frame, with one row per sentence or per word.

    Raises `ValueError` if no column names the sentence of a word, and for a missing word.
    """
    name, form = "the given table", "data frame"
    rows = _frame_rows(frame)
    columns = [str(column) for column in frame.columns]
    word = _column(columns, WORDS if options.word_column is None else (str(options.word_column),))
    if word is None or (rows and not isinstance(rows[0][word], str | float | None)):
        return read_records(enumerate(rows, start=1), name, form, options, in_memory=True)
    tag = _column(columns, TAGS if options.tag_column is None else (str(options.tag_column),))
    sentence, document = _column(columns, SENTENCES), _column(columns, DOCUMENTS)
    if tag is None or sentence is None:
        wanted = f"tags ({', '.join(TAGS)})" if tag is None else f"the sentence of a word ({', '.join(SENTENCES)})"
        raise ValueError(f"{name} has no column with {wanted}; found: {', '.join(columns)}")
    key = "upos" if tag.lower() in ("pos", "upos") else "labels"
    records = _group(rows, {word: "words", tag: key}, sentence, document, name)
    options = DataOptions(scheme=options.scheme, tag_column=key)
    return read_records(enumerate(records, start=1), name, form, options, in_memory=True)


def _group(
    rows: list[dict[str, Any]], keys: dict[str, str], sentence: str, document: str | None, name: str
) -> Iterator[dict[str, Any]]:
    """Records from rows of words, columns renamed by `keys`.

    A sentence is known by its document, where there is one, and its own name; a row without either belongs to the one
    before.
    """
    identity = [column for column in (document, sentence) if column is not None]
    for above, row in pairwise(rows):
        for column in identity:
            row[column] = above[column] if row[column] is None else row[column]
    seen, number = set(), 0
    for identifier, group in groupby(rows, key=lambda row: tuple(row[column] for column in identity)):
        if identifier in seen:
            shown = " of ".join(repr(part) for part in reversed(identifier))
            raise ValueError(f"row {number + 1} of {name}: the sentence {shown} ended before; sort the rows")
        seen.add(identifier)
        record: dict[str, Any] = {key: [] for key in keys.values()}
        for row in group:
            number += 1
            record.setdefault("document", row[document] if document else "")
            for column, key in keys.items():
                if not isinstance(row[column], str):
                    raise ValueError(
                        f"row {number} of {name}: {column} is {row[column]!r}, which is not a string; pandas.read_csv "
                        "keeps a word such as None or NA with keep_default_na=False"
                    )
                record[key].append(row[column])
        yield record


def _column(columns: list[str], names: Iterable[str]) -> str | None:
    """The first of these names that is a column, in upper or lower case."""
    return next((column for name in names for column in columns if column.lower() == name.lower()), None)


def _plain(value: Any) -> Any:
    """Arrays as lists, and missing values as None."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return None if isinstance(value, float) and value != value else value


def _decode(value: Any, feature: Any) -> Any:
    """A value with the numbers of its ClassLabels as names."""
    if hasattr(feature, "int2str"):
        return feature.int2str(value) if isinstance(value, int) and value >= 0 else value
    if isinstance(feature, dict) and value is not None:
        return {key: _decode(part, feature[key]) for key, part in value.items()}
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    if inner is None or value is None:
        return value
    if isinstance(value, dict):  # a list of dicts, stored as a dict of lists
        return {key: [_decode(x, inner[key]) for x in part] for key, part in value.items()}
    return [_decode(part, inner) for part in value]
