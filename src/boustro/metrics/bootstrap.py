"""How far apart are two systems? A paired bootstrap of F1 over sentences and seeds.

All systems are scored on the same resampled sentences, many times. Of two systems that were trained with several
seeds, the seeds that both have are resampled as well, together: seed 3 of the one stands beside seed 3 of the other.
A system's score in a draw is the mean of its seeds' F1, as in the table.

    counts of a system   (seeds, sentences, 3): entities in the reference, predicted, and in both
    interval             the middle 95% of the differences
    p, two-sided         twice the share of draws on the other side of 0:  2 · (1 + #{d ≤ 0}) / (1 + B)

With one seed the interval covers the sentences alone, and nothing is said of other seeds: there is no p.

Letters: S seeds, N sentences, B draws of a block. Source: Berg-Kirkpatrick et al. 2012 for the sentences;
that runs should be resampled as well: Bouthillier et al. 2021, *Accounting for variance*; the p-value: Davison and
Hinkley 1997, section 4.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boustro.metrics.spans import extract_spans
from boustro.types import Entity

BLOCK_DRAWS = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """F1 of the second system minus the first's, in points, over the seeds that both have, and its 95% interval."""

    points: float
    low: float
    high: float
    p: float | None
    """Two-sided; `None` for a single seed."""
    num_seeds: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A system's F1 for each of its seeds: on all sentences, (S,), and on resampled ones, (draws, S)."""

    seeds: tuple[int, ...]
    f1: np.ndarray
    resampled: np.ndarray


def sentence_counts(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> np.ndarray:
    """(sentences, 3) from tags."""
    return entity_counts([extract_spans(tags) for tags in gold], [extract_spans(tags) for tags in predicted])


def entity_counts(gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]) -> np.ndarray:
    """(sentences, 3) from entities."""
    rows = []
    for gold_entities, predicted_entities in zip(gold, predicted, strict=True):
        wanted, got = ({(e.label, e.start, e.end) for e in side} for side in (gold_entities, predicted_entities))
        rows.append((len(wanted), len(got), len(wanted & got)))
    return np.array(rows, np.int64).reshape(-1, 3)


def paired_bootstrap(first: np.ndarray, second: np.ndarray, draws: int = 2000, seed: int = 0) -> Difference:
    """Compare two systems by their counts, (sentences, 3) or (seeds, sentences, 3), on the same sentences."""
    found = difference(*bootstrap_f1([first, second], draws=draws, seed=seed), seed=seed)
    assert found is not None
    return found


def difference(first: Drawn, second: Drawn, seed: int = 0) -> Difference | None:
    """The second minus the first over the seeds that both have; `None` where they share none."""
    shared = [s for s in first.seeds if s in second.seeds]
    if not shared:
        return None
    sides = [(side, [side.seeds.index(s) for s in shared]) for side in (first, second)]
    found, drawn = (
        later - earlier for earlier, later in zip(*((d.f1[own], d.resampled[:, own]) for d, own in sides), strict=True)
    )
    chosen = np.random.default_rng(seed).integers(0, len(shared), drawn.shape)
    means = np.take_along_axis(drawn, chosen, 1).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = 1 + min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * float(beyond) / (1 + len(means))) if len(shared) > 1 else None
    return Difference(float(found.mean()), float(low), float(high), p, len(shared))


def bootstrap_f1(
    systems: Sequence[np.ndarray], seeds: Sequence[Sequence[int]] | None = None, draws: int = 2000, seed: int = 0
) -> list[Drawn]:
    """F1 of every system and seed on the same resampled sentences; `seeds` are 0, 1, … where they are not given.

    Raises `ValueError` when the systems were not scored on the same number of sentences.
    """
    stacked = [_with_seeds(counts).astype(float) for counts in systems]
    sizes = sorted({counts.shape[1] for counts in stacked})
    if len(sizes) > 1:
        raise ValueError(f"the systems were scored on different sentences: {' and '.join(map(str, sizes))}")
    generator = np.random.default_rng(seed)
    resampled = [np.empty((draws, len(counts))) for counts in stacked]
    for start in range(0, draws, BLOCK_DRAWS):
        size = min(BLOCK_DRAWS, draws - start)
        chosen = generator.integers(0, sizes[0], (size, sizes[0])) if sizes[0] else np.zeros((size, 0), int)
        times = np.stack([np.bincount(row, minlength=sizes[0]) for row in chosen]).astype(float)  # (B, N)
        for counts, rows in zip(stacked, resampled, strict=True):
            rows[start : start + size] = _f1(np.einsum("bn,snc->bsc", times, counts, optimize=True))  # (B, S)
    named = seeds or [range(len(counts)) for counts in stacked]
    return [
        Drawn(tuple(own), _f1(counts.sum(1)), rows) for own, counts, rows in zip(named, stacked, resampled, strict=True)
    ]


def mean_f1(counts: np.ndarray) -> float:
    """F1 in percent, the mean over seeds where there are several."""
    return float(_f1(_with_seeds(counts).sum(1)).mean())


def _with_seeds(counts: np.ndarray) -> np.ndarray:
    return counts[None] if counts.ndim == 2 else counts


def _f1(counts: np.ndarray) -> np.ndarray:
    """(..., 3) → (...): percent, 0 where there is nothing at all."""
    both = counts[..., 0] + counts[..., 1]
    return 200 * counts[..., 2] / np.maximum(both, 1)
