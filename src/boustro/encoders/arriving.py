"""Vectors of words that arrive: of a text whose end is not known yet, by every LM of an encoder.

A row is a run of words, `[first, stop)`, as the text stood when `stop - 1` was its last word. With a delay of 2, the
words 5, 6, 7 that have just come give

    row [3, 6)    word 3 is final: two words follow it; 4 and 5 are not
    row [4, 7)    word 4 is final
    row [5, 8)    word 5 is final

One source for each LM gives the vectors of rows:

    ForwardSource    a causal LM that reads forward: each word once, when it comes; its vector never changes
    RowSource        a backward LM: the words of a row, as the text ends behind it
    WindowSource     what reads both ways anew: a row and the words before it, read once more for every row

A `ForwardSource` reads every piece once, by the LM's key–value cache (`IncrementalReader`). A text longer than the LM's
window is read in windows: when one is full, its later half is read once more as the beginning of the next. Nothing
older is kept, so memory does not grow. Only LMs whose cache gives the same states can be read so
(`reads_incrementally` tries it). `States` may stand in the place of this source: anything with its `append`.

Further streams, such as the mean of a word's mentions (`encoders.extended`), need the vectors of equal words before the
row: of the last `MENTION_WORDS` words, of its sentence alone unless mentions of a whole document are pooled. A word
that is final keeps the vectors that it had then.

P pieces, L layers, D width of a state, K places of the pooling, W words.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from boustro.encoders.base import ConcatEncoder, Encoder, Features
from boustro.encoders.extended import Extender, base_encoder, extenders_of, scope_of
from boustro.encoders.lm import TRIED_PIECES, LMEncoder
from boustro.encoders.options import Context
from boustro.encoders.transformer import PARAGRAPH
from boustro.types import Sentence, compose

TRIED: "WeakKeyDictionary[LMEncoder, bool]" = WeakKeyDictionary()


class CachedLM:
    """States of pieces that are given one after the other, of the layers that `encoder` keeps; `begin` comes first."""

    def __init__(self, encoder: LMEncoder) -> None:
        self._encoder, self._size = encoder, encoder.room

    def begin(self) -> Tensor | None:
        """Begin a text; returns (1, L, D), the state before its first piece, or `None` without a start piece."""
        self._kept: list[int] = []  # the pieces of the window
        return self._open()

    def _open(self) -> Tensor | None:
        self._cache = self._encoder.body.new_cache()
        before = self._encoder.before
        return self._run(before)[-1:] if before else None

    def append(self, ids: Sequence[int]) -> Tensor:
        """Return (P, L, D): the states after each of these pieces."""
        states, rest = [], list(ids)
        while rest:
            if len(self._kept) == self._size:
                self._kept = self._kept[self._size - self._size // 2 :]
                self._open()
                if self._kept:
                    self._run(self._kept)
            some = rest[: self._size - len(self._kept)]
            states.append(self._run(some))
            self._kept += some
            rest = rest[len(some) :]
        return torch.cat(states)

    @torch.inference_mode()
    def _run(self, ids: list[int]) -> Tensor:
        states = self._encoder.body.states(torch.tensor([ids], device=self._encoder.device), cache=self._cache)
        return torch.stack([states[layer][0] for layer in self._encoder.layers], dim=1)


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
        """Return (W, L, K·D): the vectors of the next words of the text."""
        pieces = self.encoder.pieces(words, spaces)
        states = self._lm.append(pieces.ids.tolist())
        before = torch.zeros_like(states[:1]) if self._before is None else self._before
        self._before = states[-1:]
        return self.encoder.place_at(torch.cat([before, states]), pieces.bounds[:-1] + 1, pieces.bounds[1:] + 1)


def reads_incrementally(encoder: Encoder) -> bool:
    """Return whether `IncrementalReader` gives what the encoder gives; tried once, on a few pieces."""
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
        # pieces come in steps of several sizes: some caches are right for single ones alone
        in_turn = torch.cat([parts.append(some) for some in (ids[:-5], ids[-5:-2], ids[-2:-1], ids[-1:])])
        plain = encoder.states_of(ids)
    except Exception:  # an architecture with another kind of cache raises anything
        return False
    layers = range(plain.shape[1])
    return all(encoder.nearly_equal(other[:, n], plain[:, n]) for other in (at_once, in_turn) for n in layers)


LEFT_WORDS = 64
"""Words before a row that are read with it, by what must read both ways anew."""
MENTION_WORDS = 512  # so a stream's answers do not depend on its chunks, and memory does not grow with the text


class Word(NamedTuple):
    """A word of a stream: its characters `[start, end)` of the whole text, whether white space stands before it in
    running text, and whether it begins a sentence."""

    text: str
    start: int
    end: int
    space: bool
    begins: bool


@dataclass(frozen=True, slots=True)
class WordRange:
    """A row of pieces to read; `fixes` says whether the first word becomes final with it."""

    first: int
    stop: int
    fixes: bool

    def __len__(self) -> int:
        return self.stop - self.first


class WordBuffer:
    """The words from number `base` on, each with the number of its sentence."""

    def __init__(self) -> None:
        self.base = 0
        self._words: list[Word] = []
        self._sentences: list[int] = []

    @property
    def stop(self) -> int:
        """The number of words that have come."""
        return self.base + len(self._words)

    def append(self, word: Word) -> None:
        """Take the next word, which encoders read in NFC, see `Sentence.composed`."""
        last = self._sentences[-1] if self._sentences else -1
        self._words.append(word._replace(text=compose(word.text)))
        self._sentences.append(last + word.begins)

    def drop(self, before: int) -> None:
        """Forget the words before this number, except the last one."""
        count = min(before, self.stop - 1) - self.base
        if count > 0:
            del self._words[:count], self._sentences[:count]
            self.base += count

    def __getitem__(self, number: int) -> Word:
        return self._words[number - self.base]

    def between(self, first: int, stop: int) -> list[Word]:
        """Return the words `[first, stop)`."""
        return self._words[first - self.base : stop - self.base]

    def sentence(self, number: int) -> int:
        """Return the number of a word's sentence."""
        return self._sentences[number - self.base]

    def begin(self, number: int, oldest: int) -> int:
        """Return the first word of a word's sentence; `oldest` where the sentence begins earlier than that, or the
        text."""
        oldest = max(oldest, self.base)
        while number > oldest and not self[number].begins:
            number -= 1
        return number

    def parts(self, row: WordRange) -> list[tuple[int, int]]:
        """Return a row cut where sentences begin."""
        cuts = [n for n in range(row.first + 1, row.stop) if self[n].begins]
        return list(zip([row.first, *cuts], [*cuts, row.stop], strict=True))


