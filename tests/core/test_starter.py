"""The shipped pair and sample: small, whole, readable without a network; and Boustro from Python in a few lines."""

import copy
import json
import pickle
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import boustro
from boustro.encoders.spec import Spec
from boustro.metrics.spans import extract_spans
from boustro.tasks.answers import Entities
from boustro.tasks.data import read_data
from boustro.tasks.data.records import labelled_text
from boustro.text.tokenizers import ROLES, FolderTokenizer, load_tokenizer
from boustro.types import Entity

DATA = Path(str(files("boustro") / "data"))
TEXT = " The company said on Monday that it would open a new office in the capital of the country."


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_each_half_is_an_ordinary_model_folder_that_knows_its_direction(direction):
    folder = DATA / "starter" / direction
    config = json.loads((folder / "config.json").read_text())
    assert config["direction"] == direction and config["sentinel"] is True
    tokenizer = AutoTokenizer.from_pretrained(folder)
    lm = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def loss(ids):
        ids = torch.tensor([[tokenizer.eos_token_id, *ids]])
        with torch.no_grad():
            return lm(input_ids=ids, labels=ids).loss.item()

    ids = tokenizer(TEXT)["input_ids"]
    reading, against = (ids, ids[::-1]) if direction == "forward" else (ids[::-1], ids)
    assert loss(reading) < loss(against) - 1
    assert loss(reading) < 5


@pytest.mark.parametrize("name", ["forward", "backward", "lm", "texts"])
def test_a_tokenizer_of_the_package_is_read_as_transformers_does(name):
    folder = str(files("boustro") / "data" / "starter" / name)
    ours, theirs = load_tokenizer(folder, to_read=True), load_tokenizer(folder)
    assert isinstance(ours, FolderTokenizer) and not isinstance(theirs, FolderTokenizer)
    facts = ("all_special_tokens", "all_special_ids", "model_max_length", "name_or_path", *ROLES)
    for fact in (*facts, *(f"{role}_id" for role in ROLES)):
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    for fact in ("get_vocab", "get_added_vocab", "__len__"):
        assert getattr(ours, fact)() == getattr(theirs, fact)()
    plain, cut = {"add_special_tokens": False, "split_special_tokens": True}, {"truncation": True, "max_length": 9}
    for text in ("", "a", "Ada's <|endoftext|> <|im_end|> [SEP] \u00e9lan \u4e2d\u56fd \U0001f600 " * 9):
        for how in ({}, plain, {"add_special_tokens": False}, cut, {}):
            assert ours([text, "b"], **how)["input_ids"] == theirs([text, "b"], **how)["input_ids"]
            assert ours(text, **how)["input_ids"] == theirs(text, **how)["input_ids"]
        assert ours.tokenize(text) == theirs.tokenize(text)
    assert "whole" not in vars(ours) and ours.decode([5, 9, 20]) == theirs.decode([5, 9, 20])


def test_the_pair_is_small_and_shares_one_vocabulary():
    assert sum(f.stat().st_size for f in (DATA / "starter").rglob("*") if f.is_file()) < 103e6
    one, other = (AutoTokenizer.from_pretrained(DATA / "starter" / d).get_vocab() for d in ("forward", "backward"))
    assert one == other and len(one) == 8192


def test_the_names_of_the_pair_and_its_halves():
    pair = boustro.load_encoder("starter", dtype="float32")
    assert [s.name for s in pair.streams] == ["starter-forward", "starter-backward"]
    (both,) = pair.encode([["Jane", "lives", "here"]])
    for array, half in zip(both, ("starter-forward", "starter-backward"), strict=True):
        assert array.shape == (3, 5, 512)
        np.testing.assert_array_equal(
            array, next(iter(boustro.load_encoder(half, dtype="float32").encode([["Jane", "lives", "here"]])))[0]
        )


