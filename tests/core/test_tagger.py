"""Tagger: train, save, load, agree; texts in, character offsets out; what it must refuse."""

import json
import pickle
import shutil

import numpy as np
import pandas
import pytest
import torch

import boustro
from boustro.heads.base import MIXES, LayerMix
from boustro.heads.bodies import Dropout
from boustro.heads.inputs import HeadInputs
from boustro.heads.options import SequenceOptions
from boustro.heads.registry import make_head
from boustro.heads.training import Dev, train_head
from boustro.tasks.config import TaggerConfig
from boustro.tasks.fitting.training import COPIES
from boustro.text.words import RULE
from boustro.types import Sentence
from damage import vouch
from labelled import longer, options_of

# The type hangs on the word after the name: what only a backward LM can see.
NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "Calloway"]
DATA = [
    (words.split(), tags.split())
    for name in NAMES
    for words, tags in (
        (f"{name} said boats cost 3 million .", "B-PER O O O O O O"),
        (f"{name} closes on Mondays .", "B-LOC O O O O"),
        (f"In {name} it rained .", "O B-LOC O O O"),
        (f"Professor {name} Calloway sold umbrellas .", "O B-PER I-PER O O O"),
        ("Nobody reads the bulletin .", "O O O O O"),
    )
]


@pytest.fixture(scope="module")
def tagger(tiny_pair):
    return boustro.Tagger(tiny_pair, "mlp", epochs=60, lr=1e-2, dropout=0.0, hidden=64).fit(DATA, DATA, seed=1)


@pytest.mark.bf16
def test_a_pair_learns_what_stands_on_either_side(tagger):
    assert tagger.evaluate(DATA).f1 > 95
    assert tagger.record["dev_curve"][tagger.record["best_epoch"] - 1] == max(tagger.record["dev_curve"])


@pytest.mark.bf16
def test_saved_and_opened_taggers_agree(tagger, tmp_path):
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner")
    text = "Ada Brandt said Vellmar closes ."
    assert opened.predict(text) == tagger.predict(text)
    assert opened.evaluate(DATA) == tagger.evaluate(DATA)
    assert sum(f.stat().st_size for f in (tmp_path / "ner").iterdir()) < 2**20


def test_a_folder_keeps_the_rule_of_words_that_it_was_trained_by(tagger_folder, tmp_path):
    text, old = "Ada Brandt,Vellmar said boats cost.", tmp_path / "old"
    shutil.copytree(tagger_folder, old)
    config = json.loads((old / "config.json").read_text())
    assert config.pop("words") == RULE
    (old / "config.json").write_text(json.dumps(config))
    vouch(old)
    opened = boustro.Tagger.from_pretrained(old)
    copied = pickle.loads(pickle.dumps(opened))
    opened.save(tmp_path / "again")
    for model in (opened, copied, boustro.Tagger.from_pretrained(tmp_path / "again")):
        (part,) = model.inputs.split(text, "text")
        assert part.example.words == ("Ada", "Brandt,Vellmar", "said", "boats", "cost", ".")
        assert {e.end for e in model.predict(text)} & {10, 11} == set()
        assert model.read([(text, {"entities": [[0, 3, "PER"]]})])[0].words == part.example.words
    assert boustro.Tagger.from_pretrained(tagger_folder).plan.words == RULE


def test_entities_carry_exact_character_offsets(tagger):
    text = "  Nobody reads the bulletin.\nIn Vellmar it rained. Professor Ada Calloway sold umbrellas."
    entities = tagger.predict(text)
    assert [(e.label, e.text) for e in entities] == [("LOC", "Vellmar"), ("PER", "Ada Calloway")]
    for e in entities:
        assert text[e.start : e.end] == e.text and 0 < e.score <= 1
    assert tagger.predict([text, ""]) == [entities, []]


TEXTS = ["In Vellmar it rained.", "Nobody reads the bulletin."]


