"""A frozen transformer as an encoder: loading it, framing its input, stopping at the highest layer that is read.

What a road adds (the order of reading, the frame, which pieces see which) is a subclass in a file of its own: `lm`,
`unmasked`, `repeated`, `masked`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel

from boustro.encoders.loading import exact_revision, load_config, load_tokenizer_of, weights_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import PieceEncoder
from boustro.models.blocks import find_blocks, states_up_to
from boustro.models.hardware import find_device, uses_bf16
from boustro.models.pretrained import first_position, load_pretrained
from boustro.store import fingerprint

MOST_WINDOW = 2048  # longer windows cost more than they bring


class TransformerEncoder(PieceEncoder):
    """Loads a model folder or a model of the Hub; `tokenizer` is used where the model has none.

    Raises `FileNotFoundError` if there is no such model, `ValueError` if its folder is damaged or does not fit.
    """

    adapter: str | None = None  # fingerprint of the adapter merged into the model, if any

    def __init__(
        self,
        path: str,
        reading: ReadingOptions,
        *,
        spec: str | None = None,
        device: str | torch.device | None = None,
        revision: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        self.spec = spec or path
        config = load_config(path, revision)
        self._path, self._revision = path, exact_revision(path, revision)
        self.device = find_device(device)
        compute = torch.bfloat16 if uses_bf16(self.device) else torch.float32
        if reading.dtype:
            compute = getattr(torch, reading.dtype)
        self.dtype = np.dtype(np.float32 if reading.dtype == "float32" else np.float16)
        self._weights = weights_fingerprint(path, self._revision)  # now: the files may change later
        self.model = self._load(AutoModel, config, compute)
        self._set_reading(load_tokenizer_of(path, self._revision, tokenizer), reading)
        rows = self.model.get_input_embeddings().weight.shape[0]
        if len(self.tokenizer) > rows:
            raise ValueError(f"{path}: the tokenizer has {len(self.tokenizer):,} pieces, the model only {rows:,}")
        self._prefix, self._suffix = self._frame(config, reading.sentinel)
        text = config.get_text_config()
        positions = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 1024
        self._num_layers, self.max_pieces = text.num_hidden_layers, min(positions - first_position(text), MOST_WINDOW)
        self.num_parameters = sum(p.numel() for p in self.model.parameters())
        self._set_output(parse_layers(reading.layers, self._num_layers), text.hidden_size, self._room(self.max_pieces))

    def _load(self, make: Any, config: Any, dtype: torch.dtype) -> Any:
        """The frozen model as the auto class `make` loads it; AutoModel leaves out the LM head."""
        model = load_pretrained(make, self._path, config=config, revision=self._revision, dtype=dtype)
        return model.to(self.device).eval().requires_grad_(False)

    @abstractmethod
    def _frame(self, config: Any, sentinel: bool | None) -> tuple[list[int], list[int]]:
        """Piece ids before and after every reading; `ValueError` for an architecture that does not fit."""

    def _room(self, window: int) -> int:
        """How many pieces of a text fit into a reading of at most `window`."""
        return window - len(self._prefix) - len(self._suffix)

    def _states(self, **inputs: Any) -> Sequence[Tensor]:
        """The model's states, layer by layer; blocks above the highest layer that is read are not computed."""
        highest = max(self._layers)
        if highest < self._num_layers and (blocks := find_blocks(self.model, self._num_layers)):
            return states_up_to(self.model, blocks, highest, **inputs)
        return self.model(output_hidden_states=True, **inputs).hidden_states

    def identity(self) -> dict[str, Any]:
        return {
            **super().identity(),
            "weights": fingerprint(self._weights, self.adapter) if self.adapter else self._weights,
            "dtype": [str(self.model.dtype), self.dtype.name],
        }


def padding_mask(ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """(B, P) 1 for real pieces, 0 for padding, as transformers' `attention_mask`."""
    positions = torch.arange(ids.shape[1], device=ids.device)
    return (positions < torch.tensor(lengths, device=ids.device)[:, None]).long()


def parse_layers(layers: str, num_layers: int) -> tuple[int, ...]:
    """`"0,-1"` of 4 → (0, 4); "all" and "last" too; `ValueError` for layers that the model does not have."""
    if layers == "all":
        return tuple(range(num_layers + 1))
    try:
        numbers = [-1] if layers == "last" else [int(n) for n in layers.split(",")]
    except ValueError as error:
        raise ValueError(f"unknown layers {layers!r}: expected all, last, or numbers such as 0,3,4") from error
    if wrong := [n for n in numbers if not -num_layers - 1 <= n <= num_layers]:
        raise ValueError(f"no layer {wrong}: the model has 0 (embeddings) to {num_layers}, or -1 for the last")
    return tuple(n % (num_layers + 1) for n in numbers)
