"""States out of float16's range: scaled where a model has them, counted where they still come."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import boustro
from architectures import at_last_pieces, plain, write_model
from boustro import load_encoder
from boustro.encoders import transformer
from boustro.encoders.arriving import IncrementalReader
from boustro.encoders.transformer import BEYOND, STATE_SCALE
from boustro.features.reader import weights_of
from boustro.hardware import multiply
from labelled import DATA

WORDS = ["Ada", "left", "Paris", "on", "Friday", "."]


@pytest.fixture(scope="module")
def wide(tiny_tokenizer, tmp_path_factory):
    """A Gemma whose residual stream passes float16's range in all layers but the last, which comes after the norm."""
    folder = write_model(tmp_path_factory.mktemp("wide") / "lm", "gemma3_text", tiny_tokenizer)
    for file in folder.glob("*.safetensors"):
        weights = load_file(file)
        for name in weights:
            if "embed_tokens" in name:
                weights[name] *= 60_000
        save_file(weights, file, {"format": "pt"})
    return folder


def test_states_out_of_range_are_scaled_and_equal_plain_transformers(wide):
    encoder = load_encoder(str(wide), pooling="exit", spacing="always", start_piece="none")
    assert encoder.scales == [STATE_SCALE] * 4 + [1] and encoder.dtype == np.float16
    (vectors,) = next(encoder.encode([WORDS]))
    wanted = at_last_pieces(*plain(wide, WORDS), list(range(5)))
    assert np.abs(wanted).max() > 65_504
    found = vectors.astype(np.float32) * np.array(encoder.scales)[:, None]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-3 * np.abs(wanted).mean())
    assert BEYOND not in encoder.counts
    exact = load_encoder(str(wide), pooling="exit", spacing="always", dtype="float32")
    assert "scales" not in exact.identity().rest and exact.scales == [1] * 5


def test_a_scale_is_part_of_what_a_head_was_trained_on(wide, tiny_lm, monkeypatch):
    scaled = load_encoder(str(wide)).identity().to_dict()
    monkeypatch.setattr(transformer, "HIGH_STATE", float("inf"))
    plain = load_encoder(str(wide)).identity().to_dict()
    assert scaled["scales"] == [STATE_SCALE] * 4 + [1] and "scales" not in plain
    assert weights_of(scaled) != weights_of(plain)
    assert "scales" not in load_encoder(str(tiny_lm("llama"))).identity().rest, "a model that fits keeps its numbers"


@pytest.mark.parametrize("pooling", ["exit", "mean"])
def test_what_is_still_out_of_range_is_counted_and_becomes_the_largest(wide, pooling, monkeypatch):
    monkeypatch.setattr(transformer, "HIGH_STATE", float("inf"))
    encoder = load_encoder(str(wide), pooling=pooling)
    (vectors,) = next(encoder.encode([WORDS]))
    saturated = np.abs(vectors) == np.finfo(np.float16).max
    assert encoder.counts[BEYOND] == saturated.sum() > 0 and np.isfinite(vectors).all()


@pytest.mark.parametrize("pooling", ["exit", "mean", "exit+before"])
def test_states_that_the_type_of_the_computation_cannot_hold_are_refused(wide, pooling):
    for spec in (str(wide), f"unmasked:{wide}", f"repeated:{wide}"):
        encoder = load_encoder(spec, pooling=pooling, dtype="float16")
        with pytest.raises(ValueError, match=r"beyond the range of float16.*; give --dtype bfloat16 or float32$"):
            encoder.encode_all([WORDS])
    for dtype in ("bfloat16", "float32"):
        (vectors,) = next(load_encoder(str(wide), pooling=pooling, dtype=dtype).encode([WORDS]))
        assert np.isfinite(vectors).all()


def test_a_fit_on_such_states_says_what_to_do(wide):
    """Before a head is trained, whose loss would be no number."""
    tagger = boustro.Tagger(str(wide), dtype="float16", cache=False)
    with pytest.raises(ValueError, match="give --dtype bfloat16 or float32"):
        tagger.fit(DATA)
    reader = IncrementalReader(load_encoder(str(wide), dtype="float16"))
    with pytest.raises(ValueError, match="give --dtype bfloat16 or float32"):
        reader.begin()
        reader.append(WORDS, [True] * len(WORDS))


def test_states_that_are_no_numbers_are_refused_in_every_type(wide, tmp_path):
    folder = shutil.copytree(wide, tmp_path / "damaged")
    for file in folder.glob("*.safetensors"):
        weights = load_file(file)
        weights[min(weights)].fill_(float("nan"))
        save_file(weights, file, {"format": "pt"})
    with pytest.raises(ValueError, match="its states are no numbers, so its weights are damaged"):
        load_encoder(str(folder), dtype="float32").encode_all([WORDS])


@pytest.mark.parametrize("shape", [(1, 5), (3, 17), (2, 32), (7, 9)])
def test_products_of_filled_up_rows_are_those_of_the_rows(shape):
    generator = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(*of, generator=generator).bfloat16() for of in ((*shape, 64), (96, 64), (96,)))
    for added in (None, bias):
        torch.testing.assert_close(multiply(x, weight, added), torch.nn.functional.linear(x, weight, added))
