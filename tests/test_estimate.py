"""How good a model is without a development set: every example is answered by a head that did not learn it."""

import json

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.tasks import estimate as module
from boustro.tasks.estimate import KEY, said

TEXTS = [f"{text} {own}." for own in ("early", "late", "again", "in May")
         for text in ("Ada left Vellmar", "It rained", "Ada saw Brandt", "Vellmar fell")]  # fmt: skip
NAMES = [[("Ada", "PER"), ("Vellmar", "LOC")], [], [("Ada", "PER"), ("Brandt", "PER")], [("Vellmar", "LOC")]] * 4
TOPICS = ["news", "weather", "news", "place"] * 4
FAST = {"epochs": 2, "hidden": 8, "cache": False}
FACTS = {"metric": "F1", "score": 70.0, "low": 60.0, "high": 79.0, "examples": 60, "parts": 5}
CURVE = [[12, 40.0], [24, 58.0], [48, 70.0]]


@pytest.mark.parametrize("options", [{}, {"words": True}, {"calibrate": 2}], ids=["head", "words", "temperature"])
def test_every_example_is_answered_once_by_a_head_that_did_not_learn_it(tiny_pair, monkeypatch, options):
    trained, kept = module.train_on_part, []
    monkeypatch.setattr(module, "train_on_part", lambda f, data, own: (kept.append(own), trained(f, data, own))[1])
    made = boustro.Classifier(tiny_pair, **FAST, **options).fit(TEXTS, TOPICS, cross_validate=1e6)
    found, full = made.record[KEY], kept[-5:]
    assert found["examples"] == 16 and found["parts"] == 5 and found["metric"] == "accuracy"
    assert found["low"] <= found["score"] <= found["high"] and len(found["curve"]) == 3
    left = [np.setdiff1d(np.arange(16), own) for own in full]
    assert sorted(np.concatenate(left).tolist()) == list(range(16))  # each is left out once
    for share, some in zip((0.25, 0.5), (kept[-15:-10], kept[-10:-5]), strict=True):
        pairs = list(zip(some, full, strict=True))
        assert all({*a.tolist()} < {*b.tolist()} and len(a) == round(share * len(b)) for a, b in pairs)


def test_the_score_is_that_of_other_heads(tiny_pair):
    """Texts that are all different, so what was learned by heart is worth nothing: the model itself is always right."""
    words = [f"w{n} v{n} u{n} ." for n in range(20)]
    labels = [("a", "b")[n * 7 % 5 % 2] for n in range(20)]
    how = {"epochs": 60, "hidden": 32, "lr": 1e-2, "cache": False}
    made = boustro.Classifier(tiny_pair, **how).fit(words, labels, cross_validate=1e6)
    assert [made.predict(text).label for text in words] == labels and made.record[KEY]["score"] < 100


def test_it_takes_no_longer_than_it_may(tiny_pair, monkeypatch):
    tagger = boustro.Tagger(tiny_pair, **FAST)
    told = {}

    real = module.estimate

    def estimate(fitted, data, trained, seconds):
        told["five"] = real(fitted, data, 1.0, 7.0)[KEY]
        told["one"] = real(fitted, data, 1.0, 6.9)[KEY]
        told["none"] = real(fitted, data, 1.0, 1.3)[KEY]
        return {}

    monkeypatch.setattr("boustro.tasks.estimate.estimate", estimate)
    tagger.fit(TEXTS, NAMES, cross_validate=1)
    assert told["five"]["parts"] == 5 and told["five"]["examples"] == 16
    assert told["one"]["parts"] == 1 and 3 <= told["one"]["examples"] <= 4
    assert [*said(told["none"], "sentences")] == [
        "no cross-validation: it would take about 1 seconds, and may take 1; give it more with --cross-validate"
    ]


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        ((12.0, 3.0, 20.0), "more labels will probably help"),
        ((0.4, -1.0, 1.9), "more labels will hardly help"),
        ((3.0, -2.0, 8.0), "whether more labels would help cannot be told"),
    ],
)
def test_what_is_said(gain, verdict):
    facts = FACTS | {"curve": CURVE, "gain": dict(zip(("points", "low", "high"), gain, strict=True))}
    score, learned, last = said(facts, "sentences")
    assert score.startswith("cross-validated F1: 70.0 (95% interval 60.0 to 79.0) on 60 sentences")
    assert learned == "learned from 12 sentences: 40.0, 24 sentences: 58.0, 48 sentences: 70.0"
    assert last.startswith(verdict) and f"{gain[0]:+.1f} points" in last and "from 24 to 48" in last


def test_fit_says_it_where_there_is_no_development_set(tiny_pair, tmp_path, capsys):
    rows = [{"text": t, "label": label} for t, label in zip(TEXTS, TOPICS, strict=True)]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fit = ["fit", "--train", str(tmp_path / "t.jsonl"), "--encoder", tiny_pair, "--epochs", "1", "--hidden", "8"]
    assert main([*fit, "--out", str(tmp_path / "a"), "--json", str(tmp_path / "a.json")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("cross-validated accuracy: ") and "last doubling" in out
    assert json.loads((tmp_path / "a.json").read_text())[KEY]["examples"] == 16
    assert boustro.load(tmp_path / "a").record[KEY]["parts"] == 5
    assert main([*fit, "--out", str(tmp_path / "b"), "--cross-validate", "0"]) == 0
    assert main([*fit, "--out", str(tmp_path / "c"), "--dev", str(tmp_path / "t.jsonl")]) == 0
    assert "cross-validated" not in capsys.readouterr().out


def test_few_examples_say_nothing(tiny_pair):
    made = boustro.Tagger(tiny_pair, **FAST).fit(TEXTS[:4], NAMES[:4], cross_validate=1e6)
    (line,) = said(made.record[KEY], "sentences")
    assert line == "no cross-validation: 4 examples are too few; it needs 10"
