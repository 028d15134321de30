"""Reliability of scores and differences, temperatures of answers, and a promise about recall, against written sums."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boustro
from boustro.metrics.score import reliability
from boustro.metrics.significance import Difference, bootstrap, difference, entity_counts, f1
from boustro.metrics.spans import SpanCounts, extract_spans, score_spans
from boustro.options import OptionError
from boustro.tasks.calibrate import GRID, best_temperature
from boustro.tasks.recall import DriftMonitor, RecallPromise
from labelled import longer

JUDGED = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40)


@given(JUDGED, st.integers(1, 12))
def test_the_error_is_the_weighted_distance_of_the_bins(judged, num_bins):
    scores, right = [s for s, _ in judged], [r for _, r in judged]
    found = reliability(scores, right, num_bins)
    assert len(found.bins) == num_bins and sum(b.count for b in found.bins) == len(judged)
    expected = 0.0
    for number, each in enumerate(found.bins):
        mine = [(s, r) for s, r in judged if min(int(s * num_bins), num_bins - 1) == number]
        assert each.count == len(mine)
        if mine:
            score, share = sum(s for s, _ in mine) / len(mine), sum(r for _, r in mine) / len(mine)
            assert each.mean_score == pytest.approx(score) and each.right == pytest.approx(share)
            expected += len(mine) / len(judged) * abs(share - score)
    assert found.error == pytest.approx(expected)


@pytest.mark.parametrize(("scores", "right", "what"), [([1.2], [True], "outside"), ([0.5], [], "1 scores, but 0")])
def test_scores_that_are_no_probabilities_are_refused(scores, right, what):
    with pytest.raises(ValueError, match=what):
        reliability(scores, right)


GOLD = [["B-PER", "O"]] * 100
HALF = [["B-PER", "O"] if i % 2 else ["O", "O"] for i in range(100)]


def sentence_counts(gold, predicted) -> np.ndarray:
    return entity_counts(*([extract_spans(tags) for tags in side] for side in (gold, predicted)))


def bootstrap_f1(systems, *given, **options):
    """Of (sentences, 3) counts, or of several seeds'."""
    return bootstrap(f1, [counts[None] if counts.ndim == 2 else counts for counts in systems], *given, **options)


def paired_bootstrap(first, second, **options) -> Difference:
    return difference(*bootstrap_f1([first, second], **options))


def test_counts_of_sentences_sum_to_those_of_the_score():
    assert SpanCounts(*sentence_counts(GOLD, HALF).sum(0).tolist()) == score_spans(GOLD, HALF).total


def test_a_real_difference_is_found_and_no_false_one():
    good, half = (np.stack([sentence_counts(GOLD, side)] * 2) for side in (GOLD, HALF))
    found, same = paired_bootstrap(half, good), paired_bootstrap(half, half)
    assert 0 < found.low < found.points < found.high and found.p < 0.002
    assert found.points == pytest.approx(100 - 200 * 50 / 150)
    assert same.p == 1 and same.points == 0 and -3 < same.low < 0 < same.high < 3


@pytest.mark.parametrize(("better", "worse", "exact"), [(5, 0, 0.0625), (6, 0, 0.03125), (6, 1, 0.125), (0, 0, 1.0)])
def test_few_that_differ_have_the_exact_p(better, worse, exact):
    """McNemar's, of 40 texts, with three seeds that are equal; and an interval that agrees with it."""
    right = np.ones((2, 3, 40), bool)
    right[0, :, :better], right[1, :, 38 - worse : 38] = False, False
    found = paired_bootstrap(*np.stack([np.ones((2, 3, 40)), np.ones((2, 3, 40)), right], -1))
    assert found.p == pytest.approx(exact) and found.points == pytest.approx(100 * (better - worse) / 40)
    assert (found.low <= 0) == (exact >= 0.05) and found.high > found.points


def test_with_several_seeds_the_difference_is_that_of_the_means():
    good, half = sentence_counts(GOLD, GOLD), sentence_counts(GOLD, HALF)
    found = paired_bootstrap(np.stack([half, half]), np.stack([good, half]))
    assert found.points == pytest.approx((100 - score_spans(GOLD, HALF).f1) / 2) and found.num_seeds == 2
    assert found.low == 0 and found.p > 0.2  # one seed is no better, and in every fourth draw it alone is drawn
    assert paired_bootstrap(np.stack([half, half]), np.stack([good, good])).p < 0.002


def test_a_single_seed_has_an_interval_over_sentences_and_no_p():
    found = paired_bootstrap(sentence_counts(GOLD, HALF), sentence_counts(GOLD, GOLD))
    assert found.low > 0 and found.p is None and found.num_seeds == 1


