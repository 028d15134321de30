"""The pooled mentions of a word: which words count as one, the mean, and a tagger that reads it."""

import numpy as np
import pytest

import boustro
from boustro.encoders.cache import features_to_write
from boustro.encoders.extended import ExtendedEncoder, PooledMentions, mean_by_kind, number_mentions, with_mentions
from boustro.encoders.spec import load_encoder
from boustro.types import Sentence
from labelled import TAGGED

SENTENCES = [
    Sentence(("Vellmar", "won", "."), document="a"),
    Sentence(("Ada", "left", "Vellmar", "."), document="a"),
    Sentence(("Vellmar", "won", "."), document="b"),
    Sentence(("Ada", "vellmar", ".")),
    Sentence(("Ada", "and", "Ada")),
]


def test_mentions_are_equal_words_of_one_document():
    words, found = number_mentions(SENTENCES)
    assert words[:4] == ["Vellmar", "won", ".", "Ada"] and len(words) == 13
    assert found.tolist() == [0, 1, 2, 3, 4, 0, 2, 5, 6, 7, 8, 9, 10, 11, 12, 11]


def test_the_mean_of_wide_vectors_is_that_of_plain_numpy():
    generator = np.random.default_rng(0)
    vectors, kinds = generator.normal(size=(50, 150)).astype(np.float32), generator.permutation(np.arange(50) % 13)
    wanted = np.stack([vectors[kinds == kind].mean(0) for kind in kinds])
    np.testing.assert_allclose(mean_by_kind(vectors, kinds), wanted, atol=1e-6)
    assert mean_by_kind(np.zeros((0, 3), np.float16), np.zeros(0, np.int64)).shape == (0, 3)


@pytest.mark.parametrize("cached", [False, True])
def test_the_streams_are_those_of_the_encoder_and_their_means(tiny_pair, tmp_path, cached):
    plain = load_encoder(tiny_pair, "0,last", dtype="float32", context="document")
    read = load_encoder(tiny_pair, "0,last", dtype="float32", context="document", cache=tmp_path if cached else None)
    encoder = ExtendedEncoder(read, [PooledMentions(read.streams)])
    features, base = encoder.encode_all(SENTENCES), plain.encode_all(SENTENCES)
    assert encoder.streams_by_lm == [[0, 2], [1, 3]] and len(features.streams) == len(encoder.streams) == 4
    kinds = number_mentions(SENTENCES)[1]
    for own, pooled, of_base in zip(features.streams[:2], features.streams[2:], base.streams, strict=True):
        np.testing.assert_array_equal(own, of_base)
        assert pooled.shape == (len(kinds), 1, own.shape[2])
        for word, kind in enumerate(kinds):
            wanted = own[kinds == kind, -1].astype(np.float32).mean(0)
            np.testing.assert_allclose(pooled[word, 0], wanted, atol=1e-4)
    for one, other in zip(encoder.encode(SENTENCES), features.sentences(), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
    assert encoder.identity() != plain.identity() and encoder.num_parameters == plain.num_parameters


def test_without_documents_there_is_nothing_to_pool(tiny_pair):
    alone = [Sentence(s.words, s.tags) for s in TAGGED]
    tagger = boustro.Tagger(tiny_pair, "mlp", pool_mentions=True, epochs=1, cache=False).fit(alone, seed=1)
    assert not isinstance(tagger.encoder(), ExtendedEncoder)
    assert tagger.record["notices"]["training sentences without a document, whose mentions are not pooled"] == 3


def test_a_plan_counts_the_features_behind_pooled_mentions(tiny_pair, tmp_path):
    sizes = []
    for wanted in (False, True):
        encoder = with_mentions(load_encoder(tiny_pair, cache=tmp_path / str(wanted)), wanted, "document")
        sizes.append(sum(size for size, _ in features_to_write(encoder, [TAGGED]).values()))
    assert sizes[0] == sizes[1] > 0
