"""Labelled texts in every form, several labels, weights, probabilities, words beside the head, more texts later."""

import json
import math
import shutil
import unicodedata
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Value
from sklearn.metrics import f1_score
from sklearn.utils.class_weight import compute_class_weight

import boustro
from boustro.encoders.word_table import WordTable, load_table
from boustro.heads import words as heads_words
from boustro.heads.closed_form import LabelledWords, ridge
from boustro.heads.options import ClassOptions, TextOptions
from boustro.heads.pooled import text_loss
from boustro.heads.registry import make_head
from boustro.heads.words import choose_weights, fit_words, terms
from boustro.lab.adapt.table import _write
from boustro.tasks.classifier import Weighed
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.texts import read_texts
from boustro.tasks.fitting import training as fitting
from boustro.tasks.fitting.training import train_on_part
from boustro.tasks.labellings import make_labelling, open_labelling
from boustro.tasks.labellings.texts import LabelSetLabelling
from boustro.types import Sentence
from labelled import EIGHT, TEXTS

SETS = [
    (text, labels)
    for name in EIGHT
    for text, labels in (
        (f"{name} closed the harbour.", ["port"]),
        (f"{name} sold umbrellas at the harbour.", ["shop", "port"]),
        (f"{name} slept.", []),
    )
]
SMALL = {"epochs": 15, "lr": 1e-2, "dropout": 0.0, "hidden": 16}


# Reading