@pytest.mark.parametrize(
    "make",
    [tuple, iter, lambda texts: (text for text in texts), np.array, pandas.Series, dict.fromkeys],
    ids=["tuple", "iterator", "generator", "array", "column", "dict"],
)
def test_texts_may_come_as_any_iterable(tagger, make):
    given = make(TEXTS)
    if isinstance(given, dict):
        with pytest.raises(ValueError, match="expected a text or several, got dict; give its values"):
            tagger.predict(given)
        given = given.keys()
    assert tagger.predict(given) == tagger.predict(TEXTS)
    words = make([tuple(text.split()) for text in TEXTS]) if make in (tuple, iter) else iter([t.split() for t in TEXTS])
    assert tagger.tag(words) == tagger.tag([text.split() for text in TEXTS])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", "b", float("nan")], "text 3 is nan, which is not a string .a missing value"),
        (["a", None], "text 2 is None, which is not a string .a missing value"),
        (["a", pandas.NA], "text 2 is <NA>, which is not a string .a missing value"),
        (["a", b"b"], "text 2 is b'b', which is not a string; decode it first"),
        (b"a", "expected a text or several, got bytes; decode them first"),
        (5, "expected a text or several, got int"),
        (None, "expected a text or several, got NoneType"),
        (np.array("a"), "expected a text or several, got ndarray"),
        (pandas.DataFrame({"text": ["a"]}), "expected a text or several, got DataFrame; give one of its columns"),
        ([["a", "b"]], r"text 1 is \['a', 'b'\], which is not a string"),
    ],
)
def test_what_is_no_text_is_named_with_its_place(tagger, given, message):
    with pytest.raises(ValueError, match=message):
        tagger.predict(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("Ada left", "expected sentences as lists of words, got str"),
        (["Ada", "left"], "sentence 1 is 'Ada', which is not split into words; Tagger.predict takes running text"),
        ([["a"], ["b", None]], "sentence 2, word 2 is None, which is not a string"),
        ([Sentence(("a", float("nan")))], "sentence 1, word 2 is nan, which is not a string"),
        ([["a"], 5], "expected sentence 2 as a list of words, got int"),
        ([{"words": ["a"]}], "expected sentence 1 as a list of words, got dict"),
        (None, "expected sentences as lists of words, got NoneType"),
    ],
)
@pytest.mark.parametrize("ask", ["tag", "answer"])
def test_what_is_no_sentence_is_named_with_its_place(tagger, ask, given, message):
    with pytest.raises(ValueError, match=message):
        getattr(tagger, ask)(given)


def test_a_tagger_and_an_entity_say_what_they_are(tagger, tiny_pair):
    assert repr(tagger) == f"Tagger(encoder={tiny_pair!r}, head='mlp', types=['LOC', 'PER'])"
    assert repr(boustro.Tagger("starter", "linear")) == "Tagger(encoder='starter', head='linear', trained=False)"
    (entity,) = tagger.predict("In Vellmar it rained.")
    told = {"label": "LOC", "start": 3, "end": 10, "text": "Vellmar", "score": entity.score}
    assert entity.to_dict() == told == json.loads(json.dumps(told))


def test_by_default_a_tagger_reads_all_of_the_package_unless_it_reads_otherwise_than_the_memory():
    assert boustro.Tagger(layers="last", context="sentence").plan.reader.spec == "starter-large"
    assert boustro.Tagger(live=True).plan.reader.spec == "starter-memory"
    for options in ({"pooling": "mean"}, {"layers": "1,2"}, {"preset": "paper"}):
        assert boustro.Tagger(**options).plan.reader.spec == "starter"
    assert boustro.Classifier().plan.reader.spec == "starter-texts"


@pytest.mark.bf16
def test_batches_and_the_cache_change_no_tag(tagger):
    sentences = [words for words, _ in DATA]
    together = tagger.tag(sentences)
    assert together == [tagger.tag([s])[0] for s in sentences] == tagger.tag(sentences, cached=True)


def test_long_sentences_are_windowed_and_said_so(tagger):
    words = ["Ada", "said"] * 5000
    (tags,) = tagger.tag([words])
    assert len(tags) == len(words)
    assert any("longer than the model's window" in what for what in tagger.encoder().counts)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "has no sentences"),
        ([(["a"], ["B-PER", "O"])], "sentence 1 of the given data: 1 word"),
        ([(["a", "b"], ["O", "O"])], "nothing to learn"),
        ([(["a"], ["PERSON"])], "is not a valid IOB1, BIO or BIOES tag"),
    ],
)
def test_data_that_cannot_be_learned_from_is_refused(tiny_pair, data, message):
    with pytest.raises(ValueError, match=message):
        boustro.Tagger(tiny_pair).fit(data)


