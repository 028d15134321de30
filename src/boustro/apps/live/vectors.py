"""The vectors of rows: the streams of every encoder of a tagger, those that are made of others included.

Further streams, such as the mean of a word's mentions (`encoders.extended`), need the vectors of equal words before the
row: of the last `MENTION_WORDS` words, of its sentence alone unless mentions of a whole document are pooled. A word
that is final keeps the vectors that it had then.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from boustro.apps.live.rows import Row, Words
from boustro.apps.live.sources import ForwardSource, RowSource, Source, States, WindowSource, make_source
from boustro.encoders.base import Encoder, Features
from boustro.encoders.concat import ConcatEncoder
from boustro.encoders.extended import ExtendedEncoder
from boustro.types import Sentence

MENTION_WORDS = 512


class Vectors:
    """All streams of an encoder for the rows of a stream of words."""

    def __init__(self, encoder: Encoder, words: Words, by_sentence: bool, states: States | None = None) -> None:
        """`states` stand in the place of the first LM's own."""
        self._words, self._mentions = words, {}
        self._sources: dict[int, Source] = {}
        self._encoder = encoder
        self._prepare(encoder, by_sentence, [states])

    def _prepare(self, encoder: Encoder, by_sentence: bool, states: list[States | None]) -> None:
        if isinstance(encoder, ExtendedEncoder):
            self._prepare(encoder.base, by_sentence, states)
            self._mentions[id(encoder)] = Mentions(encoder, self._words)
        elif isinstance(encoder, ConcatEncoder):
            for part in encoder.parts:
                self._prepare(part, by_sentence, states)
        else:
            given = states.pop() if states else None
            self._sources[id(encoder)] = make_source(encoder, self._words, by_sentence, given)

    @property
    def sources(self) -> list[Source]:
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

    def read(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """For each stream the vectors (W, L, width) of the words of rows, end to end."""
        return self._read(self._encoder, rows)

    def read_first(self, rows: Sequence[Row]) -> list[np.ndarray]:
        """For each stream the vectors (R, L, width) of the first word of each row, as `read` gives them."""
        starts, encoder = np.cumsum([0, *map(len, rows)])[:-1], self._encoder
        base = self._read(encoder.base if isinstance(encoder, ExtendedEncoder) else encoder, rows)
        found = [stream[starts] for stream in base]
        if isinstance(encoder, ExtendedEncoder):
            found += self._mentions[id(encoder)].further(rows, base, most=1)
        return found

    def _read(self, encoder: Encoder, rows: Sequence[Row]) -> list[np.ndarray]:
        if isinstance(encoder, ExtendedEncoder):
            base = self._read(encoder.base, rows)
            return base + self._mentions[id(encoder)].further(rows, base)
        if isinstance(encoder, ConcatEncoder):
            return [stream for part in encoder.parts for stream in self._read(part, rows)]
        return self._sources[id(encoder)].read(rows)

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
    """The further streams of one encoder, with the vectors of the final words that they may need.

    Of the other streams the highest layer counts, as for `encoders.pooled`; nothing else is kept.
    """

    def __init__(self, encoder: ExtendedEncoder, words: Words) -> None:
        self._encoder, self._words = encoder, words
        self._by_sentence = encoder.within == "sentence"
        self._final: dict[int, list[np.ndarray]] = {}
        self._places: dict[str, list[int]] = defaultdict(list)

    def further(self, rows: Sequence[Row], base: list[np.ndarray], most: int | None = None) -> list[np.ndarray]:
        """The further streams of the words of rows, whose other streams are given; of each row at most the first."""
        starts = np.cumsum([0, *map(len, rows)])[:-1].tolist()
        highest = [stream[:, -1:] for stream in base]
        for row, start in zip(rows, starts, strict=True):
            if row.fixes:
                self._final[row.first] = [stream[start].copy() for stream in highest]
                self._places[self._words[row.first].text].append(row.first)
        sentences, earlier, own, taken, total = [], [], [], [], 0
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
                own += [(total + k, start + n - row.first) for k, n in enumerate(here)]
                taken += [total + k for k, n in enumerate(here) if n < asked]
                total += len(here)
        streams = tuple(self._gather(total, own, earlier, stream, k) for k, stream in enumerate(highest))
        features = Features(streams, np.array([len(s) for s in sentences]))
        return [stream[taken] for stream in self._encoder.further(sentences, features)]

    def _gather(
        self, total: int, own: list[tuple[int, int]], earlier: list[tuple[int, int]], stream: np.ndarray, k: int
    ) -> np.ndarray:
        """(W, 1, width): vectors of a stream at the places that `own` names, and of final words."""
        result = np.empty((total, *stream.shape[1:]), stream.dtype)
        places, numbers = np.array(own).T
        result[places] = stream[numbers]
        for place, number in earlier:
            result[place] = self._final[number][k]
        return result

    def _earlier(self, wanted: set[str], first: int, before: int) -> list[int]:
        """The final words before a row that are among some words, of the same sentence where that matters."""
        oldest = before - MENTION_WORDS
        if self._by_sentence:
            oldest = self._words.begin(first, oldest)
        found = []
        for word in wanted:
            places = self._places.get(word, [])
            found += places[bisect_left(places, oldest) : bisect_left(places, before)]
        return sorted(found)

    def drop(self, before: int) -> None:
        """Forget the words before this number."""
        for number in [n for n in self._final if n < before]:
            del self._final[number]
        for word, places in list(self._places.items()):
            del places[: bisect_left(places, before)]
            if not places:
                del self._places[word]
