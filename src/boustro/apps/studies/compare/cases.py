"""The case study: where do two systems differ, and which kind of entity does one of them get right?

As in Tables 3 and 4 of the backward-LM paper (section 4.2 and appendix B), for a forward LM and a pair:

    Lotte and Hyundai      forward  PER and ORG      pair  ORG and ORG      → "before “and” …": fixed

Labels of words have no entities of several words, so they have the groups of one word only (`WORD_GROUPS`).
Every entity of the reference belongs to each group whose property it has, and to the last group if it has none. It is
*fixed* when the second system has it right and the first has not, *broken* in the opposite case; both are counted
over all seeds that the systems share. Sentences are shown for the first seed, ordered by the score of the correct
answer; a sentence is shown once, and the same words once per group.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from boustro.apps.studies.report.buckets import Training
from boustro.text.words import apart
from boustro.types import Entity, Sentence

JOINERS = frozenset({"and", "And", "AND", "&"})
LONG_ENTITY_WORDS = 3
MAX_FIXED, MAX_BROKEN, MAX_WORDS, MOST_MISTAKES = 5, 3, 40, 8  # a page has room for as many
Members = list[tuple[int, Entity]]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one system and seed: per example the entities and, in the same order, their scores; then (N, C)
    values for the statistic, the answers as text, and how much each word counted, where that was computed."""

    words: Sequence[Sequence[str]]
    gold: Sequence[Sequence[Entity]]
    predicted: Sequence[Sequence[Entity]]
    scores: Sequence[Sequence[float]]
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    said: Sequence[str] = ()
    effects: Mapping[int, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GoldInContext:
    """An entity of the reference with its sentence, the sentence's other entities, and the training data."""

    entity: Entity
    words: Sequence[str]
    gold: Sequence[Entity]
    training: Training


ENTITY_GROUPS: dict[str, Callable[[GoldInContext], bool]] = {
    "starts the sentence": lambda p: p.entity.start == 0,
    "before “and” and another entity": lambda p: any(_joined(p.entity, e, p.words) for e in p.gold),
    "after another entity and “and”": lambda p: any(_joined(e, p.entity, p.words) for e in p.gold),
    "never seen in the training data": lambda p: p.training.seen(p.entity, p.words) == 2,
    f"long: {LONG_ENTITY_WORDS} words or more": lambda p: p.entity.end - p.entity.start >= LONG_ENTITY_WORDS,
}
WORD_GROUPS = {title: ENTITY_GROUPS[title] for title in ("starts the sentence", "never seen in the training data")}
OTHER_ENTITIES = "all others"


@dataclass(frozen=True, slots=True)
class Change:
    """An entity that only one of the two systems has right, or that one has wrongly, with that system's score."""

    sentence: int
    entity: Entity
    kind: str  # fixed, broken or wrong
    score: float


def case_study(
    sentences: Sequence[Sentence],
    first: Sequence[Answers],
    second: Sequence[Answers],
    others: Mapping[str, Answers],
    training: Training,
    names: tuple[str, str],
    groups: Mapping[str, Callable[[GoldInContext], bool]] = ENTITY_GROUPS,
) -> list[dict[str, Any]]:
    """Return one dict per group: its counts, and example sentences.

    `first` and `second` are the two systems' answers for the same seeds, at least one; `others` are shown beside them,
    with their answers for the first of these seeds.
    """
    members = _members(first[0], training, groups)
    shown_answers = {names[0]: first[0], names[1]: second[0], **others}
    changes = {t: [list(_changes(a, b, p)) for a, b in zip(first, second, strict=True)] for t, p in members.items()}
    chosen: dict[str, list[Change]] = {}
    for title in sorted(members, key=lambda t: len(members[t])):  # small groups first, or the large take all
        taken = {c.sentence for each in chosen.values() for c in each}
        chosen[title] = _choose(changes[title][0], first[0].words, taken)
    rows = []
    for title, entities in members.items():
        num = len(entities) * len(first)
        right = [sum(e in a.predicted[i] for a in side for i, e in entities) for side in (first, second)]
        kinds = [c.kind for each in changes[title] for c in each]
        rows.append(
            {
                "title": title,
                "entities": len(entities),
                "recall": [100 * r / num if num else 0.0 for r in right],
                "fixed": kinds.count("fixed"),
                "broken": kinds.count("broken"),
                "num_seeds": len(first),
                "sentences": [_shown(c, sentences[c.sentence], shown_answers) for c in chosen[title]],
            }
        )
    return rows


def confident_mistakes(sentences: Sequence[Sentence], name: str, answers: Answers) -> list[dict[str, Any]]:
    """Return the wrong entities of one system with the highest scores."""
    scored = (zip(*pair, strict=True) for pair in zip(answers.predicted, answers.scores, strict=True))
    wrong = [Change(i, e, "wrong", p) for i, pairs in enumerate(scored) for e, p in pairs if e not in answers.gold[i]]
    chosen = [c for c in sorted(wrong, key=lambda c: (-c.score, c.sentence)) if len(sentences[c.sentence]) <= MAX_WORDS]
    return [_shown(c, sentences[c.sentence], {name: answers}) for c in chosen[:MOST_MISTAKES]]


def _members(
    answers: Answers, training: Training, groups: Mapping[str, Callable[[GoldInContext], bool]]
) -> dict[str, Members]:
    """Return (sentence, entity) of every group, in order."""
    members: dict[str, Members] = {title: [] for title in (*groups, OTHER_ENTITIES)}
    for index, gold in enumerate(answers.gold):
        for entity in gold:
            in_context = GoldInContext(entity, answers.words[index], gold, training)
            for title in [t for t, belongs in groups.items() if belongs(in_context)] or [OTHER_ENTITIES]:
                members[title].append((index, entity))
    return members


def _changes(first: Answers, second: Answers, members: Members) -> Iterator[Change]:
    for index, entity in members:
        for kind, right, wrong in (("fixed", second, first), ("broken", first, second)):
            predicted = right.predicted[index]
            if entity in predicted and entity not in wrong.predicted[index]:
                yield Change(index, entity, kind, right.scores[index][predicted.index(entity)])


def _choose(changes: Sequence[Change], words: Sequence[Sequence[str]], taken: set[int]) -> list[Change]:
    """Those with the highest scores, the fixed before the broken."""
    chosen: list[Change] = []
    forms: set[tuple[str, ...]] = set()
    for kind, room in (("fixed", MAX_FIXED), ("broken", MAX_BROKEN)):
        for change in sorted((c for c in changes if c.kind == kind), key=lambda c: (-c.score, c.sentence)):
            sentence = words[change.sentence]
            form = tuple(sentence[change.entity.start : change.entity.end])
            if room and change.sentence not in taken and form not in forms and len(sentence) <= MAX_WORDS:
                chosen.append(change)
                taken = taken | {change.sentence}
                forms.add(form)
                room -= 1
    return chosen


def _shown(change: Change, sentence: Sentence, answers: Mapping[str, Answers]) -> dict[str, Any]:
    """Return a sentence with the reference and each system's entities, as (type, start, end, score)."""
    index = change.sentence
    reference = next(iter(answers.values()))
    return {
        "number": index + 1,
        "where": sentence.where.rpartition("/")[2],
        "kind": change.kind,
        "entity": [change.entity.label, change.entity.start, change.entity.end],
        "score": change.score,
        "words": list(reference.words[index]),
        "spaces": apart(sentence.words) if sentence.spaces is None else list(sentence.spaces),
        "gold": [[e.label, e.start, e.end] for e in reference.gold[index]],
        "answers": {
            name: [[e.label, e.start, e.end, p] for e, p in zip(a.predicted[index], a.scores[index], strict=True)]
            for name, a in answers.items()
        },
    }


def _joined(first: Entity, second: Entity, words: Sequence[str]) -> bool:
    """Return whether only an "and" separates them."""
    return second.start == first.end + 1 and words[first.end] in JOINERS
