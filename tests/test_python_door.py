"""Boustro from Python in a few lines: lists in, a folder, any folder opened, entities that a notebook shows."""

import copy
import pickle

import pytest

import boustro
from boustro.tasks.answers import Entities
from boustro.tasks.data.lists import labelled_text
from boustro.types import Entity

TEXTS = ["Ada left Vellmar.", "It rained.", "Ada saw Ada.", "Vellmar fell."]
NAMES = [[("Ada", "PER"), ("Vellmar", "LOC")], [], [("Ada", "PER"), ("Ada", "PER")], [("LOC", 0, 7)]]
FAST = {"epochs": 2, "hidden": 8, "cache": False}


def test_a_tagger_learns_from_lists(tiny_pair):
    tagger = boustro.Tagger(tiny_pair, **FAST).fit(TEXTS, NAMES, seed=2)
    records = [labelled_text(*pair, "text") for pair in zip(TEXTS, NAMES, strict=True)]
    assert records[2]["entities"] == [{"start": s, "end": s + 3, "label": "PER"} for s in (0, 8)]
    same = boustro.Tagger(tiny_pair, **FAST).fit(records, seed=2)
    assert tagger.types == ["LOC", "PER"] and tagger.record["losses"] == same.record["losses"]
    words = boustro.Tagger(tiny_pair, **FAST).fit([["Ada", "left"]] * 2, labels=[["B-PER", "O"]] * 2, dev=records)
    assert words.types == ["PER"] and words.record["dev_scores"]


@pytest.mark.parametrize("several", [False, True])
def test_a_classifier_learns_from_lists(tiny_pair, several):
    labels = [["news"], [], ["news", "names"], ["place"]] if several else ["news", "weather", "names", "place"]
    made = boustro.Classifier(tiny_pair, **FAST).fit(TEXTS, labels, seed=2)
    same = boustro.Classifier(tiny_pair, **FAST).fit([*zip(TEXTS, labels, strict=True)], seed=2)
    assert made.types == same.types and made.record["losses"] == same.record["losses"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (NAMES[:3], "4 texts, but 3 labels; give one for each text"),
        ("dev.jsonl", "these are texts without labels; give their labels as a list"),
        ([[("Bo", "PER")], [], [], []], "text 1: 'Bo' does not stand in 'Ada left Vellmar.'"),
        ([[("Ada", "PER"), ("Ada", "PER")], [], [], []], "text 1: 'Ada' does not stand in .* once more"),
        ([[("PER", 0)], [], [], []], "text 1: an entity is its text and its label, or its label, start and end, got"),
        ([[("PER", 0, 99)], [], [], []], "outside the 17 characters"),
    ],
)
def test_labels_that_are_none(tiny_pair, labels, message):
    with pytest.raises(ValueError, match=message):
        boustro.Tagger(tiny_pair, **FAST).fit(TEXTS, labels)


def test_any_folder_is_opened(tiny_pair, tmp_path):
    boustro.Tagger(tiny_pair, **FAST).fit(TEXTS, NAMES).save(tmp_path / "ner")
    boustro.Classifier(tiny_pair, **FAST).fit(TEXTS, ["a", "b", "a", "b"]).save(tmp_path / "topics")
    assert isinstance(boustro.load(tmp_path / "ner", cache=False), boustro.Tagger)
    opened = boustro.load(tmp_path / "topics", cache=False)
    assert isinstance(opened, boustro.Classifier) and opened.predict("Ada left.").label in ("a", "b")
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "manifest.json").write_text('{"kind": "backward model"}')
    with pytest.raises(ValueError, match="a folder of the kind backward model, which boustro fit did not write"):
        boustro.load(tmp_path / "lm")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        boustro.load(tmp_path / "nowhere")


def test_a_notebook_shows_entities_in_their_text():
    found = Entities([Entity("PER", 0, 3, "Ada", 0.9)], "Ada <left>.")
    assert found == [Entity("PER", 0, 3, "Ada", 0.9)] and isinstance(found, list)
    shown = found._repr_html_()
    assert (
        "<mark" in shown and "Ada <small>PER</small></mark> &lt;left&gt;." in shown and "prefers-color-scheme" in shown
    )
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again == found and again.text == found.text and again._repr_html_() == shown


def test_predictions_are_shown(tiny_pair):
    tagger = boustro.Tagger(tiny_pair, **FAST | {"epochs": 40, "lr": 1e-2}).fit(TEXTS, NAMES)
    found = tagger.predict("Ada left Vellmar.")
    assert [e.label for e in found] == ["PER", "LOC"] and found._repr_html_().count("<mark") == 2
    (words,) = tagger.predict([boustro.Sentence(("Ada", "left", "Vellmar", "."))])
    assert [(e.start, e.end) for e in words] == [(0, 1), (2, 3)] and words._repr_html_().count("<mark") == 2


def test_completion_offers_what_a_user_needs(tiny_pair):
    tagger, classifier = boustro.Tagger(tiny_pair), boustro.Classifier(tiny_pair)
    assert {"fit", "predict", "save", "evaluate", "with_recall"} <= {*dir(tagger)} and len(dir(tagger)) <= 20
    assert {"predict_proba", "add_examples"} <= {*dir(classifier)} and not {"with_recall", "plan"} & {*dir(classifier)}
    assert all(hasattr(tagger, name) for name in dir(tagger))
    assert not {"os", "sys", "Any", "TYPE_CHECKING"} & {*dir(boustro)} and "load" in dir(boustro)