def as_one_text(words: Sequence[Word]) -> Sentence:
    """Words that an encoder reads as one text."""
    return Sentence(tuple(w.text for w in words), spaces=tuple(w.space for w in words))


class States(Protocol):
    """The vectors of words that never change once they have come, such as those of the LM that writes the text."""

    def append(self, words: Sequence[Word]) -> np.ndarray:
        """Return (W, L, width): the vectors of the next words, as the first stream of the encoder gives them."""
        ...


class VectorSource(Protocol):
    """The vectors of words by an encoder."""

    def append(self, words: Sequence[Word]) -> None:
        """The next words of the text, which rows will name."""

    def read(self, rows: Sequence[WordRange]) -> list[np.ndarray]:
        """For each stream the vectors (W, L, width) of the words of rows, end to end."""
        ...

    def drop(self, before: int) -> None:
        """Forget the words before this number."""


class IncrementalStates:
    """`States` of a causal LM, which begins anew with every sentence unless it reads documents."""

    def __init__(self, encoder: LMEncoder, by_sentence: bool) -> None:
        self._reader, self._by_sentence = IncrementalReader(encoder), by_sentence
        self._reader.begin()

    def append(self, words: Sequence[Word]) -> np.ndarray:
        states, start = [], 0
        cuts = [n for n, word in enumerate(words) if word.begins] if self._by_sentence else []
        for stop in [*cuts, len(words)]:
            if stop > start:
                some = words[start:stop]
                states.append(self._reader.append([w.text for w in some], [w.space for w in some]))
            if stop < len(words):
                self._reader.begin()
            start = stop
        return np.concatenate(states)


class ForwardSource:
    """Vectors of `states`, kept for the rows that will name them."""

    def __init__(self, states: States, width: tuple[int, int]) -> None:
        self._states, self._shape, self._base = states, width, 0
        self._kept: list[np.ndarray] = []

    def append(self, words: Sequence[Word]) -> None:
        given = self._states.append(words)
        if given.shape != (len(words), *self._shape):
            wanted = " x ".join(map(str, (len(words), *self._shape)))
            shape = " x ".join(map(str, given.shape))
            raise ValueError(f"the states given are {shape}, and the tagger reads {wanted} (words x layers x width)")
        self._kept.extend(given)

    def read(self, rows: Sequence[WordRange]) -> list[np.ndarray]:
        return [np.stack([self._kept[n - self._base] for row in rows for n in range(row.first, row.stop)])]

    def drop(self, before: int) -> None:
        count = before - self._base
        if count > 0:
            del self._kept[:count]
            self._base = before


