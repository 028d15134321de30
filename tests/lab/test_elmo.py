"""An ELMo: what its states know, that no word is unknown, how it is trained and read as an encoder."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import boustro
from boustro.apps.cli.main import main
from boustro.encoders.spec import Spec, load_encoder
from boustro.lab.adapt.elmo import make_tensors
from boustro.lab.adapt.options import MAX_LETTERS
from boustro.lab.adapt.training import make_batches
from boustro.models.elmo import PAPER_FILTERS, Elmo, ElmoLM, ElmoShape, load_elmo
from boustro.store import Artefact
from boustro.types import Sentence
from pretraining import WEEK, weeks

SMALL = ElmoShape(width=8, cells=16, filters=((1, 4), (3, 8)), max_letters=12)
WORDS = ["Ada", "sold", "umbrellas", "in", "Vellmar", "."]


def random_elmo(shape=SMALL):
    torch.manual_seed(0)
    elmo = Elmo(shape)
    for parameter in elmo.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return elmo.eval()


def states_of(elmo, *texts):
    batch = make_tensors(texts, {}, elmo.shape.max_letters)
    return elmo(batch["spelt"], batch["texts"], batch["lengths"])


def test_each_direction_knows_its_own_side_only():
    elmo = random_elmo()
    for changed in range(len(WORDS)):
        other = [*WORDS[:changed], "cherries", *WORDS[changed + 1 :]]
        states = states_of(elmo, WORDS, other)
        follows = [((x[1:, 0] - x[1:, 1]).abs().amax((0, -1)) > 1e-5).tolist() for x in states]
        assert follows[0] == [t > changed for t in range(len(WORDS) + 1)]
        assert follows[1] == [t <= changed for t in range(len(WORDS) + 1)]


def test_padding_changes_nothing():
    elmo = random_elmo()
    together, alone = states_of(elmo, WORDS, WORDS[:2]), states_of(elmo, WORDS[:2])
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one[:, 1, :3], other[:, 0], atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("small_chunks")
def test_the_loss_asks_for_the_next_word_forward_and_the_one_before_backward():
    elmo = random_elmo()
    lm = ElmoLM(elmo, 4)
    numbers = {"Ada": 1, "sold": 2, "in": 3}
    tensors = make_tensors([WORDS, WORDS[:2]], numbers, 12)
    assert tensors["targets"].tolist() == [[1, 2, 0, 3, 0, 0], [1, 2, -100, -100, -100, -100]]
    states = states_of(elmo, WORDS, WORDS[:2])
    losses = []
    for row, length in ((0, 6), (1, 2)):
        for t in range(length):
            for state in (states.forward[-1, row, t], states.backward[-1, row, t + 1]):
                losses.append(torch.nn.functional.cross_entropy(lm.softmax(state), tensors["targets"][row, t]))
    torch.testing.assert_close(lm(**tensors), torch.stack(losses).mean(), atol=1e-5, rtol=1e-4)


@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 40), st.integers(0, 3))
def test_batches_hold_every_sentence_once_and_no_more_than_they_may(lengths, batch_words, seed):
    batches = make_batches(lengths, batch_words, seed)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= batch_words for b in batches)
    assert batches == make_batches(lengths, batch_words, seed)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A very small ELMo that has read weeks, over and over, from different days on."""
    folder = tmp_path_factory.mktemp("elmo")
    text = "\n\n".join(weeks(range(40), 9))
    (folder / "weeks.txt").write_text(text)
    (folder / "dev.txt").write_text(" ".join(WEEK * 2))
    options = ["--width", "16", "--cells", "32", "--batch-words", "64", "--words", "6000", "--lr", "0.01"]
    options += ["--letter-window", "2", "--evaluations", "2"]
    given = [
        "lab",
        "elmo",
        str(folder / "weeks.txt"),
        "--out",
        str(folder / "lm"),
        "--validation",
        str(folder / "dev.txt"),
    ]
    assert main([*given, *options]) == 0
    return folder / "lm"


@pytest.mark.bf16
def test_training_lowers_the_loss(trained):
    training = json.loads((trained / "training.json").read_text())
    losses = [row["loss"] for row in training["history"] if "loss" in row]
    assert training["validation_loss"] < 0.6 * losses[0] and training["share_of_unknown_targets"] == 0


@pytest.mark.bf16
def test_the_encoder_gives_each_words_states_beside_each_other(trained):
    elmo = load_elmo(Artefact(trained))
    texts = [WORDS, WORDS[:1], WEEK]
    encoder = load_encoder(f"elmo:{trained}", dtype="float32", pooling="exit+before")
    for words, (vectors,) in zip(texts, encoder.encode(texts), strict=True):
        states = states_of(elmo, words)
        assert vectors.shape == (len(words), 3, 64)
        for t in range(len(words)):
            parts = [states.forward[:, 0, t + 1], states.backward[:, 0, t]]
            parts += [states.forward[:, 0, t], states.backward[:, 0, t + 1]]
            np.testing.assert_allclose(vectors[t], torch.cat(parts, -1), atol=1e-4)


def test_no_word_is_unknown_and_a_long_one_is_counted(trained):
    encoder = load_encoder(f"elmo:{trained}", dtype="float32", layers=[0])
    one, other = (v[0] for (v,) in encoder.encode([["Vellmar"], ["Vellmor"]]))
    assert np.abs(one - other).max() > 1e-3
    list(encoder.encode([["x" * 80], ["東京" * 30]]))
    assert sum(encoder.counts.values()) == 2


def test_documents_caches_specs_and_options(trained, tmp_path):
    spec = f"elmo:{trained}"
    named = [Sentence(tuple(WORDS[:3]), document="a"), Sentence(tuple(WORDS[3:]), document="a"), Sentence(("in",))]
    around = load_encoder(spec, context="document", dtype="float32").encode_all(named).streams[0]
    whole = load_encoder(spec, dtype="float32").encode_all([WORDS, ["in"]]).streams[0]
    np.testing.assert_allclose(around, whole, atol=1e-5)
    for _ in range(2):
        cached = load_encoder(spec, dtype="float32", cache=tmp_path).encode_all([WORDS, ["in"]]).streams[0]
        np.testing.assert_array_equal(cached, whole)
    assert load_encoder(f"{spec}+starter-forward", layers="last").encode_all([WORDS]).streams[1].shape == (6, 1, 512)
    assert Spec.parse(spec).exact(load_encoder(spec).identity()) == spec
    for options, message in (
        ({"start_piece": "eos"}, "start_piece is not read by elmo"),
        ({"layers": "4"}, "0 .embeddings. to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            load_encoder(spec, **options)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        load_encoder("elmo:./none")


@pytest.mark.bf16
def test_a_tagger_over_an_elmo_is_saved_and_opened(trained, tmp_path):
    data = [(WORDS, "B-PER O O O B-LOC O".split())]
    tagger = boustro.Tagger(f"elmo:{trained}", "linear", epochs=1).fit(data, data)
    tagger.save_pretrained(tmp_path / "ner")
    assert boustro.Tagger.from_pretrained(tmp_path / "ner").tag([WORDS]) == tagger.tag([WORDS])


def test_the_widest_convolution_that_can_be_asked_for_is_the_papers():
    assert len(PAPER_FILTERS) == MAX_LETTERS
