"""Large LMs: only the blocks that are read, several devices; each against plain transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, core_model_loading

from architectures import NUM_BLOCKS, OWN, WINDOW, at_last_pieces, plain, write_model
from boustro.encoders.spec import load_encoder
from boustro.encoders.transformer import parse_layers
from boustro.models.blocks import find_blocks, states_up_to
from boustro.models.placing import MAX_MEMORY, OFFLOAD, VERIFIED, memory_limits, shortened
from boustro.store import write_manifest
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence

KINDS = ("llama", "qwen3", "gemma3_text", "mistral", "phi", "phi3", "gpt_neox", "gpt2", "olmo2")
SENTENCES = [
    ["The", "harbour", "master", "of", "Port", "Lisse", "(", "who", "wrote", "it", ")", "snores", "."],
    ["Vellmar"],
    ["Ada", "Brandt", "sells", "umbrellas", "."],
]
LABELLED = [("Ada Brandt left Vellmar .".split(), "B-PER I-PER O B-LOC O".split())] * 4


@pytest.fixture(scope="session")
def model(tiny_tokenizer, tmp_path_factory):
    """model(kind, **options of its config) → its folder, made once."""
    made = {}

    def make(kind, **options):
        key = json.dumps([kind, options])
        if key not in made:
            made[key] = str(write_model(tmp_path_factory.mktemp(kind) / "model", kind, tiny_tokenizer, **options))
        return made[key]

    return make


def open_exact(spec, layers, **options):
    given = {"start_piece": "none", "prefix": "none", **options}
    return load_encoder(spec, layers, "exit", dtype="float32", spacing="always", **given)


def num_blocks(encoder):
    return encoder.model.config.num_hidden_layers, len(
        find_blocks(encoder.model, encoder.model.config.num_hidden_layers)
    )


def assert_equal(encoder, path, layers, **how):
    for words, (vectors,) in zip(SENTENCES, encoder.encode(SENTENCES), strict=True):
        expected = at_last_pieces(*plain(path, words, **how), layers)
        np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=1e-5)


# Only the blocks that are read


@pytest.mark.parametrize("kind", KINDS)
def test_up_to_half_half_of_the_blocks_are_loaded_and_the_states_are_those_of_the_whole_model(model, kind):
    path, backward = model(kind), KINDS.index(kind) % 2 == 1
    encoder = open_exact(f"backward:{path}" if backward else path, "0,1,50%")
    assert num_blocks(encoder) == (2, 2)
    assert encoder.num_parameters < AutoModel.from_pretrained(path).num_parameters()
    assert_equal(encoder, path, [0, 1, 2], backward=backward)


@pytest.mark.parametrize("kind", KINDS[::2])
def test_the_last_layer_is_read_after_the_final_norm_by_the_whole_model(model, kind):
    encoder = open_exact(model(kind), "3,-1")
    assert num_blocks(encoder) == (NUM_BLOCKS, NUM_BLOCKS)
    assert_equal(encoder, model(kind), [3, 4])


@pytest.mark.parametrize("kind", KINDS[1::2])
def test_the_text_repeated_reads_the_blocks_it_needs(model, kind):
    encoder = open_exact(f"repeated:{model(kind)}", "2,3")
    assert num_blocks(encoder) == (3, 3)
    assert_equal(encoder, model(kind), [2, 3], repeated="\n")


@pytest.mark.parametrize(("kind", "blocks"), [*((kind, "") for kind in KINDS), ("llama", "2-4:"), ("gpt2", "2-4:")])
def test_without_its_mask_a_model_sees_both_sides_of_its_windows(model, kind, blocks):
    """Against plain transformers with masks of our own: everything, or in sliding windows as far to either side."""
    encoder = open_exact(f"unmasked:{blocks}{model(kind)}", "1,2,3")
    assert num_blocks(encoder) == (3, 3)
    sliding = "sliding_window" in OWN.get(kind, {})

    def mask(num_pieces, causal=False):
        places = torch.arange(num_pieces)
        away = places[:, None] - places
        seen = (away >= 0) | (not causal) & torch.ones_like(away, dtype=torch.bool)
        near = (seen & (away.abs() < WINDOW))[None, None]
        whole = seen[None, None]
        if kind == "gemma3_text":
            return {"full_attention": whole, "sliding_attention": near}
        return near if sliding else whole

    if not blocks:
        assert_equal(encoder, model(kind), [1, 2, 3], mask=mask)
        return
    causal = open_exact(model(kind), "1")  # block 1 stays as it was
    for one, other in zip(causal.encode(SENTENCES), encoder.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(one[0][:, 0], other[0][:, 0], atol=1e-5)
        np.testing.assert_array_equal(other[0].shape, (len(one[0]), 3, 32))


@pytest.mark.parametrize("kind", ["gpt_neo", "nemotron", "mpt"])
def test_an_architecture_that_masks_in_its_own_way_is_refused(model, kind):
    with pytest.raises(ValueError, match=rf"causal mask of this architecture \({kind}\) cannot be removed in block 1"):
        open_exact(f"unmasked:{model(kind)}", "1")


@pytest.mark.parametrize("kind", sorted(VERIFIED))
def test_every_architecture_that_is_cut_gives_the_states_of_the_whole(model, kind):
    path = model(kind)
    pieces = torch.randint(5, 300, (2, 20), generator=torch.manual_seed(0))
    whole = AutoModel.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        expected = whole(input_ids=pieces, output_hidden_states=True).hidden_states
    for highest in (1, 3):
        short = AutoModel.from_pretrained(path, config=shortened(whole.config, highest), dtype=torch.float32).eval()
        with torch.no_grad():
            states = states_up_to(short, find_blocks(short, highest), highest, input_ids=pieces)
        assert len(states) == highest + 1
        for state, right in zip(states, expected, strict=False):
            torch.testing.assert_close(state, right, atol=1e-5, rtol=1e-5)


def test_an_architecture_that_nobody_compared_is_loaded_whole(model):
    path = model("stablelm", num_key_value_heads=4)
    encoder = open_exact(path, "1,2")
    assert num_blocks(encoder) == (NUM_BLOCKS, NUM_BLOCKS)
    assert_equal(encoder, path, [1, 2])


@pytest.mark.parametrize("tied", [True, False])
def test_weights_above_are_not_read_from_the_files(model, tied, monkeypatch):
    path = model("llama", tie_word_embeddings=tied)
    index = json.loads(Path(path, "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2 and ("lm_head.weight" in index["weight_map"]) == (not tied)
    read, materialise = [], core_model_loading._materialize_copy
    monkeypatch.setattr(
        core_model_loading, "_materialize_copy", lambda *given, **named: read.append(1) or materialise(*given, **named)
    )
    encoder = open_exact(path, "1")
    assert len(read) == len(list(encoder.model.parameters())) == 1 + 9 + 1
    assert_equal(encoder, path, [1])


def test_the_embeddings_alone_need_one_block_and_whole_loads_all(model):
    encoder = open_exact(model("llama"), "0")
    assert num_blocks(encoder) == (1, 1)
    assert_equal(encoder, model("llama"), [0])
    assert num_blocks(open_exact(model("llama"), "1", whole=True)) == (NUM_BLOCKS, NUM_BLOCKS)


@pytest.mark.parametrize(
    ("layers", "numbers"),
    [
        ("25%,50%,last", (8, 16, 32)),
        ("0%,100%", (0, 32)),
        ("4,8,12", (4, 8, 12)),
        ("-1", (32,)),
        ("33.4%", (11,)),
        ("last,0", (32, 0)),
        ("1,100%,-1,1", (1, 32)),
    ],
)
def test_layers_by_number_share_and_name(layers, numbers):
    assert parse_layers(layers, 32) == numbers


@pytest.mark.parametrize("layers", ["101%", "-5%", "half", "4/8", "", "1,,2", "%"])
def test_layers_that_mean_nothing_are_refused(layers):
    with pytest.raises(ValueError, match="unknown layers"):
        parse_layers(layers, 32)


def test_a_folder_whose_lm_was_read_in_fewer_bits_says_what_to_do(model, tmp_path):
    Tagger(model("llama"), "linear", epochs=1, cache=False).fit(LABELLED, seed=1).save_pretrained(tmp_path / "ner")
    file = tmp_path / "ner" / "config.json"
    for quantise in (None, "int8"):  # as earlier versions wrote it
        saved = json.loads(file.read_text())
        file.write_text(json.dumps({**saved, "config": {**saved["config"], "quantise": quantise}}))
        (tmp_path / "ner" / "manifest.json").unlink()
        write_manifest(tmp_path / "ner", "tagger")
        if quantise is None:
            assert Tagger.from_pretrained(tmp_path / "ner", cache=False).predict("Ada left Vellmar.") is not None
    with pytest.raises(ValueError, match=r"ner: its LM was read with --quantise int8, .* or what boustro pack makes"):
        Tagger.from_pretrained(tmp_path / "ner", cache=False)


# Several devices


@pytest.mark.parametrize("kind", KINDS)
def test_weights_on_disk_give_the_same_states(model, kind, monkeypatch):
    monkeypatch.setenv(MAX_MEMORY, "cpu=60KB")
    encoder = open_exact(model(kind), "1,3", device="auto")
    assert {"disk"} <= set(encoder.model.hf_device_map.values())
    assert any(p.is_meta for p in encoder.model.parameters())
    assert_equal(encoder, model(kind), [1, 3])


def test_weights_that_must_be_written_anew_need_a_folder(model, monkeypatch, tmp_path):
    """The experts of a mixture are one weight in the model and many in the files."""
    monkeypatch.setenv(MAX_MEMORY, "cpu=60KB")
    with pytest.raises(ValueError, match="must be written anew; name a folder for them in BOUSTRO_OFFLOAD"):
        open_exact(model("mixtral"), "1,3", device="auto")
    monkeypatch.setenv(OFFLOAD, str(tmp_path / "offload"))
    assert_equal(open_exact(model("mixtral"), "1,3", device="auto"), model("mixtral"), [1, 3])
    assert list((tmp_path / "offload").iterdir())


def test_so_they_do_without_the_mask(model, monkeypatch):
    kept = list(open_exact(f"unmasked:{model('llama')}", "last").encode(SENTENCES))
    monkeypatch.setenv(MAX_MEMORY, "cpu=60KB")
    offloaded = open_exact(f"unmasked:{model('llama')}", "last", device="auto")
    assert any(p.is_meta for p in offloaded.model.parameters())
    for (one,), (other,) in zip(kept, offloaded.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_device_is_no_part_of_the_numbers(model, tmp_path, monkeypatch):
    tagger = Tagger(model("llama"), "linear", epochs=1, cache=tmp_path, device="auto").fit(LABELLED, seed=1)
    tagger.save_pretrained(tmp_path / "ner")
    monkeypatch.setenv(MAX_MEMORY, "cpu=60KB")
    spread = Tagger.from_pretrained(tmp_path / "ner", device="auto", cache=tmp_path)
    assert any(p.is_meta for p in spread.encoder().model.parameters())
    assert spread.encoder().identity() == tagger.encoder().identity()
    assert spread.predict("Ada left Vellmar.") == tagger.predict("Ada left Vellmar.")


@pytest.mark.parametrize(
    ("text", "message"),
    [("cpu", "'cpu' is no limit"), ("cpu=much", "'cpu=much' is no limit"), ("tpu=1GB", "no device 'tpu' here")],
)
def test_limits_that_mean_nothing_are_refused(text, message, monkeypatch):
    monkeypatch.setenv(MAX_MEMORY, text)
    with pytest.raises(ValueError, match=message):
        memory_limits()
    monkeypatch.setenv(MAX_MEMORY, "cpu=1GiB")
    assert memory_limits() == {"cpu": 2**30} or torch.cuda.is_available()


# The cost, beforehand


def test_large_features_are_told_before_they_are_computed(model, tmp_path, monkeypatch, capsys):
    encoder = open_exact(model("llama"), "all", cache=tmp_path)
    monkeypatch.setattr("boustro.encoders.cache.NOTABLE", 1)
    monkeypatch.setattr("boustro.encoders.cache.LARGE_FEATURES", 1)
    encoder.encode_all(SENTENCES)
    told = capsys.readouterr().err
    assert "of 19 words" in told and "--layers 25%,50%,last" in told
    assert encoder.bytes_per_word == 5 * 32 * 4
    (file,) = tmp_path.glob("??/*/features.bin")
    assert file.stat().st_size == 19 * encoder.bytes_per_word


@pytest.mark.parametrize("most", [1, 6, 1000])
def test_answers_need_memory_for_some_features_only(model, monkeypatch, most):
    texts = [f"Ada Brandt left Vellmar {n} times. It rained." for n in range(7)]
    documents = [Sentence(("Ada", "left"), document=name) for name in "aabbb"]
    tagger = Tagger(model("llama"), "linear", epochs=2, layers="1", dtype="float32", cache=False).fit(LABELLED, seed=1)

    def answers():
        found = tagger.predict(texts) + tagger.predict(documents)
        return [[(e.label, e.start, e.end) for e in own] for own in found]

    expected = answers()
    monkeypatch.setattr("boustro.features.reader.MOST_FEATURE_BYTES", most * tagger.encoder().bytes_per_word)
    seen, encode = [], type(tagger.encoder()).read
    monkeypatch.setattr(type(tagger.encoder()), "read", lambda self, given: seen.append(given) or encode(self, given))
    assert answers() == expected and any(expected)
    names = [{s.document for s in given} for given in seen if any(s.document in "ab" and s.document for s in given)]
    assert names == ([{"a", "b"}] if most == 1000 else [{"a"}, {"b"}] if most == 1 else [{"a", "b"}])
    assert (len(seen) > 2) == (most < 1000)
