"""Examples whose answers are right or wrong as a whole: where two systems differ, and mistakes of which one is sure.

An answer has a *credit* from 0 to 1 (`labellings.base`): for a label 1 or 0, for an answer to a question its F1, for a
number how near its rank is. An example is *fixed* when the second system's credit is higher than the first's by at
least `CHANGE`, *broken* in the opposite case; both are counted over all seeds that the systems share.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boustro.apps.studies.compare.cases import MAX_BROKEN, MAX_FIXED, MOST_MISTAKES, Answers
from boustro.tasks.labellings.base import Units

CHANGE = 0.25
SHOWN_WORDS, MOST_EFFECTS = 60, 6
LEAST_EFFECT = 0.01  # effects are shown with two digits


def differing(
    units: Units,
    examples: Sequence[Any],
    first: Sequence[Answers],
    second: Sequence[Answers],
    others: Mapping[str, Answers],
    names: tuple[str, str],
    title: str,
) -> list[dict[str, Any]]:
    """Return one group, `title`, with all examples, as `cases.case_study`; shown are the largest changes, the surest
    first."""
    credits = [np.stack([units.credits(answers.values) for answers in side]) for side in (first, second)]  # (seeds, N)
    changes = credits[1] - credits[0]
    systems = {names[0]: first[0], names[1]: second[0], **others}
    chosen: list[tuple[int, str]] = []
    taken: set[tuple[str, ...]] = set()
    for kind, side, sign, room in (("fixed", second[0], 1, MAX_FIXED), ("broken", first[0], -1, MAX_BROKEN)):
        gains = sign * changes[0]
        changed = np.flatnonzero(gains >= CHANGE).tolist()
        for i in sorted(changed, key=lambda i: (-gains[i], -max(side.scores[i], default=0), i)):
            form = (*side.words[i], units.title(examples[i]))
            if room and form not in taken:
                chosen.append((i, kind))
                taken.add(form)
                room -= 1
    return [
        {
            "title": title,
            "entities": len(examples),
            "recall": [100 * float(side.mean()) for side in credits],
            "fixed": int((changes >= CHANGE).sum()),
            "broken": int((changes <= -CHANGE).sum()),
            "num_seeds": len(first),
            "sentences": [show(units, examples[i], i, systems, kind) for i, kind in chosen],
        }
    ]


def confident_answers(units: Units, examples: Sequence[Any], name: str, answers: Answers) -> list[dict[str, Any]]:
    """Return the wrong answers of one system with the highest scores; of numbers the worst."""
    chosen = surest_mistakes(units, answers.values, answers.scores)
    return [show(units, examples[i], i, {name: answers}, "wrong") for i in chosen]


def surest_mistakes(units: Units, values: np.ndarray, scores: Sequence[Sequence[float]]) -> list[int]:
    """Return the numbers of the examples that `confident_mistakes` shows, from (N, C) values and the scores of
    answers."""
    credits = units.credits(values)
    wrong = np.flatnonzero(credits < (0.5 if units.has_scores else 1)).tolist()
    return sorted(wrong, key=lambda i: (-max(scores[i], default=0), credits[i], i))[:MOST_MISTAKES]


def strongest(words: Sequence[str], effects: Sequence[float]) -> list[list[Any]]:
    """[word, effect] of the words that counted most for an answer or against it, by size."""
    order = sorted(range(len(effects)), key=lambda i: (-abs(effects[i]), i))
    return [[words[i], round(effects[i], 3)] for i in order[:MOST_EFFECTS] if abs(effects[i]) >= LEAST_EFFECT]


def show(units: Units, example: Any, index: int, systems: Mapping[str, Answers], kind: str) -> dict[str, Any]:
    """Return an example, its reference and the systems' answers; of a long text a part around what is marked."""
    answers = next(iter(systems.values()))
    marked = [] if units.has_labels else answers.gold[index]  # a label is of all words
    given = [*zip(answers.words[index], units.spaces(example), strict=True)]
    shown, marked = cut(given, [(e.start, e.end) for e in marked], SHOWN_WORDS)
    return {
        "number": index + 1,
        "where": example.where.rpartition("/")[2],
        "kind": kind,
        "title": units.title(example),
        "words": [word for word, _ in shown],
        "spaces": [space for _, space in shown],
        "marked": marked,
        "reference": units.reference(example),
        "answers": {
            name: {
                "said": answered.said[index],
                "score": max(answered.scores[index], default=None),
                "credit": round(float(units.credits(answered.values)[index]), 4),
            }
            for name, answered in systems.items()
        },
        "effects": strongest(answers.words[index], answers.effects.get(index, ())) if len(systems) == 1 else [],
    }


Spaced = tuple[str, bool]
"""A word, and whether a space stands before it."""
ELLIPSIS: Spaced = ("…", True)


def cut(words: Sequence[Spaced], spans: Sequence[tuple[int, int]], most: int) -> tuple[list[Spaced], list[list[int]]]:
    """At most so many words around the first span, with … for what is left out, and the spans among them."""
    begin = 0
    if len(words) > most and spans:
        middle = sum(spans[0]) // 2
        begin = max(0, min(middle - most // 2, len(words) - most))
    end, before = min(len(words), begin + most), [ELLIPSIS] * (begin > 0)
    inside = [(max(a, begin), min(b, end)) for a, b in spans if a < end and b > begin]
    shift = len(before) - begin
    return [*before, *words[begin:end], *[ELLIPSIS] * (end < len(words))], [[a + shift, b + shift] for a, b in inside]
