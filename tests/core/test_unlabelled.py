"""Training data in which some sentences have no labels: they are the context of the others, and nothing else. And
labelled sentences that are placed in the documents that they were taken from."""

import numpy as np
import pandas
import pytest

import boustro
from boustro.errors import count_of
from boustro.tasks.data import read_data
from boustro.tasks.fitting.training import UNREAD
from boustro.types import Sentence

WORDS = [
    ("Ada met Brandt .".split(), "B-PER O B-PER O".split()),
    ("Brandt sold umbrellas .".split(), None),
    ("Nobody reads the bulletin in Lisse .".split(), "O O O O O B-LOC O".split()),
    ("Vellmar closes on Mondays .".split(), None),
]
PARTLY = [{"words": w, "tags": t, "document": "first" if n < 3 else "second"} for n, (w, t) in enumerate(WORDS)]
LABELLED = [record for record in PARTLY if record["tags"]]
TEXTS = [
    {"text": "Ada left. It rained.", "entities": [[0, 3, "PER"]], "document": "d"},
    {"text": "She came back. Nobody knew.", "entities": None, "document": "d"},
]


def fit(tiny_pair, data, **options):
    return boustro.Tagger(tiny_pair, epochs=2, cache=False, **options).fit(data, seed=1)


@pytest.mark.parametrize(
    ("records", "known"),
    [
        (PARTLY, [True, False, True, False]),
        (TEXTS, [True, True, False, False]),
        ([{"tokens": ["a"], "ner_tags": ["B-PER"]}, {"tokens": ["b"], "ner_tags": None}], [True, False]),
        ([{"words": ["a"], "upos": ["NOUN"]}, {"words": ["b"], "tags": None}], [True, False]),
    ],
)
def test_null_means_that_nobody_labelled_it(records, known):
    with pytest.warns(
        UserWarning, match=rf"{count_of(known.count(False), 'sentences')} without labels, read as context only"
    ):
        sentences = read_data(records, unlabelled=True)
    assert [s.is_labelled for s in sentences] == known
    assert [(s.tags, s.entities) for s in sentences if not s.is_labelled] == [(None, None)] * known.count(False)


def test_no_entities_is_a_label():
    (sentence,) = read_data([{"text": "It rained.", "entities": []}])
    assert sentence.is_labelled and set(sentence.tags) == {"O"}


@pytest.mark.parametrize("read", [read_data, lambda data: boustro.Tagger.read(data)])
def test_elsewhere_it_is_refused(read):
    with pytest.raises(ValueError, match="sentence 2 of the given data: 4 words without labels, which only"):
        read(PARTLY)


@pytest.mark.filterwarnings("ignore:.*without labels, read as context")
def test_the_head_learns_from_what_an_lm_reads_around_the_labelled_sentences(tiny_pair):
    partly, whole, alone = (
        fit(tiny_pair, data) for data in (PARTLY, [(w, t or ["O"] * len(w)) for w, t in WORDS], LABELLED)
    )
    assert partly.types == ["LOC", "PER"]
    assert partly.record["train"]["sentences"] == 4 and partly.record["train"]["labelled"] == 2
    assert partly.record["losses"] != alone.record["losses"]  # the context is another one
    assert whole.record["train"].get("labelled") is None
    sentences = read_data(PARTLY, unlabelled=True)
    inputs = partly.fitted.inputs(sentences)
    kept = inputs.keep(np.array([0, 2]))
    for own, stream in zip(kept.streams, inputs.streams, strict=True):
        np.testing.assert_array_equal(own, np.concatenate([stream[:4], stream[8:15]]))
    assert kept.lengths.tolist() == [4, 7] and len(kept) == 2
    # The last document has no labels, so that it is not even encoded.
    assert partly.record["notices"][UNREAD] == 1
    assert fit(tiny_pair, PARTLY[:3]).record["losses"] == partly.record["losses"]


@pytest.mark.filterwarnings("ignore:.*without labels, read as context")
@pytest.mark.parametrize("options", [{"context": "sentence"}, {}])
def test_without_documents_it_is_not_read_and_counted(tiny_pair, options):
    partly = [Sentence(tuple(w), None if t is None else tuple(t), document="d" if options else "") for w, t in WORDS]
    tagger = fit(tiny_pair, partly, **options)
    assert tagger.record["notices"][UNREAD] == 2
    assert tagger.record["losses"] == fit(tiny_pair, [s for s in partly if s.is_labelled], **options).record["losses"]


@pytest.mark.filterwarnings("ignore:.*without labels, read as context")
def test_its_mentions_are_pooled_and_its_labels_are_never_left_out(tiny_pair):
    pooled = fit(tiny_pair, PARTLY, pool_mentions=True)
    assert pooled.record["losses"] != fit(tiny_pair, LABELLED, pool_mentions=True).record["losses"]
    assert fit(tiny_pair, PARTLY, calibrate=2).record["calibration"]["answers"] > 0


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT])
def test_a_missing_label_is_said_and_has_no_score(tiny_lm, missing):
    texts, said = (
        ["Ada left.", "It rained.", "Bo came."],
        "1 text without a label under 'label', which no score counts",
    )
    classifier = boustro.Classifier(str(tiny_lm("llama", sentinel=True)), "ridge-pool", words=False, cache=False)
    with pytest.warns(UserWarning, match=said):
        classifier.fit(texts, ["a", missing, "b"], seed=1)
    with pytest.warns(UserWarning, match=said):
        score = classifier.evaluate(texts, ["a", missing, "b"])
    assert score.num_labelled == 2
    several = [{"text": text, "labels": labels} for text, labels in zip(texts, (["a"], missing, []), strict=True)]
    with pytest.warns(UserWarning, match="1 text without a label under 'labels'"):
        assert [s.labels for s in boustro.Classifier.read(several, unlabelled=True)] == [("a",), None, ()]
    rated = [{"text": "Ada left.", "score": 1.5}, {"text": "It rained.", "score": missing}]
    with pytest.warns(UserWarning, match=r"1 text without a score, left out; .* 2 of the given data: no score"):
        assert [s.score for s in boustro.TextRegressor.read(rated)] == [1.5]
    pairs = [("Ada left.", "She went.", "same"), ("It rained.", "Bo came.", missing)]
    with pytest.warns(UserWarning, match=r"1 pair without a label, left out; .* 2 of the given data: no label"):
        assert [pair.label for pair in boustro.PairClassifier.read(pairs)] == ["same"]
    with pytest.raises(ValueError, match=r"pair 1 of the given data: .* label it, or remove it"):
        boustro.PairClassifier.read(pairs[1:])
    entities = [("Ada left.", [("Ada", "PER")]), ("It rained.", missing)]
    words = [(["Ada", "left"], ["B-PER", "O"]), (["It", "rained"], missing)]
    for given in (entities, words):
        with pytest.warns(UserWarning, match="1 sentence without labels, read as context only"):
            assert [s.is_labelled for s in read_data(given, unlabelled=True)] == [True, False]