def test_all_of_the_package_side_by_side():
    together = boustro.load_encoder("starter-large", layers="last", dtype="float32")
    (streams,) = together.encode([words := ["Jane", "lives", "here"]])
    alone = ("starter-lm", "starter-texts", "starter-memory")
    parts = [next(iter(boustro.load_encoder(spec, layers="last", dtype="float32").encode([words]))) for spec in alone]
    *read, _names = streams
    for one, other in zip(read, [array for part in parts for array in part], strict=True):
        np.testing.assert_array_equal(one, other)
    assert Spec.parse("starter-large").exact(together.identity()) == "starter-large"
    assert len(Spec.parse("starter-large+starter").parts) == 3
    with pytest.raises(ValueError, match="the first 12 of 30 blocks of an LM, which predict no pieces"):
        boustro.Writer("starter-lm")
    with pytest.raises(ValueError, match="is a network that finds names, not an LM"):
        boustro.load_encoder("unmasked:starter-large")
    with pytest.raises(ValueError, match="is a network that finds names, not an LM"):
        boustro.Writer("starter-large")


def test_the_memory_belongs_to_the_pair_and_is_no_model():
    encoder = boustro.load_encoder("starter-memory", layers="last", dtype="float32")
    pair = boustro.load_encoder("starter", layers="last", dtype="float32")
    sentence = ["Elizabeth", "visited", "Vellmarstadt", "."]
    (streams,), (plain,) = encoder.encode([sentence]), pair.encode([sentence])
    for own, pooled, alone in zip(streams[:2], streams[2:], plain, strict=True):
        np.testing.assert_array_equal(own, alone)
        assert np.any(pooled[0] != own[0, -1:])
        np.testing.assert_array_equal(pooled[2], own[2, -1:])  # a word that it does not know
    assert Spec.parse("starter-memory").exact(encoder.identity()) == Spec.parse(encoder.spec).exact(encoder.identity())
    assert len(boustro.load_encoder("starter-memory+starter-forward").streams) == 5
    for spec in ("masked:starter-memory", "fused:starter-memory"):
        with pytest.raises(ValueError, match="starter-memory is a memory of words, not an LM"):
            boustro.load_encoder(spec)


def test_a_tagger_with_the_memory_of_the_package_is_opened_by_its_name(tmp_path):
    data = DATA / "sample"
    tagger = boustro.Tagger("starter-memory", "linear", epochs=1, cache=False).fit(data / "dev.conll", seed=1)
    tagger.save_pretrained(tmp_path / "ner")
    assert json.loads((tmp_path / "ner/config.json").read_text("utf-8"))["encoder"] == "starter-memory"
    card = (tmp_path / "ner/README.md").read_text("utf-8")
    models = card[card.index("`starter-memory`") : card.index("## Sizes")]
    for row in ("starter-forward |", "| forward |", "starter-backward |", "| backward |", "memory of words |"):
        assert models.count(row) == 1
    assert not re.findall(r"\b0\.\d\d\b", models) and "model 1" not in models  # of few examples no mix is learned
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    text = "Elizabeth went to Lisbon."
    assert opened.predict(text) == tagger.predict(text)


def test_the_sample_is_large_enough_and_its_splits_do_not_overlap():
    splits = {name: read_data(DATA / "sample" / f"{name}.conll") for name in ("train", "dev", "test")}
    assert sum(map(len, splits.values())) >= 300
    words = [s.words for sentences in splits.values() for s in sentences]
    assert len(set(words)) == len(words)
    for sentences in splits.values():
        entities = [e for s in sentences for e in extract_spans(s.tags)]
        assert {e.label for e in entities} == {"PER", "LOC", "ORG", "MISC"}
        assert sum(any(e.start == 0 for e in extract_spans(s.tags)) for s in sentences) > len(sentences) / 4


@pytest.mark.long
def test_both_directions_beat_one_on_the_sample():
    sample = DATA / "sample"
    scores = {}
    for spec in ("starter-forward", "starter"):
        tagger = boustro.Tagger(spec).fit(sample / "train.conll", sample / "dev.conll", seed=1)
        scores[spec] = tagger.evaluate(sample / "test.conll").f1
    assert scores["starter"] > scores["starter-forward"] + 3


