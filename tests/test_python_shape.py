"""One shape in Python: what `fit` takes, `evaluate` and `score` take too; scikit-learn's tools take the classes."""

import json
from pathlib import Path

import numpy as np
import pytest

import boustro
from boustro.tasks.data import read_data
from boustro.types import Entity, Sentence

HOW = {"epochs": 2, "hidden": 8, "cache": False}
TEXTS, TOPICS = ["It rained all day.", "We won.", "Snow fell.", "They lost again."] * 4, ["weather", "sport"] * 8
TEXT, FOUND = "Ada left Vellmar.", [("PER", 0, 3), ("LOC", 9, 16)]
FORMS = (
    [(0, 3, "PER"), (9, 16, "LOC")],
    [("PER", 0, 3), ("LOC", 9, 16)],
    [{"start": 0, "end": 3, "label": "PER"}, {"start": 9, "end": 16, "label": "LOC"}],
    [("Ada", "PER"), ("Vellmar", "LOC")],
    [Entity("PER", 0, 3), ("Vellmar", "LOC")],
    [(np.int64(0), np.int64(3), "PER"), (9, 16, "LOC")],
)


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_an_entity_has_the_same_forms_everywhere(form, tmp_path):
    expected = [Sentence(("Ada", "left", "Vellmar", "."), ("B-PER", "O", "B-LOC", "O"))]
    found = [boustro.Tagger.labelled(TEXT, form, "text 1"), {"text": TEXT, "entities": form}]
    for given in found:
        assert [(s.words, s.tags) for s in read_data([given])] == [(s.words, s.tags) for s in expected]
    if all(not isinstance(part, Entity) and "int64" not in str(part) for part in form):
        (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT, "entities": form}) + "\n")
        assert read_data(tmp_path / "a.jsonl")[0].tags == expected[0].tags


@pytest.mark.parametrize(
    "labels", [TOPICS, np.array(TOPICS), [0, 1] * 8, np.array([0, 1] * 8), np.array([True, False] * 8)]
)
def test_labels_are_texts_numbers_and_booleans(tiny_pair, labels):
    made = boustro.Classifier(tiny_pair, **HOW).fit(np.array(TEXTS), labels)
    assert sorted(map(str, made.classes_)) == made.types and {*made.classes_.tolist()} == {*np.array(labels).tolist()}
    score = made.score(TEXTS, labels)
    assert score == made.evaluate(TEXTS, labels).value / 100 and 0 <= score <= 1
    assert made.predict_proba(TEXTS[:3]).shape == (3, 2)


def test_a_dict_of_texts_and_two_lists_of_words_and_tags(tiny_pair):
    one = boustro.Classifier(tiny_pair, **HOW).fit(dict(zip(TEXTS, TOPICS, strict=True)))
    assert one.evaluate({"It rained all day.": "weather"}).value in (0.0, 100.0)
    words, tags = [["Ada", "left"], ["Brandt", "saw", "Vellmar"]], [["B-PER", "O"], ["B-PER", "O", "B-LOC"]]
    tagger = boustro.Tagger(tiny_pair, "ridge", cache=False).fit(words, tags)
    assert tagger.types == ["LOC", "PER"] and tagger.score(words, tags) == tagger.evaluate(words, tags).f1 / 100
    by_text = boustro.Tagger(tiny_pair, "ridge", cache=False).fit(
        {TEXT: [("Ada", "PER")], "Brandt left.": [("Brandt", "PER")]}
    )
    assert by_text.types == ["PER"]


CALLS = Path(__file__).with_name("calls.txt")


@pytest.mark.parametrize("case", CALLS.read_text("utf-8").split("\n\n") if CALLS.exists() else [])
def test_a_wrong_call_is_answered_in_a_sentence(case, monkeypatch):
    monkeypatch.chdir(CALLS.parent)
    call, said = case.strip().split("\n", 1)
    assert answered(call.removeprefix(">>> ")) == said


def answered(call: str) -> str:
    """What a call raises."""
    try:
        eval(call, {"boustro": boustro, "np": np, "TEXT": TEXT, "nan": float("nan")})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"
