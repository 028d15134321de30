"""Classifiers from the names of labels: the centroid head by hand, names as words, refusals, and `predict --labels`."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from boustro import Classifier, Tagger
from boustro.heads.centroid_pool import FEWEST_TEXTS, NAME_COUNT, TEMPERATURE, unit_rows
from boustro.heads.options import CentroidPoolOptions
from boustro.heads.registry import make_head
from boustro.tasks.config import ClassifierConfig
from boustro.tasks.data.texts import read_meanings
from boustro.tasks.fitting.estimate import format_estimate
from boustro.tasks.label_names import TOO_FEW, doubtful_names, given_labels, parse_labels
from boustro.tasks.labellings import readable, says_nothing
from conftest import ROOT

LABELS = {"delivery": "", "payment": "", "praise": "thanks or a compliment"}
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
    p = unit_rows(names)
    begun = unit_rows(p - p.mean(0))
    moved, u = begun, unit_rows(texts - texts.mean(0))
    for _ in range(3):
        moved = unit_rows(NAME_COUNT * begun + (u @ moved.T / 0.05).softmax(1).T @ u)
    wanted = (texts - texts.mean(0)) @ moved.T / (0.12 / 3 ** (1 / 8))
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


def test_one_of_several_labels_is_near_to_its_own_name_after_texts():
    x = torch.eye(1, 4)
    head = make_head("centroid-pool", CentroidPoolOptions(), [(1, 4, None, True)], ["a"])
    head.solve(x, torch.ones(1, 1), torch.ones(1, dtype=torch.int64))
    head.adapt(torch.randn(FEWEST_TEXTS, 4, generator=torch.Generator().manual_seed(4)) / 4)
    assert float(unit_rows(head.linear()[0]) @ x[0]) > 0.5


def test_names_alone_label_texts(known, tmp_path):
    alone = Classifier.from_labels(LABELS)
    assert [answer.label for answer in alone.predict(TEXTS)] == GOLD
    assert [answer.label for answer in known.predict(TEXTS)] == GOLD
    known.save_pretrained(tmp_path / "model")
    again = Classifier.from_pretrained(tmp_path / "model")
    assert again.config.describe == {"praise": "thanks or a compliment"}
    assert "| praise | thanks or a compliment |" in (tmp_path / "model" / "README.md").read_text("utf-8")
    for one, other in zip(known.predict(TEXTS), again.predict(TEXTS), strict=True):
        assert one.label == other.label
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_the_share_of_texts_that_fit_no_label():
    texts = [*TEXTS, "The moon is a dry and silent place."]
    model = Classifier.from_labels(LABELS, texts, none=1 / len(texts))
    answers = model.predict(texts)
    assert [n for n, answer in enumerate(answers) if not answer.label] == [len(TEXTS)]
    assert answers[-1].to_dict()["label"] is None
    assert model.fitted.labelling.to_dict()["least"] == model.fitted.labelling.least


def test_several_labels_of_a_text():
    both = "Thank you so much, the parcel was delivered today!"
    model = Classifier.from_labels(LABELS, [*TEXTS, both], several=True)
    assert [answer.labels for answer in model.predict(TEXTS)] == [(label,) for label in GOLD]
    assert set(model.predict(both).labels) <= {"delivery", "praise"}


def test_fit_begins_at_names_unless_they_mislead():
    few = [0, 1, 5, 6, 10, 11]
    texts, gold = [TEXTS[n] for n in few], [GOLD[n] for n in few]
    named = Classifier("starter-texts", cache=False).fit(texts, gold)
    assert named.record["label_names"] > 0.9
    assert [answer.label for answer in named.predict(TEXTS)] == GOLD
    moved = dict(zip(("delivery", "payment", "praise"), ("payment", "praise", "delivery"), strict=True))
    wrong = Classifier("starter-texts", cache=False).fit(texts, [moved[label] for label in gold])
    assert wrong.fitted.head.trust < 0.1
    assert [answer.label for answer in wrong.predict(TEXTS)] == [moved[label] for label in GOLD]


def test_unequal_shares_of_few_labels_harm_no_more_than_the_names_help():
    rows = [json.loads(line) for line in (ROOT / "bench" / "messages.jsonl").open()]
    some = [3, 5, *range(16, 20), *range(32, 36), *range(48, 52), 64]  # 2, 4, 4, 4, 1 of each label
    rest = [row for n, row in enumerate(rows) if n not in some]
    model = Classifier("starter-texts", cache=False).fit(
        [rows[n]["text"] for n in some], [rows[n]["label"] for n in some]
    )
    answers = model.predict([row["text"] for row in rest])
    assert np.mean([answer.label == row["label"] for answer, row in zip(answers, rest, strict=True)]) > 0.8


def test_copies_of_a_text_are_one():
    few = [0, 1, 5, 6, 10, 11]
    texts, gold = [TEXTS[n] for n in few], [GOLD[n] for n in few]
    maps = [
        Classifier("starter-texts", cache=False).fit(texts * n, gold * n).fitted.head.body.map.weight for n in (1, 3)
    ]
    share = torch.nn.functional.cosine_similarity(*(weight.flatten() for weight in maps), dim=0)
    assert float(share) > 0.97  # what is left out is other parts


def test_fit_uses_texts_without_a_label():
    """The estimate says what the names alone give."""
    few = [0, 1, 2, 5, 6, 7, 10, 11, 12, 13]
    rows = [(text, GOLD[n] if n in few else "") for n, text in enumerate(TEXTS)]
    rows += [(f"The driver came {n} hours late.", "") for n in range(2, 9)]
    part = Classifier("starter-texts", cache=False).fit([[text, label] for text, label in rows], cross_validate=9)
    assert part.record["notices"] == {"texts without a label, which say what texts are like": 12}
    assert part.record["train"]["labelled"] == 10
    said = format_estimate(part.record["cross_validation"], "texts")
    assert any(line.startswith("the names of the labels alone, on the same texts: ") for line in said)


MEANINGS = {"a1": "parcels and shipping", "a2": "charges and invoices", "a3": "thanks and praise"}


def test_fit_learns_what_is_said_of_labels(tmp_path):
    few, coded = [0, 5, 10], dict(zip(("delivery", "payment", "praise"), MEANINGS, strict=True))
    texts, gold = [TEXTS[n] for n in few], [coded[GOLD[n]] for n in few]
    assert not Classifier("starter-texts", cache=False).fit(texts, gold).fitted.head.trust  # the names say nothing
    table = tmp_path / "labels.csv"
    table.write_text(
        "label,description\n" + "".join(f"{n},{m}\n" for n, m in {**MEANINGS, "a4": "tax"}.items()), "utf-8"
    )
    model = Classifier("starter-texts", cache=False, describe=str(table)).fit(texts, gold)
    assert model.fitted.head.trust > 0.9
    assert model.record["notices"] == {"descriptions of labels that no text has: a4": 1}
    model.save_pretrained(tmp_path / "model")
    assert Classifier.from_pretrained(tmp_path / "model").config.describe == {**MEANINGS, "a4": "tax"}
    assert "| a1 | parcels and shipping |" in (tmp_path / "model" / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "labels.csv",
            "id,label,description\n1,a1,parcels and shipping\n\n2,a2,charges and invoices\n3,a3,thanks and praise\n",
        ),
        ("labels.jsonl", "".join(json.dumps({"label": n, "meaning": m}) + "\n" for n, m in MEANINGS.items())),
        ("labels.json", json.dumps(MEANINGS)),
        ("labels.txt", "a1: parcels and shipping\n\na2: charges and invoices\na3: thanks and praise\n"),
    ],
)
def test_descriptions_of_labels_are_read(tmp_path, name, text):
    (tmp_path / name).write_text(text, "utf-8")
    assert read_meanings(tmp_path / name) == MEANINGS


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("labels.csv", "label,description\na1,\n", "labels.csv:2: the label 'a1' is described by ''; expected a text"),
        ("labels.csv", "label,what\na1,tax\n", r"labels.csv:2: no label with its description \(found: label, what\)"),
        ("labels.csv", "label,description\na1,tax\na1,toll\n", "labels.csv:3: the label 'a1' is described twice"),
        ("labels.txt", "a1 tax\n", "labels.txt:1: the label 'a1 tax' is described by ''"),
        ("labels.txt", "a1: " + "word " * 101, "described in 101 words; give 100 at most"),
        ("labels.csv", "label,description\n", "labels.csv: no label is described"),
    ],
)
def test_bad_descriptions_are_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ValueError, match=said):
        ClassifierConfig(describe=str(tmp_path / name))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"encoder": "starter"},
            "read by an lda-pool head over the vector of a text, and not by lda-pool over starter",
        ),
        ({"head": "mlp-pool"}, "and not by mlp-pool over starter-texts"),
        ({"describe": {"b1": "tax"}}, "no text has a label that is described: b1; the labels are a1, a2"),
    ],
)
def test_descriptions_that_nothing_reads_are_refused(how, said):
    how = {"encoder": "starter-texts", "cache": False, "describe": MEANINGS} | how
    with pytest.raises(ValueError, match=said):
        Classifier(**how).fit(["My parcel is late.", "I was charged twice."] * 2, ["a1", "a2"] * 2)


def judge_outside(model, tmp_path):
    """Texts whose gold label is null or an empty cell: outside answered so is right, inside answered so is lost."""
    texts = [*TEXTS[::5], "The moon is a dry and silent place.", "Nobody reads.", "Seven times eight is 56."]
    gold = [*GOLD[:10:5], None, None, None, "praise"]  # the last one has a label, and is answered with none
    answers = [answer.label for answer in model.predict(texts)]
    right = np.mean([answer == (label or "") for answer, label in zip(answers, gold, strict=True)])
    assert answers[2] == "praise" and answers[3] == answers[5] == ""
    score = model.evaluate(texts, gold)
    assert score.accuracy == pytest.approx(100 * right) and model.score(texts, gold) == pytest.approx(right)
    assert score.per_label["(no label)"].gold == 3 and score.confusion["praise"] == {"(no label)": 1}
    json_lines, table = tmp_path / "gold.jsonl", tmp_path / "gold.csv"
    rows = [{"text": text, "label": label} for text, label in zip(texts, gold, strict=True)]
    json_lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    table.write_text("text,label\n" + "".join(f"{row['text'].replace(',', '')},{row['label'] or ''}\n" for row in rows))
    for file in (json_lines, table):
        assert model.evaluate(file).accuracy == pytest.approx(100 * right)
    fit = Classifier("starter-texts", "centroid-pool", cache=False).fit(TEXTS, GOLD)
    with pytest.warns(UserWarning, match="3 texts without a label under 'label', which no score counts"):
        assert fit.evaluate(json_lines).num_labelled == 3


def test_fit_leaves_a_share_of_texts_without_a_label(tmp_path):
    model = Classifier("starter-texts", cache=False, none=0.1).fit(TEXTS, GOLD)
    answers = model.predict([*TEXTS, "The moon is a dry and silent place."])
    assert [answer.label for answer in answers] == [*GOLD, ""]
    model.save_pretrained(tmp_path / "model")
    again = Classifier.from_pretrained(tmp_path / "model")
    assert again.predict("The moon is a dry and silent place.").to_dict()["label"] is None
    (answer,) = again.answer_inputs(["The moon is a dry and silent place."])
    assert answer.fits_no_label and again.show(answer, "text").startswith("(no label)\t0.00\t")
    assert again.show(answer, "labelstudio")["predictions"][0]["result"] == []
    judge_outside(again, tmp_path)
    with pytest.raises(ValueError, match="none is not for texts with several labels"):
        Classifier("starter-texts", cache=False, none=0.1).fit(TEXTS[::5], [[label] for label in GOLD[::5]])
    with pytest.raises(ValueError, match="none is not for --words"):
        Classifier("starter-texts", none=0.1, words=True)


def test_every_text_has_a_label_where_nobody_asks_for_none():
    assert all(Classifier.from_labels(LABELS, TEXTS).predict([*TEXTS, "The moon is a dry and silent place."]))


def test_names_are_read_as_words():
    assert readable("card_arrival") == readable("cardArrival").lower() == readable("card-arrival") == "card arrival"
    assert readable("Straße2") == "Straße 2"
    assert readable("TOP_UP") == "TOP UP"
    kept = ["भुगतान", "दान", "résumé", "C++ questions", "C# questions", "R&D", "<18", "नमस्ते दुनिया", "می‌خواهم", "கடன்"]
    assert [readable(name) for name in kept] == kept
    assert readable("re\u0301sume\u0301_sent") == "résumé sent" and readable("ÉtatCivil, картаПришла") == (
        "État Civil карта Пришла"
    )
    nothing = ("3", "class_b", "Label 12", "x", "other topic", "18+", "&", "👍🏽", "❤️")
    assert all(map(says_nothing, nothing)) and not any(map(says_nothing, ("tax", "税", "C++", "C#", "दा")))


def test_labels_of_a_command_line():
    found = {"delivery": "delivery", "payment": "payment", "praise": "thanks"}
    assert parse_labels(["delivery, payment,praise: thanks"]) == found
    assert parse_labels(["a: one, two", "b"]) == {"a": "one, two", "b": "b"}


def test_names_of_labels_from_python_are_not_cut():
    names = ["type: bug", "type: feature", "food, drink"]
    for given in (names, pd.Series(names), np.array(names)):
        assert given_labels(given) == dict(zip(names, names, strict=True))
    assert given_labels({"type: bug": " a fault "}) == {"type: bug": "a fault"}
    cut = parse_labels(["type: bug", "praise: a compliment", "payment"])
    (said,) = doubtful_names(cut)
    assert cut == {"type": "bug", "praise": "a compliment", "payment": "payment"} and said.endswith(": type: bug")


@pytest.mark.parametrize("several", [False, True])
def test_labels_that_are_numbers_come_back_as_numbers(several, tmp_path):
    means = {np.int64(1): "delivery of parcels", 2: "payment, charges", 3: "thanks or a compliment"}
    gold = [1 + ["delivery", "payment", "praise"].index(label) for label in GOLD]
    model = Classifier.from_labels(means, TEXTS, none=0, several=several)
    model.save_pretrained(tmp_path / "model")
    for one in (model, Classifier.from_pretrained(tmp_path / "model")):
        assert one.classes_.tolist() == [1, 2, 3]
        if not several:
            assert (one.predict(TEXTS) == np.array(gold)).mean() == one.score(TEXTS, gold) == 1


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (None, "expected texts, got NoneType"),
        (pd.DataFrame({"message": TEXTS}), "got DataFrame; give one of its columns"),
        ({"message": TEXTS}, "got dict; give its values"),
        ([*TEXTS, None], r"text 16 is None.*\(a missing value\?\)"),
        (pd.Series([TEXTS[0], None]), "text 2 is nan"),
        ([[TEXTS[0]]], "text 1 is .*, which is not a string"),
        ([b"late"], "decode it first"),
    ],
)
def test_what_are_no_texts_is_refused_as_by_predict(known, texts, said):
    with pytest.raises(ValueError, match=said):
        Classifier.from_labels(LABELS, texts)
    with pytest.raises(ValueError, match=said.replace("expected texts,", "expected a text or several,")):
        known.predict(texts)


def test_one_text_and_any_iterable_of_texts_are_read(known):
    assert Classifier.from_labels(LABELS, TEXTS[0]).record["notices"] == {TOO_FEW: 1}
    (said,) = Classifier.from_labels(LABELS, TEXTS[0], none=0.3).record["notices"]
    assert said == f"{TOO_FEW}, and none=0.3 (--none 0.3) leaves out what is near to no name"
    for given in (pd.Series(TEXTS), np.array(TEXTS), (text for text in TEXTS), dict.fromkeys(TEXTS).keys()):
        made = Classifier.from_labels(LABELS, given, none=0)
        assert torch.equal(made.fitted.head.body.weight, known.fitted.head.body.weight)


def test_a_comma_in_a_description_makes_no_label():
    said = "no internet, or a bad connection"
    assert parse_labels([f"billing,outage: {said}"]) == {"billing": "billing", "outage": said}
    assert parse_labels(["billing", f"outage: {said}"]) == given_labels({"billing": "", "outage": said})
    assert parse_labels(['"Food, drink",News']) == {"Food, drink": "Food, drink", "News": "News"}
    for given in ("a: x, b: y", "a: x,b"):
        with pytest.raises(
            ValueError, match="a comma behind a colon parts no labels; give each alone: --labels 'a: x'"
        ):
            parse_labels([given])
    with pytest.raises(ValueError, match="--labels 'a: x' --labels 'b: y, z' --labels 'c: w', in Python"):
        parse_labels(["a: x,b: y, z,c: w"])
    with pytest.raises(ValueError, match=r"types .* give each alone: --types 'a: x' --types b, in Python"):
        Tagger.from_labels("a: x,b")


def test_commas_in_one_of_several_values_are_said():
    (said,) = doubtful_names(parse_labels(["outage,billing", "praise", "Food, drink"]))
    assert "one label where the option is given again" in said and said.endswith(": outage,billing")


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
        (["r\u00e9sum\u00e9 sent", "re\u0301sume\u0301 sent"], "given twice"),
        ("delivery,,payment", "one is empty"),
        (["3", "class_b"], "say nothing of what they mean"),
        ([f"topic of birds {n} and trees" for n in range(1001)], "1,001 labels are more than names can tell apart"),
        ({"delivery": "", "praise": "word " * 101}, "described in 101 words; give 100 at most"),
        (["delivery", float("nan")], "label 2 is nan; expected a name or a number"),
        (["delivery", ("a", "b")], r"label 2 is \('a', 'b'\); expected"),
        (None, "expected names of labels, got NoneType"),
        (pd.DataFrame({"label": ["delivery", "payment"]}), "got DataFrame; give one of its columns"),
        ({"delivery": "parcels", "payment": None}, "the description of the label 'payment' is None"),
        ({1: "parcels", "payment": ""}, "labels of several types"),
        ("type: bug,type: feature", "a comma behind a colon parts no labels; give each alone: --labels 'type: bug'"),
    ],
)
def test_bad_labels_are_refused(labels, said):
    with pytest.raises(ValueError, match=said):
        Classifier.from_labels(labels)
