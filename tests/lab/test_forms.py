"""The forms in which people have LMs: a .gguf file, an adapter beside its LM, a model that also reads pictures."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

from architectures import SHAPE, write_model
from boustro import load_encoder
from boustro.encoders.spec import Spec
from boustro.lab.generation.models import open_lm

WORDS = [["Ada", "left", "Paris"]]


@pytest.fixture(scope="module")
def qwen(tiny_tokenizer, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("qwen") / "lm", "qwen2", tiny_tokenizer, tie_word_embeddings=False)


@pytest.fixture(scope="module")
def packed(qwen, tmp_path_factory):
    pytest.importorskip("gguf")
    from packed import write_gguf

    return write_gguf(tmp_path_factory.mktemp("packed") / "lm.gguf", qwen)


def states(spec, **options):
    return load_encoder(str(spec), dtype="float32", **options).encode_all(WORDS).streams[0]


@pytest.mark.parametrize("layers", ["all", "1"])
def test_a_gguf_file_and_its_folder_are_the_lm_that_was_packed(qwen, packed, layers):
    wanted = states(qwen, layers=layers)
    for spec in (packed, packed.parent):
        np.testing.assert_allclose(states(spec, layers=layers), wanted, rtol=1e-4, atol=1e-5)
    Spec.parse(str(packed)).check()


def test_a_gguf_file_has_an_identity_and_an_exact_spec_and_writes(packed):
    encoder = load_encoder(str(packed))
    weights = encoder.identity().weights
    assert "@" not in weights and Spec.parse(str(packed)).exact(encoder.identity()) == str(packed)
    assert open_lm(str(packed)).before == (0,)  # <|endoftext|>


def test_what_a_gguf_file_cannot_do_is_said(packed, tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / f"{name}.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=r"has 2 \.gguf files; name one of them, such as .*a\.gguf"):
        load_encoder(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no model could be loaded"):
        load_encoder(str(tmp_path / "a.gguf"))
    monkeypatch.setattr("boustro.names.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'boustro\[gguf\]'"):
        load_encoder(str(packed))


@pytest.fixture(scope="module", params=["with its head", "body alone"])
def adapter(request, qwen, tmp_path_factory):
    """A folder as peft writes it, over the LM in `qwen`, and the folder of the same LM with the adapter merged."""
    peft = pytest.importorskip("peft")
    make = AutoModelForCausalLM if request.param == "with its head" else AutoModel
    lm = make.from_pretrained(qwen, dtype=torch.float32)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    adapted, folder = peft.get_peft_model(lm, config), tmp_path_factory.mktemp("adapter")
    adapted.save_pretrained(folder / "adapter")
    whole = AutoModelForCausalLM.from_pretrained(qwen, dtype=torch.float32)
    merged = adapted.merge_and_unload()
    body = merged.model if make is AutoModelForCausalLM else merged
    whole.model.load_state_dict(body.state_dict())
    whole.save_pretrained(folder / "merged")
    AutoTokenizer.from_pretrained(qwen).save_pretrained(folder / "merged")
    return folder / "adapter", folder / "merged"


def test_an_adapter_folder_is_its_lm_with_the_adapter_merged(qwen, adapter):
    path, merged = adapter
    np.testing.assert_allclose(states(path), states(merged), rtol=1e-3, atol=1e-4)
    assert np.abs(states(path) - states(qwen)).max() > 0.01
    found, plain = (load_encoder(str(own)).identity().weights for own in (path, qwen))
    assert found != plain
    Spec.parse(str(path)).check()


def test_what_an_adapter_folder_cannot_do_is_said(adapter, tmp_path):
    path = adapter[0]
    with pytest.raises(ValueError, match="leave out --device auto"):
        load_encoder(str(path), device="auto")
    with pytest.raises(
        ValueError, match=r"is an adapter without its LM; merge it into the LM with peft's merge_and_unload"
    ):
        open_lm(str(path))
    moved = shutil.copytree(path, tmp_path / "moved")
    config = json.loads((moved / "adapter_config.json").read_text("utf-8"))
    (moved / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": "./gone"}), "utf-8")
    with pytest.raises(FileNotFoundError, match=r"moved is an adapter of \./gone: "):
        load_encoder(str(moved))
    (moved / "adapter_config.json").write_text(json.dumps(config | {"peft_type": "IA3"}), "utf-8")
    with pytest.raises(ValueError, match="is an adapter that is not LoRA, or does not name its LM; merge it"):
        load_encoder(str(moved))


@pytest.mark.parametrize("kept", [{}, {"modules_to_save": ["embed_tokens"]}, {"trainable_token_indices": [7, 400]}])
def test_an_adapter_is_read_with_the_tokenizer_and_the_rows_of_its_folder(qwen, tmp_path, kept):
    peft = pytest.importorskip("peft")
    lm, tokenizer = AutoModelForCausalLM.from_pretrained(qwen), AutoTokenizer.from_pretrained(qwen)
    lm.resize_token_embeddings(408)  # as LMs have them: more rows than pieces
    lm.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    lm = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    assert tokenizer.add_tokens(["Paris"])
    adapted = peft.get_peft_model(lm, peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False, **kept))
    for name, parameter in adapted.named_parameters():
        if "modules_to_save" in name or "trainable_tokens" in name:
            torch.nn.init.normal_(parameter)
    adapted.save_pretrained(tmp_path / "adapter")
    for folder, model in (("adapter", None), ("merged", adapted.merge_and_unload())):
        tokenizer.save_pretrained(tmp_path / folder)
        if model is not None:
            model.save_pretrained(tmp_path / folder)
    np.testing.assert_allclose(states(tmp_path / "adapter"), states(tmp_path / "merged"), rtol=1e-3, atol=1e-4)
    assert len(load_encoder(str(tmp_path / "adapter")).pieces(WORDS[0][-1:], [False]).ids) == 1


def test_an_adapter_of_a_resized_vocabulary_is_refused_with_both_sizes(qwen, tmp_path):
    peft = pytest.importorskip("peft")
    lm = AutoModelForCausalLM.from_pretrained(qwen)
    rows = lm.config.vocab_size
    lm.resize_token_embeddings(rows + 3)
    peft.get_peft_model(lm, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(
        tmp_path / "adapter", save_embedding_layers=True
    )
    with pytest.raises(ValueError, match=rf"has {rows + 3} rows, and that of the LM {rows}: .* with peft's merge_and"):
        load_encoder(str(tmp_path / "adapter"))


TURNED = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}}
EYES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
EYES |= {"image_size": 28, "patch_size": 14}
PICTURES = {
    "qwen2_vl": (TURNED, {"embed_dim": 32, "depth": 1, "num_heads": 4, "hidden_size": 32, "mlp_ratio": 2}),
    "llava": ({"model_type": "llama"}, {"model_type": "clip_vision_model", **EYES}),
    "mistral3": ({"model_type": "mistral", "head_dim": 8}, {"model_type": "pixtral", **EYES}),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_model_that_also_reads_pictures_is_read_and_writes_as_its_lm(kind, tiny_tokenizer, tmp_path):
    tokenizer, (text, vision) = AutoTokenizer.from_pretrained(tiny_tokenizer), PICTURES[kind]
    shape = {**SHAPE, "num_key_value_heads": 2, "vocab_size": len(tokenizer), "max_position_embeddings": 128}
    config = AutoConfig.for_model(kind, text_config={**shape, **text}, vision_config=vision, image_token_index=5)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path), dtype="float32", pooling="exit")
    (row,) = encoder.rows(WORDS)
    with torch.no_grad():
        found = model(input_ids=torch.tensor([row.ids]), output_hidden_states=True)
    wanted = torch.stack([layer[0, torch.tensor(row.columns)] for layer in found.hidden_states], 1)
    np.testing.assert_allclose(encoder.encode_all(WORDS).streams[0], wanted, rtol=1e-3, atol=1e-5)
    lm = encoder.language_model()
    torch.testing.assert_close(lm(input_ids=torch.tensor([row.ids])).logits, found.logits)
    assert open_lm(str(tmp_path)).before == (0,)  # <|endoftext|>