def test_seeds_are_set_beside_each_other_by_their_number():
    good, half = sentence_counts(GOLD, GOLD), sentence_counts(GOLD, HALF)
    whole, partial, other = np.stack([good, half, good]), np.stack([good, good]), np.stack([half])
    drawn = bootstrap_f1([whole, partial, other], [(1, 2, 3), (1, 3), (2,)], draws=200)
    same = difference(drawn[0], drawn[1])
    assert same and (same.points, same.p, same.num_seeds) == (0, 1, 2)  # seeds 1 and 3 are equal
    one = difference(drawn[0], drawn[2])
    assert one and one.points == 0 and one.high < 3 and one.num_seeds == 1
    assert difference(drawn[1], drawn[2]) is None


def test_p_is_twice_the_share_of_draws_beyond_zero():
    rng = np.random.default_rng(0)
    wanted, right = np.ones((2, 3, 60), int), rng.random((2, 3, 60)) < [[[0.55]], [[0.7]]]
    first, second = np.stack([wanted, wanted, right], -1)
    found = paired_bootstrap(first, second, draws=400)
    sides = bootstrap_f1([first, second], draws=400)
    gaps = sides[1].resampled - sides[0].resampled
    seeds = np.random.default_rng(0).integers(0, 3, gaps.shape)
    means = np.array([row[own].mean() for row, own in zip(gaps, seeds, strict=True)])
    assert found.p == pytest.approx(2 * (1 + min((means <= 0).sum(), (means >= 0).sum())) / 401) and 0.005 < found.p < 1
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_all_systems_are_scored_on_the_same_resampled_sentences():
    half = sentence_counts(GOLD, HALF)
    drawn, again = (bootstrap_f1([half, half, sentence_counts(GOLD, GOLD)], draws=150) for _ in range(2))
    assert [d.resampled.shape for d in drawn] == [(150, 1)] * 3
    assert (drawn[0].resampled == drawn[1].resampled).all() and drawn[0].resampled.std() > 1
    assert (drawn[2].resampled == 100).all()
    assert all((a.resampled == b.resampled).all() for a, b in zip(drawn, again, strict=True))


def test_systems_on_other_sentences_are_refused():
    with pytest.raises(ValueError, match="different examples: 50 and 100"):
        paired_bootstrap(sentence_counts(GOLD, GOLD), sentence_counts(GOLD[:50], GOLD[:50]))


NAMES = ["Ada", "Mira", "Tobias", "Calloway", "Brandt", "Lisse", "Okonkwo", "Vellmar"]
DATA = [
    ([name, verb, *rest], ["B-PER" if (i + j) % 3 else "B-LOC", "O", *["O"] * len(rest)])
    for i, name in enumerate(NAMES)
    for j, (verb, *rest) in enumerate((["left", "early"], ["sold", "the", "boat"], ["slept", "."], ["saw", "rain"]))
]
TEXTS = [(" ".join(words), "a" if n % 3 else "b") for n, (words, _) in enumerate(DATA)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_temperature_that_made_the_answers_is_found():
    rng = np.random.default_rng(0)
    logits = rng.normal(2, 2, 40_000)
    right = rng.random(len(logits)) < sigmoid(logits / 2.5)
    scores = np.stack([sigmoid(logits / t) for t in GRID])
    assert best_temperature(scores, right) == pytest.approx(2.5, rel=0.05)
    assert best_temperature(scores, np.ones(len(logits), bool)) == 1.0


@pytest.mark.parametrize("crf", [None, False])
def test_answers_stay_and_the_folder_keeps_the_temperature(lm, crf, tmp_path):
    options = {"hidden": 32, "epochs": 12, "lr": 1e-2, "dropout": 0.0, "crf": crf, "cache": False}
    plain = boustro.Tagger(lm, "mlp", **options).fit(DATA, seed=1)
    made = boustro.Tagger(lm, "mlp", calibrate=4, **options).fit(DATA, seed=1)
    own = made.record["calibration"]
    assert made.fitted.head.temperature == pytest.approx(own["temperature"], abs=1e-3) and own["temperature"] > 1.1
    assert own["error"] < own["error_before"] and own["parts"] == 4  # who is PER is noise: nobody can be sure
    before, after = plain.answer([words for words, _ in DATA]), made.answer([words for words, _ in DATA])
    assert [a.tags for a in before] == [a.tags for a in after]
    assert np.mean([s for a in before for s in a.scores]) > np.mean([s for a in after for s in a.scores])
    made.save_pretrained(tmp_path / "t")
    opened = boustro.Tagger.from_pretrained(tmp_path / "t", cache=False)
    again = opened.answer([words for words, _ in DATA])
    assert [a.scores for a in again] == [a.scores for a in after]


def test_thresholds_and_promises_are_set_on_calibrated_probabilities(lm):
    options = {"hidden": 32, "epochs": 12, "lr": 1e-2, "dropout": 0.0, "cache": False}
    plain, made = (boustro.Tagger(lm, calibrate=k, **options).fit(DATA, longer(DATA), seed=1) for k in (0, 2))
    assert made.fitted.head.temperature > 1
    assert not np.allclose(plain.promise.probabilities, made.promise.probabilities)
    assert made.with_recall(0.9).evaluate(longer(DATA)).recall >= 90
    options |= {"epochs": 4}
    likely, usual = (boustro.Tagger(lm, calibrate=2, threshold=t, **options).fit(DATA, seed=1) for t in (0.4, None))
    assert (
        likely.fitted.head.options.threshold == 0.4
        and likely.fitted.head.temperature == usual.fitted.head.temperature != 1
    )
    assert all(e.score >= 0.4 for a in likely.answer([words for words, _ in DATA]) for e in a.entities)


def test_a_classifier_is_calibrated_too(lm, tmp_path):
    made = boustro.Classifier(lm, "mlp-pool", calibrate=1, hidden=32, epochs=20, lr=1e-2, dropout=0.0, cache=False)
    made.fit(TEXTS, seed=1)
    assert made.record["calibration"]["parts"] == 1 and made.fitted.head.temperature > 1
    p = made.predict_proba([text for text, _ in TEXTS])
    made.fitted.head.temperature = 1.0
    q = made.predict_proba([text for text, _ in TEXTS])
    assert (p.argmax(1) == q.argmax(1)).all() and p.max(1).mean() < q.max(1).mean()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (boustro.Classifier, {"words": True, "calibrate": 2}, "not for --words"),
        (boustro.Classifier, {"head": "ridge-pool", "calibrate": 2}, "not for a ridge-pool head"),
        (boustro.Tagger, {"head": "span", "calibrate": 2}, "not for a span head"),
        (boustro.Tagger, {"calibrate": 21}, "at most 20"),
    ],
)
def test_what_has_no_temperature_is_refused(task, options, message):
    with pytest.raises(ValueError, match=message):
        task(**options)