def test_an_untrained_tagger_says_so():
    with pytest.raises(ValueError, match="call fit first"):
        boustro.Tagger("x").predict("text")


def test_a_half_written_or_changed_tagger_is_refused(tagger, tmp_path, tiny_lm):
    path = tmp_path / "ner"
    tagger.save_pretrained(path)
    with pytest.raises(ValueError, match="not the one that this head was trained on"):
        boustro.Tagger.from_pretrained(
            path, encoder=f"{tiny_lm('llama', sentinel=True)}+{tiny_lm('llama', 'backward')}"
        )
    weights = (path / "head.safetensors").read_bytes()
    (path / "head.safetensors").write_bytes(weights[:-1] + b"!")
    with pytest.raises(ValueError, match="has changed since it was written"):
        boustro.Tagger.from_pretrained(path)
    (path / "head.safetensors").write_bytes(weights[:-9])
    with pytest.raises(ValueError, match="write the folder again"):
        boustro.Tagger.from_pretrained(path)
    (path / "manifest.json").unlink()
    with pytest.raises(ValueError, match="incomplete"):
        boustro.Tagger.from_pretrained(path)


def test_the_paper_preset_is_section_3_2(tiny_lm):
    config, head = TaggerConfig.choose("mlp", "paper", {})
    assert (config.layers, config.pooling, head.standardise, head.hidden) == ("last", "first", False, None)
    assert (head.lr, head.batch_sentences, head.dropout) == (1e-3, 32, 0.1)
    assert (head.crf, head.decode) == (False, "argmax")
    paper = boustro.Tagger(str(tiny_lm("gpt2")), "mlp", preset="paper", epochs=1).fit(DATA)
    shapes = {name: tuple(p.shape) for name, p in paper.fitted.head.named_parameters()}
    assert shapes == {"body.1.weight": (32, 32), "body.1.bias": (32,), "body.4.weight": (5, 32), "body.4.bias": (5,)}


def test_a_mix_standardises_each_layer_and_weighs_them():
    features = np.random.default_rng(0).normal([[1.0, 50.0], [-3.0, 0.1]], [[2.0, 9.0], [0.5, 4.0]], (5000, 2, 2))
    mix = LayerMix(2, 2)
    mix.fit(features.astype(np.float32), block=999)
    standard = (features - features.mean(0)) / features.std(0)
    x = torch.from_numpy(features[:7].astype(np.float32))
    np.testing.assert_allclose(mix(x.clone()).detach(), standard[:7].mean(1), atol=1e-4)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, np.log(3.0)]))
        mix.gamma.fill_(2.0)
    expected = 2 * (0.25 * standard[:7, 0] + 0.75 * standard[:7, 1])
    np.testing.assert_allclose(mix(x.clone()).detach(), expected, atol=1e-4)
    assert mix.layer_weights() == pytest.approx([0.25, 0.75])
    assert LayerMix(1, 2).layer_weights() == [1.0] and not list(LayerMix(1, 2).parameters())


@pytest.mark.parametrize("kind", MIXES)
@pytest.mark.parametrize("standardise", [True, False])
def test_a_stream_of_few_components_keeps_distances(kind, standardise):
    generator = np.random.default_rng(0)
    features = (generator.normal(size=(500, 1, 3)) @ generator.normal(size=(3, 8))).astype(np.float32)
    few, whole = (
        make_head("linear", SequenceOptions(combine=kind, standardise=standardise), [shape], ("O", "X"))
        for shape in ((1, 8, 3), (1, 8))
    )
    x = torch.from_numpy(features[:20])
    for head in (few, whole):
        head.mixes.fit([features])
    assert few.mix([x]).shape == (20, 3)
    torch.testing.assert_close(*(torch.cdist(v, v) for v in (few.mix([x]), whole.mix([x]))), atol=1e-4, rtol=1e-4)


