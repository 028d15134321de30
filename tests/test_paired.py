"""The sign-flip test against scipy's exact permutation test; Holm's correction against the closed test."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from boustro.metrics.significance import holm, sign_flip_p


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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_with_bonferroni_on_every_set(p_values):
    """A comparison is refused unless every set that holds it is rejected: its p is the largest of theirs."""
    places = range(len(p_values))
    sets = [own for size in range(1, len(p_values) + 1) for own in combinations(places, size)]
    wanted = [max(min(1, len(s) * min(p_values[i] for i in s)) for s in sets if place in s) for place in places]
    assert holm(p_values) == pytest.approx(wanted)


def test_what_was_not_tested_is_not_counted():
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert holm([None]) == [None] and holm([]) == []
