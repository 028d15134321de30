"""The smallest inputs of all that learns or judges: a saved folder, or one sentence that says what is missing."""

import json

import pytest

import boustro
from boustro.apps.cli.main import main
from smallest import A_LABEL_EACH, CASES, TEXTS, texts

ASKED = [  # what is asked for besides, and what is said of it
    ("1 sentence", ["--calibrate", "3"], "no part can be left out, so --calibrate has no effect"),
    ("1 text of several", ["--words"], "no part can be left out, so --words has no effect"),
    ("2 texts", ["--none", "0.1"], "it needs 10 different examples, and has 2"),
    ("3 texts", ["--calibrate", "3", "--epochs", "1"], "calibration error"),
    ("entities in one sentence", ["--head", "ridge"], "cross-validated F1: 0.0"),
    ("entities in one sentence", ["--head", "span", "--epochs", "1"], "cross-validated F1: 0.0"),
]


@pytest.fixture
def ends(tmp_path, tiny_lm, capsys):
    """ends(rows, command, words, missing): run it, and give what was said: one sentence, where something is missing."""

    def run(rows, command, words, missing="", judged=()):
        for name, some in (("data", rows), ("judged", judged)):
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
        given = {"{data}": str(tmp_path / "data.jsonl"), "{judged}": str(tmp_path / "judged.jsonl")}
        given |= {"{fit}": str(tmp_path / "fit"), "{out}": str(tmp_path / command)}
        lm = {"fit": ["--encoder", str(tiny_lm("llama"))], "evaluate": []}
        how = lm.get(command, ["--encoders", str(tiny_lm("llama")), "--seeds", "1"])
        code = main([command, *(given.get(word, word) for word in words), *how, "--no-cache"])
        said = capsys.readouterr()
        assert code == bool(missing), said.err
        assert "Traceback" not in said.err and "Warning" not in said.err
        if missing:
            (sentence,) = [line for line in said.err.splitlines() if line.startswith("boustro: ")]
            assert missing in sentence
        return said.out + said.err

    return run


@pytest.mark.parametrize("name", ["1 sentence", "no entity", "2 texts", "one class", "1 text of several", "2 pairs"])
def test_a_folder_or_a_sentence(ends, name):
    task, rows, missing = CASES[name]
    fit = ["--train", "{data}", "--out", "{fit}", "--task", task]
    said = ends(rows, "fit", fit, missing)
    if not missing:
        assert "cross-validat" in said
        ends(rows, "evaluate", ["{fit}", "{data}"])
        ends(rows, "evaluate", ["{fit}", "{judged}"], "no ")
        ends(rows, "fit", [*fit, "--dev", "{judged}", "--overwrite"], "no ")


@pytest.mark.parametrize(("name", "words", "expected"), ASKED)
def test_what_few_examples_cannot_give_is_left_out_in_a_sentence(ends, tmp_path, name, words, expected):
    task, rows, _ = CASES[name]
    said = ends(rows, "fit", ["--train", "{data}", "--out", "{fit}", "--task", task, *words])
    assert expected in said
    assert boustro.load(tmp_path / "fit").predict(TEXTS[0]) is not None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("compare", name) for name in ("1 sentence", "no entity", "one class", "1 text of several", "2 pairs")),
        *(("fewshot", name) for name in ("1 sentence", "no entity", "2 texts")),
    ],
)
def test_a_study_or_a_sentence(ends, command, name):
    task, rows, missing = CASES[name]
    ends(rows, command, ["--train", "{data}", "--dev", "{data}", "--out", "{out}", "--task", task], missing)


def test_a_study_counts_texts_outside(ends, tmp_path):
    """Where texts may have no label, those of the development set count; those of the training set are left out."""
    study = ["--dev", "{judged}", "--out", "{out}", "--task", "classify", "--heads", "lda-pool", "--none", "0.1"]
    rows, outside = texts("label", *A_LABEL_EACH), texts("label", "a", "b", None, "")
    ends(rows, "compare", ["--train", "{data}", *study], judged=outside)
    assert "| (no label) | 2 |" in (tmp_path / "compare" / "report.md").read_text()
    said = ends(outside, "compare", ["--train", "{data}", *study], judged=outside)
    assert "2 texts without a label under 'label', which no score counts" in said
