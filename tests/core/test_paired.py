"""The bootstrap against a loop over resampled examples; sign-flip test and Holm's correction against exact ones."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from boustro.metrics.significance import bootstrap, difference, f1, holm, pearson, spearman

NUM_EXAMPLES, NUM_SEEDS, DRAWS = 23, 3, 130  # more than one block of draws


def drawn_examples(num_examples=NUM_EXAMPLES, draws=DRAWS):
    """The examples of every draw, as the bootstrap draws them: 100 draws at a time."""
    generator = np.random.default_rng(0)
    blocks = [generator.integers(0, num_examples, (min(100, draws - i), num_examples)) for i in range(0, draws, 100)]
    return np.concatenate(blocks)


def two_systems(ties: bool):
    """(seeds, examples, 2) of two systems over the same references: the second is nearer to them."""
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 5, NUM_EXAMPLES) if ties else rng.normal(50, 3, NUM_EXAMPLES)
    systems = []
    for noise in (4, 1.5):
        found = gold + rng.normal(0, noise, (NUM_SEEDS, NUM_EXAMPLES))
        found = found.round() if ties else found
        systems.append(np.stack([np.broadcast_to(gold, found.shape), found], -1))
    return systems


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("statistic", "theirs"), [(pearson, pearsonr), (spearman, spearmanr)])
def test_a_correlation_of_resampled_examples_is_scipys(statistic, theirs, ties):
    systems = two_systems(ties)
    first, second = bootstrap(statistic, systems, draws=DRAWS)
    for drawn, values in zip((first, second), systems, strict=True):
        assert drawn.scores == pytest.approx([100 * theirs(*own.T).statistic for own in values])
        wanted = [[100 * theirs(*own[rows].T).statistic for own in values] for rows in drawn_examples()]
        np.testing.assert_allclose(drawn.resampled, wanted, atol=1e-9)
    gap = difference(first, second)
    assert gap.points == pytest.approx((second.scores - first.scores).mean()) and gap.low < gap.points < gap.high


@pytest.mark.parametrize("statistic", [pearson, spearman])
def test_what_does_not_vary_has_no_correlation(statistic):
    flat = np.stack([np.arange(4.0), np.full(4, 3.3)], -1)[None]
    (found,) = bootstrap(statistic, [flat], draws=20)
    assert found.scores.tolist() == [0] and not found.resampled.any()
    tiny = np.stack([np.arange(4.0), 1e-9 * np.arange(4)], -1)[None]
    assert bootstrap(statistic, [tiny], draws=1)[0].scores == pytest.approx([100])


def test_counts_give_the_mean_over_examples_too():
    """(1, 1, right) is the accuracy, and (1, 1, own F1) the mean F1 of questions."""
    own = np.random.default_rng(2).random((2, NUM_EXAMPLES))
    ones = np.ones_like(own)
    (found,) = bootstrap(f1, [np.stack([ones, ones, own], -1)], draws=DRAWS)
    assert found.scores == pytest.approx(100 * own.mean(1))
    np.testing.assert_allclose(found.resampled, [100 * own[:, rows].mean(1) for rows in drawn_examples()])


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
