"""Temperatures: answers stay, probabilities come nearer to the share that is right, folders keep them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.test_crf_spans import spans_of

import boustro
from boustro.apps.cli.main import main
from boustro.heads.crf.layer import CRF
from boustro.tasks.calibrate import GRID, best_temperature

NAMES = ["Ada", "Mira", "Tobias", "Calloway", "Brandt", "Lisse", "Okonkwo", "Vellmar"]
DATA = [
    ([name, verb, *rest], ["B-PER" if (i + j) % 3 else "B-LOC", "O", *["O"] * len(rest)])
    for i, name in enumerate(NAMES)
    for j, (verb, *rest) in enumerate((["left", "early"], ["sold", "the", "boat"], ["slept", "."], ["saw", "rain"]))
]
TEXTS = [(" ".join(words), "a" if n % 3 else "b") for n, (words, _) in enumerate(DATA)]


@pytest.fixture(scope="module")
def lm(tiny_lm):
    return str(tiny_lm("llama", sentinel=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_temperature_that_made_the_answers_is_found():
    rng = np.random.default_rng(0)
    logits = rng.normal(2, 2, 40_000)
    right = rng.random(len(logits)) < sigmoid(logits / 2.5)
    scores = np.stack([sigmoid(logits / t) for t in GRID])
    assert best_temperature(scores, right) == pytest.approx(2.5, rel=0.05)
    assert best_temperature(scores, np.ones(len(logits), bool)) == 1.0


def test_a_crf_at_a_temperature_is_the_power_of_its_distribution():
    torch.manual_seed(0)
    crf = CRF(["O", "B-X", "I-X"])
    torch.nn.init.normal_(crf.transitions)
    scores, lengths = torch.randn(3, 3), torch.tensor([3])
    paths = torch.cartesian_prod(*[torch.arange(3)] * 3)
    logs = []
    for path in paths:
        try:
            logs.append(-3 * crf.loss(scores, path, lengths).item())
        except ValueError:
            logs.append(-np.inf)
    p = np.exp(np.array(logs) / 2)
    expected = [[p[(paths[:, w] == tag).numpy()].sum() / p.sum() for tag in range(3)] for w in range(3)]
    assert np.allclose(crf.marginals(scores, lengths, 2.0).numpy(), expected, atol=1e-5)
    likely = {span[:2]: span[3] for span in spans_of(crf, scores, lengths, 3, 0.0, 2.0)[0]}
    whole = [q for path, q in zip(paths.tolist(), p, strict=True) if path == [1, 2, 2]]
    assert likely[0, 3] == pytest.approx(whole[0] / p.sum(), abs=1e-6)


@pytest.mark.parametrize("crf", [None, False])
def test_answers_stay_and_the_folder_keeps_the_temperature(lm, crf, tmp_path):
    options = {"hidden": 32, "epochs": 12, "lr": 1e-2, "dropout": 0.0, "crf": crf, "cache": False}
    plain = boustro.Tagger(lm, "mlp", **options).fit(DATA, seed=1)
    made = boustro.Tagger(lm, "mlp", calibrate=4, **options).fit(DATA, seed=1)
    own = made.record["calibration"]
    assert made.head.temperature == pytest.approx(own["temperature"], abs=1e-3) and own["temperature"] > 1.1
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
    plain, made = (boustro.Tagger(lm, calibrate=k, **options).fit(DATA, DATA, seed=1) for k in (0, 2))
    assert made.head.temperature > 1
    assert not np.allclose(plain.promise.probabilities, made.promise.probabilities)
    assert made.with_recall(0.9).evaluate(DATA).recall >= 90
    likely = boustro.Tagger(lm, calibrate=2, threshold=0.4, **options).fit(DATA, seed=1)
    assert likely.head.options.threshold == 0.4 and likely.head.temperature == made_temperature(lm, options)
    assert all(e.score >= 0.4 for a in likely.answer([words for words, _ in DATA]) for e in a.entities)


def made_temperature(lm, options):
    return boustro.Tagger(lm, calibrate=2, **options).fit(DATA, seed=1).head.temperature


def test_a_classifier_is_calibrated_too(lm, tmp_path):
    made = boustro.Classifier(lm, "mlp-pool", calibrate=1, hidden=32, epochs=20, lr=1e-2, dropout=0.0, cache=False)
    made.fit(TEXTS, seed=1)
    assert made.record["calibration"]["parts"] == 1 and made.head.temperature > 1
    p = made.predict_proba([text for text, _ in TEXTS])
    made.head.temperature = 1.0
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


def test_the_command_lines_figures(lm, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("gold.jsonl").write_text("".join(json.dumps({"words": w, "tags": t}) + "\n" for w, t in DATA))
    how = ["--encoder", lm, "--hidden", "32", "--epochs", "12", "--lr", "0.01", "--calibrate", "2", "--no-cache"]
    assert main(["fit", "--train", "gold.jsonl", "--out", "t", *how]) == 0
    assert "answers for training examples left out" in capsys.readouterr().err
    assert main(["evaluate", "t", "gold.jsonl", "--no-cache", "--json", "-"]) == 0
    own = json.loads(capsys.readouterr().out)["calibration"]
    assert own["temperature"] > 1 and own["error"] != own["error_before"] and 0 <= own["error"] <= 1
    assert main(["evaluate", "t", "gold.jsonl", "--no-cache"]) == 0
    assert "without its temperature" in capsys.readouterr().out
