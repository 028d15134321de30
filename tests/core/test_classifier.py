"""Classifier: the second task over the contract; it trains, saves, opens, predicts and is compared as a tagger is."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import boustro
from boustro.heads import words as heads_words
from boustro.heads.words import fit_each, fit_words, vectorizer
from labelled import EIGHT

TEXTS = [
    (text, label)
    for name in EIGHT
    for text, label in (
        (f"{name} closed the harbour. Nobody left.", "port"),
        (f"The harbour of {name} is open.", "port"),
        (f"{name} sold umbrellas in the rain.", "shop"),
        (f"Umbrellas? {name} has none left.", "shop"),
    )
]
SMALL = {"epochs": 30, "lr": 1e-2, "dropout": 0.0, "hidden": 32}


@pytest.fixture(scope="module")
def classifier(tiny_pair):
    return boustro.Classifier(tiny_pair, "mlp-pool", **SMALL).fit(TEXTS, dev=TEXTS, seed=1)


@pytest.mark.parametrize("head", ["mlp-pool", "bilstm-pool"])
def test_a_head_learns_the_labels_and_opens_as_it_was_saved(tiny_pair, head, classifier, tmp_path):
    small = SMALL | {"hidden": 8, "epochs": 15}
    trained = classifier if head == "mlp-pool" else boustro.Classifier(tiny_pair, head, **small)
    if trained is not classifier:
        trained.fit(TEXTS, dev=TEXTS, seed=1)
    score = trained.evaluate(TEXTS)
    assert score.accuracy > 95 and score.unit == "texts" and score.num_labelled == len(TEXTS)
    assert score.value == score.accuracy and "f1" not in score.to_dict()
    trained.save_pretrained(tmp_path / "c")
    opened = boustro.Classifier.from_pretrained(tmp_path / "c")
    texts = [text for text, _ in TEXTS]
    assert opened.predict(texts) == trained.predict(texts) and opened.types == ["port", "shop"]
    assert trained.record["dev_curve"][trained.record["best_epoch"] - 1] == max(trained.record["dev_curve"])


def test_a_text_gets_one_label_and_the_probability_of_each(classifier):
    label = classifier.predict("The harbour of Ada is open. It is large. ")
    assert label.label == "port" and label.score == max(label.probabilities.values())
    assert sum(label.probabilities.values()) == pytest.approx(1, abs=1e-5)
    single, both = classifier.stream(iter(["Umbrellas?", ""]), batch=1), classifier.predict(["Umbrellas?", ""])
    for one, other in zip(single, both, strict=True):
        assert one.label == other.label and one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert classifier.predict([]) == []


def test_labels_may_be_numbers_and_records_dicts(tiny_pair):
    rows = [{"sentence": text, "label": int(label == "port")} for text, label in TEXTS]
    assert boustro.Classifier(tiny_pair, "mlp-pool", epochs=1).fit(rows).types == ["0", "1"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a b", "x"), ("c", "x")], "only the label x"),
        ([("a b", "x"), ("c", [None])], "text 2 of the given data: the label under 'label' is"),
        ([("a b", "x"), (3, "y")], "text 2 of the given data: the text is 3, which is not a string"),
        ([("a b", float("nan"))], "text 1 of the given data: no text has a label from here on"),
        (["a b"], "expected a text and its label, got 'a b'"),
        ([], "no labelled text"),
        ("no-such.jsonl", "no-such.jsonl: no such file"),
    ],
)
def test_bad_texts_are_named_with_their_place(tiny_pair, rows, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        boustro.Classifier(tiny_pair, "mlp-pool", epochs=1).fit(rows)


def test_a_head_of_another_task_is_refused(tiny_pair):
    with pytest.raises(ValueError, match="a mlp head is not for this task, whose heads are auto-pool"):
        boustro.Classifier(tiny_pair, "mlp")
    with pytest.raises(ValueError, match="a mlp-pool head is not for this task, whose heads are linear"):
        boustro.Tagger(tiny_pair, "mlp-pool")


def test_a_label_that_training_never_showed_is_a_warning(classifier):
    with pytest.warns(UserWarning, match="1 gold label that the head does not know.*: harvest"):
        assert classifier.evaluate([*TEXTS, ("Ada", "harvest")]).accuracy < 100


def test_a_folder_of_another_task_is_not_opened(classifier, tmp_path):
    classifier.save_pretrained(tmp_path / "c")
    card = (tmp_path / "c/README.md").read_text("utf-8")
    assert "text-classification" in card and "Labels texts as one of port, shop" in card
    with pytest.raises(ValueError, match="tagger"):
        boustro.Tagger.from_pretrained(tmp_path / "c")


def test_scores_of_words_are_those_of_scikit_learn():
    """Repeated terms, unknown ones, and a text without any."""
    texts = [["No", "fun", "no", "fun"], ["Great", "fun"], ["A", "great", "day"]]
    model = fit_words(texts, np.array([0, 1, 2]), 3)
    made = vectorizer(vocabulary=model.vocabulary)
    made.idf_ = model.idf.astype(np.float64)
    given = [*texts, ["no", "no", "no", "idea"], ["nothing"], []]
    wanted = made.transform(given) @ model.weight.T.astype(np.float64) + model.bias
    np.testing.assert_allclose(model.scores(given), wanted, rtol=1e-9)


@pytest.mark.parametrize("most_dense", [0, 1000])
@pytest.mark.parametrize("num_labels", [2, 4])
def test_the_solution_is_that_of_scikit_learn(most_dense, num_labels, monkeypatch):
    """From the texts' products with each other or not, and however many vectors were read before."""
    monkeypatch.setattr(heads_words, "MOST_DENSE", most_dense)
    monkeypatch.setattr(heads_words, "TOLERANCE", 1e-8)
    generator = np.random.default_rng(1)
    ids = generator.integers(num_labels, size=80)
    texts = [[f"w{n}" for n in (*generator.integers(20, size=5), 20 + own)] for own in ids]
    vectors = generator.normal(size=(80, 2, 6)).astype(np.float32)
    made = vectorizer().fit(texts)
    for count, model in enumerate(fit_each(texts, ids, num_labels, vectors, range(3))):
        given = vectors[:, :count].reshape(80, -1)
        x = np.hstack([made.transform(texts).toarray(), heads_words.SHARE * (given - given.mean(0))])
        wanted = LogisticRegression(C=1 / heads_words.WORD_STRENGTH, tol=1e-8, max_iter=1000).fit(x, ids)
        found = model.scores(texts, vectors)
        found = found[:, 1] - found[:, 0] if num_labels == 2 else found - found.mean(1, keepdims=True)
        np.testing.assert_allclose(found, wanted.decision_function(x), atol=0.02)
