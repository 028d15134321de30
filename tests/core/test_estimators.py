"""What others take of texts and pairs: scikit-learn's tools the classes themselves, spaCy a component."""

import numpy as np
import pytest

from boustro import Classifier
from boustro.options import OptionError
from boustro.tasks import task_class

pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, check_get_params_invariance, check_set_params

NAMES, VERBS, THINGS = ("Ada", "Okonkwo"), ("sold", "mends"), ("boat", "net", "report")
TEXTS = [f"{name} {verb} the {thing}." for name in NAMES for verb in VERBS for thing in THINGS]
PAIRS = np.array([(text, TEXTS[-1 - n]) for n, text in enumerate(TEXTS)])
LABELS = [0 if "sold" in text else 10 if "Ada" in text else 2 for text in TEXTS]
NUMBERS = [float(len(text)) for text in TEXTS]
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-PER", *"OOO"] for _ in TEXTS]
KINDS = {
    "classify": (TEXTS, LABELS),
    "pair": (PAIRS, LABELS),
    "regress": (TEXTS, NUMBERS),
    "similarity": (PAIRS, NUMBERS),
    "tag": (WORDS, TAGS),
}


@pytest.fixture
def make(tiny_pair):
    return lambda name, **options: task_class(name)(
        tiny_pair, **{"hidden": 8, "epochs": 1, "lr": 1e-2, "cache": False, **options}
    )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:Can't test estimator", "ignore:OptionError occurred")
def test_scikit_learns_tools_take_the_classes(name, make):
    """`check_estimator` goes as far as it can without a matrix of numbers."""
    made, (X, y) = make(name), KINDS[name]
    check_estimator(made)
    check_get_params_invariance(name, made)
    check_set_params(name, made)
    assert is_classifier(made) == (name in ("classify", "pair")) and is_regressor(made) == isinstance(y[0], float)
    copy = clone(made)
    assert copy is not made and copy.get_params() == made.get_params()
    assert len(cross_val_score(made, X, y, cv=2, error_score="raise")) == 2
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), made), {f"{type(made).__name__.lower()}__epochs": [1, 2]}, cv=2
    )
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()


FORMS = {
    "lists": lambda texts, labels: (texts, labels),
    "records": lambda texts, labels: ([{"text": t, "label": label} for t, label in zip(texts, labels, strict=True)],),
    "arrays": lambda texts, labels: (texts, np.array(labels)),
    "sets": lambda texts, labels: ([(t, [label]) for t, label in zip(texts, labels, strict=True)],),
}


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("records", (0, 10, 2)),
        ("arrays", (False, True, False)),
        ("lists", (0.5, 1.0, 2.0)),
        ("sets", (0, 10, 2)),
        ("lists", ("a", "b", "c")),
    ],
)
def test_labels_keep_their_types_in_the_folder(form, values, make, tmp_path):
    """Whole numbers, numbers and booleans are labels in every form."""
    y = [values[[0, 10, 2].index(label)] for label in LABELS]
    made = make("classify").fit(*FORMS[form](TEXTS, y))
    made.save(tmp_path / "folder")
    for each in (made, type(made).from_pretrained(tmp_path / "folder")):
        assert each.classes_.tolist() == sorted(set(values)) and each.classes_.dtype == np.array(values).dtype
        if form != "sets":
            assert np.asarray(each.predict(TEXTS)).dtype == np.array(values).dtype


