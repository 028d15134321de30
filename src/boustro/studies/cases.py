"""The case study: where do two systems differ, and what kind of entity is it that one has right?

As in Tables 3 and 4 of the backward-LM paper (section 4.2 and appendix B), for a forward LM and a pair:

    Lotte and Hyundai      forward  PER and ORG      pair  ORG and ORG      → "before “and” …": fixed

Every entity of the reference belongs to each group whose property it has, and to the last group if it has
none. It is *fixed* when the second system has it right and the first has not, *broken* the other way round;
both are counted over all seeds that the systems share. Sentences are shown for the first seed, those that
the right system was surest of first; a sentence is shown once, and the same words once in a group.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boustro.metrics.buckets import Training
from boustro.studies.cells import Answers
from boustro.types import Entity, Sentence

JOINERS = frozenset({"and", "And", "AND", "&"})
LONG_WORDS = 3
MAX_FIXED, MAX_BROKEN, MAX_WORDS = 5, 3, 40


@dataclass(frozen=True, slots=True)
class Place:
    """An entity of the reference where it stands, and what belongs to the same sentence."""

    entity: Entity
    words: Sequence[str]
    gold: Sequence[Entity]
    training: Training


GROUPS: dict[str, Callable[[Place], bool]] = {
    "starts the sentence": lambda p: p.entity.start == 0,
    "before “and” and another entity": lambda p: any(_joined(p.entity, e, p.words) for e in p.gold),
    "after another entity and “and”": lambda p: any(_joined(e, p.entity, p.words) for e in p.gold),
    "never seen in the training data": lambda p: p.training.seen(p.entity, p.words) == 2,
    f"long: {LONG_WORDS} words or more": lambda p: p.entity.end - p.entity.start >= LONG_WORDS,
}
OTHERS = "all other entities"


@dataclass(frozen=True, slots=True)
class Change:
    """An entity that one of the two systems has right, and how sure that system is of it."""

    sentence: int
    entity: Entity
    kind: str  # fixed or broken
    score: float


def case_study(
    sentences: Sequence[Sentence],
    first: Sequence[Answers],
    second: Sequence[Answers],
    others: Mapping[str, Answers],
    training: Training,
    names: tuple[str, str],
) -> list[dict[str, Any]]:
    """A dict a group: its counts, and the sentences that show it best.

    Args:
        sentences: The data that was judged.
        first, second: The answers of the two systems, of the same seeds in the same order; at least one.
        others: One answer of each system that is shown beside them, of the first of these seeds.
        names: Of the first and the second.
    """
    members = _members(first[0], training)
    shown_answers = {names[0]: first[0], names[1]: second[0], **others}
    changes = {t: [list(_changes(a, b, p)) for a, b in zip(first, second, strict=True)] for t, p in members.items()}
    chosen: dict[str, list[Change]] = {}
    for title in sorted(members, key=lambda t: len(members[t])):  # small groups first, or the large would leave nothing
        taken = {c.sentence for each in chosen.values() for c in each}
        chosen[title] = _choose(changes[title][0], first[0].words, taken)
    groups = []
    for title, places in members.items():
        seeds = changes[title]
        num = len(places) * len(seeds)
        right = [sum(_is_right(a, i, e) for a in side for i, e in places) for side in (first, second)]
        groups.append(
            {
                "title": title,
                "entities": len(places),
                "recall": [100 * r / num if num else 0.0 for r in right],
                "fixed": sum(c.kind == "fixed" for each in seeds for c in each),
                "broken": sum(c.kind == "broken" for each in seeds for c in each),
                "num_seeds": len(seeds),
                "sentences": [_shown(c, sentences[c.sentence], shown_answers) for c in chosen[title]],
            }
        )
    return groups


def _members(answers: Answers, training: Training) -> dict[str, list[tuple[int, Entity]]]:
    """(sentence, entity) of every group, in order."""
    members: dict[str, list[tuple[int, Entity]]] = {title: [] for title in (*GROUPS, OTHERS)}
    for index, (words, gold) in enumerate(zip(answers.words, answers.gold, strict=True)):
        for entity in gold:
            place = Place(entity, words, gold, training)
            for title in [t for t, belongs in GROUPS.items() if belongs(place)] or [OTHERS]:
                members[title].append((index, entity))
    return members


def _changes(first: Answers, second: Answers, places: Sequence[tuple[int, Entity]]) -> Iterator[Change]:
    for index, entity in places:
        before, after = _score(first, index, entity), _score(second, index, entity)
        if before is None and after is not None:
            yield Change(index, entity, "fixed", after)
        if before is not None and after is None:
            yield Change(index, entity, "broken", before)


def _choose(changes: Sequence[Change], words: Sequence[Sequence[str]], taken: set[int]) -> list[Change]:
    """The most telling ones, the fixed before the broken."""
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
    """A sentence with the reference and everyone's entities, as (type, start, end, score)."""
    index = change.sentence
    reference = next(iter(answers.values()))
    return {
        "number": index + 1,
        "where": sentence.where.rpartition("/")[2],
        "kind": change.kind,
        "entity": [change.entity.label, change.entity.start, change.entity.end],
        "score": change.score,
        "words": list(reference.words[index]),
        "gold": [[e.label, e.start, e.end] for e in reference.gold[index]],
        "answers": {
            name: [
                [e.label, e.start, e.end, score] for e, score in zip(a.predicted[index], a.scores[index], strict=True)
            ]
            for name, a in answers.items()
        },
    }


def _score(answers: Answers, index: int, entity: Entity) -> float | None:
    """The score of this very entity in an answer, if it is there."""
    found = answers.predicted[index]
    return answers.scores[index][found.index(entity)] if entity in found else None


def _is_right(answers: Answers, index: int, entity: Entity) -> bool:
    return entity in answers.predicted[index]


def _joined(first: Entity, second: Entity, words: Sequence[str]) -> bool:
    """Whether nothing but an "and" stands between them."""
    return second.start == first.end + 1 and words[first.end] in JOINERS
