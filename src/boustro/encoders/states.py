"""An encoder whose states a PyTorch model computes: the rows of a batch on its device, and the states that are kept.

Letters as in `encoders.reading`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.identity import Identity
from boustro.encoders.loading import tokenizer_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.places import select_at
from boustro.encoders.reading import PieceEncoder, pad_rows
from boustro.store import fingerprint

DEVICE_PIECES = {"cuda": 65536}
BEYOND = "values out of float16's range, stored as its largest; --dtype float32 keeps them"


class StateEncoder(PieceEncoder):
    """A subclass sets `device` too, and computes the states (`_hidden_states`)."""

    device: torch.device

    @property
    def batch_pieces(self) -> int:
        return DEVICE_PIECES.get(self.device.type, super().batch_pieces)

    def _set_reading(self, tokenizer: Any, reading: ReadingOptions) -> None:
        self._tokenizer_files = tokenizer_fingerprint(tokenizer)
        super()._set_reading(tokenizer, reading)

    @abstractmethod
    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Every layer's states (B, P, D) of rows padded on the right; row `b` has `lengths[b]` real pieces."""

    @cached_property
    def scales(self) -> list[int]:
        """For each layer that is kept, what its states are divided by in the arrays."""
        return [1] * len(self._layers)

    @abstractmethod
    def weights(self) -> str:
        """The fingerprint of the weights."""

    def identity(self) -> Identity:
        """A subclass adds its own facts."""
        scaled = {"scales": self.scales} if max(self.scales) > 1 else {}
        return Identity(
            weights=self.weights(),
            vocabulary=fingerprint(self.vocabulary()),
            pooling="+".join(self._places),
            context=self._context,
            rest={
                **scaled,
                "tokenizer": fingerprint(self._aligner.fingerprint(), self._tokenizer_files),
                "frame": [list(self._prefix), list(self._suffix)],
                "layers": list(self._layers),
                "spacing": self._aligner.spacing,
                "window": self._window,
            },
        )

    @torch.inference_mode()
    def _pick(self, rows: list[list[int]], places: list[np.ndarray]) -> list[np.ndarray]:
        ids = torch.from_numpy(pad_rows(rows, self._prefix[0] if self._prefix else 0)).to(self.device)
        states = self._hidden_states(ids, [len(row) for row in rows])
        kept = [(states[layer].flatten(0, 1), scale) for layer, scale in zip(self._layers, self.scales, strict=True)]
        types = [torch.float32 if place == "mean" else self._type for place in self._places]
        return [
            np.stack([self._take(*layer, torch.from_numpy(at), dtype) for layer in kept], 1)
            for at, dtype in zip(places, types, strict=True)
        ]

    @property
    def _type(self) -> torch.dtype:
        return torch.float32 if self.dtype == np.float32 else torch.float16

    def _take(self, layer: Tensor, scale: int, at: Tensor, dtype: torch.dtype) -> np.ndarray:
        """(n, D) of the states of a layer, (B·P, D)."""
        picked = layer[at.to(layer.device)]
        return self._fit(picked if scale == 1 else picked / scale, dtype).cpu().numpy()

    def place_at(self, states: Tensor, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(W, L, K·D): words at the places of the pooling.

        Args:
            states: (P, L, D) after pieces that follow each other.
            start, end: (W,) each: a word's pieces are `[start, end)`; the state at `start - 1` is there too.
        """
        if max(self.scales) > 1:
            states = states / torch.tensor(self.scales, device=states.device, dtype=states.dtype)[:, None]
        found = []
        for place in self._places:
            words, numbers, weights = (torch.from_numpy(a) for a in select_at(place, start, end, self.backward))
            picked = states[numbers.to(states.device)]  # (n, L, D)
            if place == "mean":
                summed = torch.zeros(len(start), *picked.shape[1:])
                picked = summed.index_add_(0, words, picked.float().cpu() * weights[:, None, None])
            found.append(self._fit(picked, self._type).cpu())
        return torch.cat(found, dim=-1).numpy()

    def _narrow(self, values: np.ndarray) -> np.ndarray:
        return self._fit(torch.from_numpy(values), self._type).numpy()

    def _fit(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The same in another type; values out of its range are counted, and become its largest or smallest."""
        narrow, limit = x.to(dtype), torch.finfo(dtype).max
        if beyond := int(narrow.isinf().sum()):
            self.counts[BEYOND] += beyond
        return narrow.clamp_(-limit, limit) if beyond else narrow
