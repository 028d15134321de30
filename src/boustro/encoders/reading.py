"""Where a word becomes a vector: words → pieces → windows → the model's states → one vector per word and layer.

The model is not known here: subclasses of `PieceEncoder` provide its states (`encoders.transformer` those of a PyTorch
model). torch is not imported, because exported models are read without it.

**Places.** A word is pieces `[start, end)` in reading order, and state `i` is the LM's state after piece `i`. `pooling`
names the states that a word is read from, one place or several joined by `+`:

    before   state start - 1   just before the word: pure context (the start piece's state at the start of a text)
    entry    state start       after the word's first piece in reading order
    exit     state end - 1     after the whole word

A forward LM reads a word's first piece first, a backward LM its last. `first`, `last` and `mean` (of all pieces) are
named in text order.

**Windows.** A text longer than the model's window is read in windows that overlap by half. Each state is taken from the
window that contains most of its context: for a causal LM most of what precedes, for a model that sees both sides the
window whose middle is nearest. With a window of 4 pieces:

    reading  p0 p1 p2 p3 p4 p5 p6     causal    centred
             window [0, 4)            p0 … p3   p0 … p2     the pieces whose states are taken from it
             window [2, 6)            p4, p5    p3, p4
             window [4, 7)            p6        p5, p6

Letters: W words, P pieces of a window, L layers, D width of a state, K places of the pooling, B windows of a batch.
"""

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from boustro.encoders.base import Encoder, Stream, WordList
from boustro.encoders.options import ReadingOptions
from boustro.given import chunk_by_size, each_sentence
from boustro.text.alignment import Aligner, Pieces, guess_spaces
from boustro.types import Sentence

PLACES = ("before", "entry", "exit", "first", "last", "mean")


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
    """Return the states that words are read from; `bounds` (W + 1,) are the words' pieces in text order."""
    num_pieces = int(bounds[-1])
    start, end = (num_pieces - bounds[1:], num_pieces - bounds[:-1]) if backward else (bounds[:-1], bounds[1:])
    return select_at(place, start, end, backward)


def select_at(place: str, start: np.ndarray, end: np.ndarray, backward: bool) -> Selection:
    """Select the states of words with the pieces `[start, end)` in reading order, (W,) each."""
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


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Window:
    """Pieces `[start, stop)` of the reading of text number `text`, from which states `[first, last)` are taken."""

    text: int
    start: int
    stop: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.stop - self.start


