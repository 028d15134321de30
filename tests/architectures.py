"""Small random models of the real architectures of transformers, and what plain transformers computes with them."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from boustro.models.placing import MASKED
from conftest import SENTENCES
from tokenizer_kinds import ours, sentence_piece, sentence_piece_legacy

NUM_BLOCKS, WINDOW = 4, 6
SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": NUM_BLOCKS, "num_attention_heads": 4}
GROUPED, HEADS, SLIDING = {"num_key_value_heads": 2}, {"head_dim": 8}, {"sliding_window": WINDOW}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
IN_TURN = {"layer_types": ["sliding_attention", "full_attention"] * (NUM_BLOCKS // 2)}
OWN: dict[str, dict[str, Any]] = {
    "codegen": {"rotary_dim": 4},
    "cohere2": SLIDING,
    "exaone4": {**GROUPED, **SLIDING},
    "gemma": {**GROUPED, **HEADS},
    "gemma2": {**HEADS, **SLIDING, **IN_TURN},
    "gemma3_text": {**GROUPED, **HEADS, **SLIDING, **IN_TURN},
    "glm": {**GROUPED, **HEADS},
    "gpt_neo": {"attention_types": [[["global", "local"], NUM_BLOCKS // 2]]},
    "gpt_oss": {**GROUPED, **HEADS, **SLIDING, **EXPERTS},
    "gptj": {"rotary_dim": 4},
    "llama": GROUPED,
    "mistral": {**GROUPED, **SLIDING},
    "mixtral": {**GROUPED, **EXPERTS},
    "olmo3": SLIDING,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "phi3": {**GROUPED, **SLIDING},
    "qwen3": {**GROUPED, **HEADS},
    "qwen3_moe": {**GROUPED, **HEADS, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
}
OWN |= dict.fromkeys("apertus eurobert granite nemotron qwen2 seed_oss smollm3 starcoder2".split(), GROUPED)


def write_model(folder: Path, kind: str, tokenizer_folder: Path, **options: Any) -> Path:
    """A model of `NUM_BLOCKS` blocks with its tokenizer, its weights in several files; `options` are of its config."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    pieces = {"vocab_size": len(tokenizer), **dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.eos_token_id)}
    shape = {**SHAPE, **pieces, "pad_token_id": 1, "max_position_embeddings": 128}
    own = {**shape, **OWN.get(kind, {}), **options}
    if kind == "gemma3":
        vision = {**SHAPE, "num_hidden_layers": 2, "image_size": 56, "patch_size": 14}
        tokens = {"mm_tokens_per_image": 4, "image_token_index": len(tokenizer) - 1, "tie_word_embeddings": True}
        own = {"text_config": {**own, **OWN["gemma3_text"]}, "vision_config": vision, **tokens}
    config = AutoConfig.for_model(kind, **own)
    make: Any = AutoModelForMaskedLM if kind in MASKED.split() else AutoModelForCausalLM
    model = make.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:  # at the usual 0.02 all states look alike
                parameter.normal_(0, 0.3, generator=generator)
            else:  # norms and biases that do something
                parameter.add_(torch.empty_like(parameter).normal_(0, 0.1, generator=generator))
    model.save_pretrained(folder, max_shard_size="40KB")
    tokenizer.save_pretrained(folder)
    return folder


def plain(path, words, backward=False, sentinel=False, spaces=None, repeated=None, mask=None):
    """States of one sentence by transformers alone: [layer][reading position], and each word's positions.

    `repeated` is a text: the words are then read in a second copy after it. `mask` makes what `attention_mask` is, of
    the number of pieces.
    """
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    spaces = spaces or [True] * len(words)
    texts = [" " * s + w for w, s in zip(words, spaces, strict=True)]
    owners, ids = [], []
    for i, text in enumerate(texts):
        for piece in tokenizer(text, add_special_tokens=False)["input_ids"]:
            owners.append(i)
            ids.append(piece)
    if backward:
        owners, ids = owners[::-1], ids[::-1]
    if repeated is not None:
        between = tokenizer(repeated, add_special_tokens=False)["input_ids"]
        owners, ids = [-1] * (len(ids) + len(between)) + owners, [*ids, *between, *ids]
    if sentinel:
        owners, ids = [-1, *owners], [tokenizer.eos_token_id, *ids]
    options = {"attention_mask": mask(len(ids))} if mask else {}
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ids]), output_hidden_states=True, **options).hidden_states
    positions = [[p for p, owner in enumerate(owners) if owner == i] for i in range(len(words))]
    return [s[0].numpy() for s in states], positions


def at_last_pieces(states: list[np.ndarray], positions: list[list[int]], layers: list[int]) -> np.ndarray:
    """(words, layers, width): the states after each word, `pooling="exit"`."""
    return np.stack([[states[layer][p[-1]] for layer in layers] for p in positions])


class Family(NamedTuple):
    """A family of LMs: its architecture, how its tokenizer splits, and what it puts around a text."""

    kind: str
    split: object
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def start(self) -> list[str]:
        """The pieces before every text that is read: where the tokenizer puts none, the one between documents."""
        return [*(self.before or ("<|endoftext|>",))]


BYTES, MARKS, LEGACY = ours, sentence_piece, sentence_piece_legacy
FAMILIES = {
    "gpt-2": Family("gpt2", BYTES),
    "llama 2": Family("llama", LEGACY, ("<s>",)),
    "llama 3": Family("llama", BYTES, ("<|begin_of_text|>",)),
    "mistral": Family("mistral", MARKS, ("<s>",)),
    "qwen": Family("qwen2", BYTES),
    "gemma 2": Family("gemma2", MARKS, ("<bos>",)),
    "gemma 3": Family("gemma3_text", MARKS, ("<bos>",)),
    "phi": Family("phi", BYTES),
    "olmo": Family("olmo2", BYTES),
    "falcon": Family("falcon", BYTES),
    "gpt-neox": Family("gpt_neox", BYTES),
    "opt: the end piece is the start piece": Family("opt", BYTES, ("<|endoftext|>",)),
    "glm: two pieces": Family("glm", BYTES, ("[gMASK]", "<sop>")),
    "a tokenizer that ends texts too": Family("llama", MARKS, ("<s>",), ("</s>",)),
}


def write_family(folder: Path, family: Family) -> Path:
    tokenizer = family.split([" ".join(words) for words in SENTENCES])
    frame = (*family.before, *family.after)
    new = [piece for piece in frame if piece not in tokenizer.get_vocab()]
    tokenizer.add_special_tokens({"additional_special_tokens": new} if new else {})
    if family.before:
        tokenizer.bos_token = family.before[0]
    if frame:
        ids = [(piece, tokenizer.convert_tokens_to_ids(piece)) for piece in dict.fromkeys(frame)]
        template = processors.TemplateProcessing(
            single=" ".join([*family.before, "$A", *family.after]), special_tokens=ids
        )
        tokenizer.backend_tokenizer.post_processor = template
    tokenizer.save_pretrained(folder / "tokenizer")
    return write_model(folder / "lm", family.kind, folder / "tokenizer")
