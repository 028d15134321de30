"""A promise about recall: the threshold, what it holds for, when it cannot be made, and when it may not hold."""

import json
from pathlib import Path

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.options import OptionError
from boustro.tasks.recall import RecallPromise, Watch

NAMES = ["Ada", "Mira", "Tobias", "Calloway", "Brandt", "Lisse", "Okonkwo", "Vellmar"]
DATA = [
    ([name, verb, *rest], ["B-PER", "O", *["O"] * len(rest)])
    for name in NAMES
    for verb, *rest in (("left", "early"), ("sold", "the", "boat"), ("slept", "."), ("saw", "rain", "and", "snow"))
]


def promise(probabilities, unsure=0.01):
    return RecallPromise(np.sort(np.array(probabilities, float)), unsure)


def test_the_threshold_by_hand():
    ten = promise([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert ten.threshold(0.9) == pytest.approx(0.1 * 0.999)  # k = floor(0.1 * 11) = 1
    assert ten.threshold(0.8) == pytest.approx(0.2 * 0.999) and ten.threshold(0.5) == pytest.approx(0.5 * 0.999)
    assert promise(np.arange(1, 100) / 100).threshold(0.95) == pytest.approx(0.05 * 0.999)  # k = 5


def test_new_entities_are_found_as_often_as_promised():
    rng = np.random.default_rng(0)
    realised = []
    for _ in range(200):
        threshold = promise(rng.beta(2, 1, 199)).threshold(0.9)
        realised.append((rng.beta(2, 1, 500) >= threshold).mean())
    assert 0.90 <= np.mean(realised) < 0.91


@pytest.mark.parametrize(
    ("probabilities", "recall", "message"),
    [
        ([0.5] * 8, 0.9, "from the 8 entities of the development set; it takes 9 or more"),
        ([0.5] * 18, 0.95, "from the 18 entities of the development set; it takes 19 or more"),
        ([0.0] * 2 + [0.5] * 18, 0.9, r"10.0% of the 20 entities of the development set are never candidates"),
    ],
)
def test_a_promise_that_cannot_be_made_is_refused(probabilities, recall, message):
    with pytest.raises(ValueError, match=message):
        promise(probabilities).threshold(recall)


@pytest.mark.parametrize("recall", [0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999])
def test_the_number_of_entities_that_an_error_asks_for_is_enough_and_no_fewer_are(recall):
    with pytest.raises(ValueError) as error:
        promise([]).threshold(recall)
    needed = int(str(error.value).split(" it takes ")[1].split()[0])
    assert promise([0.5] * needed).threshold(recall)
    with pytest.raises(ValueError, match="it takes"):
        promise([0.5] * (needed - 1)).threshold(recall)


def test_gold_entities_have_the_probability_of_their_candidate():
    candidates = [[(0, 1, 0, 0.9), (0, 2, 0, 0.05)], [(3, 4, 1, 0.4)]]
    gold = [[(0, 2, 0)], [(3, 4, 1), (5, 6, -1)]]
    learned = RecallPromise.learn(candidates, gold)
    assert learned.probabilities.tolist() == [0.0, 0.05, 0.4]
    assert learned.unsure == pytest.approx((0.9 * 0.1 + 0.05 * 0.95 + 0.4 * 0.6) / 1.35)


def test_other_texts_are_noticed():
    sure, unsure = [[(0, 1, 0, 0.99)]] * 100, [[(0, 1, 0, 0.5)]] * 100
    watch = Watch()
    watch.add(sure)
    assert not watch.warning(promise([0.5], watch.unsure))
    other = Watch()
    other.add(unsure)
    assert "unsure of them (0.50, on its development set 0.01)" in other.warning(promise([0.5], watch.unsure))
    few = Watch()
    few.add(unsure[:10])
    assert not few.warning(promise([0.5], watch.unsure))


@pytest.fixture(scope="module")
def lm(tiny_lm):
    return str(tiny_lm("llama", sentinel=True))


@pytest.fixture(scope="module")
def tagger(lm):
    return boustro.Tagger(lm, hidden=16, epochs=3, cache=False).fit(DATA, DATA, seed=1)


@pytest.mark.parametrize("head", ["mlp", "span"])
def test_a_list_holds_what_was_promised_on_its_own_calibration_set(lm, head, tmp_path):
    tagger = boustro.Tagger(lm, head, hidden=16, epochs=15, lr=1e-2, cache=False).fit(DATA, DATA, seed=1)
    tagger.save_pretrained(tmp_path / "t")
    tagger = boustro.Tagger.from_pretrained(tmp_path / "t", cache=False)
    lists = {}
    for recall in (0.6, 0.9):
        score = tagger.with_recall(recall).evaluate(DATA)
        assert score.recall >= 100 * recall
        lists[recall] = sum(map(len, tagger.predict([" ".join(words) for words, _ in DATA], recall=recall)))
    assert lists[0.6] <= lists[0.9]
    assert tagger.recall is None and tagger.predict("Ada left early") == tagger.predict(["Ada left early"])[0]


def test_scores_are_probabilities_and_tags_fit(tagger):
    (found,) = tagger.with_recall(0.9).answer([["Ada", "left", "early"]])
    assert all(0 < e.score <= 1 for e in found.entities) and len(found.tags) == 3
    assert any(e.label == "PER" and (e.start, e.end) == (0, 1) for e in found.entities)


def test_without_a_promise_recall_is_refused(lm, tagger, tmp_path):
    with pytest.raises(OptionError, match=r"at least 0\.5 and at most 0\.999"):
        tagger.predict("Ada left.", recall=1.0)
    with pytest.raises(ValueError, match=r"a recall of 0\.999 cannot be promised from the 32 entities"):
        tagger.predict("Ada left.", recall=0.999)
    words = [(["Ada", "left"], ["NOUN", "VERB"])]
    without = (None, DATA, None, "auto"), (False, DATA, DATA, "auto"), (None, words, words, "labels")
    for crf, data, dev, scheme in without:
        made = boustro.Tagger(lm, hidden=8, epochs=1, cache=False, crf=crf).fit(data, dev, 1, scheme)
        with pytest.raises(ValueError, match="train it with a development set, and with a CRF or a span head"):
            made.with_recall(0.9)
    tagger.save_pretrained(tmp_path / "t")
    assert len(json.loads((tmp_path / "t/recall.json").read_text())["probabilities"]) == 32


def test_the_command_lines_option(tagger, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tagger.save_pretrained("t")
    Path("texts.txt").write_text("Ada left early.\n" * 120)
    Path("gold.jsonl").write_text("".join(json.dumps({"words": w, "tags": t}) + "\n" for w, t in DATA))
    assert main(["predict", "t", "texts.txt", "--recall", "0.9", "--format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 120 and any(e["text"] == "Ada" for e in lines[0]["entities"])
    assert main(["evaluate", "t", "gold.jsonl", "--recall", "0.9", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] >= 90
    assert main(["predict", "t", "texts.txt", "--recall", "0.9", "--format", "conll"]) == 2
    assert "no place for entities that overlap" in capsys.readouterr().err
    assert main(["predict", "t", "texts.txt", "--recall", "1"]) == 2
    boustro.Classifier(tagger.encoder_spec, "mlp-pool", hidden=8, epochs=1, cache=False).fit(
        [("Ada left.", "a"), ("It rained.", "b")]
    ).save_pretrained("c")
    capsys.readouterr()
    assert main(["predict", "c", "texts.txt", "--recall", "0.9"]) == 2
    assert "--recall is for taggers, and this is a Classifier" in capsys.readouterr().err
