"""Data sets of the Hugging Face hub and data frames, to sentences.

    hf:NAME, hf:USER/NAME, hf:USER/NAME/CONFIGURATION      on the hub (or in its cache)
    hf:./FOLDER                                            what `save_to_disk` wrote, or a folder of data files
    …:SPLIT                                                which split; needed where there are several

A row is a record (see `records`); numbers of a ClassLabel become their names. A data frame has a row a sentence,
with lists in its columns, or a row a word, with a column that says to which sentence it belongs; of such a frame
only `columns` and `to_dict("records")` are used, so pandas itself is not imported.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Reading
from boustro.tasks.data.records import read_records

PREFIX = "hf:"
WORDS = ("word", "words", "token", "tokens", "form")
TAGS = ("tag", "tags", "ner_tag", "ner_tags", "ner", "label", "labels", "pos", "upos")
SENTENCES = ("sentence_id", "sent_id", "sentence #", "sentence", "sentence_idx")
DOCUMENTS = ("document", "document_id", "doc_id")


def read_hub(name: str, options: DataOptions = DEFAULT_OPTIONS) -> Reading:
    """Sentences of a data set named `hf:NAME[/CONFIGURATION][:SPLIT]`.

    Raises `FileNotFoundError` when there is none, `ValueError` when a split has to be named, and what
    `read_records` raises, with the row's number.
    """
    import datasets

    where, _, split = name.removeprefix(PREFIX).partition(":")
    try:
        if Path(where).is_dir() and any((Path(where) / f).is_file() for f in ("state.json", "dataset_dict.json")):
            found = datasets.load_from_disk(where)
        else:
            parts = [where] if Path(where).is_dir() else where.split("/")
            found = datasets.load_dataset("/".join(parts[:2]), "/".join(parts[2:]) or None, split=split or None)
    except Exception as error:  # the hub's client raises a dozen kinds
        raise FileNotFoundError(f"{name}: no data set of this name could be read: {error}") from error
    if isinstance(found, dict):
        splits = [str(s) for s in found]
        if not split and len(splits) > 1:
            raise ValueError(f"{name}: name a split, such as {name}:{splits[0]} (there are {', '.join(splits)})")
        if split and split not in splits:
            raise ValueError(f"{name}: no split {split!r} (there are {', '.join(splits)})")
        found = found[split or splits[0]]
    return read_dataset(found, name, options)


def read_dataset(dataset: Any, name: str = "the given data set", options: DataOptions = DEFAULT_OPTIONS) -> Reading:
    """Sentences of a `datasets.Dataset`, a row a record."""
    if isinstance(dataset, dict):
        raise ValueError(f"{name} has several splits; give one of them ({', '.join(dataset)})")
    decoders = {column: feature for column, feature in (dataset.features or {}).items() if _holds_names(feature)}
    rows = ({k: _decode(v, decoders[k]) if k in decoders else v for k, v in row.items()} for row in dataset)
    return read_records(enumerate(rows, start=1), name, "data set", options)


def read_frame(frame: Any, options: DataOptions = DEFAULT_OPTIONS) -> Reading:
    """Sentences of a data frame, a row a sentence or a row a word.

    Raises `ValueError` when no column names the sentences of words, and for a word that is missing.
    """
    name, form = "the given table", "data frame"
    rows = [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")]
    columns = [str(column) for column in frame.columns]
    word = _column(columns, WORDS if options.word_column is None else (str(options.word_column),))
    if word is None or (rows and not isinstance(rows[0][word], str | float | None)):
        return read_records(enumerate(rows, start=1), name, form, options, in_memory=True)
    tag = _column(columns, TAGS if options.tag_column is None else (str(options.tag_column),))
    sentence, document = _column(columns, SENTENCES), _column(columns, DOCUMENTS)
    if tag is None or sentence is None:
        wanted = f"tags ({', '.join(TAGS)})" if tag is None else f"the sentence of a word ({', '.join(SENTENCES)})"
        raise ValueError(f"{name} has no column with {wanted}; found: {', '.join(columns)}")
    records = _group(rows, word, tag, sentence, document, name)
    options = DataOptions(scheme=options.scheme, tag_column="labels" if tag.lower() not in ("pos", "upos") else "upos")
    return read_records(enumerate(records, start=1), name, form, options, in_memory=True)


def _group(
    rows: Iterable[dict[str, Any]], word: str, tag: str, sentence: str, document: str | None, name: str
) -> Iterator[dict[str, Any]]:
    """Records out of rows of words; a row without a sentence belongs to the one before it."""
    record, current, seen = None, None, set()
    key = "upos" if tag.lower() in ("pos", "upos") else "labels"
    for number, row in enumerate(rows, start=1):
        identifier = row[sentence]
        if record is None or (identifier is not None and identifier != current):
            if record is not None:
                yield record
            if identifier in seen:
                raise ValueError(
                    f"row {number} of {name}: the sentence {identifier!r} was closed before; sort the rows"
                )
            current = identifier
            seen.add(identifier)
            record = {"words": [], key: [], "document": row[document] if document else ""}
        for column, values in ((word, record["words"]), (tag, record[key])):
            if not isinstance(row[column], str):
                raise ValueError(
                    f"row {number} of {name}: {column} is {row[column]!r}, which is no text; a word such as None or NA "
                    "survives pandas.read_csv with keep_default_na=False"
                )
            values.append(row[column])
    if record is not None:
        yield record


def _column(columns: list[str], names: Iterable[str]) -> str | None:
    """The column with one of these names, whatever its case; the first of the names that is there."""
    return next((column for name in names for column in columns if column.lower() == name.lower()), None)


def _plain(value: Any) -> Any:
    """Arrays as lists, and what is not there as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value


def _holds_names(feature: Any) -> bool:
    if hasattr(feature, "int2str"):
        return True
    if isinstance(feature, dict):
        return any(map(_holds_names, feature.values()))
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    return inner is not None and _holds_names(inner)


def _decode(value: Any, feature: Any) -> Any:
    """A value with the numbers of its ClassLabels as names."""
    if value is None:
        return None
    if hasattr(feature, "int2str"):
        return feature.int2str(value) if isinstance(value, int) and value >= 0 else value
    if isinstance(feature, dict):
        return {key: _decode(part, feature[key]) for key, part in value.items()}
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    if inner is None:
        return value
    if isinstance(value, dict):  # a list of dicts, turned into a dict of lists
        return {key: [_decode(x, inner[key]) for x in part] for key, part in value.items()}
    return [_decode(part, inner) for part in value]
