"""Where a word becomes a vector: words → pieces → windows → the model's states → one vector per word and layer.

A word is pieces `[start, end)` in reading order, and state `i` is the LM's state after piece `i`. `pooling` names the
states that a word is read from, one place or several joined by `+`:

    before   state start - 1   just before the word: pure context (the start piece's state at the start of a text)
    entry    state start       after the word's first piece in reading order
    exit     state end - 1     after the whole word

A forward LM reads a word's first piece first, a backward LM its last. `first`, `last` and `mean` (of all pieces) are
named in text order. The model is not known here: subclasses of `PieceEncoder`, one file per road, provide its states.

Letters: W words, P pieces of a window, L layers, D width of a state, K places of the pooling, B windows of a batch.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.base import Encoder, Stream, WordList
from boustro.encoders.identity import Identity
from boustro.encoders.loading import tokenizer_fingerprint
from boustro.encoders.options import ReadingOptions
from boustro.encoders.windows import Window, batch_by_length, group_sentences, join_sentences, plan_windows
from boustro.given import each_sentence
from boustro.store import fingerprint
from boustro.text.alignment import Aligner, Pieces
from boustro.text.documents import chunk_by_size
from boustro.types import Sentence

PLACES = ("before", "entry", "exit", "first", "last", "mean")
CHUNK_WORDS = 16384
BATCH_PIECES = {"cpu": 1024, "cuda": 65536}  # on a CPU, what fits into its caches is fastest
WINDOWED = "sentences longer than the model's window, read in overlapping windows"
BEYOND = "values out of float16's range, stored as its largest; --dtype float32 keeps them"


class Selection(NamedTuple):
    """Word `words[k]` takes `weights[k]` of state `states[k]`; state -1 is the start piece's."""

    words: np.ndarray
    states: np.ndarray
    weights: np.ndarray


def parse_pooling(pooling: str) -> tuple[str, ...]:
    """`"exit+before"` → `("exit", "before")`; `ValueError` for an unknown place."""
    parts = tuple(part.strip() for part in pooling.split("+"))
    for part in parts:
        if part not in PLACES:
            raise ValueError(f"unknown pooling {part!r} in {pooling!r}: known are {', '.join(PLACES)}, joined by +")
    return parts


def select(place: str, bounds: np.ndarray, backward: bool) -> Selection:
    """The states that words are read from; `bounds` (W + 1,) are the words' pieces in text order."""
    num_pieces = int(bounds[-1])
    start, end = (num_pieces - bounds[1:], num_pieces - bounds[:-1]) if backward else (bounds[:-1], bounds[1:])
    return select_at(place, start, end, backward)


def select_at(place: str, start: np.ndarray, end: np.ndarray, backward: bool) -> Selection:
    """The same of words with the pieces `[start, end)` in reading order, (W,) each."""
    words = np.arange(len(start))
    if place in ("first", "last"):
        place = "entry" if (place == "first") != backward else "exit"
    if place == "mean":
        sizes = end - start
        offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        states, weights = np.repeat(start, sizes) + offsets, np.repeat(1 / sizes, sizes).astype(np.float32)
        return Selection(np.repeat(words, sizes), states, weights)
    states = {"before": start - 1, "entry": start, "exit": end - 1}[place]
    return Selection(words, states, np.ones(len(words), np.float32))


def encode_in_chunks(
    sentences: Iterable[Sentence], context: str, encode_chunk: Callable[[list[list[Sentence]]], np.ndarray]
) -> Iterator[tuple[np.ndarray]]:
    """Vectors sentence by sentence; `encode_chunk` gives those of all words of some groups, each read as one text."""
    groups = group_sentences(sentences, context)
    for chunk in chunk_by_size(groups, lambda group: sum(map(len, group)), CHUNK_WORDS):
        vectors = encode_chunk(chunk)
        bounds = np.concatenate([[0], np.cumsum([len(s) for group in chunk for s in group])])
        for start, stop in pairwise(bounds):
            yield (vectors[start:stop],)


