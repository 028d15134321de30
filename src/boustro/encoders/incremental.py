"""A causal LM that reads a text as it grows: every piece once, by the LM's key–value cache.

    reader = IncrementalReader(encoder)
    reader.begin()                      before a text
    reader.append(words, spaces)        the vectors of further words, as `encoder` gives them for the whole text

A text longer than the LM's window is read in the windows of `encoders.windows`: when one is full, its later half is
read once more as the beginning of the next. Nothing older is kept, so memory does not grow. Only causal LMs that read
forward and whose cache gives the same states (`reads_incrementally` tries it) can be read so.

P pieces, L layers, D width of a state, K places of the pooling, W words.
"""

import inspect
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from boustro.encoders.base import Encoder
from boustro.encoders.lm import LMEncoder
from boustro.encoders.probe import PARAGRAPH

TRIED_PIECES, NEAR = 12, 0.05
TRIED: "WeakKeyDictionary[LMEncoder, bool]" = WeakKeyDictionary()


class CachedLM:
    """States of pieces that are given one after the other, of the layers that `encoder` keeps; `begin` comes first."""

    def __init__(self, encoder: LMEncoder) -> None:
        self._encoder, self._size = encoder, encoder.room
        named = inspect.signature(encoder.model.forward).parameters
        self._argument = "cache" if "cache" in named else "past_key_values"

    def begin(self) -> Tensor | None:
        """Begin a text; returns (1, L, D), the state before its first piece, or `None` without a start piece."""
        self._kept: list[int] = []  # the pieces of the window
        return self._open()

    def _open(self) -> Tensor | None:
        self._cache = DynamicCache(config=self._encoder.model.config)
        start = self._encoder.start
        return self._run(start)[-1:] if start else None

    def append(self, ids: Sequence[int]) -> Tensor:
        """(P, L, D): the states after each of these pieces."""
        found, rest = [], list(ids)
        while rest:
            if len(self._kept) == self._size:
                self._kept = self._kept[self._size - self._size // 2 :]
                self._open()
                if self._kept:
                    self._run(self._kept)
            some = rest[: self._size - len(self._kept)]
            found.append(self._run(some))
            self._kept += some
            rest = rest[len(some) :]
        return torch.cat(found)

    @torch.inference_mode()
    def _run(self, ids: list[int]) -> Tensor:
        given = torch.tensor([ids], device=self._encoder.device)
        return self._encoder.continue_reading(given, **{self._argument: self._cache, "use_cache": True})


class IncrementalReader:
    """The vectors of words that follow each other."""

    def __init__(self, encoder: LMEncoder) -> None:
        self.encoder = encoder
        self._lm = CachedLM(encoder)
        self._before: Tensor | None = None

    def begin(self) -> None:
        """Begin a text."""
        self._before = self._lm.begin()

    def append(self, words: Sequence[str], spaces: Sequence[bool]) -> np.ndarray:
        """(W, L, K·D): the vectors of the next words of the text."""
        pieces = self.encoder.pieces(words, spaces)
        states = self._lm.append(pieces.ids.tolist())
        before = torch.zeros_like(states[:1]) if self._before is None else self._before
        self._before = states[-1:]
        return self.encoder.place_at(torch.cat([before, states]), pieces.bounds[:-1] + 1, pieces.bounds[1:] + 1)


def reads_incrementally(encoder: Encoder) -> bool:
    """Whether `IncrementalReader` gives what the encoder gives; tried once, on a few pieces."""
    if type(encoder) is not LMEncoder or encoder.backward:
        return False
    if encoder not in TRIED:
        TRIED[encoder] = _agrees(encoder)
    return TRIED[encoder]


def _agrees(encoder: LMEncoder) -> bool:
    ids = encoder.tokenizer(PARAGRAPH, add_special_tokens=False)["input_ids"][:TRIED_PIECES]
    try:
        whole, parts = CachedLM(encoder), CachedLM(encoder)
        whole.begin()
        parts.begin()
        at_once = whole.append(ids)
        in_turn = torch.cat([parts.append(ids[:-2]), parts.append(ids[-2:-1]), parts.append(ids[-1:])])
        plain = encoder.states_of(ids)
    except Exception:  # an architecture with another kind of cache raises anything
        return False
    scale = plain.float().abs().amax((0, 2), keepdim=True)
    return all(((other - plain).float().abs() / scale).max().item() < NEAR for other in (at_once, in_turn))
