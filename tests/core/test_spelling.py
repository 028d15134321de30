"""`--spelling`: a tagger that reads each word also by its letters."""

import numpy as np
import pytest

import boustro
from boustro.encoders.extended import SPELLING_WIDTH, shapes, spell, with_mentions, with_spelling
from boustro.encoders.spec import load_encoder, with_cache
from boustro.types import Sentence

TAGGED = [
    Sentence(("Vellmarer", "port", "."), ("B-MISC", "O", "O"), document="a"),
    Sentence(("She", "left", "Vellmar", "."), ("O", "O", "B-LOC", "O"), document="a"),
    Sentence(("Lisse", "is", "small"), ("B-LOC", "O", "O"), document="b"),
]


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_words_that_share_letters_are_near_to_each_other():
    assert cosine(spell("harbours"), spell("harbour")) > 0.5
    assert cosine(spell("harbour"), spell("lighting")) < 0.35  # their shapes are equal
    assert cosine(spell("harbour"), spell("Harbour")) < 0.8
    assert abs(cosine(spell("harbour"), spell("1987"))) < 0.25


@pytest.mark.parametrize("word", ["a", "我", "كتاب", "U.S.-born", "\udcff", "x" * 500])
def test_every_word_has_a_vector_which_is_the_same_everywhere(word):
    vector = spell(word)
    spell.cache_clear()
    assert vector.shape == (SPELLING_WIDTH,) and np.isfinite(vector).all() and vector.any()
    np.testing.assert_array_equal(spell(word), vector)


def test_the_numbers_do_not_change_between_versions():
    assert np.round(spell("Ada")[:6].astype(float), 3).tolist() == [-1.508, 2.922, -0.093, -0.302, -2.922, -0.302]


def test_of_a_very_long_word_the_first_letters_and_the_shape_are_read():
    start = "ab" * 50
    np.testing.assert_array_equal(spell(start + "a" * 10_000), spell(start + "b" * 10_000))
    assert np.any(spell(start + "a") != spell(start + "1"))


def test_shapes():
    assert shapes("U.S.-born") == ("X.X.-xxxx", "X.X.-x")
    assert shapes("McX7800我") == ("XxX0000x", "XxX0x")


@pytest.mark.parametrize(("cached", "pooled"), [(False, True), (True, False)])
def test_the_stream_stands_behind_all_others(tiny_pair, tmp_path, cached, pooled):
    base = load_encoder(tiny_pair, "0,last", dtype="float32", context="document")
    base = with_mentions(base, pooled, "document")
    encoder = with_spelling(base, True)
    encoder = with_cache(encoder, tmp_path) if cached else encoder
    features, plain = encoder.encode_all(TAGGED), base.encode_all(TAGGED)
    assert encoder.streams_by_lm == [*base.streams_by_lm, [len(base.streams)]]
    assert len(features.streams) == len(encoder.streams) == len(base.streams) + 1
    for one, other in zip(features.streams, plain.streams, strict=False):
        np.testing.assert_array_equal(one, other)
    wanted = np.stack([spell(word) for sentence in TAGGED for word in sentence.words])
    np.testing.assert_array_equal(features.streams[-1][:, 0], wanted)
    for one, other in zip(encoder.encode(TAGGED), features.sentences(), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    assert encoder.identity() != base.identity()


@pytest.mark.parametrize("options", [{}, {"memory": True}, {"pool_mentions": True, "memory": True}])
def test_a_tagger_with_it_is_saved_and_opened(tiny_pair, tmp_path, options):
    options |= {"spelling": True, "epochs": 3, "context": "document"}
    tagger = boustro.Tagger(tiny_pair, cache=tmp_path / "cache", **options).fit(TAGGED, TAGGED, seed=1)
    assert tagger.encoder().streams[-1].width == SPELLING_WIDTH
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    assert opened.tag(TAGGED) == tagger.tag(TAGGED)
    assert opened.predict("Vellmar is small.") == tagger.predict("Vellmar is small.")
    card = (tmp_path / "ner" / "README.md").read_text("utf-8")
    assert "`spelling=True`" in card and "model 1" not in card


@pytest.mark.parametrize("spelling", [False, True])
def test_letters_tell_what_the_states_before_a_word_do_not(tiny_pair, spelling):
    pairs = [("issa", "PER"), ("isum", "LOC")]
    train = [Sentence((f"{c}{ending}",), (f"B-{label}",)) for c in "BDFGKLMN" for ending, label in pairs]
    new = [Sentence(("Rostissa",), ("B-PER",)), Sentence(("Rostisum",), ("B-LOC",))]
    how = {"pooling": "before", "spelling": spelling, "epochs": 60, "lr": 0.05, "cache": False}
    tagger = boustro.Tagger(tiny_pair.partition("+")[0], "linear", **how).fit(train, seed=1)
    assert (tagger.evaluate(new).f1 == 100) == spelling
