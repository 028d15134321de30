"""A Llama of ours without transformers: its states, with as few operations as they need.

The import of transformers and of its Llama takes two seconds, three times as long as the answer that a command line
waits for; and of a text of a few pieces, its code takes longer between the products than for them. Here a block is its
seven products, attention, two norms and a rotation. Only folders that Boustro wrote are read so (`models.body`), all
others and all else that is done with an LM by transformers, which gives the same states but for rounding.

B rows, P pieces, D width of a state, H heads of width E, K heads of keys and values.
"""

from functools import cached_property, partial
from operator import methodcaller
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from boustro.models.body import Body, PlainConfig, Shapes
from boustro.models.products import Product, ProductReader, attention, normed

LLAMA = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "rope_scaling": None,
    "partial_rotary_factor": None,
}
LLAMA_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": None,
    "head_dim": None,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
    "rope_theta": 10000.0,
    "rope_parameters": None,
}
BLOCK_PARTS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
)
EMBEDDINGS, NORM, HEAD_WEIGHT = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


def weight_shapes(config: PlainConfig) -> tuple[Shapes, Shapes] | None:
    """Of the weights of a body, and of an LM head; the config is given the sizes and the rotation that follow."""
    # transformers 4 writes the base beside the other settings
    rotation = {"rope_type": "default", "rope_theta": config.rope_theta} | (config.rope_parameters or {})
    if rotation["rope_type"] != "default" or len(rotation) > 2:
        return None
    config.rope_parameters = rotation
    width, inner = config.hidden_size, config.intermediate_size
    config.head_dim = config.head_dim or width // config.num_attention_heads
    config.num_key_value_heads = config.num_key_value_heads or config.num_attention_heads
    heads, groups = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
    maps = ((heads, width), (groups, width), (groups, width), (width, heads), (inner, width), (inner, width))
    block = (*maps, (width, inner), (width,), (width,))
    shapes = {EMBEDDINGS: (config.vocab_size, width), NORM: (width,)}
    for number in range(config.num_hidden_layers):
        shapes.update(zip(block_weights(number), block, strict=True))
    return shapes, {HEAD_WEIGHT: shapes[EMBEDDINGS]}


def block_weights(number: int) -> list[str]:
    """Return the names of the weights of a block."""
    return [f"model.layers.{number}.{part}.weight" for part in BLOCK_PARTS]


class KeyValues:
    """The keys and values of a text that is read bit by bit, (B, K, P, E) for each block."""

    def __init__(self) -> None:
        self._kept: list[tuple[Tensor, Tensor]] = []

    def get_seq_length(self) -> int:
        """P."""
        return self._kept[0][0].shape[2] if self._kept else 0

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row so many times, as the cache of transformers has it."""
        self._kept = [(k.repeat_interleave(repeats, 0), v.repeat_interleave(repeats, 0)) for k, v in self._kept]

    def update(self, keys: Tensor, values: Tensor, block: int) -> tuple[Tensor, Tensor]:
        """Return all of a block, with further ones."""
        if block == len(self._kept):
            self._kept.append((keys, values))
        else:
            before = self._kept[block]
            self._kept[block] = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)
        return self._kept[block]


FEW_PIECES = 16
"""Pieces up to which a CPU computes in float32: products in bf16 are the slower ones there."""


class LlamaBlock(NamedTuple):
    """The products of a block, two of them behind a norm."""

    look: Product  # queries, keys and values
    leave: Product
    widen: Product  # the gate, and what it lets through
    narrow: Product


class Weights(NamedTuple):
    """Those of the last norm, and of every block."""

    norm: Tensor
    blocks: list[LlamaBlock]


class LlamaBody(Body):
    """The states of the first `num_blocks` blocks of a folder with such a config, computed in `dtype` on `device`."""

    kind, defaults, shapes = LLAMA, LLAMA_DEFAULTS, staticmethod(weight_shapes)

    def __init__(
        self, path: str, config: PlainConfig, num_blocks: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.dtype, self._width, self._eps = dtype, config.head_dim, config.rms_norm_eps
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._normed_last = num_blocks == config.num_hidden_layers
        self._attend = attention(dtype)
        reader = ProductReader(path, dtype, device)
        self.embeddings = reader.rows(EMBEDDINGS)
        self._weights = Weights(reader.read(NORM), [*map(partial(_read_block, reader), range(num_blocks))])
        self.num_parameters = reader.num_parameters
        exponents = torch.arange(0, self._width, 2, device=device) / self._width
        self._frequencies = 1 / config.rope_parameters["rope_theta"] ** exponents

    @cached_property
    def _exact(self) -> "Weights":
        """The weights in float32 on a CPU that computes in another type."""
        norm, blocks = self._weights
        if norm.device.type != "cpu" or norm.dtype == torch.float32:
            return self._weights
        exact = []
        for block in blocks:
            exact.append(LlamaBlock(*map(methodcaller("in_float32"), block)))
        return Weights(norm.float(), exact)

    def new_cache(self) -> KeyValues:
        return KeyValues()

    def states(
        self, ids: Int[Tensor, "B P"], mask: Any = None, cache: KeyValues | None = None
    ) -> list[Float[Tensor, "B P D"]]:
        """By layer, the last of the LM behind its norm; no state sees the padding, so `mask` is unread."""
        norm, blocks = self._exact if ids.numel() <= FEW_PIECES else self._weights
        past, x = cache.get_seq_length() if cache else 0, self.embeddings[ids].to(norm.dtype)
        positions = torch.arange(past, past + ids.shape[1], device=ids.device)
        angles = (positions[:, None] * self._frequencies)[:, None]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        turn = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        mask = positions[:, None] >= torch.arange(past + ids.shape[1], device=ids.device) if past else None
        states = [x]
        for number, (look, leave, widen, narrow) in enumerate(blocks):
            seen = look(x, self._rows(x)).unflatten(-1, (-1, self._width))
            q, k = _turned(seen[..., : -self._groups, :], *turn).split([self._heads, self._groups], -2)
            q, k, v = (part.transpose(1, 2) for part in (q, k, seen[..., -self._groups :, :]))
            if cache is not None:
                k, v = (kept.to(x.dtype) for kept in cache.update(k, v, number))
            read = self._attend(q, k, v, mask, is_causal=mask is None, enable_gqa=self._heads != self._groups)
            x = leave(read.transpose(1, 2).flatten(2)).add_(x)
            gate, up = widen(x, self._rows(x)).chunk(2, -1)
            x = narrow(F.silu(gate).mul_(up)).add_(x)
            states.append(x)
        if self._normed_last:
            states[-1] = normed(x, self._rows(x), norm)
        return states

    def _rows(self, x: Float[Tensor, "B P D"]) -> Float[Tensor, "B P 1"]:
        """Return what a norm multiplies each state by, in float32."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return length.square_().div_(x.shape[-1]).add_(self._eps).rsqrt_()


def _read_block(reader: ProductReader, number: int) -> LlamaBlock:
    query, key, value, leave, gate, up, down, before, between = block_weights(number)
    look, widen = reader.product([query, key, value], norm=before), reader.product([gate, up], norm=between)
    return LlamaBlock(look, reader.product([leave]), widen, reader.product([down]))


def _turned(x: Float[Tensor, "B P H E"], cos: Tensor, sin: Tensor) -> Float[Tensor, "B P H E"]:
    """`x` rotated by its positions; the first half of `sin` has its sign turned."""
    return (x * cos).addcmul_(torch.cat(x.chunk(2, -1)[::-1], -1), sin)
