"""Context against memory: words known by their context alone, and other names in the same places."""

import numpy as np
import pytest
import torch

import boustro
from boustro.encoders.spec import load_encoder
from boustro.heads.dropout import WordDropout, own_columns
from boustro.tasks.data import read_data
from boustro.tasks.mentions import ADDED, OVERLAPPING, REPLACED, replace_mentions
from boustro.types import Sentence

TRAIN = read_data(
    [
        {"text": "Ada Brandt left Vellmar.", "entities": [[0, 10, "PER"], [16, 23, "LOC"]], "document": "a"},
        {"text": "Ada Brandt slept.", "entities": [[0, 10, "PER"]], "document": "a"},
        {"text": "It rained.", "entities": [], "document": "b"},
        {"text": "Mira saw Port Lisse.", "entities": [[0, 4, "PER"], [9, 19, "LOC"]], "document": "c"},
        {"text": "Okonkwo sold Boat Works.", "entities": [[0, 7, "PER"], [13, 23, "ORG"]], "document": "d"},
    ]
)


def test_the_columns_that_know_the_word_by_hand():
    places = [("exit", "before"), ("before",)]
    streams = [(2, 4), (1, 2)]
    mixed = own_columns(places, streams, concat=False)
    assert mixed.tolist() == [True, True, False, False, False, False]
    assert own_columns(places, streams, concat=True).tolist() == [True, True, False, False] * 2 + [False] * 2
    torch.manual_seed(0)
    dropped = WordDropout(mixed, 0.3)(torch.ones(4000, 6))
    own = dropped[:, :2].any(1)
    assert 0.66 < own.float().mean() < 0.74
    assert bool((dropped[:, 2:] == 1).all()) and bool((dropped[own] == 1).all())


def test_what_is_left_of_a_dropped_word_does_not_know_it(tiny_pair):
    tagger = boustro.Tagger(tiny_pair, word_dropout=0.5, context="sentence", cache=False)
    encoder = tagger.encoder()
    columns = tagger.noise(tagger.plan).columns
    first, second = (encoder.encode_all([["Ada", word, "left"]]).streams for word in ("Brandt", "Vellmar"))
    found = [np.concatenate([s[1, -1] for s in streams]) for streams in (first, second)]
    same = np.abs(found[0] - found[1]) < 1e-2
    assert same[~columns.numpy()].all() and not same[columns.numpy()].all()


def test_word_dropout_changes_training_only_and_needs_a_causal_lm(tiny_pair):
    data = [(list(s.words), list(s.tags)) for s in TRAIN]
    plain, other, again = (
        boustro.Tagger(tiny_pair, hidden=8, epochs=2, word_dropout=p, cache=False).fit(data, seed=1)
        for p in (0.0, 0.9, 0.9)
    )
    assert plain.record["losses"] != other.record["losses"] == again.record["losses"]
    assert other.answer(["Ada left".split()]) == other.answer(["Ada left".split()])
    for options in ({"pooling": "exit"}, {"encoder": f"unmasked:{tiny_pair.split('+')[0]}"}):
        with pytest.raises(ValueError, match="needs words that are read before the LM has read them"):
            boustro.Tagger(**{"encoder": tiny_pair, **options}, word_dropout=0.1, cache=False).fit(data, seed=1)
    assert load_encoder(tiny_pair).identity().lms[0].pooling == "exit+before"


def test_names_are_replaced_by_others_of_their_label():
    added, counts = replace_mentions(TRAIN, 1.0, seed=3)
    assert counts == {ADDED: 4, REPLACED: 6, OVERLAPPING: 0}  # ORG has one name, b has none
    first, second, third, fourth = added
    assert first.document == second.document == "a with other names" and third.document == "c with other names"
    assert first.words[0] in ("Mira", "Okonkwo") and first.words[1:] == ("left", "Port", "Lisse", ".")
    assert first.tags == ("B-PER", "O", "B-LOC", "I-LOC", "O") and first.spaces == (True, True, True, True, False)
    assert second.words == (first.words[0], "slept", ".")  # one name becomes one name throughout a document
    assert third.words[-2:] == ("Vellmar", ".") and fourth.words[-3:-1] == ("Boat", "Works")
    assert replace_mentions(TRAIN, 1.0, seed=3)[0] == added != replace_mentions(TRAIN, 1.0, seed=5)[0]
    assert replace_mentions(TRAIN, 0.0, seed=3)[0] == []
    many = [Sentence(s.words, s.tags) for s in TRAIN] * 200
    assert 350 < replace_mentions(many, 0.5, seed=1)[1][ADDED] < 450  # of 800 sentences with a name


def test_documents_with_overlapping_entities_are_counted():
    nested = read_data([{"text": "Port Lisse Bank", "entities": [[0, 15, "ORG"], [0, 10, "LOC"]]}] * 2)
    assert replace_mentions(nested, 1.0, seed=1) == ([], {ADDED: 0, REPLACED: 0, OVERLAPPING: 2})


def test_added_sentences_are_trained_on_and_reported(tiny_pair):
    options = {"hidden": 8, "epochs": 2, "cache": False, "calibrate": 2}
    tagger = boustro.Tagger(tiny_pair, replace_mentions=1.0, **options).fit(TRAIN, seed=3)
    assert tagger.record["notices"][ADDED] == 4 and tagger.record["train"]["sentences"] == 5
    assert boustro.Tagger(tiny_pair, **options).fit(TRAIN, seed=3).record["losses"] != tagger.record["losses"]
    assert tagger.types == ["LOC", "ORG", "PER"]
