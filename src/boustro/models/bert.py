"""The states of a BERT without transformers, whose import takes longer than a thousand short texts.

A block is attention and two products around a GELU, each added to what it read and then normed. Only folders that
Boustro wrote are read so (`models.body`).

B rows, P pieces, D width of a state, H heads of width E. Source: Devlin et al. 2019.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from boustro.models.body import Body, PlainConfig, Shapes
from boustro.models.products import Product, ProductReader, attention

BERT = {
    "hidden_act": "gelu",
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
}
BERT_DEFAULTS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
WORD_ROWS, POSITION_ROWS, TYPE_ROWS = (
    f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
)
EMBEDDING_NORM, POOLER = "embeddings.LayerNorm", "pooler.dense"
BLOCK_MAPS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
BLOCK_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def weight_shapes(config: PlainConfig) -> tuple[Shapes, Shapes]:
    """Return the names and shapes of the weights below the pooler, and of its own."""
    width, inner = config.hidden_size, config.intermediate_size
    rows = (config.vocab_size, config.max_position_embeddings, config.type_vocab_size)
    shapes: Shapes = {
        name: (number, width) for name, number in zip((WORD_ROWS, POSITION_ROWS, TYPE_ROWS), rows, strict=True)
    }
    norms = [EMBEDDING_NORM]
    for block in range(config.num_hidden_layers):
        for part in BLOCK_MAPS:
            out, into = inner if part == BLOCK_MAPS[4] else width, inner if part == BLOCK_MAPS[5] else width
            shapes |= {f"{_block(block)}{part}.weight": (out, into), f"{_block(block)}{part}.bias": (out,)}
        norms += [f"{_block(block)}{part}" for part in BLOCK_NORMS]
    shapes |= {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}
    return shapes, {f"{POOLER}.weight": (width, width), f"{POOLER}.bias": (width,)}


def _block(number: int) -> str:
    return f"encoder.layer.{number}."


class BertBody(Body):
    """The states of the first `num_blocks` blocks of a folder with such a config, computed in `dtype` on `device`."""

    kind, defaults, shapes = BERT, BERT_DEFAULTS, staticmethod(weight_shapes)

    def __init__(
        self, path: str, config: PlainConfig, num_blocks: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.dtype, self._heads, self._eps = dtype, config.num_attention_heads, config.layer_norm_eps
        self._attend = attention(dtype)
        reader = ProductReader(path, dtype, device)
        self.embeddings = reader.rows(WORD_ROWS)
        self._positions, self._types = reader.read(POSITION_ROWS), reader.read(TYPE_ROWS)
        self._norm = _read_norm(reader, EMBEDDING_NORM)
        self._blocks = [_read_block(reader, _block(number)) for number in range(num_blocks)]
        self.num_parameters = reader.num_parameters

    def watch(self, record: Callable[[str, Tensor], Any]) -> None:
        """Give what each product reads from now on to `record`, under the name of its first weight."""

        def watched(product: Product, name: str) -> Any:
            def read(x: Tensor) -> Tensor:
                record(name, x)
                return product(x)

            return read

        firsts = {"look": 0, "leave": 3, "widen": 4, "narrow": 5}
        for number, block in enumerate(self._blocks):
            names = {part: f"{_block(number)}{BLOCK_MAPS[first]}.weight" for part, first in firsts.items()}
            made = {part: watched(getattr(block, part), name) for part, name in names.items()}
            self._blocks[number] = block._replace(**made)

    def states(
        self, ids: Int[Tensor, "B P"], mask: Int[Tensor, "B P"] | None = None, cache: None = None
    ) -> list[Float[Tensor, "B P D"]]:
        x = self.embeddings[ids] + self._types[0] + self._positions[: ids.shape[1]]
        x = self._normed(x, self._norm)
        mask = None if mask is None or bool(mask.all()) else mask[:, None, None].bool()
        states = [x]
        for look, leave, widen, narrow, after, last in self._blocks:
            q, k, v = look(x).unflatten(-1, (3, self._heads, -1)).permute(2, 0, 3, 1, 4)
            read = self._attend(q, k, v, mask)
            x = self._normed(leave(read.transpose(1, 2).flatten(2)) + x, after)
            x = self._normed(narrow(F.gelu(widen(x))) + x, last)
            states.append(x)
        return states

    def _normed(self, x: Float[Tensor, "B P D"], pair: tuple[Tensor, Tensor]) -> Float[Tensor, "B P D"]:
        return F.layer_norm(x, x.shape[-1:], *pair, eps=self._eps)


class BertBlock(NamedTuple):
    """The products of a block, and its two norms."""

    look: Product  # queries, keys and values
    leave: Product
    widen: Product
    narrow: Product
    after: tuple[Tensor, Tensor]
    last: tuple[Tensor, Tensor]


def _read_norm(reader: ProductReader, name: str) -> tuple[Tensor, Tensor]:
    return reader.read(f"{name}.weight"), reader.read(f"{name}.bias")


def _read_block(reader: ProductReader, block: str) -> BertBlock:
    look, leave, widen, narrow = (
        reader.product([f"{block}{part}.weight" for part in maps], [f"{block}{part}.bias" for part in maps])
        for maps in (BLOCK_MAPS[:3], BLOCK_MAPS[3:4], BLOCK_MAPS[4:5], BLOCK_MAPS[5:])
    )
    after, last = (_read_norm(reader, block + part) for part in BLOCK_NORMS)
    return BertBlock(look, leave, widen, narrow, after, last)
