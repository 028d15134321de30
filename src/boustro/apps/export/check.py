"""Whether an export answers as the model does: both answer the same sentences, before the export is called done.

    tags       the share of words, or of texts, that have the same tag or label
    entities   2 · both / (of the model + of the export), over entities with their labels
    numbers    the share of answers of a regression that differ by less than a hundredth of their range

An export to few bits may find nothing at all, and a share of tags, most of which are O, would hide that. Answers that
differ where both models say nearly the same are near ties, which rounding decides, and count as the same:

    model 0.501 PER, 0.499 LOC    export 0.499 PER, 0.501 LOC    a near tie

A share is too low where so many differences are improbable if the share is what was asked for: one entity of 700 says
nothing against 99.9%, ten do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import zip_longest
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from boustro.tasks.answers import Answer
from boustro.tasks.base import Task
from boustro.tasks.data import read_data
from boustro.tasks.sets import kept_reading
from boustro.tasks.tagger.entities import EntityLabelling
from boustro.text.words import join_words

LabelPlace = tuple[str, int, int]
"""The label and the words of an entity."""
SAMPLE_FILES = ("train.conll", "dev.conll", "test.conll")
CLOSE = 0.01
"""How far two scores of one answer, or two numbers relative to their range, may be apart and still be the same."""
IMPROBABLE = 0.05
"""The level of the binomial test of a share."""
ALONE_EXAMPLES, BESIDE = 50, 0.01
"""Examples that are answered alone too, and how far a score may move by what stands beside its text."""


@dataclass(frozen=True)
class Agreement:
    """How far two models agree, as (differences, of how many) of tags, entities and numbers.

    Attributes:
        answers: The examples that were answered.
        score_difference: The largest difference of two scores of one tag.
        ties: Examples with near ties.
    """

    answers: int
    counts: Mapping[str, tuple[int, int]]
    score_difference: float
    ties: int = 0

    @property
    def shares(self) -> dict[str, float]:
        """The share that agrees, of what there is."""
        return {what: 1 - differ / of for what, (differ, of) in self.counts.items() if of}

    def reaches(self, share: float) -> bool:
        """Return whether nothing speaks against this share, see the module."""
        return all(_is_probable(differ, of, 1 - share) for differ, of in self.counts.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON holds them, rounded."""
        shares = {name: round(value, 5) for name, value in self.shares.items()}
        difference = {"score_difference": round(self.score_difference, 6)}
        return {"answers": self.answers, **shares, **difference, "near_ties": self.ties}

    def __str__(self) -> str:
        said = ", ".join(f"{100 * value:.2f}% of the {name}" for name, value in self.shares.items())
        return f"{said} ({self.ties} with near ties)" if self.ties else said


def check_examples(task: Task[Any, Any], data: Path | None, number: int) -> list[Any]:
    """Examples to compare answers on: the first of labelled data, by default of those that the folder was trained on,
    where their file is still there, else of the sample in the package.

    Raises `ValueError` where there is none.
    """
    examples = (
        list(task.read(data, **kept_reading(task, data, {}), **task.lenient))
        if data
        else _known(task) or list(_sample(task, number))
    )
    if not examples:
        raise ValueError(f"{data}: no example, so nothing can be compared")
    return examples[:number]


def _known(task: Task[Any, Any]) -> list[Any]:
    """Return the examples of training; none where their file is gone, or is another one that cannot be read."""
    file = Path((task.record.get("train") or {}).get("name") or "")
    try:
        return list(task.read(file, **kept_reading(task, file, {}))) if file.is_file() else []
    except (ValueError, OSError):
        return []


def compare_answers(model: Task[Any, Any], other: Task[Any, Any], examples: Sequence[Any]) -> Agreement:
    """Return how far two models of one task agree on examples."""
    answers, others = model.answer(examples), other.answer(examples)
    if answers == others:
        return agreement(answers, others)
    return agreement(answers, others, [_entity_scores(each, examples) for each in (model, other)])


def _entity_scores(model: Task[Any, Any], examples: Sequence[Any]) -> list[dict[LabelPlace, float]]:
    """Per example the probability of every entity that it may have, answered or not; a few heads have these."""
    fitted = model.fitted
    if not isinstance(fitted.labelling, EntityLabelling):
        return [{} for _ in examples]
    return [
        {(fitted.labelling.types[label], start, end): p for start, end, label, p in spans}
        for spans in fitted.outputs(examples, candidates=True)
    ]


