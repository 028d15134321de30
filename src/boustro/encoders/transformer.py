"""A frozen transformer as an encoder: loading it up to the highest layer that is read, framing its input, its states.

What a road adds (the order of reading, the frame, which pieces see which) is a subclass: those of `encoders.lm`. An
encoder whose states another PyTorch model computes is a `StateEncoder`. Letters as in `encoders.reading`.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.base import Identity
from boustro.encoders.loading import (
    exact_revision,
    load_config,
    load_tokenizer_of,
    tokenizer_fingerprint,
    vocabulary_fingerprint,
    weights_fingerprint,
)
from boustro.encoders.options import DEEP, SHALLOW, ReadingOptions
from boustro.encoders.precision import compute_type, float_type, refuse_overflow
from boustro.encoders.reading import PieceEncoder, pad_rows, select_at
from boustro.hardware import find_device, is_spread
from boustro.models.blocks import find_blocks
from boustro.models.body import Body, Found, TransformersBody, find_own
from boustro.models.placing import load_placed, shortened
from boustro.models.pretrained import first_position
from boustro.store import Artefact, fingerprint
from boustro.text.tokenizers import refuse_ids_beyond

PARAGRAPH = (
    "The ferry to the islands leaves the old harbour at half past eight, except on Sundays. Last week Dr Maria Keller "
    "of the University of Bergen took 14 students across to count seabirds; they came back with 2,300 photographs, wet "
    'boots and a broken camera. "We will go again in May," she told the Evening Post, "when the nights are short and '
    'the weather is kinder." Until then the group will sort its pictures, compare them with those of earlier years, '
    "and write a report for the Norwegian Ministry of Climate and Environment."
)
"""Plain English of this project's own."""


def plain_sentences() -> list[str]:
    """Return the paragraph and short messages."""
    return [PARAGRAPH, *files("boustro").joinpath("data/sample/messages.txt").read_text("utf-8").split("\n")]


DEVICE_PIECES = {"cuda": 65536}  # a GPU is idle in the batches that fit a CPU's cache
BEYOND = "values out of float16's range, stored as its largest; --dtype float32 keeps them"


