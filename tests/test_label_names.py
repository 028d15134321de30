"""Classifiers from the names of labels: the centroid head by hand, names as words, refusals, and `predict --labels`."""

import json

import numpy as np
import pytest
import torch

from boustro import Classifier
from boustro.apps.cli.main import main
from boustro.heads.centroid_pool import FEWEST_TEXTS, NAME_COUNT, TEMPERATURE, unit
from boustro.heads.options import CentroidPoolOptions
from boustro.heads.registry import make_head
from boustro.tasks.label_names import parse_labels
from boustro.tasks.labellings import readable, says_nothing

LABELS = ["delivery", "payment", "praise: thanks or a compliment"]
TEXTS = [
    *(f"My parcel number {n} has not arrived yet." for n in range(5)),
    *(f"I was charged {n} euros twice by your shop." for n in range(2, 7)),
    *(f"Thank you, {name} was wonderful on the phone!" for name in ("Nina", "Omar", "Ida", "Paulo", "Mei")),
]
GOLD = ["delivery"] * 5 + ["payment"] * 5 + ["praise"] * 5


@pytest.fixture(scope="module")
def known():
    return Classifier.from_labels(LABELS, TEXTS, none=0)


def head_of(vectors, ids, several=False):
    head = make_head("centroid-pool", CentroidPoolOptions(), [(1, vectors.shape[1], None, True)], ["a", "b", "c"])
    targets = torch.eye(3)[ids] if several else torch.tensor(ids)
    head.solve(vectors, targets, torch.ones(len(ids), dtype=torch.int64))
    return head


def test_scores_are_cosines_with_the_mean_of_each_label():
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    head = head_of(x, [0, 0, 1, 1, 2])
    (scores,) = head.predict(x[:1], torch.ones(1, dtype=torch.int64))
    means = [x[:2].mean(0), x[2:4].mean(0), x[4]]
    wanted = [float(x[0] @ m / m.norm()) / TEMPERATURE for m in means]
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_texts_move_centroids_by_the_formula():
    generator = torch.Generator().manual_seed(2)
    names, texts = torch.randn(3, 4, generator=generator), torch.randn(12, 4, generator=generator)
    head = head_of(names, [0, 1, 2])
    assert head.adapt(texts)
    p = unit(names)
    begun = unit(p - p.mean(0))
    moved, u = begun, unit(texts - texts.mean(0))
    for _ in range(3):
        moved = unit(NAME_COUNT * begun + (u @ moved.T / 0.05).softmax(1).T @ u)
    wanted = (texts - texts.mean(0)) @ moved.T / 0.07
    np.testing.assert_allclose(np.stack(head.predict(texts, torch.ones(12, dtype=torch.int64))), wanted, atol=1e-4)


def test_few_texts_change_nothing_and_a_label_without_text_is_last():
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(3))
    head = head_of(x, [0, 2])
    before = head.body.weight.clone()
    assert not head.adapt(torch.randn(FEWEST_TEXTS - 1, 4))
    assert torch.equal(before, head.body.weight)
    head.adapt(torch.randn(FEWEST_TEXTS, 4))
    (scores,) = head.predict(x[:1], torch.ones(1, dtype=torch.int64))
    assert scores.argmin() == 1


def test_names_alone_label_texts(known, tmp_path):
    alone = Classifier.from_labels(LABELS)
    assert [answer.label for answer in alone.predict(TEXTS)] == GOLD
    assert [answer.label for answer in known.predict(TEXTS)] == GOLD
    known.save_pretrained(tmp_path / "model")
    again = Classifier.from_pretrained(tmp_path / "model")
    assert again.record["names"] == {"delivery": "delivery", "payment": "payment", "praise": "thanks or a compliment"}
    for one, other in zip(known.predict(TEXTS), again.predict(TEXTS), strict=True):
        assert one.label == other.label
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_the_share_of_texts_that_fit_no_label():
    texts = [*TEXTS, "The moon is a dry and silent place."]
    model = Classifier.from_labels(LABELS, texts, none=1 / len(texts))
    answers = model.predict(texts)
    assert [n for n, answer in enumerate(answers) if not answer.label] == [len(TEXTS)]
    assert answers[-1].to_dict()["label"] is None
    assert model.labelling.to_dict()["least"] == model.labelling.least


