"""The smallest inputs of all that learns: a saved folder, or one sentence that says what is missing."""

import pytest

import boustro
from boustro.tasks import task_class
from boustro.tasks.fitting.estimate import KEY
from smallest import CASES, NAMES, TEXTS


@pytest.mark.parametrize("name", CASES)
def test_a_folder_or_a_sentence(name, tiny_lm, tmp_path):
    task, rows, missing = CASES[name]
    cls = task_class(task)
    made = cls(str(tiny_lm("llama")), cache=False)
    if missing:
        with pytest.raises(ValueError, match=missing):
            made.fit(rows)
        return
    made.fit(rows, cross_validate=0.2).save_pretrained(tmp_path / "folder")
    assert KEY in made.record
    opened = cls.from_pretrained(tmp_path / "folder", cache=False)
    assert opened.evaluate(rows).to_dict() == made.evaluate(rows).to_dict()
    for judge in (opened.evaluate, lambda none: cls(str(tiny_lm("llama")), cache=False).fit(rows, none)):
        with pytest.raises(ValueError, match="no "):
            judge([])


@pytest.mark.parametrize(
    ("given", "several"), [([], False), (TEXTS[:1], True), (TEXTS[:3], False), (NAMES, True), (TEXTS, False)]
)
def test_names_of_labels_need_no_text(tiny_lm, given, several):
    made = boustro.Classifier.from_labels(["boats", "rain"], given, several=several, encoder=str(tiny_lm("llama")))
    assert set(made.predict(TEXTS[0]).probabilities) == {"boats", "rain"}
    again = [*given, *(text.upper() for text in given)]  # copies, which are no further texts
    other = boustro.Classifier.from_labels(["boats", "rain"], again, several=several, encoder=str(tiny_lm("llama")))
    assert other.record["notices"] == made.record["notices"] and other.record["unlabelled"] == len(given)