class RowSource:
    """A row is read by itself, as a text."""

    def __init__(self, encoder: Encoder, words: WordBuffer) -> None:
        self._encoder, self._words = encoder, words

    def append(self, words: Sequence[Word]) -> None:
        return None

    def read(self, rows: Sequence[WordRange]) -> list[np.ndarray]:
        texts = [as_one_text(self._words.between(row.first, row.stop)) for row in rows]
        return list(self._encoder.read_all(texts).streams)

    def drop(self, before: int) -> None:
        return None


class WindowSource(RowSource):
    """A row is read with words before it, of its sentence or of the whole text."""

    def __init__(self, encoder: Encoder, words: WordBuffer, by_sentence: bool) -> None:
        super().__init__(encoder, words)
        self._by_sentence = by_sentence

    def read(self, rows: Sequence[WordRange]) -> list[np.ndarray]:
        texts, kept, end = [], [], 0
        for row in rows:
            first = max(row.first - LEFT_WORDS, self._words.base)
            if self._by_sentence:
                while self._words.sentence(first) != self._words.sentence(row.first):
                    first += 1
            texts.append(as_one_text(self._words.between(first, row.stop)))
            end += row.stop - first
            kept.append(np.arange(end - len(row), end))
        chosen = np.concatenate(kept)
        return [stream[chosen] for stream in self._encoder.read_all(texts).streams]


def make_source(encoder: Encoder, words: WordBuffer, by_sentence: bool, states: States | None = None) -> VectorSource:
    """Return the source of an encoder that has no further encoders inside."""
    shape = encoder.streams[0].num_layers, encoder.streams[0].width
    if states is not None:
        return ForwardSource(states, shape)
    if type(encoder) is LMEncoder:
        if encoder.backward:
            return RowSource(encoder, words)
        if reads_incrementally(encoder):
            return ForwardSource(IncrementalStates(encoder, by_sentence), shape)
    return WindowSource(encoder, words, by_sentence)


class RowVectors:
    """All streams of an encoder for the rows of a stream of words."""

    def __init__(self, encoder: Encoder, words: WordBuffer, by_sentence: bool, states: States | None = None) -> None:
        """`states` stand in the place of the first LM's own."""
        self._words, self._mentions = words, {}
        self._sources: dict[int, VectorSource] = {}
        self._encoder = encoder
        self._prepare(encoder, by_sentence, [states])

    def _prepare(self, encoder: Encoder, by_sentence: bool, states: list[States | None]) -> None:
        base = base_encoder(encoder)
        if isinstance(base, ConcatEncoder):
            for part in base.parts:
                self._prepare(part, by_sentence, states)
        else:
            given = states.pop() if states else None
            self._sources[id(base)] = make_source(base, self._words, by_sentence, given)
        for extender in extenders_of(encoder):
            self._mentions[id(extender)] = Mentions(extender, scope_of(encoder), self._words)

    @property
    def sources(self) -> list[VectorSource]:
        """One for each LM."""
        return list(self._sources.values())

    @property
    def never_change(self) -> bool:
        """Whether a word has the same vectors in every row."""
        return not self._mentions and all(isinstance(source, ForwardSource) for source in self.sources)

    @property
    def rereads(self) -> bool:
        """Whether an encoder reads words before the row anew."""
        return any(isinstance(source, WindowSource) for source in self.sources)

    @property
    def can_be_cut(self) -> bool:
        """Whether an LM reads the words behind a word, and nothing else with them."""
        return any(isinstance(source, RowSource) for source in self.sources) and not self.rereads

    @property
    def keeps(self) -> int:
        """How many words before a row are needed."""
        widest = MENTION_WORDS if self._mentions else 0
        return max(widest, *(0 if isinstance(source, ForwardSource) else 64 for source in self.sources))

    def read(self, rows: Sequence[WordRange]) -> list[np.ndarray]:
        """For each stream the vectors (W, L, width) of the words of rows, end to end."""
        return self._read(self._encoder, extenders_of(self._encoder), rows)

    def read_first(self, rows: Sequence[WordRange]) -> list[np.ndarray]:
        """For each stream the vectors (R, L, width) of the first word of each row, as `read` gives them."""
        starts, (*inner, last) = np.cumsum([0, *map(len, rows)])[:-1], extenders_of(self._encoder) or (None,)
        base = self._read(self._encoder, inner, rows)
        streams = [stream[starts] for stream in base]
        return streams if last is None else streams + self._mentions[id(last)].extra_streams(rows, base, most=1)

    def _read(self, encoder: Encoder, extenders: Iterable[Extender], rows: Sequence[WordRange]) -> list[np.ndarray]:
        base = base_encoder(encoder)
        if isinstance(base, ConcatEncoder):
            streams = [stream for part in base.parts for stream in self._read(part, extenders_of(part), rows)]
        else:
            streams = self._sources[id(base)].read(rows)
        for extender in extenders:
            streams = streams + self._mentions[id(extender)].extra_streams(rows, streams)
        return streams

    def append(self, first: int) -> None:
        """The words from number `first` on are new."""
        some = self._words.between(first, self._words.stop)
        for source in self.sources:
            source.append(some)

    def drop(self, before: int) -> None:
        """Forget the words before this number."""
        for source in self.sources:
            source.drop(before)
        for mentions in self._mentions.values():
            mentions.drop(before)


