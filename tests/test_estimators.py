"""Estimators of scikit-learn for texts and pairs: what the tasks learn, in scikit-learn's shapes."""

import numpy as np
import pytest

import boustro
from boustro.tasks import task_class
from test_tasks import RECORDS

pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from boustro.apps.integrations import sklearn as ours

TEXTS = [
    f"{name} {verb} the {thing}."
    for name in ("Ada", "Okonkwo")
    for verb in ("sold", "mends")
    for thing in ("boat", "net", "report")
]
PAIRS = [(text, TEXTS[-1 - n]) for n, text in enumerate(TEXTS)]
LABELS = [0 if "sold" in text else 10 if "Ada" in text else 2 for text in TEXTS]
NUMBERS = [float(len(text)) for text in TEXTS]
KINDS = {
    "classify": (ours.TextClassifier, TEXTS, LABELS),
    "pair": (ours.PairClassifier, PAIRS, LABELS),
    "regress": (ours.TextRegressor, TEXTS, NUMBERS),
    "similarity": (ours.PairRegressor, PAIRS, NUMBERS),
}


@pytest.fixture
def make(tiny_pair):
    return lambda name, **options: KINDS[name][0](tiny_pair, **{"hidden": 8, "epochs": 3, "lr": 1e-2, **options})


@pytest.mark.parametrize("name", KINDS)
def test_an_estimator_learns_what_its_task_learns(name, make, tiny_pair):
    _, X, y = KINDS[name]
    estimator = make(name).fit(X, y)
    examples = [
        (*(x if isinstance(x, tuple) else (x,)), str(g) if name in ("classify", "pair") else g)
        for x, g in zip(X, y, strict=True)
    ]
    task = task_class(name)(tiny_pair, hidden=8, epochs=3, lr=1e-2).fit(examples, seed=1)
    results, found = task.predict(X), estimator.predict(X)
    if is_classifier(estimator):
        assert found.tolist() == [int(r.label) for r in results] and found.dtype == np.array(y).dtype
        assert estimator.classes_.tolist() == [0, 2, 10]
        chances = estimator.predict_proba(X)
        np.testing.assert_allclose(chances, [[r.probabilities[str(c)] for c in (0, 2, 10)] for r in results], atol=1e-6)
        assert estimator.classes_[chances.argmax(1)].tolist() == found.tolist()
        assert estimator.score(X, y) == pytest.approx(np.mean(found == np.array(y)))
        assert estimator.predict_proba([]).shape == (0, 3) and estimator.predict([]).shape == (0,)
    else:
        assert is_regressor(estimator) and found.tolist() == pytest.approx(results)
        assert estimator.score(X, y) == pytest.approx(r2_score(y, results)) and estimator.predict([]).shape == (0,)


@pytest.mark.parametrize("name", KINDS)
def test_model_selection_runs(name, make):
    _, X, y = KINDS[name]
    search = GridSearchCV(make(name, epochs=1), {"epochs": [1, 2]}, cv=2).fit(X, y)
    assert search.best_params_["epochs"] in (1, 2) and np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(cross_val_score(make(name, epochs=1), X, y, cv=2)) == 2


def test_estimators_can_be_cloned_and_have_their_tasks_parameters(make):
    estimator = make("classify", words=True, class_weights="balanced")
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params() and copy.words is True
    assert {"words", "class_weights", "seed", "encoder"} <= set(copy.get_params())
    assert "words" not in make("regress").get_params() and "tag_scheme" in ours.TaggerClassifier().get_params()
    with pytest.raises(TypeError, match="TextRegressor has no parameter 'epoch'; did you mean 'epochs'"):
        ours.TextRegressor(epoch=1)