def test_every_form_gives_the_same_texts(tmp_path):
    rows = [{"text": 'Ada said "no", twice.', "label": "x"}, {"text": "Mira left.", "label": "y"}]
    wanted = read_texts([(row["text"], row["label"]) for row in rows])
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.rename(columns={"text": "sentence"}).to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    features = Features({"text": Value("string"), "label": ClassLabel(names=["x", "y"])})
    dataset = Dataset.from_list([row | {"label": "xy".index(row["label"])} for row in rows], features)
    dataset.save_to_disk(str(tmp_path / "saved"))
    given = [tmp_path / "a.csv", tmp_path / "a.tsv", tmp_path / "a.jsonl", rows, frame, dataset]
    for data in [*given, f"hf:{tmp_path / 'saved'}"]:
        found = read_texts(data)
        assert [(s.words, s.spaces, s.label) for s in found] == [(s.words, s.spaces, s.label) for s in wanted]
    assert read_texts(tmp_path / "a.csv")[1].where == f"{tmp_path / 'a.csv'}:3"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na,b,x\n", "a.csv:2: more cells than columns"),
        ("text,label\nonly text\n", "a.csv:2: the label under 'label' is None"),
        ("words,label\na,x\n", "a.csv:2: no text under text or sentence"),
        ("text,label\n", "a.csv: no labelled text"),
        ("text,label\na,  \n", "a.csv:2: the label under 'label' is '  '"),
    ],
)
def test_a_bad_table_is_named_with_its_line(content, message, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_texts(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError, match=r"b.csv: no such file \(did you mean 'a.csv'|b.csv: no such file"):
        read_texts(tmp_path / "b.csv")


def test_labels_that_stand_once_each_are_noted_with_the_columns(tmp_path):
    (tmp_path / "a.csv").write_text("id,text,topic\n" + "".join(f"{n},Ada left.,a\n" for n in range(10)))
    for column, noted in (("id", True), ("topic", False)):
        notes = []
        read_texts(tmp_path / "a.csv", notes=notes, options=DataOptions(label_column=column))
        assert any(note.what.endswith("--label-column names another of id, text, topic") for note in notes) is noted


def test_several_labels_are_a_list_of_names():
    found = read_texts([("a", ["x", "y", "x"]), {"text": "b", "labels": [3]}, {"sentence": "c", "labels": []}])
    assert [s.labels for s in found] == [("x", "y"), ("3",), ()] and [s.label for s in found] == [None] * 3
    with pytest.raises(ValueError, match="the labels under 'labels' are 'x'; expected a list"):
        read_texts([{"text": "a", "labels": "x"}])


# Losses and labellings


def test_losses_are_those_of_torch():
    scores, ids = torch.randn(4, 3), torch.tensor([0, 2, 1, 2])
    weights, member = torch.tensor([1.0, 2.0, 0.5]), torch.randint(0, 2, (4, 3)).float()
    functional = torch.nn.functional
    torch.testing.assert_close(text_loss(scores, ids), functional.cross_entropy(scores, ids))
    torch.testing.assert_close(text_loss(scores, (ids, weights)), functional.cross_entropy(scores, ids, weights))
    wanted = 3 * functional.binary_cross_entropy_with_logits(scores, member)
    torch.testing.assert_close(text_loss(scores, member), wanted)


def test_balanced_weights_are_scikit_learns():
    texts = [Sentence((word,), label=word) for word in "aaaabbc"]
    labelling = make_labelling("mlp-pool", texts, ClassOptions(class_weights="balanced"))
    wanted = compute_class_weight("balanced", classes=np.array(list("abc")), y=list("aaaabbc"))
    np.testing.assert_allclose(labelling.weights, wanted)
    ids, weights = labelling.targets(texts)(np.array([6, 0]), torch.zeros(0))
    assert ids.tolist() == [2, 0] and weights.tolist() == pytest.approx(wanted.tolist())


def test_the_threshold_has_the_best_micro_f1():
    generator = np.random.default_rng(0)
    texts = [Sentence(("a",), labels=tuple(np.array(list("xyz"))[generator.random(3) < 0.3])) for _ in range(30)]
    texts.append(Sentence(("a",), labels=("unseen",)))
    labelling = LabelSetLabelling("label-set", "xyz")
    gold = labelling.ids(texts)
    outputs = (2 * gold - 1 + 1.5 * generator.normal(size=gold.shape)).round(1)  # some equal ones
    labelling.calibrate(outputs, texts)
    padded = np.pad(gold, ((0, 0), (0, 1)))
    padded[-1, -1] = 1
    tried = {
        threshold: f1_score(padded, np.pad(1 / (1 + np.exp(-outputs)) > threshold, ((0, 0), (0, 1))), average="micro")
        for threshold in (*np.linspace(0, 1, 201), labelling.threshold)
    }
    assert tried[labelling.threshold] == pytest.approx(max(tried.values()))
    opened = open_labelling(**json.loads(json.dumps(labelling.to_dict())))
    assert opened.threshold == labelling.threshold and opened.labels == labelling.labels
    score = opened.score(texts, [opened.read(o, s) for o, s in zip(outputs, texts, strict=True)], {})
    assert score.value == pytest.approx(100 * max(tried.values()))


@pytest.mark.parametrize("several", [False, True])
def test_a_label_is_given_back_as_it_was_written(several, lm, tmp_path):
    apart = unicodedata.normalize("NFD", "Gebühr")
    given, texts = [[label] if several else label for label in (apart, "post") * 4], ["a fee", "a letter"] * 4
    model = boustro.Classifier(lm, "mlp-pool", **SMALL).fit(texts, given, seed=1)
    model.save_pretrained(tmp_path / "m")
    opened = boustro.Classifier.from_pretrained(tmp_path / "m")
    assert opened.types == ["Gebühr", "post"] and opened.fitted.labelling.values == {"Gebühr": apart, "post": "post"}
    for each in (model.predict(texts), opened.predict(texts)):
        assert {label for own in each for label in (own if several else [own])} <= {apart, "post"}
    mixed = labelling_of([*given, ["Gebühr"] if several else "Gebühr"])
    assert not mixed.values


def labelling_of(labels):
    """The labelling of a classifier of texts with these labels."""
    rows = [{"text": "a", "labels" if isinstance(label, list) else "label": label} for label in labels]
    return make_labelling("mlp-pool", read_texts(rows, DataOptions()), ClassOptions())


# Several labels


def test_several_labels_train_save_open_and_agree(lm, tmp_path):
    model = boustro.Classifier(lm, "mlp-pool", **SMALL).fit(SETS, SETS, seed=1)
    score = model.evaluate(SETS)
    told = score.to_dict()
    assert told["f1"] > 90 and told["exact_match"] > 80 and told["num_texts"] == len(SETS)
    assert model.record["dev_scores"] == told
    model.save_pretrained(tmp_path / "m")
    opened = boustro.Classifier.from_pretrained(tmp_path / "m")
    found = opened.predict([text for text, _ in SETS])
    assert found == model.predict([text for text, _ in SETS])
    assert sum(set(f.labels) == set(labels) for f, (_, labels) in zip(found, SETS, strict=True)) > 0.8 * len(SETS)
    table = opened.predict_proba([text for text, _ in SETS])
    assert table.shape == (len(SETS), 2) and table[0] == pytest.approx(
        [found[0].probabilities[t] for t in opened.types]
    )
    (answer,) = opened.answer_inputs(["Ada slept."])
    assert set(opened.to_record(answer)) == {"labels", "probabilities"}
    opened.fitted.labelling.threshold = 1.0  # no label is so sure, and none has the score of another
    assert opened.show(answer, "text") == "(no label)\t\tAda slept."
    assert "<small>(no label)</small>" in opened.show(answer, "html")
    with pytest.raises(ValueError, match="--class-weights is for one label per text"):
        boustro.Classifier(lm, "mlp-pool", class_weights="balanced").fit(SETS)


# One label


def test_an_empty_text_is_counted_and_a_long_one_read_in_windows(lm):
    long = ("the harbour " * 2000, "port")
    model = boustro.Classifier(lm, "mlp-pool", **{**SMALL, "epochs": 1}).fit(
        [*TEXTS, ("", "shop"), (" \n", "shop"), long]
    )
    notices = model.record["notices"]
    assert notices["texts without a word"] == 2 and any("window" in what for what in notices), notices
    assert model.predict("").label in model.types


# Words beside the head


def test_the_model_of_words_is_tf_idf_and_logistic_regression():
    texts = [["Red", "car"], ["red", "Boat"], ["blue", "boat"], ["blue", "car", "blue"]]
    model = fit_words(texts, np.array([0, 0, 2, 2]), 3)
    assert terms(["No", "fun"]) == ["no", "fun", "no fun"] and "blue car" in model.vocabulary
    own = replace(model, weight=np.eye(len(model.vocabulary)), bias=np.zeros(len(model.vocabulary)))
    (row,), known = own.scores([["blue", "BLUE", "car", "green"]]), model.vocabulary
    counts = {"blue": 2, "car": 1, "blue car": 1}
    seen = {"blue": 2, "car": 2, "blue car": 1}
    wanted = {t: (1 + math.log(c)) * (math.log(5 / (1 + seen[t])) + 1) for t, c in counts.items()}
    length = math.sqrt(sum(x * x for x in wanted.values()))
    assert {known[i]: row[i] for i in row.nonzero()[0]} == pytest.approx({t: x / length for t, x in wanted.items()})
    scores = model.scores([["red"], ["blue"], []])
    assert scores.argmax(1)[:2].tolist() == [0, 2] and scores[2] == pytest.approx(model.bias)
    several = fit_words(texts, np.array([[1, 0], [1, 1], [0, 1], [0, 0]]), 2).scores(texts)
    assert (several[:, 0] > 0).tolist() == [True, True, False, False]


def test_weights_follow_the_part_that_is_right():
    labelling = make_labelling("mlp-pool", [Sentence((), label=x) for x in "ab"], ClassOptions())
    generator, gold = np.random.default_rng(0), np.arange(4000) % 2
    right = labelling.log_probabilities(3.0 * np.eye(2)[gold] + generator.normal(size=(4000, 2)))
    noise = labelling.log_probabilities(generator.normal(size=(4000, 2)))
    head, words = choose_weights(right, [noise], gold, labelling.loss, 4000)
    assert words < 0.2 * head
    head, none, words = choose_weights(noise, [noise, right], gold, labelling.loss, 4000)
    assert head < 0.2 * words and none == 0
    head, words = choose_weights(right, [-right], gold, labelling.loss, 4000)
    assert words < 0.5 * head


def test_what_few_texts_cannot_tell_apart_is_averaged():
    labelling = make_labelling("mlp-pool", [Sentence((), label=x) for x in "ab"], ClassOptions())
    sure = labelling.log_probabilities(np.array([[9.0, 0.0], [0.0, 9.0]]))
    weights = choose_weights(sure, [sure, sure], np.arange(2), labelling.loss, 2)  # all are right
    ratios = np.array(heads_words.RATIOS)
    head = (1 / (1 + ratios)).mean()
    assert weights / weights.sum() == pytest.approx([head, (1 - head) / 2, (1 - head) / 2])


def test_models_of_words_are_averaged_into_one():
    texts, generator = [["red", "car"], ["red", "boat"], ["blue", "boat"]], np.random.default_rng(0)
    vectors = generator.normal(size=(3, 2, 4)).astype(np.float32)
    models = list(heads_words.fit_each(texts, np.arange(3), 3, vectors, range(3)))
    for weights, width in (([0.2, 0.3, 0.5], 8), ([0.6, 0.4], 4), ([0.0], 0)):
        one = heads_words.average(models[: len(weights)], weights)
        wanted = sum(w * model.scores(texts, vectors) for w, model in zip(weights, models, strict=False))
        np.testing.assert_allclose(one.scores(texts, vectors), wanted, atol=1e-5)
        assert len(one.centre) == width


@pytest.mark.parametrize("data", [TEXTS, SETS])
def test_words_beside_the_head_are_saved_and_opened(lm, data, tmp_path):
    model = boustro.Classifier(lm, "mlp-pool", words=True, **{**SMALL, "epochs": 3}).fit(data, dev=data)
    assert model.fitted.extras["words"].head_weight > 0
    texts = ["Ada sold umbrellas.", "The harbour", "", "unknown"]
    model.save_pretrained(tmp_path / "m")
    assert {"words.json", "words.safetensors"} <= {p.name for p in (tmp_path / "m").iterdir()}
    opened = boustro.Classifier.from_pretrained(tmp_path / "m")
    np.testing.assert_allclose(opened.predict_proba(texts), model.predict_proba(texts), atol=1e-5)
    assert opened.evaluate(data).value == pytest.approx(model.evaluate(data).value)
    again = model.fit(data, seed=2)  # what stood beside the earlier head is forgotten
    assert again.fitted.extras["words"] and again.record["seed"] == 2


def test_by_default_the_number_of_texts_decides_the_head_and_words_stand_beside_it(lm, tmp_path):
    few = boustro.Classifier(lm).fit(TEXTS)
    assert few.plan.head_kind == "lda-pool" and set(few.record["words"]) == {"vectors", "weight"}
    parts = few.fitted.head.tried  # weights are chosen by what the head itself was chosen by
    assert len(parts) > 1 and all(scores.shape == (len(left), 3) for _, left, scores in parts)
    for how, data in (({}, TEXTS * 34), ({}, SETS), ({"calibrate": 2}, TEXTS)):
        assert boustro.Classifier(lm, epochs=1, **how).fit(data).plan.head_kind == "mlp-pool"
    assert not boustro.Classifier(lm, "ridge-pool").fit(TEXTS).config.words
    assert not boustro.Classifier(lm, words=False).fit(TEXTS).config.words
    assert boustro.Classifier(lm, "mlp-pool", epochs=1).fit(TEXTS).plan.head_kind == "mlp-pool"
    weak = boustro.Classifier(lm, epochs=1).fit(TEXTS, weak=TEXTS, weak_weight=0.1)
    assert weak.plan.head_kind == "mlp-pool" and not weak.config.words


@pytest.mark.parametrize(("num_dev", "taught"), [(0, 1), (199, 1), (200, 0)])
def test_words_are_weighed_on_a_development_set_that_is_large_enough(lm, num_dev, taught, monkeypatch):
    new = [(f"{text} {n}", label) for n in range(9) for text, label in TEXTS][:num_dev]
    parts, dev = [], [*([("Ada left.", "unheard of")] * 9), *TEXTS, *new] if num_dev else None
    monkeypatch.setattr("boustro.tasks.classifier.FEW_TEXTS", 1)
    monkeypatch.setattr(
        fitting, "train_on_part", lambda *given: parts.append(given[0].plan.head_options) or train_on_part(*given)
    )
    model = boustro.Classifier(lm, "mlp-pool", words=True, epochs=3).fit(TEXTS, dev)
    assert [(options.epochs, options.hidden) for options in parts] == [(2, 128)] * taught
    assert model.fitted.head.options.epochs == 3 and model.fitted.extras["words"].head_weight > 0


def test_vectors_of_a_table_stand_beside_words_and_are_kept_in_the_folder(lm, tmp_path):
    like = ["harbour", "dock", "umbrellas", "parasols", "tunnel", "gate"]
    table = WordTable({w: n for n, w in enumerate(like)}, np.ones(6, np.float32), np.repeat(np.eye(3), 2, 0))
    _write(tmp_path / "table", table, {})
    copies = [(text[-12:], label) for text, label in TEXTS]  # three different ones, too few for words unasked
    model = boustro.Classifier(lm, words=True, table=str(tmp_path / "table")).fit(copies)
    texts = [["dock"], ["parasols"], ["gate"]]  # words that no training text has
    words, ids = [text.words for text in read_texts(TEXTS)], model.fitted.labelling.ids(read_texts(TEXTS))
    blind, seeing = (fit_words(words, ids, 3, table.describe(words)[:, :count]) for count in (0, 1))
    assert seeing.scores(texts, table.describe(texts)).argmax(1).tolist() == [0, 2, 1]
    assert len({*blind.scores(texts).argmax(1)}) == 1
    weighed = Weighed(seeing, 0.5, 2.0, load_table(str(tmp_path / "table")))
    model.fitted = replace(model.fitted, extras={"words": weighed})
    model.save_pretrained(tmp_path / "m")
    assert {"table.json", "table.safetensors"} <= {p.name for p in (tmp_path / "m").iterdir()}
    shutil.rmtree(tmp_path / "table")
    opened = boustro.Classifier.from_pretrained(tmp_path / "m")
    np.testing.assert_allclose(opened.predict_proba("A dock."), model.predict_proba("A dock."), atol=1e-5)
    assert opened.predict("dock").label == "port"


# More texts and labels later


def test_ridge_is_the_closed_form_over_mean_and_maximum(lm):
    model = boustro.Classifier(lm, "ridge-pool").fit(TEXTS, dev=TEXTS)
    assert model.record["dev_scores"]["accuracy"] > 90
    head, inputs = model.fitted.head, model.fitted.inputs(read_texts(TEXTS))
    batch = inputs.batch(np.arange(len(inputs)))
    mixed = head.mix([torch.from_numpy(np.array(s)) for s in inputs.streams]).detach()
    x = head.pool(batch.to_words(mixed), batch.lengths).numpy()
    ids = model.fitted.labelling.ids(read_texts(TEXTS))
    solved = ridge(LabelledWords(x, ids, 3, np.arange(25)))
    assert float(head.body.strength) == pytest.approx(solved.strength, rel=1e-3)
    wanted = x @ solved.weight.T + solved.bias
    found = (x @ head.body.weight.T.numpy()) + head.body.bias.numpy()
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def test_what_a_ridge_head_cannot_learn_is_said(lm):
    with pytest.raises(ValueError, match="one label per text"):
        boustro.Classifier(lm, "ridge-pool").fit(SETS)
    head = make_head("ridge-pool", TextOptions(), ((2, 4),), ("a", "b"))
    with pytest.raises(ValueError, match="sum to 2, but there are 3 words"):
        head.predict(torch.zeros(3, 4), torch.tensor([2]))


# Explanation


@pytest.mark.parametrize(("block", "read"), [("mean", (True, False, False)), ("first", (True, False, True))])
def test_lda_reads_the_blocks_that_tell_the_label_of_texts_left_out(block, read):
    rng = np.random.default_rng(0)
    lengths, ids = torch.full((60,), 5), torch.arange(60) % 3
    vectors, known = torch.from_numpy(rng.normal(size=(300, 12))).float(), torch.eye(12)[ids] * 4
    if block == "first":
        vectors[::5] += known
        vectors[1::5] -= known  # the mean knows nothing
    else:
        vectors += known.repeat_interleave(5, 0)
    head = make_head("lda-pool", TextOptions(combine="concat", standardise=False), ((1, 12),), ("a", "b", "c"))
    pooled = head.pool(vectors, lengths)
    head.solve(pooled, ids, lengths)
    used = head.body.map.weight.abs().view(3, 3, 12).sum((0, 2)) > 0
    assert used.tolist()[0] == read[0] and used.tolist()[2] == read[2]
    found = np.array(head.predict(vectors, lengths))
    assert (found.argmax(1) == ids.numpy()).mean() > 0.9
    empty = head.predict(torch.cat([vectors[:5], vectors[:0]]), torch.tensor([5, 0]))
    np.testing.assert_allclose(empty[0], found[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="one label per text"):
        head.solve(pooled, torch.zeros(60, 3), lengths)


def test_a_regressor_learns_a_number_per_text(lm, tmp_path):
    scored = [(text, 4.0 if label == "port" else 1.0) for text, label in TEXTS]
    model = boustro.TextRegressor(lm, **SMALL).fit(scored, scored, seed=1)
    assert model.predict("Mira closed the harbour.") > 3 > 2 > model.predict("The tunnel of Mira is dark.")
    score = model.evaluate(scored)
    assert score.pearson > 95 and model.record["dev_scores"]["spearman"] == score.spearman
    model.save_pretrained(tmp_path / "r")
    again = boustro.TextRegressor.from_pretrained(tmp_path / "r")
    assert again.predict(["Ada slept.", ""]) == model.predict(["Ada slept.", ""])
    with pytest.raises(ValueError, match="classifier"):
        boustro.Classifier.from_pretrained(tmp_path / "r")


def test_scores_are_read_from_tables_and_refused_with_their_place(lm, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text,score\nAda left.,1.5\nIt rained.,-2\n")
    assert [s.score for s in boustro.TextRegressor.read(table)] == [1.5, -2.0]
    for value in ("many", "nan", "inf"):
        table.write_text(f"text,score\nAda left.,1.5\nIt rained.,{value}\n")
        with pytest.raises(ValueError, match=r"t\.csv:3: the score under 'score' is .*expected a number"):
            boustro.TextRegressor.read(table)
    with pytest.raises(ValueError, match="expected a number"):
        boustro.TextRegressor.read([("Ada left.", True)])
    with pytest.raises(ValueError, match="all scores are equal"):
        boustro.TextRegressor(lm).fit([("Ada left.", 1), ("It rained.", 1)])
