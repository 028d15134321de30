"""Reliability of scores and of differences: against sums written out, and on cases with a known answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.metrics.bootstrap import bootstrap_f1, entity_counts, mean_f1, paired_bootstrap, sentence_counts
from boustro.metrics.calibration import reliability
from boustro.metrics.spans import extract_spans, score_spans

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


def test_tags_and_entities_give_the_same_counts_and_the_same_f1():
    counts = sentence_counts(GOLD, HALF)
    assert (counts == entity_counts([extract_spans(t) for t in GOLD], [extract_spans(t) for t in HALF])).all()
    assert mean_f1(counts) == pytest.approx(score_spans(GOLD, HALF).f1)


def test_with_several_seeds_the_difference_is_that_of_the_means():
    good, half = sentence_counts(GOLD, GOLD), sentence_counts(GOLD, HALF)
    both = np.stack([good, half])
    found = paired_bootstrap(half, both)
    assert found.points == pytest.approx((mean_f1(good) + mean_f1(half)) / 2 - mean_f1(half))
    assert not found.reliable  # one seed is no better than the other system, and so is every second draw's mean
    assert paired_bootstrap(np.stack([half, half]), np.stack([good, good])).reliable


def test_all_systems_are_scored_on_the_same_resampled_sentences():
    half = sentence_counts(GOLD, HALF)
    drawn = bootstrap_f1([half, half, sentence_counts(GOLD, GOLD)], draws=150)
    assert drawn.shape == (150, 3)
    assert (drawn[:, 0] == drawn[:, 1]).all() and drawn[:, 0].std() > 1 and (drawn[:, 2] == 100).all()
    assert (drawn == bootstrap_f1([half, half, sentence_counts(GOLD, GOLD)], draws=150)).all()


def test_systems_on_other_sentences_are_refused():
    with pytest.raises(ValueError, match="different sentences: 50 and 100"):
        paired_bootstrap(sentence_counts(GOLD, GOLD), sentence_counts(GOLD[:50], GOLD[:50]))