class Mentions:
    """The streams of one extender, with the vectors of the final words that they may need.

    Of the other streams the highest layer counts, as for `encoders.extended`; nothing else is kept.
    """

    def __init__(self, extender: Extender, scope: Context, words: WordBuffer) -> None:
        self._extender, self._words = extender, words
        self._by_sentence = scope == "sentence"
        self._final: dict[int, list[np.ndarray]] = {}
        self._places: dict[str, list[int]] = defaultdict(list)

    def extra_streams(
        self, rows: Sequence[WordRange], base: list[np.ndarray], most: int | None = None
    ) -> list[np.ndarray]:
        """Return the further streams of the words of rows, whose other streams are given; of each row at most the
        first."""
        starts = np.cumsum([0, *map(len, rows)])[:-1].tolist()
        highest = [stream[:, -1:] for stream in base]
        for row, start in zip(rows, starts, strict=True):
            if row.fixes:
                self._final[row.first] = [stream[start].copy() for stream in highest]
                self._places[self._words[row.first].text].append(row.first)
        sentences, earlier, current, taken, total = [], [], [], [], 0
        for row, start in zip(rows, starts, strict=True):
            asked = row.stop if most is None else min(row.first + most, row.stop)
            for first, stop in self._words.parts(row) if self._by_sentence else [(row.first, row.stop)]:
                if first >= asked:
                    break
                wanted = {w.text for w in self._words.between(first, min(asked, stop))}
                before = self._earlier(wanted, first, row.first)
                here = [n for n in range(first, stop) if self._words[n].text in wanted]
                sentences.append(Sentence(tuple(self._words[n].text for n in [*before, *here])))
                earlier += [(total + k, n) for k, n in enumerate(before)]
                total += len(before)
                current += [(total + k, start + n - row.first) for k, n in enumerate(here)]
                taken += [total + k for k, n in enumerate(here) if n < asked]
                total += len(here)
        streams = tuple(self._gather(total, current, earlier, stream, k) for k, stream in enumerate(highest))
        features = Features(streams, np.array([len(s) for s in sentences]))
        return [stream[taken] for stream in self._extender.extra_streams(sentences, features)]

    def _gather(
        self, total: int, current: list[tuple[int, int]], earlier: list[tuple[int, int]], stream: np.ndarray, k: int
    ) -> np.ndarray:
        """Return (W, 1, width): vectors of a stream at the places that `current` names, and of final words."""
        result = np.empty((total, *stream.shape[1:]), stream.dtype)
        places, numbers = np.array(current).T
        result[places] = stream[numbers]
        for place, number in earlier:
            result[place] = self._final[number][k]
        return result

    def _earlier(self, wanted: set[str], first: int, before: int) -> list[int]:
        """Return the final words before a row that are among some words, of the same sentence where that matters."""
        oldest = before - MENTION_WORDS
        if self._by_sentence:
            oldest = self._words.begin(first, oldest)
        numbers = []
        for word in wanted:
            places = self._places.get(word, [])
            numbers += places[bisect_left(places, oldest) : bisect_left(places, before)]
        return sorted(numbers)

    def drop(self, before: int) -> None:
        """Forget the words before this number."""
        for number in [n for n in self._final if n < before]:
            del self._final[number]
        for word, places in list(self._places.items()):
            del places[: bisect_left(places, before)]
            if not places:
                del self._places[word]