def test_several_labels_of_a_text():
    both = "Thank you so much, the parcel was delivered today!"
    model = Classifier.from_labels(LABELS, [*TEXTS, both], several=True)
    assert [answer.labels for answer in model.predict(TEXTS)] == [(label,) for label in GOLD]
    assert set(model.predict(both).labels) <= {"delivery", "praise"}


def test_fit_learns_names_that_tell_more_than_chance():
    few = [0, 1, 5, 6, 10, 11]
    texts, gold = [TEXTS[n] for n in few], [GOLD[n] for n in few]
    named = Classifier("starter-texts", cache=False).fit(texts, gold)
    assert named.head.names_count
    assert named.record["label_names"]
    assert [answer.label for answer in named.predict(TEXTS)] == GOLD
    moved = dict(zip(("delivery", "payment", "praise"), ("payment", "praise", "delivery"), strict=True))
    wrong = Classifier("starter-texts", cache=False).fit(texts, [moved[label] for label in gold])
    assert not wrong.head.names_count
    assert [answer.label for answer in wrong.predict(TEXTS)] == [moved[label] for label in GOLD]


def test_names_are_read_as_words():
    assert readable("card_arrival") == readable("cardArrival").lower() == readable("card-arrival") == "card arrival"
    assert readable("Straße2") == "Straße 2"
    assert readable("TOP_UP") == "TOP UP"
    assert [says_nothing(name) for name in ("3", "class_b", "Label 12", "x", "tax", "税", "other topic")] == [
        True, True, True, True, False, False, True
    ]  # fmt: skip


def test_labels_of_a_command_line():
    assert parse_labels(["delivery, payment,praise: thanks"]) == {
        "delivery": "delivery",
        "payment": "payment",
        "praise": "thanks",
    }
    assert parse_labels(["a: one, two", "b"]) == {"a": "one, two", "b": "b"}


def test_a_name_that_says_nothing_is_never_answered():
    model = Classifier.from_labels(["delivery", "payment", "3"], TEXTS)
    assert not any(answer.label == "3" for answer in model.predict(TEXTS))
    assert any("3" in note and "describe" in note for note in model.record["notices"])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "no labels, so there is nothing to choose"),
        (["delivery"], "only the label 'delivery'"),
        (["delivery", "delivery"], "given twice"),
        (["card arrival", "card_arrival"], "are read alike"),
        ("delivery,,payment", "one is empty"),
        (["3", "class_b"], "say nothing of what they mean"),
        ([f"topic of birds {n} and trees" for n in range(1001)], "1,001 labels are more than names can tell apart"),
        (["delivery", "praise: " + "word " * 101], "described in 101 words; give 100 at most"),
    ],
)
def test_bad_labels_are_refused(labels, said):
    with pytest.raises(ValueError, match=said):
        Classifier.from_labels(labels)


def test_predict_without_a_model(tmp_path, capsys):
    table = tmp_path / "messages.csv"
    rows = "\n".join(f"{n};{text}" for n, text in enumerate(TEXTS))
    table.write_text(f"id;message\n{rows}\n", "utf-8")
    out = tmp_path / "answers.csv"
    words = ["predict", "--labels", ",".join(LABELS), str(table), "--text-column", "message", "--none", "0"]
    assert main([*words, "--out", str(out)]) == 0
    assert "next:" not in capsys.readouterr().err
    assert [line.split(";")[2] for line in out.read_text("utf-8").splitlines()[1:]] == GOLD
    assert main([*words, "--several", "--format", "jsonl"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert [line["labels"] for line in lines] == [[label] for label in GOLD]
    for more, said in (
        (["--recall", "0.9"], "--recall is for taggers"),
        (["--live"], "--live is for taggers"),
    ):
        assert main([*words, *more]) != 0
        assert said in capsys.readouterr().err
