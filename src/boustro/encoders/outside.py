"""States that were computed elsewhere: by the LM that writes the text, by vLLM, by llama.cpp.

    lm = forward_lm(encoder)                          the LM of an encoder whose states may be given
    states = PieceStates(lm)                          its pieces, with what each spells and its states
    text = states.add([2, 7001, 4092], given)         given (3, L, D): the layers that `lm` reads
    states.vectors([(0, 3), (4, 8)])                  (2, L, K·D): words by their characters, as `lm` gives them
    over_forward(encoder, vectors)                    the encoder with these vectors in the place of the LM's

Everything else that reads is as it was: a backward LM beside it, a memory, spelling. `OutsideLM` is such an LM without
its weights, for a machine on which it does not run.

A word's pieces are those that spell its characters, with one white space before it. Where the LM's own pieces cross the
border of two words, both words have the piece: the pieces of training end with a word.

P pieces, L layers, D width of a state, K places of the pooling, W words.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.adapted import load_causal
from boustro.encoders.base import Encoder, Identity
from boustro.encoders.lm import LMEncoder
from boustro.encoders.options import ReadingOptions
from boustro.store import Artefact
from boustro.text.detokenise import SpelledPieces
from boustro.types import Sentence

WEIGHT_ENDINGS = ("*.safetensors", "*.bin", "*.gguf")


class OutsideLM(LMEncoder):
    """A causal LM with its config and its tokenizer, and no weights: its states are given."""

    own_type = None

    def _load(self, make: Any, config: Any, dtype: torch.dtype) -> Any:
        with torch.device("meta"):
            return make.from_config(config, dtype=dtype).eval()

    def take(self, weights: str, scales: Sequence[int] | None) -> None:
        """Take over what is known of the LM that a head was trained on: its fingerprint, used where the folder has no
        weights to compare it with, and how its states are scaled."""
        self.scales = list(scales or [1] * len(self.layers))
        folder = Path(self.path)
        if folder.is_dir() and not any(next(folder.glob(pattern), None) for pattern in WEIGHT_ENDINGS):
            self._weights = weights

    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        raise ValueError(
            f"{self.spec}: its weights were not loaded, because its states are given; open the folder without "
            "given_states to read text"
        )


def load_outside(path: Artefact, reading: ReadingOptions, **common: Any) -> LMEncoder:
    """Return a causal LM, without its weights where it is not adapted and reads forward."""
    return load_causal(path, reading, plain=OutsideLM, **common)


def forward_lm(encoder: Encoder) -> LMEncoder:
    """Return the causal LM of an encoder that reads forward; `ValueError` where there is none."""
    parts = getattr(encoder, "parts", [encoder])
    kinds = (LMEncoder, OutsideLM)
    lms = [part for part in parts if isinstance(part, kinds) and type(part) in kinds and not part.backward]
    if not lms:
        raise ValueError(f"{encoder.spec}: states can be given for a causal LM that reads forward, and it has none")
    return lms[0]


def over_forward(encoder: Encoder, vectors: np.ndarray) -> Encoder:
    """Return the encoder with `vectors` (W, L, K·D), of W words that are read in order, in the place of
    `forward_lm`'s."""
    lm = forward_lm(encoder)
    return encoder.over(lambda part: GivenVectors(lm, vectors) if part is lm else part)


class GivenVectors(Encoder):
    """The vectors of words, one after another, as `lm` would give them."""

    def __init__(self, lm: LMEncoder, vectors: np.ndarray) -> None:
        self.spec, self.streams, self.dtype, self.counts = lm.spec, lm.streams, lm.dtype, lm.counts
        self.num_parameters, self.tokenizer, self._lm = lm.num_parameters, lm.tokenizer, lm
        self._rest = vectors

    def identity(self) -> Identity:
        return self._lm.identity()

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        for sentence in sentences:
            vectors, self._rest = self._rest[: len(sentence)], self._rest[len(sentence) :]
            assert len(vectors) == len(sentence)
            yield (vectors,)


class PieceStates:
    """Pieces of an LM as they come, with what they spell and with their states."""

    def __init__(self, lm: LMEncoder, before: Tensor | None = None) -> None:
        """`before` (L, D) is the state before the first piece, where that is not of a start piece."""
        self._lm, self._spelled = lm, SpelledPieces(lm.tokenizer)
        self._states: list[Tensor] = []  # (L, D) of each piece from `_base` on
        if before is not None:
            self._states.append(before)
            self._spelled.skip()
        self._base = self._last = 0  # `_last`: where the last word ends whose vector was asked for

    @property
    def length(self) -> int:
        """The characters that are spelled so far."""
        return self._spelled.length

    def add(self, ids: Sequence[int], states: Tensor) -> str:
        """Return the next pieces with their states (P, L, D); returns the characters that they complete."""
        self._states.extend(states)
        return self._spelled.add(ids)

    def end(self) -> str:
        """Return the rest of the text: bytes that are no whole character."""
        return self._spelled.end()

    def vectors(self, words: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return (W, L, K·D): the vectors of the next words, half-open ranges of characters that are spelled
        already."""
        if not words:
            return np.empty((0, self._lm.streams[0].num_layers, self._lm.streams[0].width), self._lm.dtype)
        starts, ends = self._spelled.starts, self._spelled.ends
        befores = [self._last, *(end for _, end in words[:-1])]
        spaced = [start - (start > before) for (start, _), before in zip(words, befores, strict=True)]
        self._last = words[-1][1]
        first = np.array([bisect_right(ends, start) for start in spaced], np.int64)
        last = np.array([bisect_left(starts, end) for _, end in words], np.int64)
        begin = int(first.min()) - 1
        given = self._states[max(begin, 0) - self._base : int(last.max()) - self._base]
        if begin < 0:  # no piece comes before the first word: as when a text is read without a start piece
            given = [torch.zeros_like(given[0]), *given]
        return self._lm.place_at(torch.stack(given), first - begin, last - begin)

    def append(self, words: Sequence[Any]) -> np.ndarray:
        """Return the vectors of words with `start` and `end`; forget what no later word needs."""
        vectors = self.vectors([(word.start, word.end) for word in words])
        self.forget(words[-1].start)
        return vectors

    def forget(self, before: int) -> None:
        """Forget the states of the pieces that end before this character, and are not the last ones that do."""
        count = max(bisect_left(self._spelled.ends, before) - 2, 0) - self._base
        if count > 0:
            del self._states[:count]
            self._base += count
