"""A frozen transformer as an encoder of words: loading it, framing what it reads, stopping at a layer.

What the kinds share stands here; what a kind adds (the order of reading, what frames it, who sees whom)
is a subclass in a file of its own: `lm`, `unmasked`, `repeated` and `masked`.
"""

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.loading import exact_revision, load_config, load_model, load_tokenizer_of
from boustro.encoders.pieces import Context, PieceEncoder
from boustro.encoders.weights import weights_fingerprint
from boustro.models.blocks import find_blocks, states_up_to
from boustro.models.hardware import best_device, find_device, uses_bf16
from boustro.models.masked_presets import first_position
from boustro.store import fingerprint
from boustro.text.alignment import Spacing

Layers = Literal["all", "last"] | tuple[int, ...]


class TransformerEncoder(PieceEncoder):
    """A subclass says what stands before and after a reading (`_frame`), where it may set `backward` too."""

    adapter: str | None = None  # fingerprint of what `boustro adapt` trained, once it is merged into the model

    def __init__(
        self,
        name_or_path: str,
        *,
        spec: str | None = None,
        layers: Layers | list[int] | str | int = "all",
        pooling: str | None = None,
        spacing: Spacing = "natural",
        context: Context = "sentence",
        device: str | torch.device | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        tokenizer: Any = None,
        **framing: Any,
    ) -> None:
        """Load a model folder or a model of the hub.

        Args:
            layers: "all", "last", or numbers: 0 is the embeddings, 1…n the blocks, -1 the last.
            pooling: Where a word is read, see `encoders.pooling`; by default what suits the kind.
            spacing: "natural", or a space before "always" every word.
            context: What the model reads: the "sentence" alone, or the "document" around it, up to its window.
            dtype: Of computation and result, "float32" or the like; by default the fastest
                (`models.hardware.uses_bf16`), stored as float16.
            tokenizer: Used when the model brings none.
            framing: The kind's own options.

        Raises `FileNotFoundError` when there is no such model, `ValueError` when its folder is damaged or
        an option is unknown.
        """
        self.spec = spec or name_or_path
        config = load_config(name_or_path, revision)
        revision = exact_revision(name_or_path, revision)
        self._path, self._revision = name_or_path, revision
        self.device = find_device(device) if device else best_device()
        compute = _compute_dtype(dtype, self.device)
        self.dtype = np.dtype(np.float32 if compute == torch.float32 and dtype else np.float16)
        self._weights = weights_fingerprint(name_or_path, revision)  # of what is loaded now: the files may change later
        self.model = load_model(name_or_path, config, revision, compute).to(self.device).eval().requires_grad_(False)
        self._read_words(load_tokenizer_of(name_or_path, revision, tokenizer), spacing, pooling, context)
        rows = self.model.get_input_embeddings().weight.shape[0]
        if len(self.tokenizer) > rows:
            raise ValueError(
                f"{name_or_path}: the tokenizer has {len(self.tokenizer):,} pieces, the model only {rows:,}"
            )
        unknown = framing.keys() - inspect.signature(self._frame).parameters.keys()
        if unknown:
            raise ValueError(f"{self.spec}: this kind of encoder has no option {', '.join(sorted(unknown))}")
        self._prefix, self._suffix = self._frame(config, **framing)
        text = config.get_text_config()
        self._num_layers, self.max_pieces = text.num_hidden_layers, _max_pieces(text)
        self.num_parameters = sum(p.numel() for p in self.model.parameters())
        self._give(parse_layers(layers, self._num_layers), text.hidden_size, self._room(self.max_pieces))

    @abstractmethod
    def _frame(self, config: Any, **framing: Any) -> tuple[list[int], list[int]]:
        """Piece ids that stand before and after every reading."""

    def _room(self, window: int) -> int:
        """How many pieces of a text fit into a reading of at most `window`."""
        return window - len(self._prefix) - len(self._suffix)

    def _states(self, **inputs: Any) -> Sequence[Tensor]:
        """The model's states, layer by layer; blocks above the highest layer that is wanted are not computed."""
        highest = max(self._layers)
        blocks = find_blocks(self.model, self._num_layers) if highest < self._num_layers else []
        if blocks:
            return states_up_to(self.model, blocks, highest, **inputs)
        return self.model(output_hidden_states=True, **inputs).hidden_states

    def identity(self) -> dict[str, Any]:
        return {
            **super().identity(),
            "weights": fingerprint(self._weights, self.adapter) if self.adapter else self._weights,
            "dtype": [str(self.model.dtype), self.dtype.name],
        }


def _compute_dtype(dtype: str | None, device: torch.device) -> torch.dtype:
    if dtype is None:
        return torch.bfloat16 if uses_bf16(device) else torch.float32
    found = getattr(torch, dtype, None)
    if found not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(f"unknown dtype {dtype!r}: known are float32, float16, bfloat16")
    return found


def parse_layers(layers: Any, num_layers: int) -> tuple[int, ...]:
    """`"0,-1"` of 4 → (0, 4); "all" and "last" too; `ValueError` for what the model does not have."""
    if layers == "all":
        return tuple(range(num_layers + 1))
    if layers == "last":
        return (num_layers,)
    try:
        numbers = [int(n) for n in (layers.split(",") if isinstance(layers, str) else np.atleast_1d(layers))]
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"unknown layers {layers!r}: expected all, last, or numbers such as 0,3,4") from error
    wrong = [n for n in numbers if not -num_layers - 1 <= n <= num_layers]
    if wrong or not numbers:
        raise ValueError(f"no layer {wrong}: the model has 0 (embeddings) to {num_layers}, or -1 for the last")
    return tuple(n % (num_layers + 1) for n in numbers)


def _max_pieces(text: Any) -> int:
    positions = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 1024
    return min(positions - first_position(text), 2048)
