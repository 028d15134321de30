"""Encoders against plain transformers, to 1e-5 in fp32: families, directions, poolings, layers, windows, cache."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer, BertConfig, DynamicCache, LlamaConfig, LlamaForCausalLM

from architectures import plain
from boustro.encoders.arriving import IncrementalReader
from boustro.encoders.cache import CachedEncoder, cache_limit
from boustro.encoders.lm import nearly_equal
from boustro.encoders.reading import select
from boustro.encoders.spec import Spec, load_encoder
from boustro.models import bert as own_bert
from boustro.models import llama
from boustro.models.body import find_own
from boustro.models.llama import FEW_PIECES, KeyValues
from boustro.store import Artefact, write_folder
from boustro.types import Sentence

KINDS = ("gpt2", "llama", "qwen3", "gpt_neox")
SENTENCES = [
    ["Ada", "Brandt", "sells", "umbrellas", "."],
    ["Vellmar"],
    ["The", "harbour", "master", "of", "Port", "Lisse", "(", "who", "wrote", "it", ")", "snores", "."],
    ["Élodie", "東京", "🙂"],
]
PLACES = {
    "entry": lambda states, p, backward: states[p[0]],
    "exit": lambda states, p, backward: states[p[-1]],
    "first": lambda states, p, backward: states[p[-1] if backward else p[0]],
    "last": lambda states, p, backward: states[p[0] if backward else p[-1]],
    "mean": lambda states, p, backward: states[p].mean(0),
    "before": lambda states, p, backward: states[p[0] - 1] if p[0] else np.zeros_like(states[0]),
}


PAIRWISE = [(kind, "backward" if n % 2 else "forward", sentinel) for n, kind in enumerate(KINDS) for sentinel in (0, 1)]
"""Each family with and without a start piece, both with each direction."""


@pytest.mark.parametrize(("kind", "direction", "sentinel"), PAIRWISE)
@pytest.mark.bf16
def test_every_family_place_and_layer_equals_plain_transformers(tiny_lm, kind, direction, sentinel):
    path, backward = tiny_lm(kind, direction, sentinel=bool(sentinel)), direction == "backward"
    encoder = load_encoder(str(path), pooling="+".join(PLACES), dtype="float32", spacing="always")
    for words, (vectors,) in zip(SENTENCES, encoder.encode(SENTENCES), strict=True):
        states, positions = plain(path, words, backward, sentinel)
        assert vectors.shape == (len(words), 3, 6 * 32) and vectors.dtype == np.float32
        for layer in range(3):
            for i, p in enumerate(positions):
                expected = np.concatenate([read(states[layer], p, backward) for read in PLACES.values()])
                np.testing.assert_allclose(vectors[i, layer], expected, atol=1e-5, rtol=1e-5)


def test_a_backward_lm_without_a_tokenizer_takes_the_forward_ones(tiny_lm, tmp_path):
    forward, bare = tiny_lm("gpt2"), tmp_path / "bare"
    shutil.copytree(tiny_lm("gpt2", seed=3), bare)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    pair = load_encoder(f"{forward}+backward:{bare}", dtype="float32")
    alone = load_encoder(f"backward:{tiny_lm('gpt2', seed=3)}", dtype="float32")
    np.testing.assert_array_equal(next(iter(pair.encode(SENTENCES)))[1], next(iter(alone.encode(SENTENCES)))[0])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.bf16
def test_batches_padding_and_order_change_nothing(tiny_lm, direction, monkeypatch):
    encoder = load_encoder(str(tiny_lm("llama", direction, sentinel=True)), dtype="float32")
    together = [a[0] for a in encoder.encode(SENTENCES)]
    reverse = [a[0] for a in encoder.encode(SENTENCES[::-1])][::-1]
    monkeypatch.setattr("boustro.encoders.reading.PieceEncoder.batch_pieces", 1)
    monkeypatch.setattr("boustro.encoders.reading.CHUNK_WORDS", 1)
    alone = [a[0] for a in encoder.encode(iter(SENTENCES))]
    for a, b, c in zip(together, reverse, alone, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        np.testing.assert_allclose(a, c, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "numbers"), [("last", [2]), ("0,2", [0, 2]), ([1], [1]), ((-1, 0), [2, 0]), (1, [1])]
)
def test_some_layers_are_those_of_all(tiny_lm, layers, numbers):
    path = str(tiny_lm("llama"))
    every, some = (load_encoder(path, dtype="float32", **o).encode(SENTENCES) for o in ({}, {"layers": layers}))
    np.testing.assert_array_equal(next(iter(some))[0], next(iter(every))[0][:, numbers])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.bf16
def test_a_text_longer_than_the_window_is_read_whole(tiny_lm, direction):
    path = tiny_lm("llama", direction, sentinel=True)
    words = [SENTENCES[2][i % 13] for i in range(120)]
    encoder = load_encoder(str(path), dtype="float32", spacing="always", pooling="exit")
    (vectors,) = next(iter(encoder.encode([words])))
    assert sum(encoder.counts.values()) == 1 and np.abs(vectors).max(axis=(1, 2)).min() > 0
    # What fits the first window of its reading is as if the rest were not there; the rest sees half a window.
    near = words[:12] if direction == "forward" else words[-12:]
    (short,) = next(iter(load_encoder(str(path), dtype="float32", spacing="always", pooling="exit").encode([near])))
    np.testing.assert_allclose(vectors[:12] if direction == "forward" else vectors[-12:], short, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.bf16
def test_document_context_reads_the_sentences_around(tiny_lm, direction):
    path = str(tiny_lm("llama", direction, sentinel=True))
    around = load_encoder(path, dtype="float32", context="document")
    alone = load_encoder(path, dtype="float32")
    named = [Sentence(tuple(s), document="a" if i < 2 else "") for i, s in enumerate(SENTENCES)]
    read = [a[0] for a in around.encode(named)]
    whole = next(iter(alone.encode([SENTENCES[0] + SENTENCES[1]])))[0]
    np.testing.assert_allclose(np.concatenate(read[:2]), whole, atol=1e-5)
    for got, (expected,) in zip(read[2:], alone.encode(SENTENCES[2:]), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.booleans())
def test_places_by_their_definition(sizes, backward):
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    order = list(range(bounds[-1]))[:: -1 if backward else 1]
    for word in range(len(sizes)):
        own = [order.index(p) for p in range(bounds[word], bounds[word + 1])]
        expected = {"before": min(own) - 1, "entry": min(own), "exit": max(own), "first": own[0], "last": own[-1]}
        for place, state in expected.items():
            assert select(place, bounds, backward).states[word] == state
        mean = select("mean", bounds, backward)
        assert sorted(mean.states[mean.words == word]) == sorted(own)
        assert mean.weights[mean.words == word].sum() == pytest.approx(1)


@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.bf16
def test_cached_and_live_give_the_same_numbers(tiny_lm, tmp_path, dtype):
    spec = f"{tiny_lm('gpt2')}+{tiny_lm('gpt2', 'backward', sentinel=True)}"
    live = load_encoder(spec, dtype=dtype).encode_all(SENTENCES)
    for _ in range(2):
        cached = load_encoder(spec, dtype=dtype, cache=tmp_path).encode_all(SENTENCES)
        for a, b in zip(live.streams, cached.streams, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    assert len(list(tmp_path.glob("??/*"))) == 2


def test_a_warm_cache_reads_no_model_and_a_change_of_what_matters_misses_it(tiny_lm, tmp_path, monkeypatch):
    path = str(tiny_lm("llama"))
    encoder = load_encoder(path, cache=tmp_path)
    encoder.encode_all(SENTENCES)
    monkeypatch.setattr("boustro.encoders.transformer.StateEncoder._pick", lambda *_: pytest.fail("the model was run"))
    load_encoder(path, cache=tmp_path).encode_all(SENTENCES)
    changes = {"layers": "last", "pooling": "exit", "dtype": "float32", "start_piece": "eos", "spacing": "always"}
    for name, value in changes.items():
        with pytest.raises(pytest.fail.Exception):
            load_encoder(path, cache=tmp_path, **{name: value}).encode_all(SENTENCES)
    with pytest.raises(pytest.fail.Exception):
        load_encoder(path, cache=tmp_path).encode_all(SENTENCES[:2])
    with pytest.raises(pytest.fail.Exception):
        load_encoder(path, cache=tmp_path).encode_all([Sentence(tuple(s), spaces=(False,) * len(s)) for s in SENTENCES])


def test_the_cache_keeps_to_its_limit(tiny_lm, tmp_path, monkeypatch):
    path = str(tiny_lm("llama"))
    size = 5 * 3 * 64 * 2
    encoder = load_encoder(path)
    with pytest.raises(ValueError, match="BOUSTRO_CACHE_LIMIT"):
        CachedEncoder(encoder, tmp_path, limit=size - 1).encode_all(SENTENCES[:1])
    CachedEncoder(encoder, tmp_path).encode_all(SENTENCES[:1])
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())  # a manifest names paths
    roomy = CachedEncoder(encoder, tmp_path, limit=2 * written)
    roomy.encode_all(SENTENCES[1:2])
    assert len(list(tmp_path.glob("??/*"))) == 2
    roomy.encode_all(SENTENCES[2:3])
    assert 1 <= len(list(tmp_path.glob("??/*"))) < 3
    monkeypatch.setenv("BOUSTRO_CACHE_LIMIT", "1.5GB")
    assert cache_limit() == 1.5 * 2**30
    monkeypatch.setenv("BOUSTRO_CACHE_LIMIT", "much")
    with pytest.raises(ValueError, match="not a size"):
        cache_limit()


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("bakward:x", {}, "did you mean backward:x"),
        ("./no/such/model", {}, "no model could be loaded from this path or name: there is no such folder"),
        ("{path}", {"pooling": "exit+middle"}, "unknown pooling 'middle'"),
        ("{path}", {"layers": "5"}, "0 .embeddings. to 2"),
        ("{path}", {"layers": "top"}, "unknown layers 'top'"),
        ("{path}", {"dtype": "int8"}, "dtype must be one of float32, bfloat16, float16, not 'int8'"),
        ("{path}", {"spacing": "never"}, "spacing must be one of natural, always, not 'never'"),
        ("{path}", {"context": "page"}, "context must be one of sentence, document, not 'page'"),
        ("{path}+", {}, "empty part"),
        ("{path}+{other}", {}, "different vocabularies .400 and 420 pieces"),
    ],
)
def test_what_cannot_be_loaded_is_said_clearly(tiny_lm, spec, options, message):
    spec = spec.format(path=tiny_lm("gpt2"), other=tiny_lm("gpt2", vocab=420))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_encoder(spec, **options)


def test_half_written_and_truncated_models_are_refused(tiny_lm, tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        (tmp_path / "half").mkdir()
        load_encoder(str(tmp_path / "half"))
    broken = tmp_path / "broken"
    shutil.copytree(tiny_lm("llama"), broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match="weights could not be loaded"):
        load_encoder(str(broken))
    fact = {"bytes": 9, "sha256": ""}
    (broken / "manifest.json").write_text(
        json.dumps({"kind": "model", "files": {"model.safetensors": fact}, "made_by": {}})
    )
    with pytest.raises(ValueError, match="holds 1000 bytes, not 9"):
        load_encoder(str(broken))


def test_specs_are_split_at_plus_unless_they_are_a_path(tmp_path, monkeypatch):
    assert [part.name for part in Spec.parse("starter").parts] == ["starter-forward", "starter-backward"]
    assert [part.name for part in Spec.parse("gpt2+backward:x").parts] == ["gpt2", "backward:x"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c++").mkdir()
    assert [part.name for part in Spec.parse("c++").parts] == ["c++"]
    (tmp_path / "starter").mkdir()
    (tmp_path / "starter-forward").mkdir()
    assert [part.name for part in Spec.parse("starter").parts] == ["starter-forward", "starter-backward"]
    assert [part.name for part in Spec.parse("./starter").parts] == ["./starter"]
    encoder = load_encoder("starter-forward")
    assert Spec.parse("starter-forward").exact(encoder.identity()) == "starter-forward"


def test_a_bare_string_is_no_list_of_words(tiny_lm):
    with pytest.raises(ValueError, match="not split into words"):
        next(iter(load_encoder(str(tiny_lm("gpt2"))).encode(["Ada sells"])))


@pytest.mark.parametrize("cache", [False, True])
def test_a_terminal_shows_how_far_reading_is_with_and_without_the_cache(tiny_lm, tmp_path, monkeypatch, cache):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("boustro.progress.BAR_SECONDS", 0)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        encoder = load_encoder(str(tiny_lm("gpt2")), cache=tmp_path / str(shown) if cache else None)
        encoder.encode_all([["Ada", "left"], ["again"]])
        assert ("/3.00 " in stream.getvalue()) == shown


@pytest.fixture(scope="module")
def our_llama(tiny_tokenizer, tmp_path_factory):
    """A folder that Boustro wrote: three blocks, two heads for one of keys and values, an LM head of its own."""
    torch.manual_seed(3)
    tokenizer = AutoTokenizer.from_pretrained(tiny_tokenizer)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    shape |= {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 24, "initializer_range": 0.3}
    config = LlamaConfig(**shape, vocab_size=len(tokenizer), tie_word_embeddings=False, sentinel=True)
    with write_folder(tmp_path_factory.mktemp("ours") / "lm", "model") as folder:
        LlamaForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder.parent / "lm"


@pytest.mark.parametrize("layers", ["all", "0,2", "last"])
@pytest.mark.bf16
def test_an_lm_of_ours_has_the_states_of_transformers_without_it(our_llama, layers):
    encoder, theirs = (load_encoder(str(our_llama), layers, dtype="float32", cache=False) for _ in range(2))
    assert type(encoder.body.new_cache()) is KeyValues and type(theirs.model).__name__ == "LlamaModel"
    assert type(theirs.body.new_cache()) is DynamicCache
    assert encoder.identity() == theirs.identity() and encoder.num_parameters == theirs.num_parameters
    for one, other in zip(encoder.encode(SENTENCES * 3), theirs.encode(SENTENCES * 3), strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-5, atol=2e-5)
    bit_by_bit = []
    for reader in (IncrementalReader(encoder), IncrementalReader(theirs)):
        reader.begin()  # windows of 24 pieces are left, and each piece or two follow what was read
        runs = [words[n : n + 2] for words in SENTENCES for n in range(0, len(words), 2)]
        bit_by_bit.append(np.concatenate([reader.append(words, [True] * len(words)) for words in runs]))
    np.testing.assert_allclose(*bit_by_bit, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("moved", "dtype", "equal"),
    [
        (1e-5, torch.float32, True),
        (6e-3, torch.float32, False),
        (6e-3, torch.bfloat16, True),
        (0.3, torch.bfloat16, False),
    ],
)
def test_states_are_compared_one_by_one_whatever_the_largest_of_them_is(moved, dtype, equal):
    generator = torch.Generator().manual_seed(1)
    states, noise = (torch.randn(2, 6, 64, generator=generator) for _ in range(2))
    states[:, 0] *= 5000  # massive values of the first state
    noise[:, 0] = 0
    assert nearly_equal(states + moved * noise, states, dtype) == equal
    assert nearly_equal(states, states, dtype)


@pytest.mark.bf16
def test_few_pieces_are_read_in_float32_and_follow_those_in_bf16(our_llama):
    found = find_own(Artefact(our_llama))
    bodies: list[Any] = [found.load(dtype, torch.device("cpu")) for dtype in (torch.float32, torch.bfloat16)]
    exact, rounded = bodies
    ids = torch.arange(43)[None] % exact.embeddings.shape[0]
    whole, cache, parts = exact.states(ids), rounded.new_cache(), []
    for part in ids.split([FEW_PIECES + 4, 3, FEW_PIECES + 4], dim=1):
        parts.append(rounded.states(part, cache=cache))
    assert [states[-1].dtype for states in parts] == [torch.bfloat16, torch.float32, torch.bfloat16]
    for layer, states in enumerate(whole):
        joined = torch.cat([part[layer].float() for part in parts], 1)
        assert nearly_equal(joined, states, torch.bfloat16)


@pytest.mark.bf16
def test_a_run_up_is_computed_once_by_an_lm_of_ours_too(our_llama):
    how = {"dtype": "float32", "cache": False, "prefix": "The harbour"}
    encoder, theirs = (load_encoder(str(our_llama), "all", **how) for _ in range(2))
    assert type(theirs.model).__name__ == "LlamaModel"
    assert encoder.run_up and theirs.run_up
    for one, other in zip(encoder.encode(SENTENCES), theirs.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-5, atol=2e-5)


def with_config(source: Path, folder: Path, config: dict) -> str:
    """A copy of a folder of ours with another config."""
    with write_folder(folder, "model") as made:
        shutil.copytree(source, made, dirs_exist_ok=True, ignore=lambda *_: ["manifest.json"])
        (made / "config.json").write_text(json.dumps(config), "utf-8")
    return str(folder)


def test_a_folder_of_ours_with_other_weights_or_another_rotation_is_left_to_transformers(our_llama, tmp_path):
    assert find_own(Artefact(our_llama)).config
    config = json.loads((our_llama / "config.json").read_text("utf-8"))
    rotation = {"rope_theta": 1e4, "rope_type": "default"}
    changes: list[dict[str, Any]] = [
        {"num_hidden_layers": 2},
        {"rope_parameters": rotation | {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": rotation | {"partial_rotary_factor": 0.5}},
        {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"attention_bias": True},
        {"model_type": None},
    ]
    folders = [with_config(our_llama, tmp_path / str(n), config | change) for n, change in enumerate(changes)]
    assert [find_own(Artefact(folder)).config for folder in folders] == [None] * len(changes)
    with pytest.raises(ValueError, match="would be left out"):
        load_encoder(folders[0])
    assert find_own(Artefact("gpt2")).config is None


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_settings_that_a_config_lacks_have_the_defaults_of_transformers(kind, our_llama, bert, tmp_path):
    """Each version of transformers writes other ones: 5.24 no `position_embedding_type`, 4 a `rope_theta` alone."""
    module = {"llama": llama, "bert": own_bert}[kind]
    theirs = {"llama": LlamaConfig, "bert": BertConfig}[kind]().to_dict()
    settings = getattr(module, kind.upper()) | getattr(module, f"{kind.upper()}_DEFAULTS")
    own = {name: value for name, value in settings.items() if value is not None and name in theirs}
    assert len(own) > 10 and own == {name: theirs[name] for name in own}
    if kind == "bert":
        source = tmp_path / "bert"
        AutoModel.from_pretrained(bert).save_pretrained(source)
        AutoTokenizer.from_pretrained(bert).save_pretrained(source)
    else:
        source = our_llama
    config = json.loads((source / "config.json").read_text("utf-8"))
    lacking = {
        name: value for name, value in config.items() if own.get(name, "") != value and name != "rope_parameters"
    }
    assert len(lacking) <= len(config) - 5
    rotation = {"rope_theta": 10000.0, "rope_scaling": None} if kind == "llama" else {}
    spec = with_config(source, tmp_path / "made", lacking | rotation)
    assert find_own(Artefact(spec)).config
    how = {"dtype": "float32", "cache": False}
    spec = f"masked:{spec}" if kind == "bert" else spec
    encoder, plainly = (load_encoder(spec, "all", **how) for _ in range(2))
    assert plainly.model is plainly.body.model and not encoder.body.model
    for one, other in zip(encoder.encode(SENTENCES), plainly.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-5, atol=2e-5)


def test_a_first_answer_does_not_import_transformers(tmp_path):
    code = "import boustro, sys; boustro.Tagger.from_pretrained('names').predict('Ada left.'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" in done.stdout.split() and not {"transformers", "huggingface_hub"} & {*done.stdout.split()}


def test_equal_texts_of_a_call_are_read_once_and_each_has_its_vectors(tiny_lm, monkeypatch):
    encoder: Any = load_encoder(str(tiny_lm("gpt2")), cache=False)
    texts = [SENTENCES[0], SENTENCES[1], SENTENCES[0]]
    read: list[int] = []
    chunk = encoder._encode_chunk
    monkeypatch.setattr(encoder, "_encode_chunk", lambda groups: read.append(len(groups)) or chunk(groups))
    for words, (vectors,) in zip(texts, list(encoder.encode(texts)), strict=True):
        np.testing.assert_allclose(vectors, next(encoder.encode([words]))[0], atol=2e-3)
    assert read == [2, 1, 1, 1]
