"""Scores of one label per word or per text, against scikit-learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from boustro.metrics.labels import score_labels, score_text_labels

LABELS = ["NOUN", "VERB", "O", "B-x"]
pairs = st.lists(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1), min_size=1)


def test_scores_by_hand():
    score = score_labels([["DET", "NOUN"], ["VERB"]], [["DET", "VERB"], ["VERB"]], {"data": "x"})
    assert score.accuracy == pytest.approx(200 / 3)
    assert score.per_label["VERB"].precision == 50 and score.per_label["VERB"].recall == 100
    assert score.per_label["NOUN"].f1 == 0
    written = score.to_dict()
    assert "f1" not in written and (written["num_words"], written["num_sentences"]) == (3, 2)
    assert written["per_label"]["NOUN"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "num_words": 1}
    assert written["signature"] == {"metric": "accuracy", "data": "x"}
    assert score_labels([], []).accuracy == 0


def test_scores_of_texts_count_texts():
    score = score_text_labels(["sport", "news", "news"], ["sport", "sport", "news"], {"data": "x"})
    assert score.unit == "texts" and score.num_labelled == 3 and score.accuracy == pytest.approx(200 / 3)
    written = score.to_dict()
    assert written["num_texts"] == 3 and "num_words" not in written
    assert written["per_label"]["news"] == {
        "f1": pytest.approx(200 / 3),
        "precision": 100,
        "recall": 50,
        "num_texts": 2,
    }
    assert written["signature"] == {"metric": "accuracy", "data": "x"}
    with pytest.raises(ValueError, match="gold labels of 1 texts and predicted ones of 0"):
        score_text_labels(["sport"], [])


@given(pairs)
def test_scores_equal_scikit_learns(data):
    gold, predicted = ([[pair[side] for pair in row] for row in data] for side in (0, 1))
    score = score_labels(gold, predicted)
    flat_gold, flat_predicted = ([label for row in side for label in row] for side in (gold, predicted))
    assert score.accuracy == pytest.approx(100 * accuracy_score(flat_gold, flat_predicted))
    theirs = precision_recall_fscore_support(flat_gold, flat_predicted, labels=sorted(score.per_label), zero_division=0)
    ours = [(c.precision / 100, c.recall / 100, c.f1 / 100, c.gold) for _, c in sorted(score.per_label.items())]
    assert ours == [pytest.approx(row) for row in zip(*theirs, strict=True)]


def test_sequences_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="sentence 2: 1 gold labels and 2 predicted"):
        score_labels([["X"], ["X"]], [["X"], ["X", "X"]])
    with pytest.raises(ValueError, match="1 gold sentences and 0 predicted"):
        score_labels([["X"]], [])
