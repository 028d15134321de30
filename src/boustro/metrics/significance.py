"""Is one system better than another? A paired bootstrap of F1, an exact sign-flip test, and Holm's correction.

Paired bootstrap: all systems are scored on the same resampled sentences, many times, and the seeds that two systems
share are resampled as well, paired by their number. A system's score in a draw is the mean of its seeds' F1.

    interval             the middle 95% of the differences
    p, two-sided         twice the share of draws on the other side of 0:  2 · (1 + #{d ≤ 0}) / (1 + B)

With one seed the interval covers the sentences only, not other seeds, so there is no p.

Letters: S seeds, N sentences, B draws of a block. Sources: Berg-Kirkpatrick et al. 2012 (resampling sentences);
Bouthillier et al. 2021, *Accounting for variance* (resampling runs); Davison and Hinkley 1997, section 4.2 (the
p-value); Fisher 1935; Holm 1979.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boustro.metrics.spans import entity_keys
from boustro.types import Entity

BLOCK_DRAWS = 100
RELIABLE = 0.05
"""Below this p a difference is called reliable."""


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


def entity_counts(gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]) -> np.ndarray:
    """(sentences, 3) from the entities of each sentence."""
    pairs = ((entity_keys(a), entity_keys(b)) for a, b in zip(gold, predicted, strict=True))
    return np.array([(len(a), len(b), len(a & b)) for a, b in pairs], np.int64).reshape(-1, 3)


def bootstrap_f1(
    systems: Sequence[np.ndarray], seeds: Sequence[Sequence[int]] | None = None, draws: int = 2000, seed: int = 0
) -> list[Drawn]:
    """F1 of every system and seed on the same resampled sentences.

    Args:
        systems: Counts (seeds, sentences, 3), or (sentences, 3) for a single seed.
        seeds: The seeds of each system; by default 0, 1, …

    Raises `ValueError` when the systems were not scored on the same number of sentences.
    """
    stacked = [(counts[None] if counts.ndim == 2 else counts).astype(float) for counts in systems]
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


def difference(first: Drawn, second: Drawn, seed: int = 0) -> Difference | None:
    """The second minus the first over the seeds that both have; `None` where they share none."""
    shared = [s for s in first.seeds if s in second.seeds]
    if not shared:
        return None
    rows, second_rows = ([side.seeds.index(s) for s in shared] for side in (first, second))
    gaps = second.resampled[:, second_rows] - first.resampled[:, rows]
    points = float((second.f1[second_rows] - first.f1[rows]).mean())
    chosen = np.random.default_rng(seed).integers(0, len(shared), gaps.shape)
    means = np.take_along_axis(gaps, chosen, 1).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = 1 + min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * float(beyond) / (1 + len(means))) if len(shared) > 1 else None
    return Difference(points, float(low), float(high), p, len(shared))


def _f1(counts: np.ndarray) -> np.ndarray:
    """(..., 3) → (...): percent, 0 without any entity."""
    return 200 * counts[..., 2] / np.maximum(counts[..., 0] + counts[..., 1], 1)


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of n paired differences: the share of the 2ⁿ ways to set their signs with a mean as far from 0.

    For n above 16 it is from a fixed random sample of them. 2, 1, 3: two of 8 ways reach a mean of 2  →  p = 0.25
    """
    values = np.asarray(differences, float)
    if len(values) <= 16:
        signs = 1 - 2 * (np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (20_000, len(values)))
        signs[0] = 1  # the observed signs are one of the ways, so that p is never 0
    found = abs(values.mean()) if len(values) else 0.0
    return float((np.abs(signs @ values) / max(len(values), 1) >= found - 1e-12 * max(found, 1)).mean())


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values of one table, corrected for their number; `None`, where nothing was tested, stays `None`.

    The smallest of m is multiplied by m, the next by m - 1, and so on: p 0.01, 0.04, 0.03  →  0.03, 0.06, 0.06
    """
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(tested):
        least = corrected[place] = max(least, min(1.0, p * (len(tested) - rank)))
    return corrected