class StateEncoder(PieceEncoder):
    """A subclass sets `device` too, and the type that is computed in, and computes the states (`_hidden_states`)."""

    device: torch.device
    _compute: torch.dtype

    @property
    def batch_pieces(self) -> int:
        return DEVICE_PIECES.get(self.device.type, super().batch_pieces)

    def _set_reading(self, tokenizer: Any, reading: ReadingOptions) -> None:
        self._tokenizer_files = tokenizer_fingerprint(tokenizer)
        super()._set_reading(tokenizer, reading)

    @abstractmethod
    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Return every layer's states (B, P, D) of rows padded on the right; row `b` has `lengths[b]` real pieces."""

    @cached_property
    def scales(self) -> list[int]:
        """For each layer that is kept, what its states are divided by in the arrays."""
        return [1] * len(self.layers)

    @abstractmethod
    def weights(self) -> str:
        """Return the fingerprint of the weights."""

    @cached_property
    def _vocabulary(self) -> str:
        return vocabulary_fingerprint(self.tokenizer)

    def identity(self) -> Identity:
        """Return a subclass adds its own facts."""
        scaled = {"scales": self.scales} if max(self.scales) > 1 else {}
        return Identity(
            weights=self.weights(),
            vocabulary=self._vocabulary,
            pooling="+".join(self._places),
            context=self.context,
            rest={
                **scaled,
                "tokenizer": fingerprint(self._aligner.fingerprint(), self._tokenizer_files),
                "frame": [list(self._prefix), list(self._suffix)],
                "layers": list(self.layers),
                "spacing": self._aligner.spacing,
                "window": self.room,
            },
        )

    @torch.inference_mode()
    def _pick(self, rows: list[list[int]], places: list[np.ndarray]) -> list[np.ndarray]:
        ids = torch.from_numpy(pad_rows(rows, self._prefix[0] if self._prefix else 0)).to(self.device)
        states = self._hidden_states(ids, [len(row) for row in rows])
        kept = [(states[layer].flatten(0, 1), scale) for layer, scale in zip(self.layers, self.scales, strict=True)]
        types = [torch.float32 if place == "mean" else self._type for place in self._places]
        return [
            np.stack([self._take(*layer, torch.from_numpy(at), dtype) for layer in kept], 1)
            for at, dtype in zip(places, types, strict=True)
        ]

    @property
    def _type(self) -> torch.dtype:
        return torch.float32 if self.dtype == np.float32 else torch.float16

    def _take(self, layer: Tensor, scale: int, at: Tensor, dtype: torch.dtype) -> np.ndarray:
        """Return (n, D) of the states of a layer, (B·P, D)."""
        picked = layer[at.to(layer.device)]
        return self._fit(picked if scale == 1 else picked / scale, dtype).cpu().numpy()

    def place_at(self, states: Tensor, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return (W, L, K·D): words at the places of the pooling.

        Args:
            states: (P, L, D) after pieces that follow each other.
            start, end: (W,) each: a word's pieces are `[start, end)`; the state at `start - 1` is there too.
        """
        if max(self.scales) > 1:
            states = states / torch.tensor(self.scales, device=states.device, dtype=states.dtype)[:, None]
        vectors = []
        for place in self._places:
            words, numbers, weights = (torch.from_numpy(a) for a in select_at(place, start, end, self.backward))
            picked = states[numbers.to(states.device)]  # (n, L, D)
            if place == "mean":
                summed = torch.zeros(len(start), *picked.shape[1:])
                picked = summed.index_add_(0, words, picked.float().cpu() * weights[:, None, None])
            vectors.append(self._fit(picked, self._type).cpu())
        return torch.cat(vectors, dim=-1).numpy()

    def _narrow(self, values: np.ndarray) -> np.ndarray:
        return self._fit(torch.from_numpy(values), self._type).numpy()

    def _fit(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert to another type; values out of its range are counted, and become its largest or smallest.

        Raises `ValueError` for those that the LM's own type could not hold.
        """
        narrow, limit = x.to(dtype), torch.finfo(dtype).max
        if narrow.sum(dtype=torch.float32).isfinite():  # ten times as fast as a look at each
            return narrow
        refuse_overflow(x, self.spec, self._compute)
        self.counts[BEYOND] += int(narrow.isinf().sum())
        return narrow.clamp_(-limit, limit)


MOST_WINDOW = 2048  # longer windows cost more than they bring
HIGH_STATE, STATE_SCALE = 2**14, 64
"""States above the first are divided by the second: float16 ends at 65,504, and other texts may have higher ones."""


class TransformerEncoder(StateEncoder):
    """Loads a model folder or a model of the Hub; `tokenizer` is used where the model has none, that of the folder
    `tokenizer_of` instead of the model's.

    Only the blocks up to the highest layer that is read are loaded, where the architecture allows (`models.placing`)
    and `whole` does not ask for all. Raises `FileNotFoundError` if there is no such model, `ValueError` if its folder
    is damaged or does not fit.
    """

    adapter: str | None = None  # fingerprint of the adapter merged into the model, if any
    own_type: str | None = None
    """The type of the models whose states our own code computes."""

    def __init__(
        self,
        place: str | Artefact,
        reading: ReadingOptions,
        *,
        spec: str | None = None,
        device: str | torch.device | None = None,
        revision: str | None = None,
        tokenizer: Any = None,
        tokenizer_of: Artefact | None = None,
        whole: bool = False,
        found: Found | None = None,
    ) -> None:
        """`found` is what `find_own` says of the place, where that is known."""
        artefact = Artefact.of(place)
        self.artefact, self.path = artefact, str(artefact)
        self.spec = spec or self.path
        self.device, self._spread = find_device(device), is_spread(device)
        own_type = None if whole or self._spread else self.own_type
        self.found = (found or (find_own(artefact) if own_type else Found(artefact))).only(own_type)
        self._revision = revision
        self.config: Any = self.found.config or self._their_config
        config = self.config
        if not self.found.config:
            self._refuse_other_kind(self.path, config)
        text = config.get_text_config()
        self.num_layers = getattr(text, "num_hidden_layers", 0)
        self.layers = parse_layers(reading.layers, self.num_layers)
        self._revision = exact_revision(artefact, revision)
        self._weights = weights_fingerprint(artefact, self._revision)  # now: the files may change later
        self._compute = compute_type(self.device, reading, self._weights, packed=self.found.has_channels)
        self._channels = self.found.channel_facts(self._compute)
        self.dtype = np.dtype(np.float32 if reading.dtype == "float32" else np.float16)
        self.num_blocks = self.num_layers
        if not whole and (short := shortened(config, self._needed_blocks(max(self.layers)))):
            self.num_blocks = short.get_text_config().num_hidden_layers
        self.body = self.found.load(self._compute, self.device, self.num_blocks) or self._their_body()
        tokenizers = (tokenizer_of, None, None) if tokenizer_of else (artefact, self._revision, tokenizer)
        self._set_reading(load_tokenizer_of(*tokenizers), reading)
        refuse_ids_beyond(self.body.embeddings.shape[0], self.tokenizer, self.path)
        self._prefix, self._suffix = self._frame(config, reading)
        positions = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 1024
        self.max_pieces = min(positions - first_position(text), MOST_WINDOW)
        self.num_parameters = self.body.num_parameters
        self._set_output(self.layers, text.hidden_size, self._room(self.max_pieces))

    @cached_property
    def _their_config(self) -> Any:
        return load_config(self.artefact, self._revision)

    def _their_body(self) -> Body:
        from transformers import AutoModel

        config, self._channels = shortened(self._their_config, self.num_blocks) or self._their_config, []
        model, highest = self._load(AutoModel, config, float_type(self._compute)), max(self.layers)
        blocks = find_blocks(model, self.num_blocks) if highest < self.num_layers else ()
        return TransformersBody(model, blocks, highest)

    @property
    def model(self) -> Any:
        """The frozen model of transformers. Once it has been asked for, the states are its own, whatever is done with
        it."""
        if self.body.model is None:
            self.body = self._their_body()
            for name in ("run_up", "observe"):  # what is kept by the first or for the first
                vars(self).pop(name, None)
        return self.body.model

    def _load(self, make: Any, config: Any, dtype: torch.dtype) -> Any:
        """Return the frozen model as the auto class `make` loads it; AutoModel leaves out the LM head."""
        how: dict[str, Any] = {"dtype": dtype, "spread": self._spread, "num_blocks": self.num_layers}
        return load_placed(make, self.path, self.device, config=config, revision=self._revision, **how)

    @abstractmethod
    def _refuse_other_kind(self, path: str, config: Any) -> None:
        """`ValueError`, before any weights are loaded, for an architecture of another kind."""

    def _needed_blocks(self, highest: int) -> int:
        """Return how many blocks must be loaded where states up to `highest` are read."""
        return highest

    @abstractmethod
    def _frame(self, config: Any, reading: ReadingOptions) -> tuple[list[int], list[int]]:
        """Piece ids before and after every reading; `ValueError` for a tokenizer that does not fit."""

    def _room(self, window: int) -> int:
        """Return how many pieces of a text fit into a reading of at most `window`."""
        return window - len(self._prefix) - len(self._suffix)

    @cached_property
    @torch.inference_mode()
    def scales(self) -> list[int]:
        """`STATE_SCALE` for the layers whose states come near the end of float16's range in a paragraph, else 1."""
        if self.dtype != np.float16:
            return super().scales
        ids = self._row(self.tokenizer(PARAGRAPH, add_special_tokens=False)["input_ids"][: self.room])
        states = self._hidden_states(torch.tensor([ids], device=self.device), [len(ids)])
        peaks = [states[layer].abs().max().item() for layer in self.layers]
        return [STATE_SCALE if peak > HIGH_STATE else 1 for peak in peaks]

    def frame_text(self) -> list[str]:
        """Return the pieces around every reading."""
        return self.tokenizer.convert_ids_to_tokens([*self._prefix, *self._suffix])

    def weights(self) -> str:
        """Return the fingerprint of the weights, a merged adapter included."""
        return fingerprint(self._weights, self.adapter) if self.adapter else self._weights

    def identity(self) -> Identity:
        dtype = [str(self.body.dtype), self.dtype.name, *self._channels]
        return super().identity().with_facts(dtype=dtype)


def padding_mask(ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """Return (B, P) 1 for real pieces, 0 for padding, as transformers' `attention_mask`."""
    positions = torch.arange(ids.shape[1], device=ids.device)
    return (positions < torch.tensor(lengths, device=ids.device)[:, None]).long()


def parse_layers(layers: str, num_layers: int) -> tuple[int, ...]:
    """`"0,50%,-1"` of 4 → (0, 2, 4); `"all"` too; `ValueError` for layers that the model does not have.

    `"auto"` is all of up to `SHALLOW` blocks, else `DEEP`: what all layers of a deep LM add costs more than it brings.
    A share is of the blocks, rounded half up: 50% of 4 is 2, of 5 is 3, 0% the embeddings, 100% the last layer. A layer
    that is named twice is read once.
    """
    if layers == "auto":
        layers = "all" if num_layers <= SHALLOW else DEEP
    if layers == "all":
        return tuple(range(num_layers + 1))
    try:
        numbers = [_layer_number(part.strip(), num_layers) for part in layers.split(",")]
    except ValueError as error:
        raise ValueError(
            f"unknown layers {layers!r}: expected auto, all, last, or a list such as 0,3,4 or 25%,50%,last (0% to 100%)"
        ) from error
    if wrong := [n for n in numbers if not -num_layers - 1 <= n <= num_layers]:
        raise ValueError(f"no layer {wrong}: the model has 0 (embeddings) to {num_layers}, or -1 for the last")
    return tuple(dict.fromkeys(n % (num_layers + 1) for n in numbers))


def _layer_number(part: str, num_layers: int) -> int:
    """`"last"` → -1, `"50%"` of 4 → 2, `"3"` → 3; `ValueError` for anything else."""
    if part == "last":
        return -1
    share = re.fullmatch(r"(\d{1,2}(?:\.\d+)?|100)%", part)
    return math.floor(num_layers * float(share[1]) / 100 + 0.5) if share else int(part)
