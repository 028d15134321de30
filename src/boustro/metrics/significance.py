"""Is one system better than another? A paired bootstrap of any score, an exact sign-flip test, and Holm's correction.

Paired bootstrap: all systems are scored on the same resampled examples, many times, and the seeds that two systems
share are resampled as well, paired by their number. A system's score in a draw is the mean of its seeds' scores.

    interval             the middle 95% of the differences
    p, two-sided         twice the share of draws on the other side of 0:  2 · (1 + #{d ≤ 0}) / (1 + B)

With one seed the interval covers the examples only, not other seeds, so there is no p.

Where systems differ in few groups, the draws are too sure. There p is at least that of the exact test, which exchanges
the answers of both in every set of these groups (5 texts against 0: 2 / 2⁵, as McNemar's), and the interval holds that
of Agresti and Min, of the share of groups in which each is better; and 0, where the test finds nothing.

The interval of a score is Wilson's, with Student's t of G - 1 groups, for as many examples as vary like the draws (Korn
and Graubard): 12 of 12 right are 71.2 to 100, where the draws are all 100.

Examples of one document are alike, so a hundred of them say less than a hundred documents: where groups are given,
these are drawn, G - 1 of them, which keeps the variance unbiased. Of fewer than about ten groups no interval is sure.

A score is a `Statistic`: a function of some values of every example, and of how often each example is drawn.

    f1          (reference, predicted, both) of an example's entities; (1, 1, 1 or 0) gives the accuracy, and
                (1, 1, own F1) the mean of the examples' own F1, as SQuAD has it
    pearson     (reference, predicted) numbers
    spearman    the same; the ranks are those within a draw

Letters: S seeds, N examples, C values of each, G groups, B draws of a block. Sources: Berg-Kirkpatrick et al. 2012
(resampling examples); Rao and Wu 1988 (of groups one less); Bouthillier et al. 2021, *Accounting for variance*
(resampling runs); Davison and Hinkley 1997, section 4.2 (the p-value); Fisher 1935; Holm 1979; Wilson 1927; Korn and
Graubard 1998 (intervals); Agresti and Min 2005 (of differences).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from boustro.metrics.spans import entity_keys
from boustro.types import Entity

BLOCK_DRAWS = 100  # draws of all examples at once: (draws, examples, values) in memory
FEW_GROUPS = 12
"""Groups in which systems differ, up to which all exchanges are tried."""
RELIABLE = 0.05
"""Below this p a difference is called reliable."""
Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(B, S) in percent, from the values of the examples (S, N, C) and how often each is drawn (B, N)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The second system's score minus the first's, in points, over the seeds that both have, and its 95% interval."""

    points: float
    low: float
    high: float
    p: float | None
    """Two-sided; `None` for a single seed."""
    num_seeds: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A system's score for each of its seeds: on all examples, (S,), and on resampled ones, (draws, S)."""

    seeds: tuple[int, ...]
    scores: np.ndarray
    resampled: np.ndarray
    values: np.ndarray
    """(S, N, C), of which `statistic` makes the scores."""
    statistic: Statistic
    groups: np.ndarray
    """(N,) the group of each example that was drawn."""


def entity_counts(gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]) -> np.ndarray:
    """Return (sentences, 3) from the entities of each sentence."""
    pairs = ((entity_keys(a), entity_keys(b)) for a, b in zip(gold, predicted, strict=True))
    return np.array([(len(a), len(b), len(a & b)) for a, b in pairs], np.int64).reshape(-1, 3)