def test_a_mix_leaves_the_features_as_they_are():
    mix, x = LayerMix(2, 3), torch.randn(4, 2, 3)
    mix.fit(np.random.randn(50, 2, 3).astype(np.float32))
    kept = x.clone()
    mix(x)
    assert torch.equal(x, kept)


def test_the_best_epoch_is_kept_and_not_the_last():
    scores = iter([10.0, 30.0, 20.0, 5.0])
    options = SequenceOptions(dropout=0.0, crf=False, epochs=4)
    head = make_head("linear", options, ((1, 4),), ("O", "X"))
    states = []

    def score(answers):
        assert [len(ids) for ids, _ in answers] == [8, 12]
        states.append({k: v.clone() for k, v in head.state_dict().items()})
        return next(scores)

    features = np.random.default_rng(0).normal(size=(20, 1, 4)).astype(np.float16)
    lengths, tags = np.array([8, 12]), torch.arange(20) % 2
    dev = Dev(HeadInputs([features], lengths), score)
    log = train_head(head, HeadInputs([features], lengths), lambda _, rows: tags[rows], 1, dev)
    assert log.best_epoch == 2
    assert all(torch.equal(head.state_dict()[k], states[1][k]) for k in states[1])


@pytest.mark.parametrize(("kind", "crf"), [("linear", True), ("mlp", False), ("block", True), ("bilstm", False)])
@pytest.mark.bf16
def test_losses_in_bf16_are_those_in_fp32_but_for_rounding_and_weights_stay_fp32(kind, crf):
    generator, lengths, losses = np.random.default_rng(0), np.array([5, 7, 0, 3] * 10), []
    features = generator.normal(size=(lengths.sum(), 2, 16)).astype(np.float16)
    tags = torch.from_numpy(features[:, 0, 0] > 0).long()
    for bf16 in (False, True):
        torch.manual_seed(1)
        chosen = options_of(kind, hidden=32, crf=crf, epochs=2, batch_sentences=8)
        head = make_head(kind, chosen, ((2, 16),), ("O", "B-X"))
        inputs = HeadInputs([features], lengths)
        losses.append(train_head(head, inputs, lambda _, rows: tags[rows], 1, bf16=bf16).losses)
        assert all(parameter.dtype == torch.float32 for parameter in head.parameters())
        vectors = torch.randn(4, 16)
        assert head.scores(vectors, torch.tensor([4])).dtype == torch.float32
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=5e-3)


def test_entities_that_training_cannot_teach_are_counted(tiny_pair):
    dev = [*longer(DATA), (["Rovers", "won"], ["B-ORG", "O"])]
    tagger = boustro.Tagger(tiny_pair, "linear", epochs=1).fit(DATA, dev)
    assert tagger.record["notices"] == {COPIES: 5, "dev entities with a label that the training data never show": 1}


def test_context_is_the_document_only_where_training_had_documents(tiny_pair):
    apart = boustro.Tagger(tiny_pair, "linear", epochs=1).fit(DATA)
    assert apart.config.context == "sentence"
    named = [Sentence(tuple(w), tuple(t), document=f"d{i // 4}") for i, (w, t) in enumerate(DATA)]
    together = boustro.Tagger(tiny_pair, "linear", epochs=1).fit(named)
    assert together.config.context == "document"
    assert together.record["losses"] != apart.record["losses"]


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_drops_as_many_as_it_should_and_keeps_the_mean(p):
    torch.manual_seed(0)
    dropout, x = Dropout(p), torch.ones(503, 997)
    dropped = dropout(x)
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=0.003)
    assert dropped.mean().item() == pytest.approx(1, abs=0.005)
    rows = (dropped == 0).float()
    assert abs(torch.corrcoef(rows[:, :8].T).fill_diagonal_(0)).max() < 0.2  # neighbours share no bits
    torch.manual_seed(0)
    assert torch.equal(dropout(x.requires_grad_()), dropped)
    torch.manual_seed(0)
    (2 * dropout(x)).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, 2 * dropped)
    assert torch.equal(dropout.eval()(x), x)


@pytest.mark.parametrize(("sentences", "batch"), [(1, 4), (46, 4), (183, 15), (384, 32), (14041, 32)])
def test_few_sentences_make_small_batches(sentences, batch):
    assert SequenceOptions().batch(sentences) == batch
