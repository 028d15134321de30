"""Texts and sentences given from Python, as lists; anything else is an error that names its place.

iterate(row["text"] for row in rows)    any iterable: a generator, a column of a table, an array
as_text(float("nan"), "text 2")         ValueError: text 2 is nan, which is not a string (a missing value?); …
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from boustro.errors import count_of, shorten
from boustro.types import Sentence

T = TypeVar("T")
INDICATORS = (
    "which name no labels; give each text the list of its labels: MultiLabelBinarizer.inverse_transform(y) of "
    "scikit-learn, or [[name for name, has in zip(names, row) if has] for row in y]"
)
TRAIN, DEV = ("train", "training"), ("validation", "valid", "dev", "development")
SPLITS = {*TRAIN, *DEV, "test", "testing"}
"""Names that a dict of data sets has."""


def as_list(given: Any, what: str) -> list[Any]:
    """Return the items of any iterable; raises as `iterate`."""
    return list(iterate(given, what))


def iterate(given: Any, what: str) -> Iterator[Any]:
    """Any iterable, item by item; `ValueError` for a dict, bytes, a table, and for what is not iterable."""
    hint = ""
    if isinstance(given, Mapping):
        hint = "; give its values, or one of them"
    elif isinstance(given, (bytes, bytearray)):
        hint = "; decode them first, for example with .decode()"
    elif is_frame(given):
        lazy = hasattr(given, "collect")  # of polars
        hint = "; collect it first" if lazy else "; give one of its columns, or zip(frame['…'], frame['…']) of two"
    elif not isinstance(given, str):
        try:
            return iter(_plain_items(given))
        except TypeError:  # not iterable, or an array without dimensions
            pass
    raise ValueError(f"expected {what}, got {type(given).__name__}{hint}")


def _plain_items(given: Any) -> Any:
    """Return a column of pyarrow, polars or pandas as a list of Python's own values, and anything else as it is."""
    listed = getattr(given, "to_pylist", None) or getattr(given, "to_list", None)
    return listed() if callable(listed) else given


def as_sentences(given: Iterable[Sentence | Sequence[str]]) -> list[Sentence]:
    """Sentences split into words as a list; `ValueError` for a text, and for words that are not strings."""
    return list(each_sentence(given))


def each_sentence(given: Iterable[Sentence | Sequence[str]]) -> Iterator[Sentence]:
    """Yield sentences one at a time, checked."""
    for number, item in enumerate(iterate(given, "sentences as lists of words"), start=1):
        yield as_sentence(item, f"sentence {number}")


def as_sentence(item: Sentence | Sequence[str], place: str) -> Sentence:
    """Return a list of words as a Sentence, see `tidy_words`; `ValueError` for a text, whose letters would become
    words."""
    if isinstance(item, str):
        raise ValueError(
            f"{place} is {shorten(item)}, which is not split into words; Tagger.predict takes running text"
        )
    sentence = item if isinstance(item, Sentence) else Sentence(tuple(as_list(item, f"{place} as a list of words")))
    words = tidy_words(sentence.words, f"{place}, word")
    return sentence if words == sentence.words else replace(sentence, words=words)


def tidy_words(words: Sequence[Any], place: str) -> tuple[str, ...]:
    """Words, or tags, without white space around them.

    Raises `ValueError`, with the place and the number, for what is no text, and for a blank one.
    """
    refuse_no_texts(words, place)
    tidy = tuple(word.strip() for word in words)
    if "" in tidy:
        number = tidy.index("")
        raise ValueError(f"{place} {number + 1} is {shorten(words[number])}, which is blank; remove it")
    return tidy


