"""What few-shot heads read of texts and pairs: the blocks, and their choice within a draw."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from boustro.apps.studies.fewshot.text_vectors import Views, solve_best
from boustro.heads.closed_form import LabelledWords, lda
from boustro.types import Sentence

TEXTS = [Sentence(tuple(t.split())) for t in ("who sold it", "where is it", "who is she", "a red boat", "")]
STARTS = np.array([0, 3, 6, 9, 12, 12])
WORDS = np.random.default_rng(1).normal(size=(12, 4)).astype(np.float32)


def made(parts):
    views = Views(TEXTS, parts)
    given = (WORDS, STARTS, TEXTS, parts) if parts.shape[1] == 1 else (*words_of(parts), TEXTS, parts)
    views.fit(*given)
    return views, views.vectors(*given).astype(np.float32)


def words_of(parts):
    own = [WORDS[STARTS[n] : STARTS[n + 1]] for n in parts.ravel()]
    return np.concatenate(own), np.cumsum([0, *map(len, own)])


def test_a_text_has_its_mean_its_first_word_and_its_terms():
    views, vectors = made(np.arange(5)[:, None])
    assert list(views.blocks) == ["mean", "first", "terms"] and vectors.shape == (5, 4 + 4 + 4)
    raw = np.stack([WORDS[a] if b > a else np.zeros(4) for a, b in pairwise(STARTS)])
    np.testing.assert_allclose(vectors[:, views.blocks["first"]], (raw - raw.mean(0)) / raw.std(0), atol=2e-3)
    for block in views.blocks.values():
        assert np.square(vectors[:, block]).mean() == pytest.approx(1, abs=0.02)


def test_a_pair_has_differences_products_and_matches():
    views, vectors = made(np.array([[0, 1], [0, 0], [2, 4], [3, 1]]))
    mean, matches = (vectors[:, views.blocks[name]] for name in ("mean", "matches"))
    assert mean.shape == (4, 8) and matches.shape == (4, 6)
    assert matches[:, 0].argmax() == matches[:, 4].argmax() == 1 and matches[:, 5].argmin() == 1  # a text with itself
    (u, v) = (WORDS[:3].mean(0), WORDS[3:6].mean(0))
    raw = views._raw(*words_of(np.array([[0, 1]])), TEXTS, np.array([[0, 1]]))
    np.testing.assert_allclose(raw["mean"][0], [*np.abs(u - v), *(u * v)], atol=1e-6)
    np.testing.assert_allclose(
        raw["matches"][0, [0, 1, 4]], [1 / 5, 1 / 3, cosine_similarity([u], [v])[0, 0]], atol=1e-6
    )


@pytest.mark.parametrize("told_by", ["first", "mean"])
def test_a_draw_chooses_what_tells_its_labels_apart(told_by):
    rng = np.random.default_rng(0)
    texts = [Sentence(tuple(f"w{rng.integers(50)}" for _ in range(6))) for _ in range(80)]
    starts, words, ids = np.arange(81) * 6, rng.normal(size=(480, 8)).astype(np.float32), np.arange(80) % 2
    signal = 4 * (2 * ids[:, None] - 1) * np.eye(8)[0]
    if told_by == "first":
        words[starts[:-1]] += signal
        words[starts[:-1] + 1] -= signal  # nothing is left of it in the mean
    else:
        words += np.repeat(signal, 6, 0)
    views = Views(texts, np.arange(80)[:, None])
    views.fit(words, starts, texts, np.arange(80)[:, None])
    vectors = views.vectors(words, starts, texts, np.arange(80)[:, None])
    solution, blocks = solve_best(views, vectors[:40], ids[:40], 2, partial(lda, strength=0.6))
    assert told_by in blocks.split("+") and (told_by == "first" or blocks == "mean")
    assert ((vectors[40:] @ solution.weight.T + solution.bias).argmax(1) == ids[40:]).mean() > 0.9
    unread = np.delete(np.arange(vectors.shape[1]), np.r_[tuple(views.blocks[name] for name in blocks.split("+"))])
    assert not solution.weight[:, unread].any()


def test_the_solution_is_that_of_the_scaled_blocks():
    views, vectors = made(np.arange(5)[:, None])
    ids = np.array([0, 1, 0, 1, 1])
    solution, blocks = solve_best(views, vectors, ids, 3, partial(lda, strength=0.6))
    scaled = vectors[:, views.blocks["mean"]] / 2
    direct = lda(LabelledWords(scaled, ids, 3, np.arange(6)), 0.6)
    assert blocks == "mean"
    np.testing.assert_allclose(vectors @ solution.weight.T, scaled @ direct.weight.T, atol=1e-5)
    assert (solution.bias[2] < solution.bias[:2]).all()  # a label that no example has


def test_texts_without_words_and_one_text_have_vectors():
    for texts in ([Sentence(())] * 3, [Sentence(("one",))]):
        parts = np.arange(len(texts))[:, None]
        starts = np.cumsum([0, *(len(t.words) for t in texts)])
        views = Views(texts, parts)
        views.fit(WORDS[: starts[-1]], starts, texts, parts)
        assert np.isfinite(views.vectors(WORDS[: starts[-1]], starts, texts, parts)).all()
