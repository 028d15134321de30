"""Kinds of mistakes: every entity of the reference and every predicted one is counted once.

Each predicted entity is matched with at most one of the reference, and vice versa:

    correct    the same words, the same type
    type       the same words, another type
    boundary   the same type, words that overlap
    both       another type, words that overlap
    missed     an entity of the reference without a match
    spurious   a predicted entity without a match

Pairs are matched in that order of kinds; among pairs of one kind, the larger overlap first, then fewer words outside of
it, then the earlier pair. An entity is also missed if a predicted one overlaps it but is matched with another.

    words      The  Bank  of  Port  Lisse  fell          reference  ORG [1, 5)
    predicted  O    B-ORG O   B-LOC I-LOC  O             ORG [1, 2): boundary; LOC [3, 5): spurious

Entities of one side may be nested or cross, but there must be no duplicates. Then `correct` is that of
`spans.score_entities`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from boustro.types import Entity

KINDS = ("correct", "type", "boundary", "both", "missed", "spurious")
MISTAKES = KINDS[1:]


@dataclass(frozen=True, slots=True)
class Match:
    """An entity of the reference, its predicted match, and the kind; `None` where there is none."""

    kind: str
    gold: Entity | None
    predicted: Entity | None


def match_entities(gold: Sequence[Entity], predicted: Sequence[Entity]) -> list[Match]:
    """The matches of one sentence, in the order of the text."""
    pairs = []
    for i, g in enumerate(gold):
        for j, p in enumerate(predicted):
            overlap = min(g.end, p.end) - max(g.start, p.start)
            if overlap > 0:
                outside = max(g.end, p.end) - min(g.start, p.start) - overlap
                order = (g.start, p.start, g.end, p.end, g.label, p.label)  # whatever the order of the lists
                rank = 2 * ((g.start, g.end) != (p.start, p.end)) + (g.label != p.label)  # of KINDS
                pairs.append((rank, -overlap, outside, order, i, j))
    matches, left, right = [], set(range(len(gold))), set(range(len(predicted)))
    for rank, *_, i, j in sorted(pairs):
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            matches.append(Match(KINDS[rank], gold[i], predicted[j]))
    matches += [Match("missed", gold[i], None) for i in left]
    matches += [Match("spurious", None, predicted[j]) for j in right]
    return sorted(matches, key=_place)


def count_kinds(matches: Iterable[Match]) -> dict[str, int]:
    """The number of matches of every kind, zeros included, in the order of `KINDS`."""
    counts = Counter(m.kind for m in matches)
    return {kind: counts[kind] for kind in KINDS}


def count_confusions(matches: Iterable[Match]) -> Counter[tuple[str | None, str | None]]:
    """(type in the reference, predicted type) → how often, whatever the boundaries; `None` stands for no entity."""
    return Counter((m.gold.label if m.gold else None, m.predicted.label if m.predicted else None) for m in matches)


def _place(match: Match) -> tuple[int, int]:
    entities = [e for e in (match.gold, match.predicted) if e is not None]
    return min(e.start for e in entities), min(e.end for e in entities)
