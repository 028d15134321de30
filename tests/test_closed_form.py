"""Closed-form heads against scikit-learn, and leaving sentences out against doing so."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

from boustro.heads import closed_form
from boustro.heads.closed_form import (
    Words,
    lda,
    logistic,
    logistic_held_out,
    ridge,
    ridge_held_out,
    solve_logistic,
)

NUM_TAGS = 4
STARTS = np.array([0, 3, 3, 10, 11, 18, 24, 33, 40])  # one sentence is empty


@pytest.fixture(scope="module", params=[90, 12], ids=["wide", "narrow"])
def data(request) -> tuple[np.ndarray, np.ndarray, Words]:
    """40 words of width 90 (the dual side) or 12 (the primal side), and their tags."""
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(40, request.param)) * np.linspace(0.2, 2, request.param) + 3
    tags = generator.integers(0, NUM_TAGS, 40)
    vectors[np.arange(40), tags] += 1.5
    return vectors, tags, Words(vectors, tags, NUM_TAGS, STARTS)


def relative(scores: np.ndarray) -> np.ndarray:
    """What decides: scores but for a number that all tags of a word share."""
    return scores - scores.mean(-1, keepdims=True)


@pytest.mark.parametrize("strength", [0.1, 3.0, 100.0])
def test_ridge_is_scikit_learns(data, strength):
    vectors, tags, words = data
    ours, theirs = ridge(words, strength), Ridge(alpha=strength).fit(vectors, np.eye(NUM_TAGS)[tags])
    np.testing.assert_allclose(ours.weight, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.bias, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("strength", [0.3, 3.0, 100.0])
def test_logistic_is_scikit_learns(data, strength):
    vectors, tags, words = data
    theirs = LogisticRegression(C=1 / strength, tol=1e-9, max_iter=5000).fit(vectors, tags)
    weight, bias = solve_logistic(words, np.array([strength]), np.ones((1, 40)), tolerance=1e-13)
    exact = words.linear(weight[0], bias[0], strength)
    np.testing.assert_allclose(exact.weight, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(relative(exact.scores(vectors)), theirs.decision_function(vectors), atol=1e-3)
    loss, least = (
        log_loss(tags, softmax(h.scores(vectors), -1)) * 40 + strength / 2 * (h.weight**2).sum()
        for h in (logistic(words, strength), exact)
    )
    assert least <= loss < least + 1e-3  # the usual tolerance costs next to nothing


@pytest.mark.parametrize("strength", [0.05, 0.5, 1.0])
def test_lda_is_scikit_learns(data, strength):
    vectors, tags, words = data
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=strength).fit(vectors, tags)
    np.testing.assert_allclose(
        relative(lda(words, strength).scores(vectors)),
        relative(theirs.decision_function(vectors)),
        rtol=1e-4,
        atol=1e-4,
    )


def test_the_shrinkage_is_ledoit_and_wolfs(data):
    vectors, tags, words = data
    means = np.stack([vectors[tags == tag].mean(0) for tag in range(NUM_TAGS)])
    expected = ledoit_wolf_shrinkage(vectors - means[tags], assume_centered=True)
    assert lda(words).strength == pytest.approx(expected)
    assert 0 < expected < 1


def test_a_tag_that_no_word_has_is_never_predicted(data):
    vectors, tags, _ = data
    words = Words(vectors, np.minimum(tags, 1), NUM_TAGS, STARTS)
    for head in (ridge(words, 1.0), lda(words, 0.3), logistic(words, 1.0)):
        assert set(head.scores(vectors).argmax(-1)) == {0, 1}


def test_leaving_a_sentence_out_of_ridge_is_exact(data):
    vectors, tags, words = data
    held_out = ridge_held_out(words, [0.5, 20.0])
    for strength, found in zip([0.5, 20.0], held_out, strict=True):
        for rows in words.sentences:
            others = np.ones(40, bool)
            others[rows] = False
            model = Ridge(alpha=strength).fit(vectors[others], np.eye(NUM_TAGS)[tags[others]])
            np.testing.assert_allclose(found[rows], model.predict(vectors[rows]), atol=1e-8)


def test_leaving_folds_out_of_logistic_is_training_without_them(data, monkeypatch):
    vectors, tags, words = data
    monkeypatch.setattr(closed_form, "FOLDS", 3)
    exact = closed_form.solve_logistic
    monkeypatch.setattr(closed_form, "solve_logistic", lambda *given: exact(*given, tolerance=1e-12))
    held_out = logistic_held_out(words, [1.0, 30.0])
    for number, rows in enumerate(words.sentences):
        out = np.concatenate([np.arange(s.start, s.stop) for i, s in enumerate(words.sentences) if i % 3 == number % 3])
        others = np.setdiff1d(np.arange(40), out)
        model = LogisticRegression(C=1 / 30.0, tol=1e-9, max_iter=5000).fit(vectors[others], tags[others])
        np.testing.assert_allclose(
            relative(held_out[1, rows]), relative(model.decision_function(vectors[rows])), atol=1e-3
        )


def test_the_strength_is_the_one_that_left_out_sentences_favour(data):
    _, _, words = data
    tried = [s * words.squared_length for s in closed_form.RIDGE_STRENGTHS]
    errors = [np.square(h - words.onehot).sum() for h in ridge_held_out(words, tried)]
    assert ridge(words).strength == tried[int(np.argmin(errors))]
    assert tried[0] < ridge(words).strength
    tried = [s * words.squared_length for s in closed_form.LOGISTIC_STRENGTHS]
    assert logistic(words).strength in tried


def test_of_equal_strengths_the_strongest_is_taken():
    assert closed_form._least([1.0, 2.0, 3.0], [5.0, 4.0, 4.0]) == 3.0


def test_words_without_tags_are_refused():
    with pytest.raises(ValueError, match="do not match"):
        Words(np.zeros((3, 2)), np.zeros(2, int), 2, np.array([0, 3]))
