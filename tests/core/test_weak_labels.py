"""Weak labels beside gold ones: the weight they get, and what is left out with a part."""

import numpy as np
import pytest
import torch

import boustro
from boustro.heads.training import _batches
from boustro.tasks.fitting import training as fitting
from boustro.tasks.fitting.training import SHARED, WEAK_WEIGHTS


def test_a_batch_has_examples_of_one_weight():
    groups = [(np.array([0, 2]), 1.0), (np.array([1, 3, 4]), 0.1)]
    batches = list(_batches(groups, 2, np.random.default_rng(0)))
    assert sorted(np.concatenate([own for own, _ in batches]).tolist()) == [0, 1, 2, 3, 4] and len(batches) == 3
    assert all(set(own) <= ({0, 2} if weight == 1 else {1, 3, 4}) for own, weight in batches)


PEOPLE = ["Ada", "Mira", "Tobias", "Brandt", "Okonkwo", "Calloway", "Ines", "Elodie"]
GOLD = [([n, "left", "early"], ["B-PER", "O", "O"]) for n in PEOPLE[:3]]
GOLD += [(["nobody", "left", "early"], ["O"] * 3)] * 3
GOOD = [([n, verb, "."], ["B-PER", "O", "O"]) for n in PEOPLE for verb in ("slept", "left", "sang")] + GOLD[3:]
BAD = [(words, ["O", "B-PER", "O"]) for words, _ in GOOD]
GOOD_SENTENCES = boustro.Tagger.read(GOOD)
HOW = {"hidden": 32, "epochs": 8, "lr": 1e-2, "dropout": 0.0, "cache": False}


def test_good_labels_are_used_and_bad_ones_are_not(tiny_pair):
    good = boustro.Tagger(tiny_pair, **HOW).fit(GOLD, GOLD, seed=1, weak=GOOD)
    short = HOW | {"epochs": 2}
    bad = boustro.Tagger(tiny_pair, **short).fit(GOLD, GOLD, seed=1, weak=BAD)
    assert (
        list(good.record["weak"]["tried"]) == [f"{w:g}" for w in WEAK_WEIGHTS]
        and good.record["weak"]["sentences"] == 27
    )
    assert good.record["weak"]["tried"]["1"] > good.record["weak"]["tried"]["0"] and good.record["weak"]["weight"] > 0
    for own in (good.record["weak"], bad.record["weak"]):
        best = max(own["tried"].values())
        assert own["weight"] == min(w for w in WEAK_WEIGHTS if own["tried"][f"{w:g}"] == best)
    assert min(good.record["weak"]["tried"].values()) == good.record["weak"]["tried"]["0"]
    fixed = [boustro.Tagger(tiny_pair, **short).fit(GOLD, seed=1, weak=BAD, weak_weight=w) for w in (0.1, 1.0)]
    assert fixed[0].record["losses"] != fixed[1].record["losses"]


def test_weak_examples_with_a_text_that_is_left_out_are_left_out_with_it(tiny_pair, monkeypatch):
    """Also where the temperature is chosen; the text may be split into words otherwise. Pairs and texts likewise."""
    trained = []
    train = fitting.train_stages

    def spy(like, data, numbers=None, weak=None):
        if numbers is None:  # the training that follows
            return train(like, data)
        kept = set(numbers.tolist())
        left = {fitting.letters_of(own) for n, own in enumerate(data.gold) if n not in kept}
        shared = [n for n in weak if fitting.letters_of(data.examples[n]) in left]
        trained.append((len(left), shared, len(weak)))
        return train(like, data, numbers, weak)

    monkeypatch.setattr(fitting, "train_stages", spy)
    silver = [(["A", "da", "left", "early"], ["B-PER", "I-PER", "O", "O"]), *GOLD[1:], *GOOD[:4]]
    tagger = boustro.Tagger(tiny_pair, calibrate=2, **HOW | {"epochs": 1}).fit(GOLD, seed=1, weak=silver)
    texts = [("Ada left.", "a"), ("It rained.", "b"), ("Mira sang.", "a"), ("It snows.", "b")]
    boustro.Classifier(tiny_pair, "mlp-pool", calibrate=2, **HOW | {"epochs": 1}).fit(texts, seed=1, weak=texts)
    parts = [own for own in trained if own[0]]
    assert len(parts) > 2 * (3 * len(WEAK_WEIGHTS)) and not any(shared for _, shared, _ in parts)
    assert all(size < 10 for _, _, size in parts)
    assert tagger.record["notices"][SHARED] == 6


