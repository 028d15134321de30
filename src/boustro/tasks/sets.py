"""Labelled sets in any form that `Task.fit` and `Task.evaluate` take: what `read` takes, texts with their labels, and
dicts of sets; with the columns by which a trained folder reads others like them. And files, as `boustro fit` takes them
(`read_sets`); `in_documents` (`fit --documents`) puts labelled sentences into the documents that they were taken from,
so that LMs read what stands around them:

    labelled     Ada left .
    document     It rained. Ada left. Nobody knew.
    →            It rained .  |  Ada left . (labelled)  |  Nobody knew .

A sentence of a document is a labelled one if both have the same characters, whatever the spaces and the words. Each
labelled sentence stands in one place, the first that is free.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.choose import suggestion
from boustro.given import (
    DEV,
    TRAIN,
    are_inputs,
    is_by_text,
    is_frame,
    is_of_columns,
    is_of_splits,
    part_of,
    plain_labels,
    with_labels,
)
from boustro.heads.registry import owners
from boustro.options import OptionError
from boustro.output import print_notices
from boustro.tasks import TASKS, TEXT_KEYS, WORD_KEYS, read_examples
from boustro.tasks.config import TaskConfig, refuse_weights
from boustro.tasks.data import kept_for, like, with_columns
from boustro.tasks.data.reading import COLUMN_OPTIONS, KEPT, OUTSIDE_TEXTS, TrainDataOptions, named_in, named_of
from boustro.tasks.plan import Examples
from boustro.text.documents import read_documents
from boustro.text.words import split_text
from boustro.types import Sentence

if TYPE_CHECKING:
    from boustro.tasks.base import Task

    AnyTask = Task[Any, Any]


def training_sets(
    task: "AnyTask", X: Any, y: Any, dev: Any, weak: Any, weight: float | None, reading: Mapping[str, Any]
) -> Examples:
    """Read what `fit` is given; raises as it does."""
    check_reading(type(task), reading)
    if weight is not None and weak is None:
        raise OptionError("weak_weight is not read without weak examples; remove it")
    if is_frame(X) and isinstance(y, str):
        _refuse_column(task, X, y)
    if is_frame(X) and not (y is None or is_frame(y) or isinstance(y, (str, Path, Mapping))):
        raise ValueError("X is a table; give the column of its texts, or remove y and name its columns")
    columns = named_of(reading) or named_in(X)
    X, y = (list(given) if isinstance(given, Iterator) else given for given in (X, y))
    if y is not None and not are_inputs(X, y, task.in_documents):
        if dev is not None:
            raise ValueError("X has its labels already, so y is not read; remove it, or give dev alone")
        y, dev = None, y
    if is_of_splits(X):
        dev = part_of(X, DEV, None) if dev is None else dev
        X = part_of(X, TRAIN)
    outside = OUTSIDE_TEXTS if getattr(task.config, "none", 0) else {}
    judges = () if dev is None else _read_beside(task, part_of(dev, DEV), y, outside | dict(reading))
    return Examples(
        train=task.read(_joined(task, X, y), **reading, **task.lenient),
        dev=judges,
        weak=() if weak is None else _read_beside(task, part_of(weak, TRAIN), y, reading),
        weight=weight,
        columns=columns,
    )


def judged_set(task: "AnyTask", X: Any, y: Any, reading: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Read what `evaluate` is given, and answer it, see `labelled_pairs`; raises as it does."""
    check_reading(type(task), reading)
    if is_of_splits(X):
        raise ValueError(f"these are several sets ({', '.join(map(str, X))}); give one, such as data['test']")
    data = _joined(task, X, y)
    outside = OUTSIDE_TEXTS if task.is_trained and task.fitted.labelling.gives_none else {}
    examples = task.read(data, **{**task.lenient, **outside, **kept_reading(task, data, reading)})
    return labelled_pairs(examples, task.answer(examples, cached=True))