def plan_windows(text: int, num_pieces: int, size: int, first: int, centred: bool = False) -> list[Window]:
    """Return the windows of one text; `first` is -1 if there is a state before that of the first piece, else 0."""
    if num_pieces <= size:
        return [Window(text, 0, num_pieces, first, num_pieces)]
    overlap = size // 2
    starts = range(0, num_pieces - overlap, size - overlap)
    stops = [min(start + size, num_pieces) for start in starts]
    margin = (size - size // 2) // 2 if centred else 0
    lasts = [*(stop - margin for stop in stops[:-1]), num_pieces]
    return [Window(text, *ends) for ends in zip(starts, stops, [first, *lasts[:-1]], lasts, strict=True)]


def batch_by_length(items: Iterable[Item], length: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Items of similar length together, shortest first; a padded batch is at most `most` long in all."""
    batch: list[Item] = []
    for item in sorted(items, key=length):
        if batch and (len(batch) + 1) * length(item) > most:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def group_sentences(sentences: Iterable[Sentence], context: str) -> Iterator[list[Sentence]]:
    """Yield the sentences that are read as one text: each alone, or (context "document") runs that name the same
    document."""
    if context == "sentence":
        yield from ([s] for s in sentences)
        return
    for name, run in itertools.groupby(sentences, key=lambda s: s.document):
        group = list(run)
        yield from [group] if name else ([s] for s in group)


def group_numbers(sentences: Iterable[Sentence], context: str) -> list[list[int]]:
    """Group sentences as `group_sentences` does, and return their numbers."""
    numbers = itertools.count()
    return [[next(numbers) for _ in group] for group in group_sentences(sentences, context)]


def join_sentences(group: list[Sentence]) -> Sentence:
    """Return a document's sentences as one, in running text."""
    if len(group) == 1:
        return group[0]
    spaces = [space for s in group for space in (s.spaces or guess_spaces(s.words))]
    return Sentence(tuple(word for s in group for word in s.words), spaces=tuple(spaces))


CHUNK_WORDS = 16384  # words that are planned and sorted by length together: more of them delay the first answer
BATCH_PIECES = 1024
"""On a CPU, what fits into its caches is fastest."""
WINDOWED = "sentences longer than the model's window, read in overlapping windows"


def encode_in_chunks(
    sentences: Iterable[Sentence], context: str, encode_chunk: Callable[[list[list[Sentence]]], np.ndarray]
) -> Iterator[tuple[np.ndarray]]:
    """Vectors sentence by sentence; `encode_chunk` gives those of all words of some groups, each read as one text.

    Of equal groups one is read.
    """
    groups = group_sentences(sentences, context)
    for chunk in chunk_by_size(groups, lambda group: sum(map(len, group)), CHUNK_WORDS):
        keys = [tuple((s.words, s.spaces) for s in group) for group in chunk]
        different = dict(zip(keys, chunk, strict=True))
        vectors = encode_chunk(list(different.values()))
        sizes = [sum(map(len, group)) for group in different.values()]
        starts = dict(zip(different, itertools.accumulate(sizes, initial=0), strict=False))
        for key, group in zip(keys, chunk, strict=True):
            ends = itertools.accumulate(map(len, group), initial=starts[key])
            yield from ((vectors[start:stop],) for start, stop in pairwise(ends))


class InputRow(NamedTuple):
    """One window as the model's input: word `words[k]`, counted over all sentences, is read at `columns[k]`."""

    ids: list[int]
    words: np.ndarray
    columns: np.ndarray


class PieceEncoder(Encoder):
    """An encoder over a tokenizer, of one stream. A subclass sets `spec`, `dtype` (of the arrays) and
    `num_parameters`, calls `_set_reading` and then `_set_output`, and gives the states (`_pick`)."""

    default_pooling: ClassVar[str]
    layers: tuple[int, ...]
    """The layers that are read."""
    context: str
    """Text that is read together: "sentence" or "document"."""
    room: int
    """The most pieces of a text that are read together."""
    backward = False
    sees_both_sides = False  # whether a state knows what follows its piece; overlapping windows are cut accordingly
    batch_pieces = BATCH_PIECES
    _prefix: Sequence[int] = ()
    _suffix: Sequence[int] = ()

    def _set_reading(self, tokenizer: Any, reading: ReadingOptions) -> None:
        """How words become pieces, and where they are read; `ValueError` for an unknown pooling."""
        self.tokenizer = tokenizer
        self._aligner = Aligner(tokenizer, reading.spacing)
        self.counts = self._aligner.counts
        self._places = parse_pooling(reading.pooling or self.default_pooling)
        self.context = reading.context

    def _set_output(self, layers: tuple[int, ...], width: int, window: int) -> None:
        """Which of the states are kept, their width, and the most pieces read together."""
        self.layers, self._width, self.room = layers, width, window
        self.streams = (Stream(self.spec, len(layers), width * len(self._places)),)

    @abstractmethod
    def _pick(self, rows: list[list[int]], places: list[np.ndarray]) -> list[np.ndarray]:
        """Return the states of rows of piece ids, at each of the places: (n, L, D) from places (n,).

        A place is row · P + column, with P the length of the longest row. The states are of the arrays' type, those of
        the place `mean` float32.
        """

    def _row(self, pieces: Sequence[int]) -> list[int]:
        """Return the model's input for a window's pieces, which are in reading order."""
        return [*self._prefix, *pieces, *self._suffix]

    def _origin(self, num_pieces: int) -> int:
        """Return the column of such a row whose state is that of the window's first piece."""
        return len(self._prefix)

    def vocabulary(self) -> dict[str, int]:
        """Piece → id."""
        return self.tokenizer.get_vocab()

    def pieces(self, words: Sequence[str], spaces: Sequence[bool]) -> Pieces:
        """Return the pieces of words that follow each other in a text."""
        return self._aligner.align([(words, spaces)])[0]

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        return encode_in_chunks(sentences, self.context, self._encode_chunk)

    def rows(self, sentences: Iterable[WordList]) -> list[InputRow]:
        """Return the model's inputs, window by window, and the columns where words are read, at the pooling's first
        place."""
        groups = list(group_sentences(each_sentence(sentences), self.context))
        aligned, first_word, windows = self._align(groups)
        selections = [select(self._places[0], p.bounds, self.backward) for p in aligned]
        rows = []
        for window in filter(len, windows):
            words, columns, _ = self._look_up([window], selections, first_word, 0)
            rows.append(InputRow(self._input(window, aligned), words, columns))
        return rows

    def _align(self, groups: list[list[Sentence]]) -> tuple[list[Pieces], np.ndarray, list[Window]]:
        """Return the pieces of each group, the number of its first word among all, and the windows of all groups."""
        texts = [join_sentences(group) for group in groups]
        aligned = self._aligner.align([(t.words, t.spaces) for t in texts])
        self.counts[WINDOWED] += sum(
            len(group) == 1 and len(pieces.ids) > self.room for group, pieces in zip(groups, aligned, strict=True)
        )
        first_word = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
        windows = []
        for number, pieces in enumerate(aligned):
            first = -1 if self._origin(len(pieces.ids)) else 0
            windows += plan_windows(number, len(pieces.ids), self.room, first, centred=self.sees_both_sides)
        return aligned, first_word, windows

    def _encode_chunk(self, groups: list[list[Sentence]]) -> np.ndarray:
        """Return (W, L, K·D) for all words of the groups."""
        aligned, first_word, windows = self._align(groups)
        selections = [[select(place, p.bounds, self.backward) for p in aligned] for place in self._places]
        result = self._unread(int(first_word[-1]))  # (W, L, K, D)
        sums = {k: np.zeros_like(result[:, :, k], np.float32) for k, p in enumerate(self._places) if p == "mean"}
        for batch in batch_by_length(filter(len, windows), lambda window: len(window) + 1, self.batch_pieces):
            rows = [self._input(window, aligned) for window in batch]
            selected = [self._look_up(batch, by_text, first_word, max(map(len, rows))) for by_text in selections]
            picked = self._pick(rows, [places for _, places, _ in selected])
            for k, ((words, _, weights), states) in enumerate(zip(selected, picked, strict=True)):
                if k in sums:  # of several states, which two windows may have read
                    add_in_order(sums[k], words, states * weights[:, None, None])
                else:
                    result[words, :, k] = states
        for k, mean in sums.items():
            result[:, :, k] = self._narrow(mean)
        return result.reshape(*result.shape[:2], self.streams[0].width)

    def _unread(self, num_words: int) -> np.ndarray:
        """Return (W, L, K, D), what a word has where there is no state to read."""
        return np.zeros((num_words, len(self.layers), len(self._places), self._width), self.dtype)

    def _narrow(self, values: np.ndarray) -> np.ndarray:
        """Float32 values in the type of the arrays."""
        return values.astype(self.dtype)

    def _look_up(
        self, batch: list[Window], by_text: list[Selection], first_word: np.ndarray, num_columns: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (number of the word, place in the batch counted row by row, weight) of every state to take."""
        parts = []
        for row, window in enumerate(batch):
            words, states, weights = by_text[window.text]
            mine = (states >= window.first) & (states < window.last)
            places = row * num_columns + states[mine] - window.start + self._origin(len(window))
            parts.append((words[mine] + first_word[window.text], places, weights[mine]))
        words, places, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        return words, places, weights

    def _input(self, window: Window, aligned: list[Pieces]) -> list[int]:
        pieces = aligned[window.text].ids
        reading = pieces[::-1] if self.backward else pieces
        return self._row(reading[window.start : window.stop].tolist())


def pad_rows(rows: list[list[int]], padding: int) -> np.ndarray:
    """Return (B, P) int64: rows of piece ids, padded on the right."""
    longest = max(map(len, rows))
    return np.array([row + [padding] * (longest - len(row)) for row in rows], np.int64)


def add_in_order(total: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Add each of `values` (n, …) to its row (n,) of `total`, those of a row in their order."""
    order = np.argsort(rows, kind="stable")
    first = np.flatnonzero(np.diff(rows[order], prepend=-1))
    rank = np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))
    for turn in range(int(rank.max(initial=-1)) + 1):
        places = order[rank == turn]
        total[rows[places]] += values[places]