@pytest.mark.long
def test_silver_labels_learned_by_heart_are_worth_nothing(tiny_pair):
    """Labels that nothing but the name itself tells: no part left out may seem to be known."""
    train = [([name, "left"], [("B-PER", "B-LOC")[n in (0, 2, 4, 6)], "O"]) for n, name in enumerate(PEOPLE)]
    tagger = boustro.Tagger(tiny_pair, **HOW | {"epochs": 20}).fit(train, seed=1, weak=train * 4)
    assert max(tagger.record["weak"]["tried"].values()) < 80 and tagger.evaluate(train).f1 > 90


@pytest.mark.parametrize("memory", [False, True])
def test_a_weight_of_0_is_no_weak_data(tiny_pair, memory, monkeypatch):
    """No label, no word of the memory, no longest entity; given, or chosen as the best."""
    weak = [(["Lisse", "slept", "there"], ["B-LOC", "I-LOC", "I-LOC"])] * 4
    how = HOW | {"memory": memory}
    without = boustro.Tagger(tiny_pair, **how).fit(GOLD, GOLD, seed=1)
    given = boustro.Tagger(tiny_pair, **how).fit(GOLD, GOLD, seed=1, weak=weak, weak_weight=0.0)
    monkeypatch.setattr(fitting, "choose_weight", lambda *given: (0.0, {"0": 1.0}))
    chosen = boustro.Tagger(tiny_pair, **how).fit(GOLD, GOLD, seed=1, weak=weak)
    for tagger, tried in ((given, {}), (chosen, {"0": 1.0})):
        assert tagger.types == without.types == ["PER"]
        assert tagger.answer(GOOD_SENTENCES) == without.answer(GOOD_SENTENCES)
        assert {**tagger.record, "weak": 0}.keys() == {**without.record, "weak": 0}.keys()
        assert tagger.record["losses"] == without.record["losses"]
        assert tagger.record["notices"] == without.record["notices"]
        assert tagger.record["weak"]["weight"] == 0 and tagger.record["weak"]["tried"] == tried
        assert tagger.record["weak"]["sentences"] == 4


def test_types_of_weak_examples_are_learned_and_gold_ones_come_last(tiny_pair):
    weak = [(["Lisse", "slept"], ["B-LOC", "O"])] * 4
    tagger = boustro.Tagger(tiny_pair, calibrate=2, **HOW).fit(GOLD, seed=1, weak=weak, weak_weight=1.0)
    assert tagger.types == ["LOC", "PER"] and tagger.record["weak"]["tried"] == {}
    assert tagger.record["train"]["sentences"] == 6 and tagger.record["batch_sentences"] == 4
    torch.manual_seed(0)
    texts = [("Ada left.", "a"), ("It rained.", "b")] * 3
    made = boustro.Classifier(tiny_pair, "mlp-pool", **HOW).fit(texts, seed=1, weak=texts, weak_weight=0.3)
    assert made.record["weak"]["weight"] == 0.3


@pytest.mark.parametrize(
    ("options", "message"), [({"head": "ridge-pool"}, "is trained at once"), ({"words": True}, "not for --words")]
)
def test_what_cannot_learn_in_two_stages_is_refused(tiny_pair, options, message):
    texts = [("Ada left.", "a"), ("It rained.", "b")] * 3
    with pytest.raises(ValueError, match=message):
        boustro.Classifier(tiny_pair, **options).fit(texts, seed=1, weak=texts)
