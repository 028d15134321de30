"""A tiny LM as a .gguf file, as llama.cpp's converter would write it."""

import json
from pathlib import Path
from typing import Any

import gguf
from transformers import AutoConfig, AutoModelForCausalLM

TENSORS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
TENSORS |= {f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"} | {"self_attn.o_proj": "attn_output"}
TENSORS |= {f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}
TENSORS |= {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def write_gguf(file: Path, folder: Path) -> Path:
    """The Qwen 2 in a folder, with its tokenizer, in 32 bits."""
    config: Any = AutoConfig.from_pretrained(folder)
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    learned = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(pieces)
    writer.add_token_types([3 if piece.startswith("<|") else 1 for piece in pieces])
    writer.add_token_merges([" ".join(pair) for pair in learned["merges"]])
    writer.add_eos_token_id(config.eos_token_id)
    for name, weight in AutoModelForCausalLM.from_pretrained(folder).state_dict().items():
        stem, kind = name.rsplit(".", 1)
        if stem.startswith("model.layers."):
            number, own = stem.removeprefix("model.layers.").split(".", 1)
            stem = f"blk.{number}.{TENSORS[own]}"
        else:
            stem = TENSORS[stem]
        writer.add_tensor(f"{stem}.{kind}", weight.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
