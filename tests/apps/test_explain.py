"""What decided an answer: each LM of a pair alone, and each word left out."""

import json
from dataclasses import replace

import numpy as np
import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.explain import LONGEST_EXPLAINED, by_stream, effects, explain, word_effects
from boustro.heads.inputs import HeadInputs
from boustro.heads.training import predict_inputs
from boustro.tasks.pairs import PAIRS
from boustro.types import Sentence
from labelled import EIGHT, TEXTS
from served import INPUTS, RECORDS, TAGGED

SMALL = {"hidden": 8, "epochs": 2, "cache": False}


@pytest.fixture(scope="module")
def pair(tiny_lm):
    lm = tiny_lm("llama")
    return f"{lm}+backward:{lm}"


@pytest.fixture(scope="module")
def tagger(pair):
    return boustro.Tagger(pair, **SMALL).fit(TAGGED, seed=1)


def test_an_lm_alone_is_the_head_over_the_mean_of_the_other(tagger):
    answers = tagger.answer_inputs(["Ada Brandt left Vellmar.", "Okonkwo sold boats."])
    found = by_stream(tagger, answers)
    examples = [part.example for answer in answers for part, _ in answer.parts]
    whole = tagger.fitted.inputs(examples)
    for kept, (name, own) in enumerate(found):
        assert name == tagger.encoder().streams[kept].name and [a.input for a in own] == [a.input for a in answers]
        means = [
            np.broadcast_to(mix.mean.numpy(), x.shape)
            for mix, x in zip(tagger.fitted.head.mixes, whole.streams, strict=True)
        ]
        streams = [x if i == kept else means[i] for i, x in enumerate(whole.streams)]
        wanted = tagger.fitted.answers(predict_inputs(tagger.fitted.head, HeadInputs(streams, whole.lengths)), examples)
        for got, expected in zip((answer for a in own for _, answer in a.parts), wanted, strict=True):
            assert got.tags == expected.tags
            np.testing.assert_allclose(got.scores, expected.scores, atol=2e-3)
    assert found[0][1] != found[1][1]


def test_an_lm_alone_has_its_pooled_mentions_with_it(pair):
    tagged = [{**record, "document": "d"} for record in TAGGED]
    tagger = boustro.Tagger(pair, "mlp", pool_mentions=True, epochs=1, cache=False).fit(tagged, seed=1)
    assert len(tagger.fitted.head.widths) == 4
    names = [name for name, _ in by_stream(tagger, tagger.answer_inputs(["Ada left Vellmar. Vellmar won."]))]
    assert len(names) == 2 and not any("pooled" in name for name in names)


def test_nothing_is_said_where_there_is_one_lm_or_no_mean(tiny_lm, pair):
    for model in (boustro.Tagger(str(tiny_lm("llama")), **SMALL), boustro.Tagger(pair, standardise=False, **SMALL)):
        model.fit(TAGGED, seed=1)
        assert explain(model, model.answer_inputs(["Ada left."])) == [{}]


@pytest.mark.parametrize("name", ["classify", "regress", "pair", "similarity"])
def test_every_word_of_a_text_has_its_effect(name, tiny_lm):
    from boustro.tasks import task_class

    model = task_class(name)(str(tiny_lm("llama")), **SMALL).fit(RECORDS[name], seed=1)
    (answer,) = model.answer_inputs([INPUTS[name]])
    (why,) = explain(model, [answer])
    ((part, _),) = answer.parts
    words = [word for one in part.example.parts for word in one.words]
    assert [word["text"] for word in why["words"]] == words
    if name in ("pair", "similarity"):
        sides = [1] * len(part.example.first) + [2] * len(part.example.second)
        assert [word["sentence"] for word in why["words"]] == sides
    else:
        assert all(INPUTS[name][word["start"] : word["end"]] == word["text"] for word in why["words"])
    if name == "regress":  # the first word left out
        rest = model.predict(INPUTS[name][why["words"][1]["start"] :])
        assert why["words"][0]["effect"] == pytest.approx(model.predict(INPUTS[name]) - rest, abs=2e-3)
    assert any(word["effect"] for word in why["words"])


def test_a_long_text_is_not_read_once_for_each_of_its_words(tiny_lm):
    model = boustro.Classifier(str(tiny_lm("llama")), **SMALL).fit(RECORDS["classify"], seed=1)
    with pytest.raises(ValueError, match=f"has {LONGEST_EXPLAINED + 1} words; .* takes {LONGEST_EXPLAINED} at most"):
        explain(model, model.answer_inputs(["long " * (LONGEST_EXPLAINED + 1)]))


