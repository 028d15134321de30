"""Closed-form heads against scikit-learn and their definitions, and leaving sentences out against doing so."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from boustro.heads.closed_form import (
    RIDGE_STRENGTHS,
    TRUSTED_EXAMPLES,
    KnownMaps,
    LabelledWords,
    LinearSolution,
    lda,
    ridge,
    ridge_held_out,
)
from boustro.heads.inputs import Kinship

NUM_TAGS = 4
STARTS = np.array([0, 3, 3, 10, 11, 18, 24, 33, 40])  # one sentence is empty


@pytest.fixture(scope="module", params=[90, 12], ids=["wide", "narrow"])
def data(request) -> tuple[np.ndarray, np.ndarray, LabelledWords]:
    """40 words of width 90 (the dual side) or 12 (the primal side), and their tags."""
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(40, request.param)) * np.linspace(0.2, 2, request.param) + 3
    tags = generator.integers(0, NUM_TAGS, 40)
    vectors[np.arange(40), tags] += 1.5
    return vectors, tags, LabelledWords(vectors, tags, NUM_TAGS, STARTS)


def scores(head: LinearSolution, vectors: np.ndarray) -> np.ndarray:
    return vectors @ head.weight.T + head.bias


def relative(found: np.ndarray) -> np.ndarray:
    """What decides: scores but for a number that all tags of a word share."""
    return found - found.mean(-1, keepdims=True)


@pytest.mark.parametrize("strength", [0.1, 3.0, 100.0])
def test_ridge_is_scikit_learns(data, strength):
    vectors, tags, words = data
    ours, theirs = ridge(words, strength), Ridge(alpha=strength).fit(vectors, np.eye(NUM_TAGS)[tags])
    np.testing.assert_allclose(ours.weight, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.bias, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("strength", [0.05, 0.5, 1.0])
def test_lda_is_scikit_learns(data, strength):
    vectors, tags, words = data
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=strength).fit(vectors, tags)
    np.testing.assert_allclose(
        relative(scores(lda(words, strength), vectors)),
        relative(theirs.decision_function(vectors)),
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_tag_that_no_word_has_is_never_predicted(data):
    vectors, tags, _ = data
    words = LabelledWords(vectors, np.minimum(tags, 1), NUM_TAGS, STARTS)
    for head in (ridge(words, 1.0), lda(words, 0.3)):
        assert set(scores(head, vectors).argmax(-1)) == {0, 1}
    one = LabelledWords(vectors, np.full(40, 2), NUM_TAGS, STARTS)
    for head in (ridge(one, 1.0), lda(one, 0.3)):
        assert set(scores(head, vectors).argmax(-1)) == {2}


@pytest.mark.parametrize("groups", [range(8), (0, 0, 0, 1, 0, 0, 1, 2)], ids=["each", "together"])
def test_leaving_sentences_out_of_ridge_is_exact(data, groups):
    vectors, tags, _ = data
    shared = np.array([6, 7]), np.array([0, 0])  # and a text of two groups
    words = LabelledWords(vectors, tags, NUM_TAGS, STARTS, Kinship(np.array(groups), *shared))
    held_out = ridge_held_out(words, [0.5, 20.0])
    for strength, found in zip([0.5, 20.0], held_out, strict=True):
        assert sorted(row for rows, _ in words.parts for row in rows) == list(range(40))
        for rows, left in words.parts:
            assert {*rows} <= {*left} and (24 in left) == (33 in left)
            others = np.ones(40, bool)
            others[left] = False
            model = Ridge(alpha=strength).fit(vectors[others], np.eye(NUM_TAGS)[tags[others]])
            np.testing.assert_allclose(found[rows], model.predict(vectors[rows]), atol=1e-8)


def test_the_strength_is_the_one_that_left_out_sentences_favour(data):
    _, _, words = data
    tried = [s * words.squared_length for s in RIDGE_STRENGTHS]
    errors = [np.square(h - words.onehot).sum() for h in ridge_held_out(words, tried)]
    assert ridge(words).strength == tried[int(np.argmin(errors))]
    assert tried[0] < ridge(words).strength


@pytest.mark.parametrize("sign", [1, -4], ids=["right", "wrong"])
def test_a_map_is_followed_as_far_as_left_out_sentences_bear_it_out(data, sign):
    vectors, tags, plain = data
    weight, strength = np.zeros((2, vectors.shape[1])), 5.0
    weight[[0, 1], [0, 1]] = sign * 0.5
    known = KnownMaps(weight, -weight @ vectors.mean(0), np.eye(NUM_TAGS)[:, :2])
    words = LabelledWords(vectors, tags, NUM_TAGS, STARTS, known=known)
    onehot, told = np.eye(NUM_TAGS)[tags], vectors @ weight.T + known.bias
    left_out = onehot.copy(), told.copy()
    for targets, found in zip((onehot, told), left_out, strict=True):
        for rows, left in plain.parts:
            others = np.setdiff1d(np.arange(40), left)
            found[rows] -= Ridge(alpha=strength).fit(vectors[others], targets[others]).predict(vectors[rows])
    wanted, rest = left_out
    follow = np.linalg.solve(
        rest.T @ rest + TRUSTED_EXAMPLES * np.eye(2), rest.T @ wanted + TRUSTED_EXAMPLES * known.trust.T
    ).clip(-1, 1)
    assert (follow.diagonal().mean() > 0.5) == (sign > 0)
    np.testing.assert_allclose(ridge_held_out(words, [strength])[0], onehot - wanted + rest @ follow, atol=1e-8)
    learned = Ridge(alpha=strength).fit(vectors, onehot - told @ follow).predict(vectors)
    np.testing.assert_allclose(scores(ridge(words, strength), vectors), learned + told @ follow, atol=1e-4)
    one = ridge(LabelledWords(vectors[:1], tags[:1], NUM_TAGS, np.array([0, 1]), known=known))
    np.testing.assert_allclose(one.weight[:2], weight)  # nothing can be left out: it is trusted


def test_words_without_tags_are_refused():
    with pytest.raises(ValueError, match="do not match"):
        LabelledWords(np.zeros((3, 2)), np.zeros(2, int), 2, np.array([0, 3]))


def test_ridge_on_a_single_sentence_has_a_fixed_strength():
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    words = LabelledWords(vectors, np.array([0, 1, 1, 0]), 2, np.array([0, 4]))
    found = ridge(words)
    assert found.strength == pytest.approx(0.3 * words.squared_length)
    np.testing.assert_allclose(found.weight, ridge(words, found.strength).weight)
    alone = ridge(LabelledWords(vectors[:1], np.array([1]), 2, np.array([0, 1])))
    assert (vectors @ alone.weight.T + alone.bias).argmax(1).tolist() == [1] * 4