def as_tags(given: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return one list of tags per sentence; `ValueError` for anything else, and for a tag that is not a string."""
    tagged = []
    for number, item in enumerate(iterate(given, "tags, one list per sentence"), start=1):
        tags = as_list(item, f"the tags of sentence {number} as a list")
        refuse_no_texts(tags, f"sentence {number}, tag")
        tagged.append(tags)
    return tagged


def are_texts(given: Any) -> bool:
    """Return whether this is a list (or another sequence, a column of a table, an array) of texts alone."""
    if isinstance(given, (str, bytes, Mapping)) or not _is_sized(given) or not hasattr(given, "__iter__"):
        return False
    return len(given) > 0 and all(isinstance(item, str) for item in _plain_items(given))


def _is_sized(given: Any) -> bool:
    """Return whether this has a length, which an array without dimensions only seems to have."""
    return hasattr(given, "__len__") and getattr(given, "shape", None) != ()


def is_frame(given: Any) -> bool:
    """Return whether this is a data frame or a data set, whose columns have names."""
    return hasattr(given, "columns") or hasattr(given, "column_names")


def is_data_frame(given: Any) -> bool:
    """Return whether this is a data frame of pandas, or a table that gives itself as Arrow, as those of polars do."""
    return hasattr(given, "columns") and (is_pandas(given) or hasattr(given, "__arrow_c_stream__"))


def is_pandas(given: Any) -> bool:
    """Return whether this is a data frame of pandas, which holds values that Arrow has no type for."""
    return hasattr(given, "iloc") and hasattr(given, "to_dict")


def are_inputs(given: Any, labels: Any, words: bool) -> bool:
    """Return whether these are texts, or, where there are such, sentences of `words`, whose labels are the other
    list."""
    if is_frame(given):
        return False
    given, labels = _plain_items(given), _plain_items(labels)
    if are_texts(given):
        return True
    if isinstance(given, (str, Mapping)) or isinstance(labels, str) or not _is_sized(given) or not len(given):
        return False
    if not _is_sized(labels) or len(labels) != len(given) or not hasattr(given, "__iter__"):
        return False
    if all(is_missing(label) or isinstance(plain_value(label), (str, int, float)) for label in labels):
        return True
    some_texts = any(isinstance(item, str) or is_no_input(item) for item in given)  # the others are said to be none
    return some_texts or (words and all(isinstance(item, (list, tuple)) and item and are_texts(item) for item in given))


def is_of_splits(given: Any) -> bool:
    """Return whether this is a dict of data sets, such as a `DatasetDict`."""
    if not isinstance(given, Mapping) or not given:
        return False
    return any(map(is_frame, given.values())) or {*given} <= SPLITS


def part_of(given: Any, names: Sequence[str], *default: Any) -> Any:
    """Return the set of a dict of data sets that has one of these names; anything else as it is.

    Raises `ValueError` where it has none, and there is no default.
    """
    if not is_of_splits(given):
        return given
    found = next((name for name in names if name in given), None)
    if found is None and not default:
        raise ValueError(f"no set {names[0]!r} among {', '.join(map(str, given))}; give one of them, such as data['…']")
    return default[0] if found is None else given[found]


def is_of_columns(given: Any, names: Sequence[str]) -> bool:
    """Return whether this is a dict of columns of one length, one of which has one of these names."""
    if not isinstance(given, Mapping) or len(given) < 2 or not any(name in given for name in names):
        return False
    columns = [*given.values()]
    if not all(hasattr(column, "__len__") and not isinstance(column, (str, Mapping)) for column in columns):
        return False
    return len({*map(len, columns)}) == 1


def is_no_input(item: Any) -> bool:
    """Return whether this is no text, nor anything that could be another input or an example."""
    return is_missing(item) or isinstance(item, (bytes, bytearray, int, float)) or getattr(item, "shape", None) == ()


def is_by_text(given: Any) -> bool:
    """Return whether this is a dict of texts and their labels, and not one of data sets or of columns."""
    if not isinstance(given, Mapping) or not given or not all(isinstance(key, str) for key in given):
        return False
    return not is_of_splits(given)


def plain_value(value: Any) -> Any:
    """Return a number, a boolean, a text or an array of numpy, or a label that was answered, as Python's own."""
    value = getattr(value, "value", value) if isinstance(value, (str, int, float)) else value
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


def plain_labels(labels: Any) -> list[Any]:
    """Labels, one for each text, as Python's own; `ValueError` for an array of rows, and for what is no list."""
    shape, kind = getattr(labels, "shape", ()), getattr(getattr(labels, "dtype", None), "kind", "")
    if len(shape) > 1 and (hasattr(labels, "toarray") or hasattr(labels, "columns") or kind in "biuf"):
        one = "give one label for each text, such as a single column"
        raise ValueError(f"the labels have the shape {tuple(shape)}; {one}. Rows of 0 and 1 are flags, {INDICATORS}")
    return [plain_value(label) for label in iterate(labels, "labels, one for each text")]


def with_labels(given: Iterable[Any], labels: Any, join: Callable[[Any, Any, str], Any]) -> list[Any]:
    """Texts with their labels as examples: what `join` makes of a text, its label and their place.

    Raises `ValueError` for other numbers of texts than of labels.
    """
    if labels is None or isinstance(labels, str):
        got = "nothing" if labels is None else shorten(labels)
        raise ValueError(f"these are texts without labels; give their labels as a list, one for each text, got {got}")
    texts, golds = as_list(given, "texts"), as_list(labels, "labels, one for each text")
    if len(texts) != len(golds):
        raise ValueError(
            f"{count_of(len(texts), 'texts')}, but {count_of(len(golds), 'labels')}; give one for each text"
        )
    for number, text in enumerate(texts, start=1):
        if is_no_input(text):
            as_text(text, f"text {number}")
    return [join(text, label, f"text {n}") for n, (text, label) in enumerate(zip(texts, golds, strict=True), start=1)]


def refuse_indicators(rows: Sequence[Any], place: str) -> None:
    """`ValueError` where the labels of all texts are rows of 0 and 1, as many for each: they say of each label whether
    a text has it, and not its name. A list of names that are 0 and 1 is shorter or longer for some text."""
    lists = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    if not lists or not all(isinstance(row, (list, tuple)) and len(row) == len(lists[0]) > 1 for row in lists):
        return
    if all(isinstance(cell, (bool, int, float)) and cell in (0, 1) for row in lists for cell in row):
        raise ValueError(f"{place}: each text has a row of {len(lists[0])} times 0 or 1, {INDICATORS}")


def refuse_no_texts(values: Iterable[Any], place: str) -> None:
    """`ValueError`, with the place and the number from 1, for the first value that is no text."""
    for number, value in enumerate(values, start=1):
        as_text(value, f"{place} {number}")


def is_missing(value: Any) -> bool:
    """Return whether this stands for nothing: None, nan, or what pandas has for it."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def refuse_half_characters(value: Any, place: str) -> None:
    """`ValueError`, with the place, for half a character (a lone surrogate) in a text, or in a value of JSON, its keys
    among them: JSON can hold one, and no file, tokenizer or terminal."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{place}: {shorten(value)} holds half a character (a lone surrogate)") from None
    elif isinstance(value, Mapping):
        for pair in value.items():
            refuse_half_characters(pair, place)
    elif isinstance(value, (list, tuple)):
        for item in value:
            refuse_half_characters(item, place)


def as_text(value: Any, place: str) -> str:
    """Return the value; `ValueError`, with its place, where it is no text, and for half a character."""
    if isinstance(value, str):
        refuse_half_characters(value, place)
        return value
    hint = ""
    if isinstance(value, bytes):
        hint = "; decode it first, for example with .decode()"
    elif isinstance(value, float) or is_missing(value):
        hint = " (a missing value?); remove it, or replace it by a string"
    raise ValueError(f"{place} is {shorten(value)}, which is not a string{hint}")


def chunk_by_size(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Consecutive items until their sizes add up to `most`; one chunk is in memory at a time."""
    chunk, total = [], 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if total >= most:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
