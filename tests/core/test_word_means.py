"""Means of words elsewhere and tables of words: counted, coded, looked up in any case, and forgotten."""

from dataclasses import replace

import numpy as np
import pytest

from boustro.encoders.extended import mean_by_kind
from boustro.encoders.word_means import SOUGHT_WORDS, RowsByLetters, WordMeans, deal_out, encode_vectors, join_means
from boustro.encoders.word_table import WordTable


def test_earlier_vectors_count_as_often_as_they_were_read():
    vectors, kinds = np.array([[1, 0], [3, 4], [5, 2]], np.float32), np.array([0, 1, 0])
    earlier = np.array([2, 0], np.float32), np.array([[0, 5], [9, 9]], np.float16)
    assert mean_by_kind(vectors, kinds, earlier).tolist() == [[1.5, 3], [3, 4], [1.5, 3]]


def test_a_word_that_was_never_read_is_looked_up_in_any_case():
    """The most frequent form counts; a word that one memory has in its case is looked up in no other one's."""

    def known(*words: str) -> WordMeans:
        size = len(words)
        counts, means = np.arange(size, 0, -1, np.float32), np.arange(size, dtype=np.float16)[:, None]
        return WordMeans(dict(zip(words, range(size), strict=True)), counts, [means])

    first, second = known("may", "May", "Lisse", "straße"), known("MAY", "lisse", "ada")
    counts, means = next(join_means([first], ["may", "May", "MAY", "LISSE", "STRASSE", "Ada", ""]))
    assert counts.tolist() == [4, 3, 4, 2, 1, 0, 0] and means[:5, 0].tolist() == [0, 1, 0, 2, 3]
    counts, means = next(join_means([first, second], ["May", "MAY", "LISSE", "Ada", "Vellmar"]))
    assert counts.tolist() == [3, 3, 2 + 2, 1, 0] and means[:4, 0].tolist() == [1, 0, (2 * 2 + 2 * 1) / 4, 2]
    assert next(join_means([first.in_training(1.0, 1)], ["MAY"]))[0].tolist() == [0]


def test_many_words_are_looked_up_as_a_few_are():
    words = [f"{'Ada' if n % 2 else 'ADA'}{n // 3}" for n in range(4 * SOUGHT_WORDS)]
    rows = {word: row for row, word in enumerate(dict.fromkeys(words))}
    for given in (rows, rows | {"Two\nlines": len(rows), "": len(rows) + 1}):
        asked = [word.casefold() for word in [*given, "Vellmar"]]
        first = {word.casefold(): row for word, row in reversed(given.items())}
        kept = RowsByLetters(given)
        assert [kept.get(word) for word in asked] == [first.get(word, -1) for word in asked]


def test_codes_are_the_nearest_centroids_of_each_part():
    generator = np.random.default_rng(0)
    few = generator.normal(size=(40, 12)).astype(np.float16)
    exact = encode_vectors(few, 3)
    assert exact.codes.shape == (40, 3) and exact.shape == few.shape  # fewer vectors than centroids: all are centroids
    np.testing.assert_allclose(exact[np.arange(40)], few, atol=4e-3)
    np.testing.assert_allclose(exact[np.array([7, 7])], exact[np.arange(40)][[7, 7]], rtol=1e-6)  # float32
    many = (generator.normal(size=(1500, 12)) * np.geomspace(0.1, 50, 12)).astype(np.float16)
    scale, errors = many.std(0, dtype=np.float32), []
    for parts in (3, 6):
        coded = encode_vectors(many, parts)
        turned = (many - coded.mean.astype(np.float32)) / scale @ (coded.axes.astype(np.float32) / scale).T
        near = turned.reshape(1500, parts, 1, -1) - coded.centroids.astype(np.float32)
        assert np.mean(coded.codes == (near**2).sum(-1).argmin(-1)) > 0.99  # but for rounding
        errors.append((((coded[np.arange(1500)] - many) / scale) ** 2).mean())
    assert errors[1] < errors[0] < 0.5
    with pytest.raises(ValueError, match="codes of at most 12 bytes, not 13"):
        encode_vectors(few, 13)
    with pytest.raises(ValueError, match="not those of the centroids"):
        replace(exact, codes=exact.codes[:, :2])


def test_codes_say_more_of_dimensions_that_vary_together():
    generator = np.random.default_rng(0)
    together = generator.normal(size=(1200, 8)) @ generator.normal(size=(8, 64))
    apart = generator.normal(size=(1200, 64))
    left = [np.square((encode_vectors(x, 8)[np.arange(1200)] - x) / x.std(0)).mean() for x in (together, apart)]
    assert left[0] < 0.02 and left[1] > 0.15  # a byte for each of 8 components, against one for 8 of 64
    assert encode_vectors(together, 4).axes.shape == (32, 64)  # 8 components a byte


def test_components_are_dealt_out_evenly():
    order = deal_out(np.array([16.0, 8, 4, 2, 1, 1]), 2, 2)
    assert sorted(order.tolist()) == [0, 1, 2, 3]  # the largest
    assert {frozenset(part) for part in order.reshape(2, 2).tolist()} == {frozenset({0, 3}), frozenset({1, 2})}


def test_a_forgotten_word_is_forgotten_in_every_case():
    """The look-up in any case would bring it back by another form."""
    words = [form for n in range(300) for form in (f"w{n}", f"W{n}", f"w{n}s")]
    known = WordMeans({w: n for n, w in enumerate(words)}, np.ones(900, np.float32), [np.ones((900, 2), np.float16)])
    rest = known.in_training(0.3, seed=1)
    counts = next(join_means([rest], words))[0]
    forgotten = [word for word in words if word not in rest.rows]
    assert 220 < len(forgotten) < 320 and {word.lower() for word in forgotten}.isdisjoint(map(str.lower, rest.rows))
    assert counts.sum() == len(rest.rows)


def test_a_table_reads_texts_as_weighted_means_of_words_and_of_their_parts():
    rows = {word: n for n, word in enumerate(["the", "ship", "##s", "##hip"])}
    table = WordTable(rows, np.array([999, 1, 0, 0], np.float32), np.diag([2.0, 1, 1, 1]).astype(np.float32))
    assert [table.find(word) for word in ("Ships", "THE", "qships", "!")] == [[1, 2], [0], [2, 3, 2], []]
    weight = 1e-3 / (1e-3 + np.array([0.999, 0.001, 0, 0]))
    (found, nothing), (plain, _) = table.means([["The", "ships"], ["!"]]), table.means([["The", "ships"], []], False)
    assert found == pytest.approx([weight[0], weight[1] / 4, 0.25, 0], rel=1e-5) and not nothing.any()
    assert plain == pytest.approx([0.5, 0.25, 0.25, 0])
    assert np.linalg.norm(table.describe([["The", "ships"], []]), axis=2) == pytest.approx(np.array([[1, 1], [0, 0]]))
