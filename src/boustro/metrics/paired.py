"""Is one system better than another over the same draws? An exact test by flipping signs; Holm's correction for many.

If two systems were alike, the sign of each paired difference would be a coin's. Of all 2ⁿ ways to set the
signs, p is the share whose mean lies at least as far from 0 as the one that was found.

    differences 2, 1, 3    of 8 ways 2 (all plus, all minus) reach a mean of 2  →  p = 0.25

No normal distribution is assumed; with n draws p cannot be below 2 / 2ⁿ (0.002 for ten). Source: Fisher 1935.

Of twenty comparisons of equals one has p < 0.05. Holm 1979 keeps the chance of even one false alarm below 5%: the
smallest of m is multiplied by m, the next by m - 1, and so on, and none may be smaller than one before it.

    p 0.01, 0.04, 0.03  →  0.03, 0.06, 0.06
"""

from collections.abc import Sequence

import numpy as np

MOST_EXACT, SAMPLED = 16, 20_000
RELIABLE = 0.05
"""Below it a difference is called reliable."""


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of paired differences; from more than 16 of them, by a fixed sample of the ways."""
    values = np.asarray(differences, float)
    if len(values) <= MOST_EXACT:
        signs = 1 - 2 * (np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (SAMPLED, len(values)))
        signs[0] = 1  # the way that was found is one of them, so that p is never 0
    found = abs(values.mean()) if len(values) else 0.0
    return float((np.abs(signs @ values) / max(len(values), 1) >= found - 1e-12 * max(found, 1)).mean())


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values of one table, corrected for their number; `None`, where nothing was tested, stays `None`."""
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(tested):
        least = corrected[place] = max(least, min(1.0, p * (len(tested) - rank)))
    return corrected
