"""Entity scores by bucket: of position, of length, and of frequency in the training data.

Recall is over the entities of the reference in the bucket, precision over the predicted ones.
The counts of a dimension's buckets sum to the total.

    ["Jordan", "closed", "its", "border", "with", "Syria"]     LOC [0, 1): "starts the sentence"
                                                               LOC [5, 6): "elsewhere"

The dimension `position` tests directions: where an entity starts the sentence, a forward LM has read nothing of the
sentence but the entity. Source: backward-LM paper, section 4.2; the other dimensions follow Fu, Liu and Neubig 2020,
*Interpretable multi-dataset evaluation for named entity recognition*.

For kinds of mistakes every entity of the reference and every predicted one is counted once. Each predicted entity is
matched with at most one of the reference, and vice versa:

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

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from boustro.metrics.spans import SpanCounts, entity_keys
from boustro.types import Entity

INITIAL, ELSEWHERE = "starts the sentence", "elsewhere"


@dataclass(frozen=True, slots=True)
class Training:
    """How often exact words were an entity of a type in the training data."""

    counts: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)
    forms: frozenset[tuple[str, ...]] = frozenset()

    @classmethod
    def of(cls, sentences: Iterable[tuple[Sequence[str], Sequence[Entity]]]) -> "Training":
        """From (words, entities) of every training sentence."""
        counts = Counter((tuple(words[e.start : e.end]), e.label) for words, entities in sentences for e in entities)
        return cls(counts, frozenset(form for form, _ in counts))

    def frequency(self, entity: Entity, words: Sequence[str]) -> int:
        """Return how often exactly these words were an entity of this type."""
        return self.counts[tuple(words[entity.start : entity.end]), entity.label]

    def seen(self, entity: Entity, words: Sequence[str]) -> int:
        """0 with this type, 1 with another type only, 2 never."""
        if self.frequency(entity, words):
            return 0
        return 1 if tuple(words[entity.start : entity.end]) in self.forms else 2


@dataclass(frozen=True, slots=True)
class Dimension:
    """Names of the buckets, in order, and the function that gives the bucket of an entity."""

    title: str
    buckets: tuple[str, ...]
    place: Callable[[Entity, Sequence[str], Training], int]


def _steps(title: str, starts: Sequence[int], value: Callable[[Entity, Sequence[str], Training], int]) -> Dimension:
    """Buckets of whole numbers that begin at `starts`: (0, 1, 3) → "0", "1–2", "3+"."""
    names = [str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in pairwise(starts)]
    return Dimension(title, (*names, f"{starts[-1]}+"), lambda *given: bisect_right(starts, value(*given)) - 1)


DIMENSIONS: dict[str, Dimension] = {
    "position": Dimension("Position in the sentence", (INITIAL, ELSEWHERE), lambda e, words, _: int(e.start > 0)),
    "before": _steps("Words before the entity", (0, 1, 3, 6, 11), lambda e, words, _: e.start),
    "after": _steps("Words after the entity", (0, 1, 3, 6, 11), lambda e, words, _: len(words) - e.end),
    "length": _steps("Words of the entity", (1, 2, 3, 4), lambda e, words, _: e.end - e.start),
    "sentence": _steps("Words of the sentence", (1, 10, 20, 30, 40), lambda e, words, _: len(words)),
    "seen": Dimension(
        "The exact words in the training data",
        ("seen with this type", "seen with another type only", "never seen"),
        lambda e, words, t: t.seen(e, words),
    ),
    "frequency": _steps(
        "How often in the training data, with this type", (0, 1, 2, 5, 20), lambda e, words, t: t.frequency(e, words)
    ),
}


def count_buckets(
    dimension: Dimension,
    training: Training,
    words: Sequence[Sequence[str]],
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
) -> dict[str, SpanCounts]:
    """Counts of all sentences by bucket, empty buckets too, in the dimension's order."""
    counts = [[0, 0, 0] for _ in dimension.buckets]
    for sentence, wanted, got in zip(words, gold, predicted, strict=True):
        right = entity_keys(wanted)
        for entity in wanted:
            counts[dimension.place(entity, sentence, training)][0] += 1
        for entity in got:
            row = counts[dimension.place(entity, sentence, training)]
            row[1] += 1
            row[2] += (entity.label, entity.start, entity.end) in right
    return {name: SpanCounts(*row) for name, row in zip(dimension.buckets, counts, strict=True)}


OUTCOMES = ("correct", "type", "boundary", "both", "missed", "spurious")
MISTAKES = OUTCOMES[1:]


@dataclass(frozen=True, slots=True)
class Match:
    """An entity of the reference, its predicted match, and the kind; `None` where there is none."""

    kind: str
    gold: Entity | None
    predicted: Entity | None


def match_entities(gold: Sequence[Entity], predicted: Sequence[Entity]) -> list[Match]:
    """Return the matches of one sentence, in the order of the text."""
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
            matches.append(Match(OUTCOMES[rank], gold[i], predicted[j]))
    matches += [Match("missed", gold[i], None) for i in left]
    matches += [Match("spurious", None, predicted[j]) for j in right]
    return sorted(matches, key=_place)


def count_kinds(matches: Iterable[Match]) -> dict[str, int]:
    """Return the number of matches of every kind, zeros included, in the order of `OUTCOMES`."""
    counts = Counter(m.kind for m in matches)
    return {kind: counts[kind] for kind in OUTCOMES}


def count_confusions(matches: Iterable[Match]) -> Counter[tuple[str | None, str | None]]:
    """Return (type in the reference, predicted type) → how often, whatever the boundaries; `None` stands for no
    entity."""
    return Counter((m.gold.label if m.gold else None, m.predicted.label if m.predicted else None) for m in matches)


def _place(match: Match) -> tuple[int, int]:
    entities = [e for e in (match.gold, match.predicted) if e is not None]
    return min(e.start for e in entities), min(e.end for e in entities)
