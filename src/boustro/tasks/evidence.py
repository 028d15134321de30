"""The mentions of one name in a document vote on what it is.

    answered   Vellmar PER 0.55      Vellmar LOC 0.90      Vellmar (nothing) 0.60
    voted      LOC 0.90, PER 0.55, nothing 0.60   →   all three are LOC, each with the score 0.90 / 3

Mentions are the places where the same words stand, in the same case, if they are an entity in at least one of them. A
place counts where no other entity overlaps it; it votes for its label with its score, or against all with the mean
probability of its words' tags. The largest sum wins, the answered label first among equals, and the score of the new
answer is the sum over the number of places. Sentences without the name of a document stand alone.

Not here: what training learns. Source: majority labels of a document's equal strings, as in Krishnan and Manning 2006,
section 3, weighted by confidence instead of learned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from boustro.tasks.answers import Answer
from boustro.tasks.data.schemes import entities_to_bio, flatten_entities
from boustro.types import Entity, Sentence

NOTHING = ""
Place = tuple[int, int]
"""The number of a sentence in its document, and the first word."""


def vote(sentences: Sequence[Sentence], answers: Sequence[Answer]) -> list[Answer]:
    """The answers after the votes; an answer that stays the same is the same object."""
    voted: list[Answer] = []
    numbered = groupby(zip(sentences, answers, strict=True), key=lambda pair: pair[0].document)
    for name, run in numbered:
        pairs = list(run)
        for group in [pairs] if name else [[pair] for pair in pairs]:
            voted += _vote_in([s.words for s, _ in group], [a for _, a in group])
    return voted


def _vote_in(words: Sequence[tuple[str, ...]], answers: Sequence[Answer]) -> list[Answer]:
    """The answers for the sentences of one document."""
    found = [list(answer.entities) for answer in answers]
    changed: set[int] = set()
    names = {own[e.start : e.end] for own, a in zip(words, answers, strict=True) for e in a.entities}
    for name in sorted(names, key=len, reverse=True):  # what a longer name covers is no place of a shorter one
        free = {
            (number, start): at[0] if at else None
            for number, start in _occurrences(words, name)
            if (at := _at(found[number], start, len(name))) is not None
        }
        if len(free) < 2:
            continue
        label, score = _winner(free, answers, len(name))
        for (number, start), own in free.items():
            if (own.label if own else NOTHING) == label:
                continue
            changed.add(number)
            if own:
                found[number].remove(own)
            if label:
                found[number].append(Entity(label, start, start + len(name), score=score))
    return [_with(a, own) if n in changed else a for n, (a, own) in enumerate(zip(answers, found, strict=True))]


def _occurrences(words: Sequence[tuple[str, ...]], name: tuple[str, ...]) -> Iterator[Place]:
    for number, own in enumerate(words):
        for start in range(len(own) - len(name) + 1):
            if own[start] == name[0] and own[start : start + len(name)] == name:
                yield number, start


def _at(entities: Sequence[Entity], start: int, size: int) -> list[Entity] | None:
    """The entity of exactly these words, in a list, which may be empty; `None` where others share words with them."""
    near = [e for e in entities if e.start < start + size and start < e.end]
    return near if not near or [(e.start, e.end) for e in near] == [(start, start + size)] else None


def _winner(places: dict[Place, Entity | None], answers: Sequence[Answer], size: int) -> tuple[str, float]:
    """The label of the largest sum, and its score."""
    votes: dict[str, float] = {}
    for (number, start), own in places.items():
        own_score = own.score if own else np.mean(answers[number].scores[start : start + size])
        label = own.label if own else NOTHING
        votes[label] = votes.get(label, 0.0) + float(own_score or 0.0)
    label = max(votes, key=lambda name: (votes[name], name != NOTHING, name))
    return label, votes[label] / len(places)


def _with(answer: Answer, entities: Sequence[Entity]) -> Answer:
    """The answer with other entities; a changed word has the score of its entity."""
    entities = tuple(sorted(entities))
    tags = entities_to_bio(flatten_entities(entities), len(answer.tags))
    scores = list(answer.scores)
    for e in set(entities) - set(answer.entities):
        scores[e.start : e.end] = [e.score or 0.0] * (e.end - e.start)
    return replace(answer, tags=tags, scores=tuple(scores), entities=entities)
