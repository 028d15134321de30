"""The vectors of rows: the streams of every encoder of a tagger, those that are made of others included.

Further streams, such as the mean of a word's mentions (`encoders.wider`), need the vectors of equal words before the
row: of its sentence, or of the last `MENTION_WORDS` words where mentions of a whole document are pooled. A word that is
final keeps the vectors that it had then.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from boustro.encoders.base import Encoder, Features
from boustro.encoders.concat import ConcatEncoder
from boustro.encoders.wider import WiderEncoder
from boustro.live.rows import Row, Words
from boustro.live.sources import ForwardSource, RowSource, Source, States, WindowSource, make_source
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
        if isinstance(encoder, WiderEncoder):
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

    def _read(self, encoder: Encoder, rows: Sequence[Row]) -> list[np.ndarray]:
        if isinstance(encoder, WiderEncoder):
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
            mentions.drop(before - MENTION_WORDS)


class Mentions:
    """The further streams of one encoder, with the vectors of the final words that they may need."""

    def __init__(self, encoder: WiderEncoder, words: Words) -> None:
        self._encoder, self._words = encoder, words
        self._by_sentence = encoder.within == "sentence"
        self._final: dict[int, list[np.ndarray]] = {}
        self._places: dict[str, list[int]] = defaultdict(list)

    def further(self, rows: Sequence[Row], base: list[np.ndarray]) -> list[np.ndarray]:
        """The further streams of the words of rows, whose other streams are given."""
        ends = np.cumsum([len(row) for row in rows])
        for row, start in zip(rows, ends - [len(row) for row in rows], strict=True):
            if row.fixes:
                self._final[row.first] = [stream[start] for stream in base]
                self._places[self._words[row.first].text].append(row.first)
        sentences, numbers, taken, total = [], [], [], 0
        for number, row in enumerate(rows):
            for first, stop in self._words.parts(row) if self._by_sentence else [(row.first, row.stop)]:
                words = [w.text for w in self._words.between(first, stop)]
                earlier = self._earlier(words, first, row.first)
                texts = [self._words[n].text for n in earlier]
                sentences.append(Sentence((*texts, *words)))
                begin = int(ends[number]) - row.stop
                numbers += [(n, -1) for n in earlier] + [(-1, begin + n) for n in range(first, stop)]
                taken.append(np.arange(total + len(earlier), total + len(earlier) + len(words)))
                total += len(earlier) + len(words)
        streams = tuple(
            np.stack([self._final[n][k] if n >= 0 else base[k][at] for n, at in numbers]) for k in range(len(base))
        )
        features = Features(streams, np.array([len(s) for s in sentences]))
        chosen = np.concatenate(taken)
        return [stream[chosen] for stream in self._encoder.further(sentences, features)]

    def _earlier(self, words: Sequence[str], first: int, before: int) -> list[int]:
        """The final words before a row that are equal to one of its words, of the same sentence where that matters."""
        found = {n for word in set(words) for n in self._places.get(word, ()) if n < before}
        if self._by_sentence:
            own = self._words.sentence(first)
            found = {n for n in found if n >= self._words.base and self._words.sentence(n) == own}
        return sorted(found)

    def drop(self, before: int) -> None:
        """Forget the words before this number."""
        for number in [n for n in self._final if n < before]:
            del self._final[number]
        for word, places in list(self._places.items()):
            kept = [n for n in places if n >= before]
            if kept:
                self._places[word] = kept
            else:
                del self._places[word]