def refuse_neighbours(model: Task[Any, Any], examples: Sequence[Any]) -> None:
    """`ValueError` for a model that answers an example otherwise, with its document alone, than among all."""
    documents: dict[Any, list[Any]] = {}
    for number, example in enumerate(examples[:ALONE_EXAMPLES]):
        named = (part.document for part in example.parts if part.document)
        documents.setdefault(next(named, number), []).append(example)
    alone = [answer for document in documents.values() for answer in model.answer(document)]
    together = model.answer([example for document in documents.values() for example in document])
    difference = agreement(together, alone).score_difference
    if difference > BESIDE:
        raise ValueError(
            "the export was not written, because its answers depend on the texts that stand beside a text: scores move "
            f"by {difference:.3f}"
        )


def agreement(
    answers: Sequence[Answer], others: Sequence[Answer], scores: Sequence[Sequence[Mapping[LabelPlace, float]]] = ()
) -> Agreement:
    """Return how far answers to the same examples agree; `scores` has, by model and example, those of possible
    entities."""
    pairs = list(zip(answers, others, strict=True))
    likely = scores or [[{}] * len(pairs)] * 2
    tags, entities, ties = 0, 0, 0
    for number, (one, other) in enumerate(pairs):
        sides = [{(e.label, e.start, e.end) for e in answer.entities} for answer in (one, other)]
        apart = sides[0] ^ sides[1]
        words = {n for n, (a, b) in enumerate(zip_longest(one.tags, other.tags)) if a != b}
        tied = {n for n in words if _is_tie(one.scores[n : n + 1], other.scores[n : n + 1])}
        even = {e for e in apart if all(e in known[number] for known in likely)}
        even = {e for e in even if abs(likely[0][number][e] - likely[1][number][e]) <= CLOSE}
        tied |= words & {n for _, start, end in even for n in range(start, end)}
        even |= {e for e in apart if (inside := words & {*range(*e[1:])}) and inside <= tied}
        tags, entities, ties = tags + len(words - tied), entities + len(apart - even), ties + bool(tied or even)
    values = [(a.value, b.value) for a, b in pairs if a.value is not None and b.value is not None]
    values = [pair for pair in values if np.isfinite(pair).any()]  # -inf: every question has an answer
    differences = [abs(p - q) for one, other in pairs for p, q in zip(one.scores, other.scores, strict=False)]
    counts = {
        "tags": (tags, sum(max(len(one.tags), len(other.tags)) for one, other in pairs)),
        # each entity stands on both sides, and one in another place differs on both
        "entities": (ceil(entities / 2), ceil(sum(len(a.entities) + len(b.entities) for a, b in pairs) / 2)),
        "numbers": (_num_apart(values), len(values)),
    }
    return Agreement(len(pairs), counts, max(differences, default=0.0), ties)


def _is_tie(score: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two models may give both of their answers nearly the same probability: neither can then be above
    half."""
    return len(score) == len(other) == 1 and abs(score[0] - other[0]) <= CLOSE and score[0] + other[0] <= 1 + CLOSE


def _is_probable(differ: int, of: int, rate: float) -> bool:
    """Return whether so many differences of so many are no rarer than `IMPROBABLE` at this rate: a binomial test."""
    from scipy.stats import binom  # of scikit-learn

    return differ <= rate * of or bool(binom.sf(differ - 1, of, rate) >= IMPROBABLE)


def _num_apart(values: Sequence[tuple[float, float]]) -> int:
    if not values:
        return 0
    array = np.array(values)
    spread = float(np.ptp(array[:, 0])) or 1.0
    return int((np.abs(array[:, 0] - array[:, 1]) >= CLOSE * spread).sum())


def _sample(task: Task[Any, Any], number: int) -> Iterator[Any]:
    """Sentences of the package as examples of any task; a pair or a question has two that follow each other."""
    folder = files("boustro") / "data" / "sample"
    sentences = [s for name in SAMPLE_FILES for s in read_data(Path(str(folder / name)))]
    texts = [join_words(s.words) for s in sentences]
    count = 0
    for place, (text, following) in enumerate(zip(texts, texts[1:] + texts[:1], strict=True), start=1):
        for record in _records(text, following):
            given = task.inputs.parse_value(record, f"sentence {place} of the sample")
            for part in task.inputs.split(given, f"sentence {place}"):
                if count == number:
                    return
                count += 1
                yield part.example


def _records(text: str, following: str) -> Iterator[dict[str, Any]]:
    """Yield a record with the keys of every task, and once more without capitals, which makes twice as many."""
    for one, other in ((text, following), (text.lower(), following.lower())):
        words = [[word.start(), word.end()] for word in re.finditer(r"\S+", one)]
        places = {"head": words[0], "tail": words[-1]} if len(words) > 1 else {}
        yield {"text": one, "sentence1": one, "sentence2": other, "question": other, "context": one, **places}