def test_a_whole_number_beside_a_missing_one_is_the_same_label(make):
    """A data frame makes floats of such a column."""
    made = make("classify", none=0.1).fit(TEXTS[:3], [1, 2.0, np.float64(1)])
    gold = [1.0, 2.0, float("nan")]
    assert made.classes_.tolist() == [1, 2] and not made.fitted.labelling.unknown(made.read([("It rained.", 2.0)]))
    frame = pytest.importorskip("pandas").DataFrame({"text": TEXTS[:3], "label": gold})
    assert made.score(TEXTS[:3], np.array(gold)) == made.score(frame) == made.score(TEXTS[:3], [1, 2, None])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, "1", 2], r"labels of several types, .*; write all as text, or all as numbers"),
        ([True, 1, 0], "labels of several types"),
        ([1, "a", 2], r"labels of several types, .*'a' \(str\)"),
        ([[1, 0], [0, 1], [1, 1]], r"a row of 2 times 0 or 1, which name no labels; .*MultiLabelBinarizer.inverse"),
        (np.array([[1, 0], [0, 1], [1, 1]]), r"the labels have the shape \(3, 2\).*inverse_transform"),
        (np.array([[True], [False], [True]]), r"the labels have the shape \(3, 1\); give one label for each text"),
    ],
)
def test_labels_that_are_mixed_or_flags_are_refused(labels, message, make):
    with pytest.raises(ValueError, match=message):
        make("classify").fit(TEXTS[:3], labels)


def test_tables_of_flags_are_refused(make, file):
    frame, sparse = pytest.importorskip("pandas").DataFrame, pytest.importorskip("scipy.sparse").csr_matrix
    flags = np.array([[1, 0], [0, 1], [1, 1]])
    for labels in (sparse(flags), frame(flags, columns=["sport", "rain"])):
        with pytest.raises(ValueError, match="inverse_transform"):
            make("classify").fit(TEXTS[:3], labels)
    for given in (
        frame({"text": TEXTS[:3], "sport": [1, 0, 1], "rain": [0, 1, 1]}),
        file("a.csv", "text,x,y\nHi,1,0\n"),
    ):
        with pytest.raises(ValueError, match="have 0 and 1 alone, which name no labels"):
            make("classify").fit(given)
    lists = [(text, [0, 1] if n else [0]) for n, text in enumerate(TEXTS[:3])]
    assert len(task_class("classify").read(lists)) == 3  # names that are numbers


@pytest.mark.parametrize("name", ["classify", "pair"])
def test_labels_are_an_array_as_they_were_given(name, make, tmp_path):
    X, y = KINDS[name]
    made = make(name, epochs=3).fit(X, y)
    assert made.classes_.tolist() == [0, 2, 10] and made.types == ["0", "10", "2"]
    found, chances = made.predict(X), made.predict_proba(X)
    labels = np.asarray(found)
    assert labels.tolist() == [int(label.label) for label in found] and labels.dtype == made.classes_.dtype
    assert made.classes_[chances.argmax(1)].tolist() == labels.tolist()
    assert accuracy_score(y, found) == pytest.approx(made.score(X, y)) and 0 <= f1_score(y, found, average="macro") <= 1
    scores = {"f1_macro": None, "neg_log_loss": -log_loss(y, chances), "accuracy": made.score(X, y)}
    again = [(np.arange(len(y)), np.arange(len(y)))]
    for scoring, wanted in scores.items():
        (score,) = cross_val_score(made, X, np.array(y), cv=again, scoring=scoring, error_score="raise")
        assert wanted is None or score == pytest.approx(wanted, abs=1e-5)
    made.save(tmp_path / "made")
    opened = type(made).from_pretrained(tmp_path / "made")
    assert opened.classes_.tolist() == [0, 2, 10] and opened.types == ["0", "10", "2"]
    assert clone(opened).get_params() == opened.get_params() and clone(opened).plan.settings() == opened.plan.settings()
    assert made.predict_proba([]).shape == (0, 3)


def test_arrays_and_columns_are_texts_too(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    expected = make("classify").fit(TEXTS, LABELS).predict(TEXTS)
    assert make("classify").fit(frame["text"], frame["label"]).predict(np.array(TEXTS, object)) == expected


def test_weights_of_examples_are_refused_with_what_to_do_wherever_they_are_given(tiny_pair):
    for fit in (
        lambda: Classifier(tiny_pair, sample_weight=[1, 2]),
        lambda: Classifier(tiny_pair).fit(["a", "b"], ["x", "y"], sample_weight=[1, 2]),
    ):
        with pytest.raises(OptionError, match=r"sample_weight is not read, .*; repeat those that count more"):
            fit()