EMPTY = {"tag": ["", " ", "\n"], "classify": ["", " "], "regress": [""], "pair": [("", ""), ("", "a")]}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_text_is_explained_too(name, tmp_path, capsys):
    """With the encoders of the package, one of which remembers words; by the command, alone and between others."""
    from boustro.tasks import task_class

    data = TAGGED if name == "tag" else RECORDS[name]
    encoder = "starter-memory" if name in ("tag", "pair") else "starter"  # the memory's words are of another pooling
    model = task_class(name)(encoder, **SMALL).fit(data, seed=1)
    alone = [explain(model, model.answer_inputs([given]))[0] for given in EMPTY[name]]
    beside = explain(model, model.answer_inputs([*EMPTY[name], INPUTS[name]]))
    assert len(beside) == len(alone) + 1 and explain(model, []) == []
    for why in alone:
        assert len(why["streams"]) == 2 and [word["text"] for word in why.get("words", [])] in ([], ["a"])
    if name == "pair":
        return
    model.save_pretrained(tmp_path / "m")
    for content, count in (("\n", 1), ("\nAda left.\n\n", 3)):
        (tmp_path / "texts").write_text(content)
        assert main(["predict", str(tmp_path / "m"), str(tmp_path / "texts"), "--explain"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(rows) == count and all("explained" in row for row in rows)


def places(found):
    return [(entity["label"], entity["start"], entity["end"]) for entity in found["entities"]]


def test_predict_says_what_decided(tagger, tmp_path, capsys):
    tagger.save_pretrained(tmp_path / "ner")
    (tmp_path / "texts").write_text("Ada Brandt left Vellmar.\nNobody reads.\n")
    command = ["predict", str(tmp_path / "ner"), str(tmp_path / "texts"), "--explain"]
    assert main(command) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = explain(tagger, tagger.answer_inputs(["Ada Brandt left Vellmar.", "Nobody reads."]))
    for row, why in zip(rows, expected, strict=True):
        for own, wanted in zip(row["explained"]["streams"], why["streams"], strict=True):
            assert own["stream"] == wanted["stream"]
            assert places(own) == places(wanted)
    assert main([*command, "--format", "text"]) == 2
    assert "--explain" in capsys.readouterr().err
    for ending in ("csv", "xlsx", "txt", "html"):  # no JSON lines under these names
        assert main([*command, "--out", str(tmp_path / f"a.{ending}")]) == 2
        assert "no place for what --explain adds; end it in .jsonl" in capsys.readouterr().err


LEARNED = {"epochs": 15, "lr": 1e-2, "dropout": 0.0, "hidden": 16}


@pytest.fixture(scope="module")
def lm(tiny_lm):
    return str(tiny_lm("llama", sentinel=True))


def test_the_words_of_a_pair_are_left_out_of_their_own_text(lm):
    pairs = [(f"{n} sold it.", f"{n} bought it.", "no") for n in EIGHT]
    pairs += [(f"{n} left.", f"{n} left.", "yes") for n in EIGHT]
    model = boustro.PairClassifier(lm, **LEARNED).fit(pairs)
    record = {"sentence1": "Ada sold it.", "sentence2": "Ada left now.", "start1": 4, "end1": 8, "start2": 4, "end2": 8}
    pair = replace(PAIRS["pair"].read([record | {"label": "no"}])[0], label=None)
    assert pair.words == ("Ada", "sold", "it", ".", "|", "Ada", "left", "now", ".") and pair.marks == ({1}, {1})
    (found,) = effects(model, [pair], "no")
    changes = {"sentence1": "sold it.", "start1": 0, "end1": 4}, {"sentence2": "Ada left."}
    whole = model.answer([pair])[0].probabilities["no"]
    for place, change in zip((0, 7), changes, strict=True):
        (shorter,) = PAIRS["pair"].read([record | change | {"label": "no"}])
        assert found[place] == pytest.approx(whole - model.answer([shorter])[0].probabilities["no"], abs=1e-5)
    assert len(found) == 9 and found[4] == 0


def test_a_report_says_which_words_moved_a_confident_mistake(lm, tmp_path):
    for name, records in (("train", TEXTS), ("dev", [("Ada closed the harbour.", "shop"), *TEXTS[:6]])):
        lines = [json.dumps({"text": text, "label": label}) for text, label in records]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    words = ["--train", str(tmp_path / "train.jsonl"), "--dev", str(tmp_path / "dev.jsonl")]
    words += ["--out", str(tmp_path / "out")]
    small = "--seeds 1 --heads mlp-pool --epochs 15 --lr 0.01 --hidden 16 --dropout 0".split()
    assert main(["compare", "--task", "classify", "--encoders", lm, *words, *small]) == 0
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert results["signature"]["metric"] == "accuracy" and results["task"]["units"] == "texts"
    mistake = results["mistakes"][0]
    assert mistake["answers"][next(iter(mistake["answers"]))]["said"] == "port"
    moved = dict(mistake["effects"])
    assert set(moved) <= {"Ada", "closed", "the", "harbour", "."} and max(map(abs, moved.values())) > 0.01
    word, effect = mistake["effects"][0]
    assert f"{word} {effect:+.2f}" in (tmp_path / "out/report.md").read_text("utf-8")


def test_the_effect_of_a_word_is_the_probability_that_goes_without_it(lm):
    model = boustro.Classifier(lm, "mlp-pool", **LEARNED).fit(TEXTS)
    text = "Ada closed the harbour."
    effects = word_effects(model, text)
    words = ("Ada", "closed", "the", "harbour", ".")
    assert [(e.word, text[e.start : e.end]) for e in effects] == [(w, w) for w in words]
    label, whole = model.predict(text).label, model.predict(text).score
    shorter = Sentence(("Ada", "closed", "the", "."), spaces=(True, True, True, False))
    assert effects[3].effect == pytest.approx(whole - model.answer([shorter])[0].probabilities[label], abs=1e-5)
    assert word_effects(model, "") == [] and word_effects(model, "Ada", label="rail")[0].word == "Ada"
    with pytest.raises(ValueError, match=r"unknown label .rain.*rail"):
        word_effects(model, text, label="rain")