def labelled_pairs(examples: Iterable[Any], answers: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the examples with labels, and their answers; the others are the context of these."""
    pairs = [(example, answer) for example, answer in zip(examples, answers, strict=True) if example.is_labelled]
    return [example for example, _ in pairs], [answer for _, answer in pairs]


def _refuse_column(task: "AnyTask", X: Any, y: str) -> None:
    """`ValueError` for the name of a column in place of labels; else it is the name of a file."""
    from boustro.tasks.data.tables import columns_of

    if y in columns_of(X):
        option = "label_column" if "label_column" in signature(task.read).parameters else "tag_column"
        raise ValueError(f"X is a table, and {y!r} one of its columns; write fit(X, {option}={y!r})")


def check_reading(kind: "type[AnyTask]", reading: Iterable[str]) -> None:
    """`OptionError` for what is no option of `read`."""
    known = signature(kind.read).parameters
    for name in (name for name in reading if name not in known):
        refuse_weights(name)
        config = TASKS[kind.name].config
        is_of_model = name in signature(kind).parameters or hasattr(config, name) or owners(name, config.heads())
        made = f"; options of the model are given when it is made: {kind.__name__}({name}=…)"
        raise OptionError(f"unknown option {name!r}{made if is_of_model else suggestion(name, known)}")


def kept_reading(task: "AnyTask", data: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `read` that are given, and those of the training set whose columns this data has."""
    kept = {n: v for n, v in task.record.get(KEPT, {}).items() if n in signature(task.read).parameters}
    return kept_for(data, kept, given) | dict(given)


def _read_beside(task: "AnyTask", given: Any, y: Any, reading: Mapping[str, Any]) -> list[Any]:
    """Examples of a set beside the training set, whose columns may have other names; `(texts, labels)` too, which two
    examples as a tuple are only where the training set has no `y`."""
    two = isinstance(given, tuple) and len(given) == 2
    as_examples = two and y is None and all(isinstance(one, tuple) and len(one) == 2 for one in given)
    are_apart = two and not as_examples and are_inputs(given[0], given[1], task.in_documents)
    given = _joined(task, *(given if are_apart else (given, None)))
    columns = {name: value for name, value in reading.items() if name in COLUMN_OPTIONS}
    others = {name: value for name, value in reading.items() if name not in COLUMN_OPTIONS}
    lenient = {} if task.in_documents else task.lenient  # whose sentences without labels are context in training alone
    examples = task.read(given, **{**lenient, **others, **kept_for(given, columns)})
    return [example for example in examples if example.is_labelled] if lenient else examples


def _joined(task: "AnyTask", given: Any, labels: Any) -> Any:
    """Texts with their labels, also of a dict of both, as examples; a dict of columns as rows."""
    if labels is None and is_of_columns(given, (*TEXT_KEYS, *WORD_KEYS, *task.inputs.texts)):
        given = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
    if labels is None and is_by_text(given):
        given, labels = list(given), list(given.values())
    if labels is None:
        return given
    return with_labels(given, labels if isinstance(labels, str) else plain_labels(labels), task.inputs.labelled)


def read_sets(kind: Any, train: Path, dev: Path | None, reading: TrainDataOptions, training: TaskConfig) -> Examples:
    """Return the examples that a task learns from and is judged by, in the documents that they stand in."""
    if reading.documents and not (kind.in_documents or kind.lenient):
        raise OptionError("--documents is for taggers and for classifiers of texts; remove it")
    columns = named_of(vars(reading)) or named_in(train)
    column = (*reading.text_column, *named_in(train).get("text_column", ()))[:1]
    if reading.documents:
        reading = replace(reading, text_column=() if kind.in_documents else with_columns(train, reading.text_column))
    examples = read_examples(kind, train, reading, training=True)
    outside = OUTSIDE_TEXTS if getattr(training, "none", 0) else {}
    judges = read_examples(kind, dev, replace(like(reading, dev), **outside)) if dev else ()
    weak = read_examples(kind, reading.weak, like(reading, reading.weak)) if reading.weak else ()
    option = "" if reading.text_column else "--text-column"  # which names a column of the training set already
    texts = _documents(reading.documents, column, option) if reading.documents else ()
    if texts and not kind.in_documents:
        from boustro.tasks.data.texts import whole_text
        from boustro.tasks.label_names import MOST_TEXTS

        examples += [whole_text(text).sentence for text in islice(texts, MOST_TEXTS)]
    elif texts:
        examples, counts = in_documents(examples, texts, every=getattr(training, "memory", False))
        print_notices(counts)
    return Examples(train=examples, dev=judges, weak=weak, weight=reading.weak_weight, columns=columns)


def _documents(corpora: Iterable[str], column: tuple[str, ...], option: str) -> Iterator[str]:
    """Yield the texts of documents, under the key of this column where a corpus has it, which the option can name."""
    for corpus in corpora:
        (key,) = with_columns(corpus, column) or TEXT_KEYS[:1]
        yield from read_documents([corpus], key, split="line", option=option)


NOT_FOUND = "training sentences that stand in none of the documents, read as they are"
AROUND = "sentences of documents around them, read as context only"


def in_documents(
    labelled: Sequence[Sentence], texts: Iterable[str], every: bool = False
) -> tuple[list[Sentence], dict[str, int]]:
    """Return the sentences of all texts with a labelled one, in order, then labelled ones that no text has; and counts.

    Args:
        labelled: Sentences; those of texts keep their words and labels, and get the text as their document.
        texts: Documents.
        every: Keep the sentences of texts without a labelled one, too.
    """
    free: dict[str, list[int]] = defaultdict(list)
    for number in reversed(range(len(labelled))):
        free[_letters(labelled[number])].append(number)
    kept: list[Sentence] = []
    placed: set[int] = set()
    around = 0
    for place, text in enumerate(texts, start=1):
        sentences, numbers = [], set()
        for part in split_text(text, f"text {place}"):
            if left := free.get(_letters(part.sentence)):
                numbers.add(number := left.pop())
                sentences.append(replace(labelled[number], document=part.sentence.document))
            else:
                sentences.append(part.sentence)
        kept += sentences if numbers or every else []
        around += len(sentences) - len(numbers) if numbers else 0
        placed |= numbers
    rest = [sentence for number, sentence in enumerate(labelled) if number not in placed]
    return [*kept, *rest], {AROUND: around, NOT_FOUND: len(rest)}


def _letters(sentence: Sentence) -> str:
    return "".join("".join(sentence.words).split())