def f1(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """From (reference, predicted, both) of every example; 0 without any."""
    counts = np.einsum("bn,snc->bsc", times, values, optimize=True)
    return 200 * counts[..., 2] / np.maximum(counts[..., 0] + counts[..., 1], 1)


def pearson(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """From (reference, predicted) of every example; 0 where one side does not vary."""
    x, y = np.moveaxis(values - values.mean(1, keepdims=True), 2, 0)  # (S, N) each
    return _correlation(x[None], y[None], times[:, None])


def spearman(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Correlate the ranks within each draw; equal numbers have the mean of their ranks."""
    ranked = ((_ranks(columns[:, 0], times), _ranks(columns[:, 1], times)) for columns in values)
    return np.concatenate([_correlation(x, y, times)[:, None] for x, y in ranked], 1)


def _ranks(x: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return (B, N) the rank of each of the numbers (N,) in each draw, around 0."""
    order = np.argsort(x, kind="stable")
    starts = np.flatnonzero(np.diff(x[order], prepend=-np.inf) > 0)
    sizes = np.add.reduceat(times[:, order], starts, axis=1)  # (B, different numbers)
    ranks = np.empty_like(times)
    ranks[:, order] = np.repeat(sizes.cumsum(1) - sizes / 2, np.diff(starts, append=len(x)), axis=1)
    return ranks - times.sum(1, keepdims=True) / 2


def _correlation(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Over the last axis, weighted by `times`; percent, and 0 where one side does not vary."""
    # squares of very large or small numbers would leave the range of floats
    x, y = (side / max(np.abs(side).max(initial=0), 1e-300) for side in (x, y))
    total = np.maximum(times.sum(-1), 1)
    mean_x, mean_y = ((times * side).sum(-1) / total for side in (x, y))
    both, of_x, of_y = (
        (times * a * b).sum(-1) / total - mean_a * mean_b
        for a, b, mean_a, mean_b in ((x, y, mean_x, mean_y), (x, x, mean_x, mean_x), (y, y, mean_y, mean_y))
    )
    varied = np.minimum(of_x, of_y) > 1e-12  # what is left of a constant side is rounding
    return np.where(varied, 100 * both / np.sqrt(np.where(varied, of_x * of_y, 1)), 0.0)


def bootstrap(
    statistic: Statistic,
    systems: Sequence[np.ndarray],
    seeds: Sequence[Sequence[int]] | None = None,
    draws: int = 2000,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> list[Drawn]:
    """Return the score of every system and seed on the same resampled examples, or groups of them.

    `systems` have values (seeds, examples, C) each; their `seeds` are by default 0, 1, … `groups` (examples,) number
    what each belongs to, such as its document, from 0 without gaps; where all are in one, examples are drawn. Raises
    `ValueError` when the systems were not scored on the same number of examples.
    """
    sizes = sorted({values.shape[1] for values in systems})
    if len(sizes) > 1:
        raise ValueError(f"the systems were scored on different examples: {' and '.join(map(str, sizes))}")
    stacked, generator = [values.astype(float) for values in systems], np.random.default_rng(seed)
    resampled = [np.empty((draws, len(values))) for values in stacked]
    group_of_each = np.arange(sizes[0]) if groups is None or not groups.any() else groups
    count = int(group_of_each.max(initial=-1)) + 1
    drawn = count if count == sizes[0] else count - 1
    for start in range(0, draws, BLOCK_DRAWS):
        size = min(BLOCK_DRAWS, draws - start)
        chosen = generator.integers(0, count, (size, drawn)) if count else np.zeros((size, 0), int)
        times = np.stack([np.bincount(row, minlength=count)[group_of_each] for row in chosen]).astype(float)  # (B, N)
        for values, rows in zip(stacked, resampled, strict=True):
            rows[start : start + size] = statistic(values, times)
    once = np.ones((1, sizes[0]))
    named = seeds or [range(len(values)) for values in stacked]
    return [
        Drawn(tuple(numbers), statistic(values, once)[0], rows, values, statistic, group_of_each)
        for numbers, values, rows in zip(named, stacked, resampled, strict=True)
    ]


def difference(first: Drawn, second: Drawn, seed: int = 0) -> Difference | None:
    """Return the second minus the first over the seeds that both have; `None` where they share none."""
    shared = [s for s in first.seeds if s in second.seeds]
    if not shared:
        return None
    rows, second_rows = ([side.seeds.index(s) for s in shared] for side in (first, second))
    gaps = second.resampled[:, second_rows] - first.resampled[:, rows]
    points = float((second.scores[second_rows] - first.scores[rows]).mean())
    chosen = np.random.default_rng(seed).integers(0, len(shared), gaps.shape)
    means = np.take_along_axis(gaps, chosen, 1).mean(1)
    low, high = map(float, np.quantile(means, [0.025, 0.975]))
    beyond = 1 + min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * float(beyond) / (1 + len(means)))
    one, other, groups = first.values[rows], second.values[second_rows], first.groups
    alike = one.shape == other.shape and len(groups) > 0
    differing = np.unique(groups[(one != other).any((0, 2))]) if alike else np.arange(FEW_GROUPS + 1)
    if len(differing) <= FEW_GROUPS:
        exact, count = _exchanged(first.statistic, one, other, groups, differing), int(groups.max()) + 1
        own = (groups == differing[:, None]).astype(float)  # each of the groups by itself
        better = np.sign((first.statistic(other, own) - first.statistic(one, own)).mean(1))
        shift = better.sum() / (count + 2)
        half = _student(count) * np.sqrt((np.abs(better).sum() + 1) / (count + 2) - shift**2) / np.sqrt(count + 2)
        scale = 100 - _least(first.statistic)
        low, high = min(low, float(scale * (shift - half))), max(high, float(scale * (shift + half)))
        if exact >= RELIABLE:
            low, high = min(low, 0.0), max(high, 0.0)
        p = max(p, exact)
    return Difference(points, low, high, p if len(shared) > 1 else None, len(shared))


def interval(drawn: Drawn) -> tuple[float, float]:
    """Return the 95% interval of the score of the first seed, see the module."""
    least, count = _least(drawn.statistic), int(drawn.groups.max(initial=0)) + 1
    share, variance = (float(drawn.scores[0]) - least) / (100 - least), float(drawn.resampled[:, 0].var())
    spread, t = share * (1 - share), _student(count)
    size = spread * (100 - least) ** 2 / variance if variance > 0 and spread > 0 else count
    centre, half = share + t**2 / (2 * size), t * np.sqrt(spread / size + t**2 / (4 * size**2))
    low, high = (min(1.0, max(0.0, float(centre + sign * half) / (1 + t**2 / size))) for sign in (-1, 1))
    return least + low * (100 - least), least + high * (100 - least)


def _student(count: int) -> float:
    """Beyond which 2.5% of Student's t are, of the mean of so many groups."""
    from scipy.special import stdtrit  # scipy.stats has the same, and takes a second to import

    return float(stdtrit(max(1, count - 1), 0.975))


def _least(statistic: Statistic) -> float:
    """Return the lowest score: that of correlations is -100."""
    return -100.0 if statistic in (pearson, spearman) else 0.0


def _exchanged(
    statistic: Statistic, first: np.ndarray, second: np.ndarray, groups: np.ndarray, differing: np.ndarray
) -> float:
    """Return the share of all exchanges of the answers in differing groups after which systems (S, N, C) are as far
    apart."""
    number = np.full(int(groups.max()) + 1, len(differing))
    number[differing] = np.arange(len(differing))
    chosen = np.arange(2 ** len(differing))[:, None] >> np.arange(len(differing)) & 1
    chosen = np.hstack([chosen, np.zeros((len(chosen), 1), int)])  # the last are groups in which both are equal
    both, gaps = np.concatenate([first, second], 1), list[np.ndarray]()
    for start in range(0, len(chosen), BLOCK_DRAWS):
        taken = chosen[start : start + BLOCK_DRAWS, number[groups]].astype(float)  # (B, N)
        one, other = (statistic(both, np.hstack(pair)) for pair in ((1 - taken, taken), (taken, 1 - taken)))
        gaps.append((other - one).mean(1))
    found = np.abs(np.concatenate(gaps))
    return float((found >= found[0] - 1e-9).mean())  # sums in another order round otherwise, and must count as equal


def signed(points: float) -> str:
    """Return points with a sign, and a typographic minus: −0.3; what rounds to 0 has no sign."""
    text = f"{abs(points):.1f}"
    return text if float(text) == 0 else ("+" if points > 0 else "−") + text


def interval_text(low: float, high: float, of: str = "95% interval", signs: bool = False) -> str:
    """Return how a 95% interval is said everywhere: 95% interval 80.8 to 93.6, of a difference −0.3 to +1.2.

    An interval whose ends are one figure is none that anybody should read as certain, and is said so.
    """
    ends = [signed(end) if signs else signed(end).removeprefix("+") for end in (low, high)]
    return (
        f"{of} too narrow to say from these examples" if ends[0] == ends[1] else f"{of} {ends[0]} to {ends[1]}".strip()
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values of one table, corrected for their number; `None`, where nothing was tested, stays `None`.

    The smallest of m is multiplied by m, the next by m - 1, and so on: p 0.01, 0.04, 0.03  →  0.03, 0.06, 0.06
    """
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(tested):
        least = corrected[place] = max(least, min(1.0, p * (len(tested) - rank)))
    return corrected
