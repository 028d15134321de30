"""One shape in Python: what `fit` takes, `evaluate` and `score` take too; scikit-learn's tools take the classes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

import boustro
from boustro.apps.live.redactor import Redactor
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
    found = [boustro.Tagger.inputs.labelled(TEXT, form, "text 1"), {"text": TEXT, "entities": form}]
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


def test_a_development_set_has_every_form_that_a_training_set_has():
    def sizes(*given, **how):
        record = boustro.Classifier("starter-words", "ridge-pool", cache=False).fit(*given, **how).record
        return record["train"]["sentences"], record["dev"] and record["dev"]["sentences"]

    own = pd.DataFrame({"id": range(16), "Nachricht": TEXTS, "Thema": TOPICS})
    usual, names = pd.DataFrame({"text": TEXTS, "label": TOPICS}), {"text_column": "Nachricht", "label_column": "Thema"}
    pairs, by_text = (("It snowed.", "weather"), ("They won.", "sport")), {"It snowed.": "weather"}
    for dev in ((TEXTS[:4], TOPICS[:4]), (pd.Series(TEXTS[:4], index=[9, 8, 7, 6]), np.array(TOPICS[:4])), usual[:4]):
        assert sizes(TEXTS, TOPICS, dev=dev) == sizes(own, dev=dev, **names) == (16, 4)
    assert sizes(own, dev=own, **names) == (16, 16)
    assert sizes(usual, dev=pairs) == (16, 2) and sizes(usual, dev=by_text) == (16, 1)
    assert sizes({"train": usual, "validation": usual[:4]}) == sizes({"train": usual, "dev": usual[:4]}) == (16, 4)
    assert sizes({"text": TEXTS, "label": TOPICS}) == (16, None)
    both = DatasetDict(train=Dataset.from_pandas(usual), validation=Dataset.from_pandas(usual[:3]))
    assert sizes(both) == sizes(usual, dev=both) == (16, 3)


def test_names_of_columns_are_given_once(tmp_path):
    own = pd.DataFrame({"id": range(16), "Nachricht": TEXTS, "Thema": TOPICS})
    made = boustro.Classifier("starter-words", "ridge-pool", cache=False)
    made.fit(own, text_column="Nachricht", label_column="Thema").save(tmp_path / "m")
    opened = boustro.load(tmp_path / "m")
    usual = own.rename(columns={"Nachricht": "text", "Thema": "label"})
    assert opened.evaluate(own).value == opened.evaluate(usual).value == 100
    asked = "text_column='Nachricht', label_column='Thema'"
    with pytest.raises(ValueError, match=f"no text under .* and no label under .*{asked}"):
        boustro.Classifier().fit(own)
    for kind, option in ((boustro.Classifier, "label_column"), (boustro.Tagger, "tag_column")):
        with pytest.raises(ValueError, match=rf"write fit\(X, {option}='Thema'\)"):
            kind().fit(own, "Thema")
    tagger = boustro.Tagger("starter-words", "ridge", cache=False)
    frame = pd.DataFrame({"Wort": [["Ada", "left"]] * 2, "Marke": [["B-PER", "O"]] * 2})
    assert tagger.fit(frame, word_column="Wort", tag_column="Marke").evaluate(frame).f1 == 100


@pytest.mark.parametrize("text", [None, float("nan"), 3, b"It rained."])
def test_what_is_no_text_is_named_by_its_number(text):
    for call in (
        lambda: boustro.Classifier().fit([text, "a"], ["x", "y"]),
        lambda: boustro.Tagger().fit([text, "Ada left."], [[], [("Ada", "PER")]]),
        lambda: boustro.load("names").predict([text, "a"]),
    ):
        with pytest.raises(ValueError, match=r"^text 1 is .*, which is not a string"):
            call()


def test_what_is_no_list_and_no_text_in_parts_is_a_value_error():
    with pytest.raises(ValueError, match="expected a text and its label"):
        boustro.Classifier().fit(np.array("one text"), ["x", "y"])
    with pytest.raises(ValueError, match="expected text, got NoneType"):
        Redactor().feed(None)


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
