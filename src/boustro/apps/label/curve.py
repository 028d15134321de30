"""How good the tagger of a session is: each answered sentence, tagged by a tagger that learned all others but those of
its document, and its copies.

A closed form gives that without training again (`LiveTagger.held_out`). The sentences that `uncertain` chooses are
harder than the average, so the curve is a lower bound of what the tagger does on the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from boustro.apps.label.answers import Answer
from boustro.apps.label.incremental import LiveTagger
from boustro.apps.label.texts import Text
from boustro.drawing.frames import AXIS, Panel
from boustro.drawing.svg import WIDTH, Scale, dots, path, picture, text
from boustro.features.reader import itself
from boustro.metrics.spans import score_entities
from boustro.tasks.folds import kin

FEWEST = 4  # answers
GROWTH = 1.2  # of the words, from one point to the next


@dataclass(frozen=True, slots=True)
class Point:
    """After so many answered sentences with so many words: entity F1 in percent."""

    sentences: int
    words: int
    f1: float


def is_due(points: list[Point], words: int, sentences: int) -> bool:
    """Whether there is enough that is new since the last point."""
    return sentences >= FEWEST and (not points or words >= GROWTH * points[-1].words)


def measure(tagger: LiveTagger, answers: Mapping[int, Answer], texts: Sequence[Text] = ()) -> Point:
    """The point of a tagger that has learned these answers, perhaps besides other sentences. Sets its scales.

    `texts` are those that the answers number, which know their documents.
    """
    asked = [texts[number].sentence if texts else answer.sentence for number, answer in answers.items()]
    groups: dict[int, list[int]] = {}
    for number, group in zip(answers, kin(asked, itself).groups, strict=True):
        groups.setdefault(int(group), []).append(number)
    found = tagger.held_out(groups.values())
    scores = {number: found[number] for number in answers}
    gold = {number: answer.entities for number, answer in answers.items()}
    tagger.rescale(scores, gold)
    sentences = [answer.sentence for answer in answers.values()]
    tagged = tagger.decode(np.concatenate(list(scores.values())), sentences)
    f1 = score_entities(list(gold.values()), tagged, {}).value
    return Point(len(answers), sum(map(len, sentences)), round(f1, 1))


def retrace(tagger: LiveTagger, answers: Mapping[int, Answer], texts: Sequence[Text] = ()) -> Iterator[Point]:
    """The points that a session made on its way to these answers, in their order."""
    again, points, so_far = tagger.without(answers), list[Point](), dict[int, Answer]()
    words = 0
    for number, answer in answers.items():
        so_far[number], words = answer, words + len(answer.sentence)
        again.learn(number, tagger.learned[number].words, answer.entities, tagger.learned[number].prior)
        if is_due(points, words, len(so_far)):
            points.append(measure(again, so_far, texts))
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
        text(panel.left, 126, "0", "start", "m"),
        text(panel.right, 126, f"{last.words:,} words read", "end", "m"),
    ]
    title = f"F1 by words read: {last.f1:.1f} after {last.words:,} words"
    return picture(WIDTH, 132, title, *parts)
