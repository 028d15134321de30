"""How good what learns while a person labels is: a point of the curve is each answer, by what learned other parts.

A closed form gives the curve without training again (`LiveTagger.held_out`). Every figure is of the same five parts
that `boustro fit` leaves out (`TrainingAnswers.parts`): each is tagged by what learned the other four.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boustro.apps.drawing import AXIS, WIDTH, Panel, Scale, dots, path, picture, text_line
from boustro.apps.label.answers import Annotation
from boustro.apps.label.incremental import LiveTagger, LiveTopics
from boustro.encoders.options import Context
from boustro.encoders.reading import group_numbers
from boustro.metrics.spans import score_entities
from boustro.tasks import task_class
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.fitting.estimate import PARTS
from boustro.tasks.folds import kin, left_out
from boustro.types import Sentence

FEWEST_TO_MEASURE = 4  # answers
GROWTH = 1.2  # of the words, from one point to the next


@dataclass(frozen=True, slots=True)
class Point:
    """After so many answered sentences with so many words: entity F1 in percent."""

    sentences: int
    words: int
    f1: float


def is_due(points: list[Point], words: int, sentences: int) -> bool:
    """Return whether there is enough that is new since the last point."""
    return sentences >= FEWEST_TO_MEASURE and (not points or words >= GROWTH * points[-1].words)


@dataclass(frozen=True)
class TrainingAnswers:
    """The answers as `boustro fit` reads them: examples, and the number of the answer or text that each is of."""

    examples: list[Any]
    numbers: list[int]

    @classmethod
    def of(
        cls, task: str, answers: Mapping[int, Annotation], texts: Sequence[Sentence] = (), context: Context = "sentence"
    ) -> "TrainingAnswers":
        """Whole texts, read as the file of answers is; or sentences, with the others of their documents."""
        if not answers:
            return cls([], [])
        order, sentences = [*answers], [*texts] or [answer.sentence for answer in answers.values()]
        parted = any(s.document for s in sentences) and len({s.document for s in sentences}) < len(sentences)
        if not parted and all(answer.text for answer in answers.values()):
            read = task_class(task).collect([answer.to_dict() for answer in answers.values()], DataOptions(), [])
            places = (int(s.document.rpartition(" ")[2]) - 1 if s.document else n for n, s in enumerate(read))
            return cls(read, [order[place] for place in places])
        by_number = answers if texts else dict(enumerate(answers.values()))
        documents = (group for group in group_numbers(sentences, context) if not by_number.keys().isdisjoint(group))
        numbers = [n for group in documents for n in group]

        def read_one(n: int) -> Sentence:
            return replace(by_number[n].labelled(), document=sentences[n].document) if n in by_number else sentences[n]

        return cls([read_one(n) for n in numbers], numbers if texts else [order[n] for n in numbers])

    def parts(self, seed: int = 1) -> list[tuple[list[int], list[int]]]:
        """Return the numbers of the answers in each part that is left out, and of all that are not learned then.

        An answer is where its first sentence is.
        """
        asked = [(e, n) for e, n in zip(self.examples, self.numbers, strict=True) if e.is_labelled]
        first: dict[int, int] = {}
        for place, (_, number) in enumerate(asked):
            first.setdefault(number, place)
        numbers, places = (np.array([*some], np.int64) for some in (first, first.values()))
        parts = []
        for learned, left in left_out(kin([example for example, _ in asked]), PARTS[0], seed):
            answered, unlearned = numbers[np.isin(places, left)], numbers[~np.isin(places, learned)]
            parts += [(answered.tolist(), unlearned.tolist())] if len(answered) else []
        return parts


def measure_tagger(
    tagger: LiveTagger, answers: Mapping[int, Annotation], given: TrainingAnswers | None = None
) -> Point:
    """Return the point of a tagger that has learned these answers, perhaps besides other sentences. Sets its scales.

    `given` is how they are read; by default each by itself.
    """
    given = given or TrainingAnswers([answer.labelled() for answer in answers.values()], [*answers])
    held_out = tagger.held_out(given.parts())
    scores = {number: held_out[number] for number in answers}
    gold = {number: answer.entities for number, answer in answers.items()}
    whole = isinstance(tagger, LiveTopics)
    tagger.rescale({n: own for n, own in scores.items() if not whole or tagger.judges(answers[n].sentence)}, gold)
    sentences = [answer.sentence for answer in answers.values()]
    tagged = tagger.decode(np.concatenate(list(scores.values())), sentences)
    f1 = score_entities(list(gold.values()), tagged, {}).value
    return Point(len(answers), sum(map(len, sentences)), round(f1, 1))


def retrace(
    tagger: LiveTagger,
    answers: Mapping[int, Annotation],
    given: Callable[[Mapping[int, Annotation]], TrainingAnswers | None] = lambda answers: None,
) -> Iterator[Point]:
    """Yield the points that a session made on its way to these answers, in their order."""
    again, points, so_far = tagger.without(answers), list[Point](), dict[int, Annotation]()
    words = 0
    for number, answer in answers.items():
        so_far[number], words = answer, words + len(answer.sentence)
        again.learn(number, tagger.learned[number].words, answer.entities, tagger.learned[number].prior)
        if is_due(points, words, len(so_far)):
            points.append(measure_tagger(again, so_far, given(so_far)))
            yield points[-1]


def session_curve(points: Sequence[Point]) -> str:
    """F1 by words read, for the side panel; empty without points."""
    if not points:
        return ""
    panel = Panel(AXIS, 10, WIDTH - 8, 110, [0, 25, 50, 75, 100])
    across = Scale(0, max(points[-1].words, 1), panel.left, panel.right)
    line = [(across(p.words), panel.scale(p.f1)) for p in points]
    last = points[-1]
    parts = [*panel.grid([0, 50, 100]), path(line, "l s0"), dots(line, "s0", 4)]
    parts += [
        text_line(panel.left, 126, "0", "start", "m"),
        text_line(panel.right, 126, f"{last.words:,} words read", "end", "m"),
    ]
    title = f"F1 by words read: {last.f1:.1f} after {last.words:,} words"
    return picture(WIDTH, 132, title, *parts)
