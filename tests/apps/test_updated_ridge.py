"""Ridge regression by updates: the same as solving for all examples at once, in any order of adding and removing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.label.updated_ridge import BIAS, OnlineRidge, times, with_bias

WIDTH, OUTPUTS = 6, 3


def examples(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(n, WIDTH)), rng.normal(size=(n, OUTPUTS))) for n in sizes]


def solved(groups, strength):
    x = np.concatenate([with_bias(x) for x, _ in groups] or [np.zeros((0, WIDTH + 1))])
    y = np.concatenate([y for _, y in groups] or [np.zeros((0, OUTPUTS))])
    inverse = np.linalg.inv(x.T @ x + strength * np.eye(WIDTH + 1))
    return inverse @ x.T @ y, inverse


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 100), st.data())
def test_updates_give_what_solving_for_the_rest_gives(sizes, seed, data):
    groups = examples(sizes, seed)
    gone = data.draw(st.sets(st.integers(0, len(groups) - 1)))
    ridge = OnlineRidge(WIDTH, OUTPUTS, 0.5)
    for x, y in groups:
        ridge.add(x, y)
    for number in gone:
        ridge.remove(*groups[number])
    weight, inverse = solved([g for n, g in enumerate(groups) if n not in gone], 0.5)
    np.testing.assert_allclose(ridge.weight, weight, atol=1e-8)
    np.testing.assert_allclose(ridge.inverse, inverse, atol=1e-8)


def test_a_change_says_what_it_does_to_scores_and_leverage():
    ridge, seen = OnlineRidge(WIDTH, OUTPUTS, 2.0), np.random.default_rng(1).normal(size=(9, WIDTH))
    for act, (x, y) in ((ridge.add, examples([3])[0]), (ridge.remove, examples([3])[0])):
        scores, leverage = times(seen, ridge.weight), ridge.leverage(seen)
        change = act(x, y)
        np.testing.assert_allclose(scores + change.scores(seen), times(seen, ridge.weight), atol=1e-8)
        np.testing.assert_allclose(leverage + change.leverage(seen), ridge.leverage(seen), atol=1e-6)


def test_leaving_out_is_training_without():
    groups = examples([2, 4, 1])
    ridge = OnlineRidge(WIDTH, OUTPUTS, 0.5)
    for x, y in groups:
        ridge.add(x, y)
    before = ridge.weight.copy()
    np.testing.assert_allclose(ridge.leave_out(*groups[1]), solved([groups[0], groups[2]], 0.5)[0], atol=1e-9)
    np.testing.assert_array_equal(ridge.weight, before)


@pytest.mark.parametrize("start", [None, np.arange(WIDTH + 1.0)])
def test_a_new_output_starts_where_training_with_zeros_would_be(start):
    x, y = examples([5])[0]
    late, early = OnlineRidge(WIDTH, OUTPUTS, 0.5), OnlineRidge(WIDTH, OUTPUTS, 0.5)
    late.add(x, y)
    late.widen(start)
    early.widen(start)
    early.add(x, np.hstack([y, np.zeros((5, 1))]))
    np.testing.assert_allclose(late.weight, early.weight, atol=1e-12)


def test_it_stays_near_to_where_it_starts():
    """Least squares with |W - W0|² is least squares of y - x W0, plus W0."""
    (x, y), start = examples([5])[0], np.arange(WIDTH + 1.0)
    ridge = OnlineRidge(WIDTH, 0, 0.5)
    ridge.widen(start)
    ridge.add(x, y[:, :1])
    rest = solved([(x, y[:, :1] - with_bias(x) @ start[:, None])], 0.5)[0]
    np.testing.assert_allclose(ridge.weight, start[:, None] + rest, atol=1e-9)


def test_the_bias_is_hardly_penalised():
    x, y = np.random.default_rng(0).normal(size=(400, WIDTH)), np.full((400, OUTPUTS), 7.0)
    ridge = OnlineRidge(WIDTH, OUTPUTS, 100.0)
    ridge.add(x, y)
    np.testing.assert_allclose(ridge.weight[-1] * BIAS, 7, rtol=0.01)


def test_a_strength_of_zero_is_refused():
    with pytest.raises(ValueError, match="must be above 0"):
        OnlineRidge(WIDTH, OUTPUTS, 0.0)
