"""Adapters that know what things are: what is found in texts, what trains, and what is read again as an encoder."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import boustro
from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.lab.adapt import terms
from boustro.lab.adapt.options import AdaptConfig, ThingAdaptOptions
from boustro.lab.adapt.terms import adapt_to_things, find_lessons, near_loss, plural_of, read_things
from boustro.models.lora import find_adaptation, linear_layers
from boustro.store import Artefact
from boustro.types import Sentence
from pretraining import replacing

THINGS = "aspirin\tdrug\nsalve\tdrug\nfever\tsymptom\nsore throat\tsymptom\nLisse\ttown\nPort Lisse\tharbour\n"
PLACES = ("Lisse", "Vellmar", "Port Lisse")
REMEDIES, ILLS = ("aspirins", "a salve"), ("fever", "a sore throat")


@pytest.fixture
def given(tmp_path):
    """A function that writes a text and a list of things, and returns the options."""

    def write(text: str, things: str = THINGS, name="things.tsv", **more) -> ThingAdaptOptions:
        (tmp_path / "text.txt").write_text(text, "utf-8")
        (tmp_path / name).write_text(things, "utf-8")
        return ThingAdaptOptions(corpus=(str(tmp_path / "text.txt"),), things=tmp_path / name, **more)

    return write


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder with things and texts that mention them."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "things.tsv").write_text(THINGS, "utf-8")
    lines = [f"People in {p} take {r} for {i} ." for p in PLACES for r in REMEDIES for i in ILLS]
    (folder / "text.txt").write_text("\n".join(lines * 2), "utf-8")
    return folder


def command(lm, texts, out, *options):
    given = ["--lm", lm, "--things", texts / "things.tsv", "--out", out, "--dropout", 0]
    return replacing(["lab", "adapt", texts / "text.txt", *given], *options)


@pytest.fixture(scope="module")
def adapted(lm, texts, tmp_path_factory):
    """A folder adapted to what the things are."""
    out = tmp_path_factory.mktemp("adapted") / "lm"
    assert main(command(lm, texts, out, "--lr", 0.01)) == 0
    return out


def training(folder: Path) -> dict:
    return json.loads((folder / "training.json").read_text())


# What is found


@pytest.mark.parametrize(
    ("name", "plural"),
    [
        ("drug", "drugs"),
        ("remedy", "remedies"),
        ("day", "days"),
        ("box", "boxes"),
        ("Lisse", None),
        ("vitamin b12", None),
    ],
)
def test_a_thing_in_small_letters_has_a_plural(name, plural):
    assert plural_of(name) == plural


def test_mentions_are_the_longest_whole_names_and_only_frequent_words_are_outside(given, monkeypatch):
    monkeypatch.setattr(terms, "FREQUENT", 2)
    text = (
        "Two aspirins help in Port Lisse.\n"
        "In the town of Lisse the fever is bad, Ada.\n"
        "The Bank Lisse has the sore throat of the year.\n"
        "Salve is the best.\n"
        "Nothing is here."
    )
    options = given(text)
    lessons = find_lessons(options, read_things(options))
    words = [sentence.words for sentence in lessons.sentences]
    found = [
        [(" ".join(words[n][name.start : name.end]), name.label) for name in own]
        for n, own in enumerate(lessons.mentions)
    ]
    assert found == [
        [("aspirins", "drug"), ("Port Lisse", "harbour")],
        [("Lisse", "town"), ("fever", "symptom")],
        [("sore throat", "symptom")],  # `Bank Lisse` is another name
    ]
    letters = ["".join("?OI"[1 + max(-1, value)] for value in inside) for inside in lessons.inside]
    assert letters == ["?I??IIO", "?O??IOIO?O?O", "????OII?O?O"]  # "the" and "is" are frequent, marks are no things


def test_a_name_that_only_begins_a_sentence_is_none(given):
    options = given("Reading is a joy.\nThey like reading.\nHe lives in Reading.\n", "Reading\ttown\n")
    assert [s.words[0] for s in find_lessons(options, read_things(options)).sentences] == ["He"]
    options = given("Lisse is a town.\n")
    assert len(find_lessons(options, read_things(options)).sentences) == 1


def test_a_thing_that_was_met_often_is_no_reason_to_take_a_sentence(given, monkeypatch):
    monkeypatch.setattr(terms, "OFTEN", 3)
    text = "The fever is bad.\n" * 8 + "The fever is in Lisse.\n"
    options = given(text)
    lessons = find_lessons(options, read_things(options))
    assert [len(found) for found in lessons.mentions] == [1, 1, 1, 2]
    options = given(text, sentences=2)
    assert len(find_lessons(options, read_things(options)).sentences) == 2


@pytest.mark.parametrize(
    ("name", "things"),
    [
        ("things.csv", "name,type\nfever,symptom\n"),
        ("things.jsonl", '{"text": "fever", "label": "symptom"}\n'),
        ("things.tsv", "fever\tsymptom\nfever\tillness\n"),
    ],
)
def test_things_are_read_in_every_form(given, name, things):
    options = given("The fever is bad.", things, name)
    ((name,),) = find_lessons(options, read_things(options)).mentions
    assert name.label == "symptom"


def test_the_contrast_is_over_what_is_in_the_batch_without_what_is_nearly_the_same():
    wanted = torch.nn.functional.normalize(torch.tensor([[1.0, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), dim=1)
    vectors = torch.tensor([[2.0, 0, 0], [0, 3, 0], [1, 0.1, 0]])
    what = torch.tensor([0, 2, 1])
    scores = torch.nn.functional.normalize(vectors, dim=1) @ wanted.T / terms.HEAT
    each = [
        scores[0, 0] - scores[0, [0, 2]].logsumexp(0),  # 1 is nearly 0, and 3 is of no mention
        scores[1, 2] - scores[1, [0, 1, 2]].logsumexp(0),
        scores[2, 1] - scores[2, [1, 2]].logsumexp(0),
    ]
    torch.testing.assert_close(near_loss(vectors, what, wanted), -torch.stack(each).mean())


# Training


@pytest.mark.bf16
def test_the_states_of_mentions_come_near_to_what_they_are(adapted, lm):
    record = training(adapted)
    losses = [row["loss"] for row in record["history"] if "loss" in row]
    assert losses[-1] < 0.3 * losses[0] and record["objective"] == "things"
    assert (record["lessons"], record["mentions"], record["kinds_of_things"]) == (24, 64, 4)
    facts = find_adaptation(Artefact(adapted))
    assert (facts.base, facts.blocks, facts.direction) == (lm, "none", "forward")
    assert {name.split(".")[3] for name in load_file(adapted / "adapter_model.safetensors")} == {"1"}  # the upper half
    assert [path.name for path in adapted.parent.iterdir()] == ["lm"]  # no checkpoint stays

    def spread(spec):
        """How much nearer two drugs are to each other than to the symptoms."""
        encoder = load_encoder(spec, layers="last", pooling="exit", dtype="float32")
        words = [f"People in Lisse take {thing} .".split() for thing in ("aspirins", "salve", "fever", "fevers")]
        states = np.stack([encoder.encode_all([sentence]).streams[0][4, 0] for sentence in words])
        unit = states / np.linalg.norm(states, axis=1, keepdims=True)
        cosines = unit @ unit.T
        return cosines[0, 1] - cosines[:2, 2:].mean()

    assert spread(str(adapted)) > spread(lm) + 0.02


@pytest.mark.bf16
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(lm, texts, tmp_path, stopped_before):
    options = ["--dropout", 0.3]
    assert main(command(lm, texts, tmp_path / "whole", *options)) == 0
    with stopped_before(2):
        assert main(command(lm, texts, tmp_path / "parts", *options, "--save-minutes", 0)) == 101
    assert main(command(lm, texts, tmp_path / "parts", *options, "--rank", 8, "--resume")) == 1  # of another run
    assert main(command(lm, texts, tmp_path / "parts", *options, "--resume")) == 0
    one, other = ((tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == other and sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_python_and_the_command_give_the_same_and_a_tagger_reads_it(adapted, lm, texts, tmp_path):
    group = ThingAdaptOptions(corpus=(str(texts / "text.txt"),), things=texts / "things.tsv")
    record = adapt_to_things(AdaptConfig(lm=lm, out=tmp_path / "lm", terms=group, dropout=0.0, lr=0.01))
    one, other = (folder / "adapter_model.safetensors" for folder in (adapted, tmp_path / "lm"))
    assert one.read_bytes() == other.read_bytes() and record["lessons"] == 24
    data = [Sentence(("Ada", "left", "Lisse"), ("B-PER", "O", "B-LOC"))]
    for spec in (str(adapted), f"{lm}+{adapted}"):
        tagger = boustro.Tagger(spec, "linear", epochs=1).fit(data, data)
        tagger.save_pretrained(folder := tmp_path / f"{len(spec)}")
        assert boustro.Tagger.from_pretrained(folder).tag([["Ada"]]) == tagger.tag([["Ada"]])


@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen3", "gpt_neox"])
def test_the_upper_blocks_alone_are_changed(tiny_lm, kind):
    from transformers import AutoModel

    names = {upper: set(linear_layers(AutoModel.from_pretrained(tiny_lm(kind)), upper)) for upper in (1, 2)}
    assert names[1] < names[2] and all(".1." in name for name in names[1])
    assert {name.replace(".0.", ".1.") for name in names[2]} == names[1]


@pytest.mark.parametrize("blocks", ["2", "all"])
def test_an_lm_may_learn_it_without_its_mask(lm, texts, tmp_path, blocks, capsys):
    assert main(command(lm, texts, tmp_path / "lm", "--blocks", blocks)) == 0
    assert f"next: boustro fit --encoder unmasked:{tmp_path / 'lm'} --train DATA" in capsys.readouterr().err
    encoder = load_encoder(f"unmasked:{tmp_path / 'lm'}")
    assert encoder.blocks == ((2, 2) if blocks == "2" else (1, 2))


def test_a_masked_lm_learns_it_too(bert, texts, tmp_path, capsys):
    out = tmp_path / "lm"
    assert main(command(f"masked:{bert}", texts, out)) == 0
    assert f"next: boustro fit --encoder masked:{out} --train DATA" in capsys.readouterr().err
    facts = find_adaptation(Artefact(out))
    assert (facts.base, facts.direction, facts.blocks) == (str(bert), "both", "none")
    plain, adapted = (load_encoder(spec, dtype="float32") for spec in (f"masked:{bert}", f"masked:{out}"))
    states = [encoder.encode_all([["Ada", "left"]]).streams[0] for encoder in (plain, adapted)]
    np.testing.assert_array_equal(states[0][:, :2], states[1][:, :2])  # embeddings and the lower half
    assert np.abs(states[0][:, 2] - states[1][:, 2]).max() > 1e-4
    assert plain.identity() != adapted.identity()
    for spec in (str(out), f"unmasked:{out}"):
        with pytest.raises(ValueError, match=r"was adapted from a masked LM; name it masked:"):
            load_encoder(spec)


def test_an_adapter_of_a_causal_lm_is_no_masked_lm(adapted):
    with pytest.raises(ValueError, match="did not train for a masked LM"):
        load_encoder(f"masked:{adapted}")


# What does not fit


@pytest.mark.parametrize(
    ("things", "changed", "message"),
    [
        ("fever\tsymptom\nsalve\n", [], "things.tsv:2: expected a name and a label with a tab between them"),
        ("\n", [], "things.tsv: no names; expected a name"),
        ("gout\tillness\n", [], "text.txt: the text mentions none of the things in "),
        (THINGS, ["--lm", "starter"], "only a single causal LM can be adapted"),
        (THINGS, ["--lm", "masked:{bert}", "--blocks", "2"], "has no causal mask; leave out --blocks"),
        (THINGS, ["--epochs", 2], "these options cannot be combined: --shards takes"),
        (THINGS, ["--things", "{missing}"], "no such file"),
    ],
)
def test_what_does_not_fit_is_said(lm, bert, tmp_path, capsys, things, changed, message):
    (tmp_path / "things.tsv").write_text(things, "utf-8")
    (tmp_path / "text.txt").write_text("The fever is bad.\n", "utf-8")
    changed = [str(option).format(bert=bert, missing=tmp_path / "missing.tsv") for option in changed]
    assert main(command(lm, tmp_path, tmp_path / "out", *changed)) in (1, 2)
    assert message in " ".join(capsys.readouterr().err.split()) and not (tmp_path / "out").exists()


def test_things_need_a_text_and_a_text_needs_things(lm, texts, tmp_path, capsys):
    words = ["lab", "adapt", "--lm", lm, "--out", str(tmp_path / "out")]
    assert main([*words, "--things", str(texts / "things.tsv")]) == 1
    assert "no text given; name at least one file" in capsys.readouterr().err
    assert main([*words, "--sentences", "5"]) in (1, 2)
    assert main([*words, str(texts / "text.txt")]) == 1
    assert "--things FILE (what things in raw text are)" in capsys.readouterr().err
