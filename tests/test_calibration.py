"""Reliability of scores and of differences: against sums written out, and on cases with a known answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.metrics.calibration import reliability
from boustro.metrics.significance import Difference, bootstrap, difference, entity_counts, f1
from boustro.metrics.spans import SpanCounts, extract_spans, score_spans

JUDGED = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40)


@given(JUDGED, st.integers(1, 12))
def test_the_error_is_the_weighted_distance_of_the_bins(judged, num_bins):
    scores, right = [s for s, _ in judged], [r for _, r in judged]
    found = reliability(scores, right, num_bins)
    assert len(found.bins) == num_bins and sum(b.count for b in found.bins) == len(judged)
    expected = 0.0
    for number, each in enumerate(found.bins):
        mine = [(s, r) for s, r in judged if min(int(s * num_bins), num_bins - 1) == number]
        assert each.count == len(mine)
        if mine:
            score, share = sum(s for s, _ in mine) / len(mine), sum(r for _, r in mine) / len(mine)
            assert each.mean_score == pytest.approx(score) and each.right == pytest.approx(share)
            expected += len(mine) / len(judged) * abs(share - score)
    assert found.error == pytest.approx(expected)


def test_cases_with_a_known_answer():
    assert reliability([0.95, 0.95], [True, False]).error == pytest.approx(0.45)
    assert reliability([0.75] * 4, [True, True, True, False]).error == pytest.approx(0)
    assert reliability([1.0, 1.0], [True, True]).bins[-1].count == 2
    assert reliability([], []).error == 0
    assert reliability([0.3], [False], 10).bins[3].count == 1


@pytest.mark.parametrize(("scores", "right", "what"), [([1.2], [True], "outside"), ([0.5], [], "1 scores, but 0")])
def test_scores_that_are_no_probabilities_are_refused(scores, right, what):
    with pytest.raises(ValueError, match=what):
        reliability(scores, right)


GOLD = [["B-PER", "O"]] * 100
HALF = [["B-PER", "O"] if i % 2 else ["O", "O"] for i in range(100)]


def sentence_counts(gold, predicted) -> np.ndarray:
    return entity_counts(*([extract_spans(tags) for tags in side] for side in (gold, predicted)))


def bootstrap_f1(systems, *given, **options):
    """Of (sentences, 3) counts, or of several seeds'."""
    return bootstrap(f1, [counts[None] if counts.ndim == 2 else counts for counts in systems], *given, **options)


def paired_bootstrap(first, second, **options) -> Difference:
    return difference(*bootstrap_f1([first, second], **options))


def test_counts_of_sentences_sum_to_those_of_the_score():
    assert SpanCounts(*sentence_counts(GOLD, HALF).sum(0).tolist()) == score_spans(GOLD, HALF).total


def test_a_real_difference_is_found_and_no_false_one():
    good, half = (np.stack([sentence_counts(GOLD, side)] * 2) for side in (GOLD, HALF))
    found, same = paired_bootstrap(half, good), paired_bootstrap(half, half)
    assert 0 < found.low < found.points < found.high and found.p < 0.002
    assert found.points == pytest.approx(100 - 200 * 50 / 150)
    assert same.p == 1 and same.points == same.low == same.high == 0


def test_with_several_seeds_the_difference_is_that_of_the_means():
    good, half = sentence_counts(GOLD, GOLD), sentence_counts(GOLD, HALF)
    found = paired_bootstrap(np.stack([half, half]), np.stack([good, half]))
    assert found.points == pytest.approx((100 - score_spans(GOLD, HALF).f1) / 2) and found.num_seeds == 2
    assert found.low == 0 and found.p > 0.2  # one seed is no better, and in every fourth draw it alone is drawn
    assert paired_bootstrap(np.stack([half, half]), np.stack([good, good])).p < 0.002


def test_a_single_seed_has_an_interval_over_sentences_and_no_p():
    found = paired_bootstrap(sentence_counts(GOLD, HALF), sentence_counts(GOLD, GOLD))
    assert found.low > 0 and found.p is None and found.num_seeds == 1


def test_seeds_are_set_beside_each_other_by_their_number():
    good, half = sentence_counts(GOLD, GOLD), sentence_counts(GOLD, HALF)
    whole, partial, other = np.stack([good, half, good]), np.stack([good, good]), np.stack([half])
    drawn = bootstrap_f1([whole, partial, other], [(1, 2, 3), (1, 3), (2,)], draws=200)
    same = difference(drawn[0], drawn[1])
    assert same and (same.points, same.low, same.high, same.num_seeds) == (0, 0, 0, 2)  # seeds 1 and 3 are equal
    one = difference(drawn[0], drawn[2])
    assert one and one.points == one.high == 0 and one.num_seeds == 1
    assert difference(drawn[1], drawn[2]) is None


def test_p_is_twice_the_share_of_draws_beyond_zero():
    rng = np.random.default_rng(0)
    wanted, right = np.ones((2, 3, 60), int), rng.random((2, 3, 60)) < [[[0.55]], [[0.7]]]
    first, second = np.stack([wanted, wanted, right], -1)
    found = paired_bootstrap(first, second, draws=400)
    sides = bootstrap_f1([first, second], draws=400)
    gaps = sides[1].resampled - sides[0].resampled
    seeds = np.random.default_rng(0).integers(0, 3, gaps.shape)
    means = np.array([row[own].mean() for row, own in zip(gaps, seeds, strict=True)])
    assert found.p == pytest.approx(2 * (1 + min((means <= 0).sum(), (means >= 0).sum())) / 401) and 0.005 < found.p < 1
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_all_systems_are_scored_on_the_same_resampled_sentences():
    half = sentence_counts(GOLD, HALF)
    drawn, again = (bootstrap_f1([half, half, sentence_counts(GOLD, GOLD)], draws=150) for _ in range(2))
    assert [d.resampled.shape for d in drawn] == [(150, 1)] * 3
    assert (drawn[0].resampled == drawn[1].resampled).all() and drawn[0].resampled.std() > 1
    assert (drawn[2].resampled == 100).all()
    assert all((a.resampled == b.resampled).all() for a, b in zip(drawn, again, strict=True))


def test_systems_on_other_sentences_are_refused():
    with pytest.raises(ValueError, match="different examples: 50 and 100"):
        paired_bootstrap(sentence_counts(GOLD, GOLD), sentence_counts(GOLD[:50], GOLD[:50]))
