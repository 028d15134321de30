"""The sign-flip test against scipy's exact permutation test."""

import numpy as np
import pytest
from scipy.stats import permutation_test

from boustro.metrics.paired import sign_flip_p


@pytest.mark.parametrize("seed", range(4))
def test_p_is_the_exact_one(seed):
    values = np.random.default_rng(seed).normal(0.6, 1, 9)
    theirs = permutation_test((values,), lambda x: x.mean(), permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(values) == pytest.approx(theirs.pvalue)


def test_known_cases():
    assert sign_flip_p([2, 1, 3]) == 0.25
    assert sign_flip_p([1.5] * 10) == pytest.approx(2 / 1024)
    assert sign_flip_p([1, -1]) == sign_flip_p([0, 0]) == sign_flip_p([]) == 1
    assert 0 < sign_flip_p([1.0] * 40) < 0.001
    assert sign_flip_p([3, 1, 2]) == sign_flip_p([-1, -2, -3])
