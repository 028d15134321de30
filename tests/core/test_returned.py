"""What is returned is what was computed, and a label is a text to whoever asks for one."""

import copy
import json
import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from boustro import Classifier, TextRegressor
from boustro.heads.prototypes import learn_prototypes
from boustro.tasks.answers import Label, Labels, LabelSet
from boustro.tasks.fitting.estimate import KEY
from boustro.tasks.render import shown_number, shown_score

TEXTS = [
    "The parcel came late.",
    "I was charged twice.",
    "Where is my box?",
    "Refund my card.",
    "It was lost.",
    "A bill.",
]


def test_a_regressor_returns_its_numbers_and_shows_their_first_digits(tiny_pair):
    huge, tiny = (TextRegressor(tiny_pair, cache=False).fit(TEXTS, np.arange(6) * unit) for unit in (1e300, 1e-200))
    assert np.allclose(np.divide(huge.predict(TEXTS), 1e300), np.divide(tiny.predict(TEXTS), 1e-200), atol=1e-3)
    small = np.linspace(1e-9, 6e-9, 6)
    model = TextRegressor(tiny_pair, cache=False).fit(TEXTS, small)
    found = model.predict(TEXTS)
    assert np.corrcoef(found, small)[0, 1] > 0.5 and 1e-10 < np.std(found) < 1e-8
    (answer,) = model.answer_inputs(TEXTS[:1])
    assert model.to_record(answer)["score"] == pytest.approx(found[0]) and model.cells(answer) == [
        pytest.approx(found[0])
    ]
    assert model.show(answer, "text") == f"{shown_number(found[0])}\t{TEXTS[0]}"
    assert [*map(shown_number, (0.00052341, 3.14159, 123456.7))] == ["0.0005234", "3.142", "123457"]
    assert [*map(shown_score, (0.934, 0.004, 0.0, 1.0))] == ["0.93", "0.004", "0.00", "1.00"]


@pytest.mark.parametrize("values", [("delivery", "payment"), (0, 1), (False, True), (0.5, 1.5)])
def test_a_label_equals_what_fit_was_given(tiny_pair, values):
    gold = [*values] * 3
    model = Classifier(tiny_pair, head="ridge-pool", cache=False).fit(iter(TEXTS), iter(gold))
    found = model.predict(TEXTS)
    said = [label.value for label in found]
    assert found == said and [*map(str, found)] == [label.label for label in found] == [str(value) for value in said]
    right = np.mean([one == other for one, other in zip(said, gold, strict=True)])
    assert np.mean([one == other for one, other in zip(found, gold, strict=True)]) == right
    assert (np.array(found) == gold).mean() == right
    assert accuracy_score([*map(str, gold)], [*map(str, found)]) == right  # which takes no floats
    assert isinstance(gold[0], float) or accuracy_score(gold, found) == right
    alone = np.array([model.predict(text) for text in TEXTS])
    assert np.array(found).dtype == np.array(gold).dtype and (alone == gold).mean() == right
    assert alone.dtype == np.array([*gold, 0] if values == (False, True) else gold).dtype
    assert all(isinstance(label, type(label.value)) for label in found) or values == (False, True)
    assert [*map(bool, found)] == [*map(bool, said)]
    assert Counter(found) == Counter(said) and sorted(found) == sorted(said) and max(found) == max(said)
    assert all(label in {*values} and (label != label.value) is False for label in found)
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(again) is Labels and again == found and again[0].to_dict() == found[0].to_dict()
    assert json.loads(json.dumps(found)) == said
    assert model.predict_proba(TEXTS).sum(1) == pytest.approx(1, abs=1e-14)
    assert Classifier(tiny_pair, head="ridge-pool", cache=False).fit(TEXTS, [Label("", 0, {}, v) for v in gold])


def test_several_labels_are_a_tuple_of_what_fit_was_given(tiny_pair):
    gold = [(0,), (1,)] * 3
    (found, *_) = Classifier(tiny_pair, head="mlp-pool", cache=False).fit(TEXTS, gold).predict(TEXTS)
    assert isinstance(found, LabelSet) and {*found} <= {0, 1} and found.labels == tuple(found)
    assert found.to_dict()["labels"] == [str(value) for value in found] and pickle.loads(pickle.dumps(found)) == found
    both = LabelSet((0, 1), ("0", "1"), {"0": 0.75, "1": 2 / 3})
    assert both == (0, 1) and str(both) == "0, 1" and both.label == "0" and json.dumps(both) == "[0, 1]"
    assert both.to_dict()["probabilities"] == {"0": 0.75, "1": 0.66666667} and str(LabelSet((), (), {"a": 0})) != ""


def test_a_label_shows_itself():
    label = Label("a <b>", 0.93214, {"a <b>": 0.93214})
    assert repr(label) == "Label('a <b>', 0.93)" and f"{label}" == "a <b>" and "a &lt;b&gt;" in label._repr_html_()
    assert not Label("", 0, {"a": 1}) and Label("", 0, {"a": 1}).to_dict()["label"] is None


def test_copies_of_a_text_count_once_in_what_is_estimated(tiny_pair):
    texts, gold = [f"word{n} word{n + 1} end{n}" for n in range(24)], ["a", "b"] * 12
    asked = [
        Classifier(tiny_pair, head="ridge-pool", cache=False).fit(
            [*texts, *[texts[0]] * more], [*gold, *[gold[0]] * more], cross_validate=1e6
        )
        for more in (0, 40)
    ]
    assert [model.record[KEY]["examples"] for model in asked] == [24, 24]


def test_a_name_that_misleads_is_not_believed_where_others_are():
    """Five labels, each with a direction of its own; the names of the first two are exchanged."""
    rng, axes = np.random.default_rng(0), np.eye(5, 16)
    ids = np.repeat(np.arange(5), 2)
    x = axes[ids] + 0.1 * rng.normal(size=(10, 16))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    made = learn_prototypes(x, ids, axes[[1, 0, 2, 3, 4]])
    assert (made.believed < 0.1).tolist() == [True, True, False, False, False] and made.believed[2:].min() > 0.9
    assert (axes @ made.weight.T + made.bias).argmax(1).tolist() == [0, 1, 2, 3, 4]
    assert learn_prototypes(x, ids, axes).believed.min() > 0.9
