"""Pieces to words: the machinery that every encoder over a tokenizer shares.

Words → pieces → windows → states → words. Letters: W words, P pieces of a window, L layers, D width of a
state, K places of the pooling.

Where the states come from is not known here: from one frozen transformer (`transformer`, of which `lm`,
`unmasked`, `repeated` and `masked` are kinds), or from two of them under a fusion (`fused`).
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.contract import Encoder, Stream, Words
from boustro.encoders.pooling import Selection, parse_pooling, select
from boustro.encoders.weights import tokenizer_fingerprint
from boustro.encoders.windows import Window, batch_windows, check_context, chunk_groups, group_sentences, join_sentences
from boustro.given import each_sentence
from boustro.store import fingerprint
from boustro.text.alignment import Aligner, Pieces, Spacing
from boustro.types import Sentence

Context = Literal["sentence", "document"]

CHUNK_WORDS = 16384
BATCH_PIECES = {"cpu": 1024, "cuda": 65536}  # on a CPU, what stays in its caches is read fastest


class Row(NamedTuple):
    """One window as the model is given it: word `words[k]`, counted over all sentences, is read at `columns[k]`."""

    ids: list[int]
    words: np.ndarray
    columns: np.ndarray


class PieceEncoder(Encoder):
    """See the module. `streams` has one entry; `tokenizer` and `vocabulary` are shared facts of a pair.

    A subclass sets `spec`, `device`, `dtype` (of the arrays) and `num_parameters`, calls `_read_words` and then
    `_give`, and says how the states come about (`_plan`, `_hidden_states`).
    """

    default_pooling: ClassVar[str]
    backward = False
    device: torch.device
    _prefix: Sequence[int] = ()
    _suffix: Sequence[int] = ()

    def _read_words(self, tokenizer: Any, spacing: Spacing, pooling: str | None, context: Context) -> None:
        """How words become pieces, and where they are read; `ValueError` for an unknown pooling or context."""
        self.tokenizer, self._tokenizer_files = tokenizer, tokenizer_fingerprint(tokenizer)
        self._aligner = Aligner(tokenizer, spacing)
        self.counts = self._aligner.counts
        self._places = parse_pooling(pooling or self.default_pooling)
        check_context(context)
        self._context = context

    def _give(self, layers: tuple[int, ...], width: int, window: int) -> None:
        """What comes out: which of the states that `_hidden_states` gives, how wide; `window` pieces go together."""
        self._layers, self._width, self._window = layers, width, window
        self.streams = (Stream(self.spec, len(layers), width * len(self._places)),)

    @abstractmethod
    def _plan(self, text: int, num_pieces: int) -> list[Window]:
        """The windows in which a text of so many pieces is read."""

    @abstractmethod
    def _hidden_states(self, ids: Tensor, lengths: Sequence[int]) -> Sequence[Tensor]:
        """Every layer's states (B, P, D) of rows padded on the right; `lengths` (B,) tells what is no padding."""

    def _row(self, pieces: Sequence[int]) -> list[int]:
        """What the model is given for a window's pieces, in the order of reading."""
        return [*self._prefix, *pieces, *self._suffix]

    def _origin(self, num_pieces: int) -> int:
        """The column of such a row whose state is that of the window's first piece."""
        return len(self._prefix)

    def identity(self) -> dict[str, Any]:
        """A subclass adds the weights and what else it has."""
        return {
            "vocabulary": fingerprint(self.vocabulary()),
            "tokenizer": fingerprint(self._aligner.fingerprint(), self._tokenizer_files),
            "frame": [list(self._prefix), list(self._suffix)],
            "layers": list(self._layers),
            "pooling": "+".join(self._places),
            "spacing": self._aligner.spacing,
            "context": self._context,
            "window": self._window,
        }

    def vocabulary(self) -> dict[str, int]:
        """Piece → id; the two LMs of a pair must agree on it."""
        return self.tokenizer.get_vocab()

    def encode(self, sentences: Iterable[Words]) -> Iterator[tuple[np.ndarray, ...]]:
        groups = group_sentences(each_sentence(sentences), self._context)
        for chunk in chunk_groups(groups, CHUNK_WORDS):
            vectors = self._encode_chunk(chunk)
            bounds = np.concatenate([[0], np.cumsum([len(s) for group in chunk for s in group])])
            for start, stop in pairwise(bounds):
                yield (vectors[start:stop],)

    def rows(self, sentences: Iterable[Words]) -> list[Row]:
        """What the model would be given for sentences, window by window, and where each word stands in it.

        A word is read where the first place of the pooling says; every word is in one row.
        """
        groups = list(group_sentences(each_sentence(sentences), self._context))
        aligned, first_word, windows = self._lay_out(groups)
        selections = [select(self._places[0], p.bounds, self.backward) for p in aligned]
        found = []
        for window in filter(len, windows):
            words, columns, _ = self._look_up([window], selections, first_word, 0)
            found.append(Row(self._given(window, aligned), words.numpy(), columns.numpy()))
        return found

    def _lay_out(self, groups: list[list[Sentence]]) -> tuple[list[Pieces], np.ndarray, list[Window]]:
        """The pieces of each group, read as one text, where its words begin among all, and all windows."""
        texts = [join_sentences(group) for group in groups]
        aligned = self._aligner.align([(t.words, t.spaces) for t in texts])
        self.counts["sentences longer than the model's window, read in overlapping windows"] += sum(
            len(group) == 1 and len(pieces.ids) > self._window for group, pieces in zip(groups, aligned, strict=True)
        )
        first_word = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
        return aligned, first_word, [w for i, p in enumerate(aligned) for w in self._plan(i, len(p.ids))]

    def _encode_chunk(self, groups: list[list[Sentence]]) -> np.ndarray:
        """(W, L, K·D) for all words of the chunk, end to end; a group is read as one text."""
        aligned, first_word, windows = self._lay_out(groups)
        selections = [[select(place, p.bounds, self.backward) for p in aligned] for place in self._places]
        shape = int(first_word[-1]), len(self._layers), len(self._places), self._width
        result = torch.zeros(shape, dtype=torch.float32 if self.dtype == np.float32 else torch.float16)
        means = {k: torch.zeros(shape[0], shape[1], shape[3]) for k, p in enumerate(self._places) if p == "mean"}
        for batch in batch_windows(windows, BATCH_PIECES.get(self.device.type, 1024)):
            states = self._read(batch, aligned)
            for k, by_text in enumerate(selections):
                words, places, weights = self._look_up(batch, by_text, first_word, states[0].shape[1])
                for number, layer in enumerate(states):
                    picked = layer.flatten(0, 1)[places.to(layer.device)].float()  # (n, D)
                    if k in means:  # of several states, which two windows may have read
                        means[k][:, number].index_add_(0, words, picked.cpu() * weights[:, None])
                    else:
                        result[:, number, k].index_copy_(0, words, _narrow(picked, result.dtype).cpu())
        for k, mean in means.items():
            result[:, :, k] = _narrow(mean, result.dtype)
        return result.flatten(2).numpy()

    def _look_up(
        self, batch: list[Window], by_text: list[Selection], first_word: np.ndarray, num_columns: int
    ) -> list[Tensor]:
        """(word of the chunk, place in the batch, row by row, weight) of all states that are wanted."""
        parts = []
        for row, window in enumerate(batch):
            words, states, weights = by_text[window.text]
            mine = (states >= window.first) & (states < window.last)
            places = row * num_columns + states[mine] - window.start + self._origin(len(window))
            parts.append((words[mine] + first_word[window.text], places, weights[mine]))
        return [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]

    @torch.inference_mode()
    def _read(self, batch: list[Window], aligned: list[Pieces]) -> list[Tensor]:
        """Every layer's states (B, P, D) of windows, padded on the right."""
        rows = [self._given(window, aligned) for window in batch]
        lengths = [len(row) for row in rows]
        padding = self._prefix[0] if self._prefix else 0
        ids = torch.tensor([row + [padding] * (max(lengths) - len(row)) for row in rows], dtype=torch.int64)
        states = self._hidden_states(ids.to(self.device), lengths)
        return [states[layer] for layer in self._layers]

    def _given(self, window: Window, aligned: list[Pieces]) -> list[int]:
        """A window's pieces in the order of reading, framed."""
        pieces = aligned[window.text].ids
        reading = pieces[::-1] if self.backward else pieces
        return self._row(reading[window.start : window.stop].tolist())


def _narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    """In a narrower type, what is out of its range being brought to its end."""
    limit = torch.finfo(dtype).max
    return x if x.dtype == dtype else x.clamp(-limit, limit).to(dtype)
