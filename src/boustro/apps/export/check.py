"""Whether an export answers as the model does: both answer the same sentences, before the export is called done.

    tags       the share of words, or of texts, that have the same tag or label
    entities   2 · both / (of the model + of the export), over entities with their labels
    numbers    the share of answers of a regression that differ by less than a hundredth of their range

The agreement is the least of them. An export to few bits may find nothing at all, and a share of tags, most of which
are O, would hide that.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from boustro.tasks.answers import Answer
from boustro.tasks.base import Task
from boustro.tasks.data import read_data
from boustro.text.words import join_words

SAMPLE = ("train.conll", "dev.conll", "test.conll")
CLOSE = 0.01
ALONE, BESIDE = 50, 0.01
"""Examples that are answered alone too, and how far a score may move by what stands beside its text."""


@dataclass(frozen=True)
class Agreement:
    """How far two models agree; `entities` and `numbers` are `None` where there are none."""

    answers: int
    tags: float
    entities: float | None
    numbers: float | None
    score_difference: float
    """The largest difference of two scores of one tag."""

    @property
    def least(self) -> float:
        """The agreement, see the module."""
        return min(x for x in (self.tags, self.entities, self.numbers) if x is not None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        figures = {"tags": self.tags, "entities": self.entities, "numbers": self.numbers}
        rounded = {name: round(value, 5) for name, value in figures.items() if value is not None}
        return {"answers": self.answers, **rounded, "score_difference": round(self.score_difference, 6)}

    def __str__(self) -> str:
        parts = {"tags": self.tags, "entities": self.entities, "numbers": self.numbers}
        return ", ".join(f"{100 * value:.2f}% of the {name}" for name, value in parts.items() if value is not None)


def check_examples(task: Task[Any, Any], data: Path | None, number: int) -> list[Any]:
    """Examples to compare answers on: the first of labelled data, by default of the sample in the package.

    Raises `ValueError` where there is none.
    """
    examples = list(task.read(data)) if data else list(_sample(task, number))
    if not examples:
        raise ValueError(f"{data}: no example, so nothing can be compared")
    return examples[:number]


def compare(model: Task[Any, Any], other: Task[Any, Any], examples: Sequence[Any]) -> Agreement:
    """How far two models of one task agree on examples."""
    return agreement(model.answer(examples), other.answer(examples))


def refuse_neighbours(model: Task[Any, Any], examples: Sequence[Any]) -> None:
    """`ValueError` for a model that answers an example otherwise, with its document alone, than among all."""
    documents: dict[Any, list[Any]] = {}
    for number, example in enumerate(examples[:ALONE]):
        named = (part.document for part in model.parts(example) if part.document)
        documents.setdefault(next(named, number), []).append(example)
    alone = [answer for document in documents.values() for answer in model.answer(document)]
    together = model.answer([example for document in documents.values() for example in document])
    difference = agreement(together, alone).score_difference
    if difference > BESIDE:
        raise ValueError(
            "the export was not written, because its answers depend on the texts that stand beside a text: scores move "
            f"by {difference:.3f}"
        )


def agreement(answers: Sequence[Answer], others: Sequence[Answer]) -> Agreement:
    """The same, of answers to the same examples."""
    pairs = list(zip(answers, others, strict=True))
    tags = [a == b for one, other in pairs for a, b in zip(one.tags, other.tags, strict=False)]
    sizes = sum(max(len(one.tags), len(other.tags)) for one, other in pairs)
    entities = [
        {(n, e.label, e.start, e.end) for n, a in enumerate(side) for e in a.entities} for side in (answers, others)
    ]
    total = sum(map(len, entities))
    values = [(a.value, b.value) for a, b in pairs if a.value is not None and b.value is not None]
    values = [pair for pair in values if np.isfinite(pair).any()]  # -inf: every question has an answer
    scores = [abs(p - q) for one, other in pairs for p, q in zip(one.scores, other.scores, strict=False)]
    return Agreement(
        answers=len(pairs),
        tags=sum(tags) / sizes if sizes else 1.0,
        entities=2 * len(entities[0] & entities[1]) / total if total else None,
        numbers=_close(values) if values else None,
        score_difference=max(scores, default=0.0),
    )


def _close(values: Sequence[tuple[float, float]]) -> float:
    array = np.array(values)
    spread = float(np.ptp(array[:, 0])) or 1.0
    return float((np.abs(array[:, 0] - array[:, 1]) < CLOSE * spread).mean())


def _sample(task: Task[Any, Any], number: int) -> Iterator[Any]:
    """Sentences of the package as examples of any task; a pair or a question has two that follow each other."""
    folder = files("boustro") / "data" / "sample"
    sentences = [s for name in SAMPLE for s in read_data(Path(str(folder / name)))]
    texts = [join_words(s.words) for s in sentences]
    count = 0
    for place, (text, following) in enumerate(zip(texts, texts[1:] + texts[:1], strict=True), start=1):
        for record in _records(text, following):
            given = task.parse_value(record, f"sentence {place} of the sample")
            for part in task.split(given, f"sentence {place}"):
                if count == number:
                    return
                count += 1
                yield part.example


def _records(text: str, following: str) -> Iterator[dict[str, Any]]:
    """A record with the keys of every task, and once more without capitals, which makes twice as many."""
    for one, other in ((text, following), (text.lower(), following.lower())):
        words = [[word.start(), word.end()] for word in re.finditer(r"\S+", one)]
        places = {"head": words[0], "tail": words[-1]} if len(words) > 1 else {}
        yield {"text": one, "sentence1": one, "sentence2": other, "question": other, "context": one, **places}