SENTENCES = [
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
    watch = DriftMonitor()
    watch.add(sure)
    assert not watch.warning(promise([0.5], watch.unsure))
    other = DriftMonitor()
    other.add(unsure)
    assert "unsure of them (0.50, on its development set 0.01)" in other.warning(promise([0.5], watch.unsure))
    few = DriftMonitor()
    few.add(unsure[:10])
    assert not few.warning(promise([0.5], watch.unsure))


@pytest.fixture(scope="module")
def tagger(lm):
    return boustro.Tagger(lm, hidden=16, epochs=3, cache=False).fit(SENTENCES, longer(SENTENCES), seed=1)


@pytest.mark.parametrize("head", ["mlp", "span"])
def test_a_list_holds_what_was_promised_on_its_own_calibration_set(lm, head, tmp_path):
    tagger = boustro.Tagger(lm, head, hidden=16, epochs=15, lr=1e-2, cache=False).fit(
        SENTENCES, longer(SENTENCES), seed=1
    )
    tagger.save_pretrained(tmp_path / "t")
    tagger = boustro.Tagger.from_pretrained(tmp_path / "t", cache=False)
    lists = {}
    for recall in (0.6, 0.9):
        score = tagger.with_recall(recall).evaluate(longer(SENTENCES))
        assert score.recall >= 100 * recall
        lists[recall] = sum(map(len, tagger.predict([" ".join(words) for words, _ in SENTENCES], recall=recall)))
    assert lists[0.6] <= lists[0.9]
    assert tagger.recall is None and tagger.predict("Ada left early") == tagger.predict(["Ada left early"])[0]


def test_without_a_promise_recall_is_refused(lm, tagger, tmp_path):
    with pytest.raises(OptionError, match=r"at least 0\.5 and at most 0\.999"):
        tagger.predict("Ada left.", recall=1.0)
    with pytest.raises(ValueError, match=r"a recall of 0\.999 cannot be promised from the 32 entities"):
        tagger.predict("Ada left.", recall=0.999)
    words = [(["Ada", "left"], ["NOUN", "VERB"])]
    without = (
        (None, SENTENCES, None, "auto"),
        (False, SENTENCES, longer(SENTENCES), "auto"),
        (None, words, words, "labels"),
    )
    for crf, data, dev, scheme in without:
        made = boustro.Tagger(lm, hidden=8, epochs=1, cache=False, crf=crf).fit(data, dev=dev, scheme=scheme)
        with pytest.raises(ValueError, match="train it with a development set of other texts"):
            made.with_recall(0.9)
    tagger.save_pretrained(tmp_path / "t")
    assert len(json.loads((tmp_path / "t/recall.json").read_text())["probabilities"]) == 32