TEXTS = ["Ada left Vellmar.", "It rained.", "Ada saw Ada.", "Vellmar fell."]
NAMES = [[("Ada", "PER"), ("Vellmar", "LOC")], [], [("Ada", "PER"), ("Ada", "PER")], [("LOC", 0, 7)]]
FAST = {"epochs": 2, "hidden": 8, "cache": False}


def test_a_tagger_learns_from_lists(tiny_pair):
    tagger = boustro.Tagger(tiny_pair, **FAST).fit(TEXTS, NAMES, seed=2)
    records = [labelled_text(*pair, "text") for pair in zip(TEXTS, NAMES, strict=True)]
    assert records[2]["entities"] == [{"start": s, "end": s + 3, "label": "PER"} for s in (0, 8)]
    same = boustro.Tagger(tiny_pair, **FAST).fit(records, seed=2)
    assert tagger.types == ["LOC", "PER"] and tagger.record["losses"] == same.record["losses"]
    words = boustro.Tagger(tiny_pair, **FAST).fit([["Ada", "left"]] * 2, [["B-PER", "O"]] * 2, dev=records)
    assert words.types == ["PER"] and words.record["dev_scores"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (NAMES[:3], "4 texts, but 3 labels; give one for each text"),
        ("dev.jsonl", "these are texts without labels; give their labels as a list"),
        ([[("Bo", "PER")], [], [], []], "text 1: 'Bo' does not stand in 'Ada left Vellmar.'"),
        ([[("Ada", "PER"), ("Ada", "PER")], [], [], []], "text 1: 'Ada' does not stand in .* once more"),
        (
            [[("PER", 0)], [], [], []],
            "text 1: an entity is its text and its label, or its label, start and end, in any order",
        ),
        ([[("PER", 0, 99)], [], [], []], "outside the 17 characters"),
    ],
)
def test_labels_that_are_none(tiny_pair, labels, message):
    with pytest.raises(ValueError, match=message):
        boustro.Tagger(tiny_pair, **FAST).fit(TEXTS, labels)


def test_a_notebook_shows_entities_in_their_text():
    found = Entities([Entity("PER", 0, 3, "Ada", 0.9)], "Ada <left>.")
    assert found == [Entity("PER", 0, 3, "Ada", 0.9)] and isinstance(found, list)
    shown = found._repr_html_()
    assert (
        "<mark" in shown and "Ada <small>PER</small></mark> &lt;left&gt;." in shown and "prefers-color-scheme" in shown
    )
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again == found and again.text == found.text and again._repr_html_() == shown


def test_predictions_are_shown(tiny_pair):
    tagger = boustro.Tagger(tiny_pair, **FAST | {"epochs": 40, "lr": 1e-2}).fit(TEXTS, NAMES)
    found = tagger.predict("Ada left Vellmar.")
    assert [e.label for e in found] == ["PER", "LOC"] and found._repr_html_().count("<mark") == 2
    (words,) = tagger.predict([boustro.Sentence(("Ada", "left", "Vellmar", "."))])
    assert [(e.start, e.end) for e in words] == [(0, 1), (2, 3)] and words._repr_html_().count("<mark") == 2


def test_completion_offers_what_a_user_needs(tiny_pair):
    tagger, classifier = boustro.Tagger(tiny_pair), boustro.Classifier(tiny_pair)
    assert {"fit", "predict", "save", "evaluate", "with_recall"} <= {*dir(tagger)} and len(dir(tagger)) <= 21
    assert "predict_proba" in dir(classifier) and not {"with_recall", "plan"} & {*dir(classifier)}
    assert all(hasattr(tagger, name) for name in dir(tagger))
    assert not {"os", "sys", "Any", "TYPE_CHECKING"} & {*dir(boustro)} and "load" in dir(boustro)
