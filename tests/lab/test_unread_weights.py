"""Weights that would be read in part, or in one of two ways: refused as missing ones are, in every architecture."""

import json
import shutil
import time
from pathlib import Path
from threading import Thread

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
    BertForPreTraining,
)

from architectures import write_model
from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.lab.generation.both_ends.pair import LMPair
from boustro.lab.generation.models import open_lm
from boustro.lab.pretrain.run import start_from
from boustro.models.placing import CAUSAL, MASKED
from boustro.models.pretrained import load_pretrained, wrongly_unread
from boustro.text.tokenizers import load_tokenizer, with_special_pieces

KINDS = [*CAUSAL.split(), *MASKED.split()]


def names_of(folder: Path) -> list[str]:
    """Of all weights in the files of a folder."""
    return [name for file in folder.glob("*.safetensors") for name in load_file(file)]


def add_weights(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """Write them into the first file, and into the index if there is one."""
    file = min(folder.glob("*.safetensors"))
    save_file(load_file(file) | weights, file, metadata={"format": "pt"})
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        found = json.loads(index.read_text("utf-8"))
        found["weight_map"] |= dict.fromkeys(weights, file.name)
        index.write_text(json.dumps(found), "utf-8")


def change_config(folder: Path, **changes) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


@pytest.fixture
def lm(tiny_lm, tmp_path) -> Path:
    return shutil.copytree(tiny_lm("llama"), tmp_path / "lm")


# What is refused, and what is not


@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_is_read_whole_and_short_and_scales_in_it_are_refused(kind, tiny_tokenizer, tmp_path):
    """The LM, and the first blocks of its body; then with a scale beside a matrix of the first block."""
    with_special_pieces(tiny_tokenizer, ["mask"]).save_pretrained(tmp_path / "tokenizer")
    folder = write_model(tmp_path / "model", kind, tmp_path / "tokenizer")
    masked = kind in MASKED.split()
    with_head = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    load_pretrained(with_head, str(folder))
    spec = f"masked:{folder}" if masked else str(folder)
    load_encoder(spec, layers="0,1")
    matrix = min(name for name in names_of(folder) if ".0." in name and name.endswith((".weight", "_proj")))
    scale = matrix.removesuffix(".weight") + ".weight_scale"
    add_weights(folder, {scale: torch.ones(1)})
    for read in (lambda: load_encoder(spec, layers="0,1"), lambda: load_pretrained(with_head, str(folder))):
        with pytest.raises(ValueError, match=r"model: the config does not fit the weights: .*scale would be left out"):
            read()


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.mlp.up_proj.weight.absmax",
        "model.layers.1.mlp.up_proj.lora_A.weight",
        "model.layers.2.mlp.up_proj.weight",
        "model.embed_positions.weight",
        "model.embed_tokens.scales",
        "model.norm.bias",
    ],
)
def test_what_the_config_does_not_speak_of_is_refused(lm, name):
    """A norm, a bias, statistics, a low-rank change, a third block, positions: of another architecture or format."""
    add_weights(lm, {name: torch.ones(2)})
    with pytest.raises(ValueError, match=f"the config does not fit the weights: {name} would be left out"):
        load_pretrained(AutoModelForCausalLM if "0" in name else AutoModel, str(lm))


def test_all_that_is_left_out_is_counted(lm):
    add_weights(lm, {f"model.layers.{n}.self_attn.q_proj.bias": torch.ones(2) for n in range(2)})
    with pytest.raises(ValueError, match=r"layers\.0\.self_attn\.q_proj\.bias and 1 more weights would be left out"):
        load_pretrained(AutoModel, str(lm))


def test_a_part_of_a_head_that_is_used_is_refused_and_of_one_that_is_not_is_not(lm):
    add_weights(lm, {"lm_head.bias": torch.ones(400)})
    load_pretrained(AutoModel, str(lm))
    with pytest.raises(ValueError, match=r"lm_head\.bias would be left out"):
        load_pretrained(AutoModelForCausalLM, str(lm))


@pytest.mark.parametrize(
    "name",
    [
        "score.weight",
        "v_head.summary.weight",
        "mtp.layers.0.mlp.up_proj.weight",
        "model.vision_tower.layers.0.mlp.up_proj.weight",
        "model.visual.blocks.0.mlp.up_proj.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.0.self_attn._extra_state",
    ],
)
def test_what_is_meant_for_something_else_is_passed_over(lm, name):
    add_weights(lm, {name: torch.ones(2)})
    load_pretrained(AutoModelForCausalLM if "0" in name else AutoModel, str(lm))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("gpt2", ["transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"]),
        ("gpt_neox", ["gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.masked_bias"]),
        ("gpt_neox", ["gpt_neox.layers.0.attention.rotary_emb.inv_freq"]),
        ("gptj", ["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"]),
        ("gpt_neo", ["transformer.h.0.attn.attention.bias", "transformer.h.0.attn.attention.masked_bias"]),
        ("codegen", ["transformer.h.0.attn.causal_mask"]),
        ("xglm", ["model.embed_positions.weights"]),
        ("bert", ["bert.embeddings.position_ids", "bert.pooler.dense.weight", "cls.seq_relationship.weight"]),
        ("roberta", ["roberta.embeddings.position_ids", "roberta.pooler.dense.weight"]),
        ("distilbert", ["distilbert.embeddings.position_ids", "qa_outputs.weight"]),
        ("electra", ["discriminator_predictions.dense.weight"]),
        ("deberta-v2", ["deberta.embeddings.position_ids", "mask_predictions.dense.weight", "lm_predictions.bias"]),
    ],
)
def test_buffers_and_heads_of_published_files_are_passed_over(kind, names, tiny_tokenizer, tmp_path):
    folder = write_model(tmp_path / "model", kind, tiny_tokenizer)
    for make in (AutoModel, AutoModelForMaskedLM if kind in MASKED.split() else AutoModelForCausalLM):
        assert wrongly_unread(load_pretrained(make, str(folder)), names, 4) == []


