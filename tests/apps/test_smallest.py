"""The smallest inputs of all that learns or judges: a saved folder, or one sentence that says what is missing."""

import json

import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.label.answers import Annotation
from boustro.apps.label.taggers import finish
from boustro.tasks import task_class
from boustro.types import Entity, Sentence

NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "Calloway", "Zola", "Kim", "Noor", "Pia"]
TEXTS = [f"{name} sold boats number {n} today." for n, name in enumerate(NAMES)]
NO_ENTITY = "no word is labelled with an entity, so there is nothing to learn"
ONE_CLASS = "only the label a, so there is nothing to learn"
NO_LABEL = "no label, so there is nothing to learn"


def entities(*counts):
    """Sentences with so many entities each."""
    labels = ("PER", "LOC")
    named = [[{"start": 0, "end": len(NAMES[n]), "label": labels[n % 2]}][:count] for n, count in enumerate(counts)]
    return [{"text": text, "entities": own} for text, own in zip(TEXTS, named, strict=False)]


def texts(key, *labels):
    return [{"text": text, key: label} for text, label in zip(TEXTS, labels, strict=False)]


def pairs(*labels):
    rows = zip(TEXTS, reversed(TEXTS), labels, strict=False)
    return [{"sentence1": one, "sentence2": other, "label": label} for one, other, label in rows]


def of_one_word(rows):
    return [
        {k: NAMES[n] if isinstance(v, str) and " " in v else v for k, v in row.items()} for n, row in enumerate(rows)
    ]


A_LABEL_EACH, SETS = [*"abababacbc"], [["a"], ["a", "b"], []]
CASES = {
    "1 sentence": ("tag", entities(1), ""),
    "2 sentences": ("tag", entities(1, 1), ""),
    "3 sentences": ("tag", entities(1, 1, 1), ""),
    "10 sentences": ("tag", entities(*[1] * 10), ""),
    "entities in one sentence": ("tag", entities(1, *[0] * 9), ""),
    "no entity": ("tag", entities(*[0] * 10), NO_ENTITY),
    "sentences of one word": ("tag", of_one_word(entities(*[1] * 10)), ""),
    "1 text": ("classify", texts("label", "a"), ONE_CLASS),
    "2 texts": ("classify", texts("label", *"ab"), ""),
    "3 texts": ("classify", texts("label", *"aba"), ""),
    "10 texts": ("classify", texts("label", *A_LABEL_EACH), ""),
    "one class": ("classify", texts("label", *"aaaaaaaaaa"), ONE_CLASS),
    "a class of one text": ("classify", texts("label", *"abbbbbbbbb"), ""),
    "texts of one word": ("classify", of_one_word(texts("label", *A_LABEL_EACH)), ""),
    "1 text of several": ("classify", texts("labels", ["a"]), ""),
    "3 texts of several": ("classify", texts("labels", *SETS), ""),
    "texts without one of several": ("classify", texts("labels", *[[]] * 10), NO_LABEL),
    "one of several once": ("classify", texts("labels", ["a"], *[[]] * 9), ""),
    "1 pair": ("pair", pairs("a"), ONE_CLASS),
    "2 pairs": ("pair", pairs(*"ab"), ""),
    "10 pairs": ("pair", pairs(*A_LABEL_EACH), ""),
    "pairs of one class": ("pair", pairs(*"aaa"), ONE_CLASS),
    "a class of one pair": ("pair", pairs(*"abbbbbbbbb"), ""),
    "pairs of one word": ("pair", of_one_word(pairs(*A_LABEL_EACH)), ""),
}  # fmt: skip
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


@pytest.mark.parametrize("name", CASES)
def test_a_folder_or_a_sentence(ends, tmp_path, name):
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


@pytest.mark.parametrize("name", ["1 sentence", "no entity", "2 texts", "one class", "1 text of several", "2 pairs"])
@pytest.mark.parametrize("command", ["compare", "fewshot"])
def test_a_study_or_a_sentence(ends, command, name):
    task, rows, missing = CASES[name]
    ends(rows, command, ["--train", "{data}", "--dev", "{data}", "--out", "{out}", "--task", task], missing)


def test_a_study_counts_texts_outside(ends, tmp_path):
    """Where texts may have no label, those of the development set may; those of the training set never."""
    study = ["--dev", "{judged}", "--out", "{out}", "--task", "classify", "--heads", "lda-pool", "--none", "0.1"]
    rows, outside = texts("label", *A_LABEL_EACH), texts("label", "a", "b", None, "")
    ends(rows, "compare", ["--train", "{data}", *study], judged=outside)
    assert "| (no label) | 2 |" in (tmp_path / "compare" / "report.md").read_text()
    ends(outside, "compare", ["--train", "{data}", *study], "the label under 'label' is None", judged=outside)


@pytest.mark.parametrize("name", [name for name, (_, _, missing) in CASES.items() if missing])
def test_python_says_the_same(name, tiny_lm):
    task, rows, missing = CASES[name]
    with pytest.raises(ValueError, match=missing):
        task_class(task)(str(tiny_lm("llama")), cache=False).fit(rows)


@pytest.mark.parametrize("given", [[], TEXTS[:1], TEXTS[:3], NAMES, TEXTS])
@pytest.mark.parametrize("several", [False, True])
def test_names_of_labels_need_no_text(tiny_lm, given, several):
    made = boustro.Classifier.from_labels(["boats", "rain"], given, several=several, encoder=str(tiny_lm("llama")))
    assert set(made.predict(TEXTS[0]).probabilities) == {"boats", "rain"}
    again = [*given, *(text.upper() for text in given)]  # copies, which are no further texts
    other = boustro.Classifier.from_labels(["boats", "rain"], again, several=several, encoder=str(tiny_lm("llama")))
    assert other.record["notices"] == made.record["notices"] and other.record["unlabelled"] == len(given)


def test_training_on_the_page_needs_different_answers():
    sentence = Sentence(tuple(TEXTS[0].split()))
    answers = {n: Annotation(sentence, (Entity("PER", 0, 1),)) for n in range(10)}
    with pytest.raises(ValueError, match="at least 10 different texts"):
        finish([], answers, None, None)