def test_arrays_and_columns_are_texts_too(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    expected = make("classify", epochs=1).fit(TEXTS, LABELS).predict(TEXTS)
    assert (
        make("classify", epochs=1).fit(frame["text"], frame["label"]).predict(np.array(TEXTS, object)).tolist()
        == expected.tolist()
    )
    pairs = np.array(PAIRS)
    expected = make("pair", epochs=1).fit(PAIRS, LABELS).predict(PAIRS)
    assert make("pair", epochs=1).fit(pairs, np.array(LABELS)).predict(pairs).tolist() == expected.tolist()


def test_mistakes_are_said(make):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        make("classify").predict(TEXTS)
    with pytest.raises(ValueError, match=r"TextClassifier takes one label per text; boustro\.Classifier takes several"):
        make("classify").fit(TEXTS, [["a"]] * len(TEXTS))
    for missing in (None, float("nan")):
        with pytest.raises(ValueError, match=r"label 2 is \w+ \(a missing value\?\); leave its text out, or label it"):
            make("classify").fit(TEXTS[:2], ["a", missing])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make("regress").fit(TEXTS, NUMBERS[1:])
    with pytest.raises(ValueError, match="expected a number"):
        make("regress").fit(TEXTS, ["x"] * len(TEXTS))


@pytest.fixture(scope="module")
def folders(tiny_pair, tmp_path_factory):
    home = tmp_path_factory.mktemp("folders")
    made = {
        name: task_class(name)(tiny_pair, hidden=8, epochs=2).fit(RECORDS[name])
        for name in ("classify", "regress", "pair")
    }
    several = [("Ada left.", ["news"]), ("It rained.", ["weather", "sport"])]
    made["several"] = boustro.Classifier(tiny_pair, hidden=8, epochs=2).fit(several)
    for name, task in made.items():
        task.save_pretrained(home / name)
    return home, made


def component(folder, **config):
    spacy = pytest.importorskip("spacy")
    import boustro.apps.integrations.spacy  # noqa: F401 (an installed package is found by its entry point)

    nlp = spacy.blank("en")
    nlp.add_pipe("boustro_text", config={"model": str(folder), **config})
    return nlp


@pytest.mark.parametrize("name", ["classify", "several"])
def test_spacy_documents_get_the_labels_of_a_classifier(name, folders, tmp_path):
    home, made = folders
    nlp = component(home / name)
    texts = ["Ada left.", "", "It rained. It rained."] * 3
    expected = [made[name].predict(text).probabilities for text in texts]
    assert nlp.pipe_labels["boustro_text"] == made[name].types and nlp.get_pipe("boustro_text")._task is None
    for doc, cats in zip(nlp.pipe(texts, batch_size=4), expected, strict=True):
        assert doc.cats == pytest.approx(cats, abs=5e-3)
    nlp.to_disk(tmp_path / "pipeline")
    import spacy

    opened = spacy.load(tmp_path / "pipeline")
    assert opened(texts[0]).cats == pytest.approx(expected[0], abs=5e-3)
    again = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert again(texts[0]).cats == pytest.approx(expected[0], abs=5e-3)


def test_spacy_scores_the_labels(folders):
    from spacy.training import Example

    home, made = folders
    nlp = component(home / "classify")
    examples = []
    for record in RECORDS["classify"]:
        reference = nlp.make_doc(record["text"])
        reference.cats = {label: float(label == record["label"]) for label in made["classify"].types}
        examples.append(Example(nlp.make_doc(record["text"]), reference))
    truth = made["classify"].evaluate(RECORDS["classify"]).to_dict()
    assert 100 * nlp.evaluate(examples)["cats_micro_f"] == pytest.approx(truth["accuracy"])


def test_spacy_documents_get_the_number_of_a_regressor(folders):
    home, made = folders
    doc = component(home / "regress")("Ada left.")
    assert doc._.boustro_score == pytest.approx(made["regress"].predict("Ada left.")) and doc.cats == {}


def test_spacy_says_what_it_takes(folders):
    home, _ = folders
    with pytest.raises(ValueError, match=r"pair: a folder of the task pair; the component takes classify and regress"):
        component(home / "pair")("Ada left.")
    with pytest.raises(FileNotFoundError, match="nothing: no such folder"):
        component("nothing")("Ada")