def test_a_body_alone_without_its_prefix_is_known_by_its_blocks(tiny_lm, tmp_path):
    """As GPT-2's own files are."""
    folder = tmp_path / "body"
    AutoModel.from_pretrained(tiny_lm("gpt2")).save_pretrained(folder)
    load_tokenizer(tiny_lm("gpt2")).save_pretrained(folder)
    add_weights(folder, {"h.0.attn.bias": torch.ones(1, 1, 4, 4)})
    load_encoder(str(folder), layers="0,1")
    open_lm(str(folder))
    add_weights(folder, {"h.0.attn.c_attn.weight_scale": torch.ones(1)})
    for read in (lambda: load_encoder(str(folder), layers="0,1"), lambda: open_lm(str(folder))):
        with pytest.raises(ValueError, match="weight_scale would be left out"):
            read()


def test_bert_as_it_was_pretrained_is_read(tiny_tokenizer, tmp_path):
    """With the head for the next sentence, and the pooler."""
    config = BertConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    BertForPreTraining(config).save_pretrained(tmp_path)
    for make in (AutoModel, AutoModelForMaskedLM):
        load_pretrained(make, str(tmp_path))


# Quantised weights


@pytest.mark.parametrize("found", [{"quant_method": "strange"}, {"bits": 8}])
def test_an_unknown_quantisation_is_refused_by_name(lm, found):
    change_config(lm, quantization_config=found)
    for read in (load_encoder, open_lm, lambda path: LMPair.load(f"{path}+backward:{path}")):
        with pytest.raises(ValueError, match=rf"quantised by {found.get('quant_method')!r}, which transformers cannot"):
            read(str(lm))


# A head of its own


@pytest.fixture
def untied(lm) -> Path:
    """The config says tied; the head in the file is another."""
    change_config(lm, tie_word_embeddings=True)
    return lm


def test_a_head_that_the_config_ties_and_the_file_has_is_scored_in_no_way(untied, tiny_lm, tmp_path, capsys):
    """By the one who writes, the one who fills, the one who starts training from it, and by commands."""
    spec = str(untied)
    back = tiny_lm("llama", "backward", seed=1, sentinel=True)
    texts = tmp_path / "texts.txt"
    texts.write_text("Ada sold boats.\n")
    message = r"config.json ties lm_head.weight to .*embed_tokens.weight .*write false for tie_word_embeddings"
    new = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tiny_lm("llama")))
    for read in (
        lambda: open_lm(spec),
        lambda: LMPair.load(f"{spec}+{back}"),
        lambda: load_encoder(spec).language_model(),
        lambda: start_from(new, spec),
    ):
        with pytest.raises(ValueError, match=message):
            read()
    assert main(["lab", "score", "--encoder", spec, str(texts)]) == 1
    assert "tie_word_embeddings" in capsys.readouterr().err


def test_states_alone_are_read_whatever_the_head_is(untied):
    assert load_encoder(str(untied)).num_parameters


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_that_is_the_embeddings_may_be_in_the_file_too(lm, tied):
    weights = load_file(lm / "model.safetensors")
    add_weights(lm, {"lm_head.weight": weights["model.embed_tokens.weight"].clone()})
    change_config(lm, tie_word_embeddings=tied)
    lm_read = open_lm(str(lm)).lm
    torch.testing.assert_close(lm_read.lm_head.weight, lm_read.model.embed_tokens.weight)


# Files that Git LFS has not fetched


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "tokenizer.json"])
def test_a_pointer_in_place_of_a_file_is_named_with_the_way_on(lm, name):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 123456789\n"
    if name == "pytorch_model.bin":
        (lm / "model.safetensors").unlink()
    (lm / name).write_text(pointer)
    for read in (load_encoder, open_lm):
        with pytest.raises(ValueError, match=rf"{name} is a pointer of Git LFS, not the file itself; .*git lfs pull"):
            read(str(lm))


def test_a_pointer_in_a_folder_of_ours_is_named(tmp_path):
    from importlib.resources import files

    shutil.copytree(str(files("boustro") / "data" / "starter" / "forward"), tmp_path / "lm")
    (tmp_path / "lm" / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match=r"model\.safetensors is a pointer of Git LFS"):
        load_encoder(str(tmp_path / "lm"))


def test_a_pointer_that_is_not_needed_is_no_obstacle(lm):
    (lm / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    load_encoder(str(lm))


def test_one_model_is_loaded_at_a_time(tiny_lm):
    """Two threads would put back in the wrong order what transformers replaces while it loads."""
    inside, most = [], []

    class Slow:
        @classmethod
        def from_pretrained(cls, *given, **named):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()
            return AutoModel.from_pretrained(*given, **named)

    threads = [Thread(target=load_pretrained, args=(Slow, str(tiny_lm("llama")))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]
