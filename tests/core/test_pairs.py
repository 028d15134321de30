"""Pairs of texts: what is read, what the head computes, and both tasks from data to a folder and back."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

import boustro
from boustro.heads.options import PairOptions
from boustro.heads.pairs import PAIR_FEATURES, PairBody
from boustro.metrics.score import score_correlation
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.pairs import PAIRS, make_pair, side_features

SUBJECTS, VERBS = ("Ada", "Ben", "Cleo", "Dora"), ("left", "sang", "slept", "won")
TEXTS = [f"{who} {did}." for who in SUBJECTS for did in VERBS]
LABELLED = [(a, b, "same" if a == b else "other") for a in TEXTS[:6] for b in (a, TEXTS[-1])]
SCORED = [(a, b, 5.0 * (a == b) + 2.0 * (a.split()[0] == b.split()[0])) for a in TEXTS[:4] for b in TEXTS[2:6]]


def test_a_pair_classifier_opens_as_it_was_saved(lm, tmp_path):
    task = boustro.PairClassifier(lm, hidden=32, epochs=40, lr=1e-2).fit(LABELLED, seed=1)
    assert task.evaluate(LABELLED).value > 90  # it learned
    task.save_pretrained(tmp_path / "pairs")
    again = boustro.PairClassifier.from_pretrained(tmp_path / "pairs")
    given = [("Ada left.", "Ada left."), {"sentence1": "Ben won.", "sentence2": "Cleo sang."}, ("", "Ada left.")]
    assert again.predict(given) == task.predict(given)
    with pytest.raises(ValueError, match="expected two texts with a tab between them"):
        task.inputs.parse_line("Ada left.", "a:1")
    one, first = again.predict(given[0]), again.predict(given)[0]
    assert one.label == first.label and one.probabilities == pytest.approx(first.probabilities)
    assert again.predict(given[1]).label in ("same", "other")


def test_a_pair_regressor_answers_in_the_units_of_its_training_data(lm, tmp_path):
    task = boustro.PairRegressor(lm, hidden=16, epochs=30, dropout=0.0).fit(SCORED, seed=1)
    assert task.evaluate(SCORED).value > 80
    same, different = task.predict([("Ada left.", "Ada left."), ("Ada left.", "Ben sang.")])
    assert same > different and -3 < different < same < 10
    task.save_pretrained(tmp_path / "scores")
    assert boustro.PairRegressor.from_pretrained(tmp_path / "scores").predict(("Ada left.", "Ada left.")) == same
    assert "Spearman" in (tmp_path / "scores/README.md").read_text() or task.types == []


def test_a_text_of_several_pairs_is_encoded_once(lm):
    task = boustro.PairClassifier(lm, hidden=8, epochs=1).fit(LABELLED, seed=1)
    inputs = task.fitted.inputs(PAIRS["pair"].read(LABELLED))
    assert len(inputs) == len(LABELLED) and len(inputs.lengths) == len({t for a, b, _ in LABELLED for t in (a, b)})


@pytest.mark.parametrize("symmetric", [True, False])
def test_only_a_symmetric_head_ignores_the_order(symmetric):
    torch.manual_seed(0)
    body = PairBody(12, 3, PairOptions(hidden=8, symmetric=symmetric)).eval()
    first, second = torch.randn(4, 12), torch.randn(2, 12)
    one = body(torch.cat([first, second]), torch.tensor([4, 2]))
    other = body(torch.cat([second, first]), torch.tensor([2, 4]))
    assert torch.allclose(one, other, atol=1e-5) == symmetric


def test_a_pair_depends_on_nothing_else_in_its_batch():
    torch.manual_seed(0)
    body = PairBody(12, 3, PairOptions(hidden=8)).eval()
    x, lengths = torch.randn(11, 12), torch.tensor([4, 2, 1, 0, 3, 1])
    together = body(x, lengths)
    for i, (start, stop) in enumerate([(0, 6), (6, 7), (7, 11)]):
        alone = body(x[start:stop], lengths[2 * i : 2 * i + 2])
        torch.testing.assert_close(alone[0], together[i], atol=1e-5, rtol=1e-5)
    assert together.isfinite().all()  # one of the texts is empty


def test_alignment_is_attention_over_the_other_text():
    torch.manual_seed(0)
    z, lengths = torch.randn(5, 6), torch.tensor([2, 3])
    found = PairBody._against_other(z, lengths)
    for own, other in ((z[:2], z[2:]), (z[2:], z[:2])):
        a = (own @ other.T / 6**0.5).softmax(1) @ other
        wanted = torch.cat([(own - a).abs(), own * a], 1)
        rows = slice(0, 2) if len(own) == 2 else slice(2, 5)
        torch.testing.assert_close(found[rows], wanted, atol=1e-5, rtol=1e-4)


def test_marks_in_another_unit_are_converted_where_they_are_answered():
    """🚀 is one character, two UTF-16 units: 'left' is at [6, 10), in UTF-16 units at [7, 11)."""
    record = {"sentence1": "🚀 Ada left", "start1": 6, "end1": 10, "sentence2": "She left", "start2": 4, "end2": 8}
    moved = {**record, "start1": 7, "end1": 11}
    read = boustro.PairClassifier.inputs.as_input
    assert read(moved, "here").example == read(record, "here").example and read(moved, "here").record == moved


def test_side_features_say_what_the_other_text_has():
    record = {"sentence1": "Ada left", "start1": 4, "end1": 8, "sentence2": "ada slept", "start2": 4, "end2": 9}
    wanted = [[1, 0, 0, 0], [0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 0, 1]]
    np.testing.assert_array_equal(side_features([make_pair(record, "here")]), wanted)
    with pytest.raises(ValueError, match=r"^here: no texts under .* \(found: sentence1\)$"):  # no option, at a service
        make_pair({"sentence1": "Ada left"}, "here")
    assert side_features([]).shape == (0, PAIR_FEATURES)
    (in_second,) = side_features([make_pair(("", "Ada"), "here")])
    assert in_second.tolist() == [0, 1, 1, 0]  # a name that is missing in the other text


def test_correlations_are_scipys():
    generator = np.random.default_rng(0)
    for _ in range(20):
        x, y = generator.integers(0, 6, (2, 15)).astype(float)
        score = score_correlation(x, y)
        np.testing.assert_allclose(
            [score.pearson, score.spearman], [100 * f(x, y)[0] for f in (pearsonr, spearmanr)], atol=1e-9
        )
    assert score_correlation([1, 2], [3, 3]).spearman == 0
    assert score_correlation([], []).spearman == 0
    with pytest.raises(ValueError, match="2 gold scores and 1"):
        score_correlation([1, 2], [1])


@pytest.mark.parametrize(
    ("task", "record", "message"),
    [
        ("pair", {"sentence1": "a", "label": "x"}, "no texts under sentence1 and sentence2"),
        ("pair", {"sentence1": "a", "sentence2": 3, "label": "x"}, "sentence2 is 3, which is not a string"),
        ("pair", {"sentence1": "a", "sentence2": "b"}, "no label under label or same"),
        ("similarity", {"sentence1": "a", "sentence2": "b", "score": "high"}, "the score under 'score' is 'high'"),
        ("similarity", {"sentence1": "a", "sentence2": "b", "score": float("nan")}, "NaN is no JSON; write null"),
        ("pair", {"sentence1": "a b", "sentence2": "b", "start1": 0, "end1": 9, "same": True}, "mark no characters"),
        ("pair", {"sentence1": "a b", "sentence2": "b", "start1": 0, "end1": 1, "same": True}, "in one text only"),
        ("pair", ["a", "b", "c", "d"], "expected two texts"),
        ("pair", ["a", "b"], "expected two texts and their label"),
    ],
)
def test_a_bad_pair_is_refused_with_its_line(tmp_path, task, record, message):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(ValueError, match=message) as raised:
        PAIRS[task].read(path)
    assert f"{path}:1" in str(raised.value)


def test_data_with_one_label_or_one_score_teach_nothing(lm):
    with pytest.raises(ValueError, match="only the label same"):
        boustro.PairClassifier(lm).fit([("a", "b", "same")] * 3)
    with pytest.raises(ValueError, match="all scores are equal"):
        boustro.PairRegressor(lm).fit([("a", "b", 1)] * 3)


def test_pairs_are_read_from_tables(tmp_path):
    table = tmp_path / "pairs.csv"
    table.write_text('sentence1,sentence2,score\nAda left.,"Ada went, too.",4.5\nAda left.,It rained.,0\n')
    pairs = PAIRS["similarity"].read(table)
    assert [(pair.texts[1], pair.score) for pair in pairs] == [("Ada went, too.", 4.5), ("It rained.", 0.0)]
    assert pairs[1].where == f"{table}:3"
    frame = pd.DataFrame({"premise": ["Ada left."], "hypothesis": ["Ada went."], "label": [1]})
    assert PAIRS["pair"].read(frame)[0].label == "1"
    table.write_text("sentence1,sentence2,label\nAda left.,It rained.,\n")
    with pytest.raises(ValueError, match=r"pairs\.csv:2: the label under 'label' or 'same' is ''"):
        PAIRS["pair"].read(table)
    table.write_text("sentence1,sentence2,stance\nAda left.,It rained.,\n")
    with pytest.raises(ValueError, match=r"pairs\.csv:2: the label under 'stance' is ''; expected a name"):
        PAIRS["pair"].read(table, DataOptions(label_column="stance"))