class Row(NamedTuple):
    """One window as the model's input: word `words[k]`, counted over all sentences, is read at `columns[k]`."""

    ids: list[int]
    words: np.ndarray
    columns: np.ndarray


class PieceEncoder(Encoder):
    """An encoder over a tokenizer, of one stream. A subclass sets `spec`, `device`, `dtype` (of the arrays) and
    `num_parameters`, calls `_set_reading` and then `_set_output`, and computes the states (`_hidden_states`)."""

    default_pooling: ClassVar[str]
    backward = False
    sees_both_sides = False  # whether a state knows what follows its piece; overlapping windows are cut accordingly
    device: torch.device
    _prefix: Sequence[int] = ()
    _suffix: Sequence[int] = ()

    def _set_reading(self, tokenizer: Any, reading: ReadingOptions) -> None:
        """How words become pieces, and where they are read; `ValueError` for an unknown pooling."""
        self.tokenizer, self._tokenizer_files = tokenizer, tokenizer_fingerprint(tokenizer)
        self._aligner = Aligner(tokenizer, reading.spacing)
        self.counts = self._aligner.counts
        self._places = parse_pooling(reading.pooling or self.default_pooling)
        self._context = reading.context

    def _set_output(self, layers: tuple[int, ...], width: int, window: int) -> None:
        """Which of the states of `_hidden_states` are kept, their width, and the most pieces read together."""
        self._layers, self._width, self._window = layers, width, window
        self.streams = (Stream(self.spec, len(layers), width * len(self._places)),)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that are read."""
        return self._layers

    @property
    def context(self) -> str:
        """What is read together: "sentence" or "document"."""
        return self._context

    @property
    def room(self) -> int:
        """The most pieces of a text that are read together."""
        return self._window

    @abstractmethod
    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Every layer's states (B, P, D) of rows padded on the right; row `b` has `lengths[b]` real pieces."""

    def _row(self, pieces: Sequence[int]) -> list[int]:
        """The model's input for a window's pieces, which are in reading order."""
        return [*self._prefix, *pieces, *self._suffix]

    def _origin(self, num_pieces: int) -> int:
        """The column of such a row whose state is that of the window's first piece."""
        return len(self._prefix)

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

    def vocabulary(self) -> dict[str, int]:
        """Piece → id."""
        return self.tokenizer.get_vocab()

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        return encode_in_chunks(sentences, self._context, self._encode_chunk)

    def rows(self, sentences: Iterable[WordList]) -> list[Row]:
        """The model's inputs, window by window, and the columns where words are read, at the pooling's first place."""
        groups = list(group_sentences(each_sentence(sentences), self._context))
        aligned, first_word, windows = self._align(groups)
        selections = [select(self._places[0], p.bounds, self.backward) for p in aligned]
        found = []
        for window in filter(len, windows):
            words, columns, _ = self._look_up([window], selections, first_word, 0)
            found.append(Row(self._input(window, aligned), words.numpy(), columns.numpy()))
        return found

    def _align(self, groups: list[list[Sentence]]) -> tuple[list[Pieces], np.ndarray, list[Window]]:
        """The pieces of each group, the number of its first word among all, and the windows of all groups."""
        texts = [join_sentences(group) for group in groups]
        aligned = self._aligner.align([(t.words, t.spaces) for t in texts])
        self.counts[WINDOWED] += sum(
            len(group) == 1 and len(pieces.ids) > self._window for group, pieces in zip(groups, aligned, strict=True)
        )
        first_word = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
        windows = []
        for number, pieces in enumerate(aligned):
            first = -1 if self._origin(len(pieces.ids)) else 0
            windows += plan_windows(number, len(pieces.ids), self._window, first, centred=self.sees_both_sides)
        return aligned, first_word, windows

    def _encode_chunk(self, groups: list[list[Sentence]]) -> np.ndarray:
        """(W, L, K·D) for all words of the groups."""
        aligned, first_word, windows = self._align(groups)
        selections = [[select(place, p.bounds, self.backward) for p in aligned] for place in self._places]
        shape = int(first_word[-1]), len(self._layers), len(self._places), self._width
        result = torch.zeros(shape, dtype=torch.float32 if self.dtype == np.float32 else torch.float16)
        means = {k: torch.zeros(shape[0], shape[1], shape[3]) for k, p in enumerate(self._places) if p == "mean"}
        most = BATCH_PIECES.get(self.device.type, BATCH_PIECES["cpu"])
        for batch in batch_by_length(filter(len, windows), lambda window: len(window) + 1, most):
            states = self._read(batch, aligned)
            for k, by_text in enumerate(selections):
                words, places, weights = self._look_up(batch, by_text, first_word, states[0].shape[1])
                for number, (layer, scale) in enumerate(zip(states, self.scales, strict=True)):
                    picked = layer.flatten(0, 1)[places.to(layer.device)]  # (n, D)
                    picked = picked if scale == 1 else picked / scale
                    if k in means:  # of several states, which two windows may have read
                        means[k][:, number].index_add_(0, words, picked.float().cpu() * weights[:, None])
                    else:
                        result[:, number, k].index_copy_(0, words, self._narrow(picked, result.dtype).cpu())
        for k, mean in means.items():
            result[:, :, k] = self._narrow(mean, result.dtype)
        return result.flatten(2).numpy()

    def pieces(self, words: Sequence[str], spaces: Sequence[bool]) -> Pieces:
        """The pieces of words that follow each other in a text."""
        return self._aligner.align([(words, spaces)])[0]

    def place_at(self, states: Tensor, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(W, L, K·D): words at the places of the pooling.

        Args:
            states: (P, L, D) after pieces that follow each other.
            start, end: (W,) each: a word's pieces are `[start, end)`; the state at `start - 1` is there too.
        """
        if max(self.scales) > 1:
            states = states / torch.tensor(self.scales, device=states.device, dtype=states.dtype)[:, None]
        dtype, found = torch.float32 if self.dtype == np.float32 else torch.float16, []
        for place in self._places:
            words, numbers, weights = (torch.from_numpy(a) for a in select_at(place, start, end, self.backward))
            picked = states[numbers.to(states.device)]  # (n, L, D)
            if place == "mean":
                summed = torch.zeros(len(start), *picked.shape[1:])
                picked = summed.index_add_(0, words, picked.float().cpu() * weights[:, None, None])
            found.append(self._narrow(picked, dtype).cpu())
        return torch.cat(found, dim=-1).numpy()

    def _narrow(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The same in another type; values out of its range are counted, and become its largest or smallest."""
        narrow, limit = x.to(dtype), torch.finfo(dtype).max
        if beyond := int(narrow.isinf().sum()):
            self.counts[BEYOND] += beyond
        return narrow.clamp_(-limit, limit) if beyond else narrow

    def _look_up(
        self, batch: list[Window], by_text: list[Selection], first_word: np.ndarray, num_columns: int
    ) -> list[Tensor]:
        """(number of the word, place in the batch counted row by row, weight) of every state to take."""
        parts = []
        for row, window in enumerate(batch):
            words, states, weights = by_text[window.text]
            mine = (states >= window.first) & (states < window.last)
            places = row * num_columns + states[mine] - window.start + self._origin(len(window))
            parts.append((words[mine] + first_word[window.text], places, weights[mine]))
        return [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]

    @torch.inference_mode()
    def _read(self, batch: list[Window], aligned: list[Pieces]) -> list[Tensor]:
        """The states (B, P, D) of every layer that is kept, rows padded on the right."""
        rows = [self._input(window, aligned) for window in batch]
        lengths = [len(row) for row in rows]
        padding = self._prefix[0] if self._prefix else 0
        ids = torch.tensor([row + [padding] * (max(lengths) - len(row)) for row in rows], dtype=torch.int64)
        states = self._hidden_states(ids.to(self.device), lengths)
        return [states[layer] for layer in self._layers]

    def _input(self, window: Window, aligned: list[Pieces]) -> list[int]:
        pieces = aligned[window.text].ids
        reading = pieces[::-1] if self.backward else pieces
        return self._row(reading[window.start : window.stop].tolist())
