"""Features that a head is trained on and that are read otherwise than what it answers later.

`--memory`: each word is read also by the mean vector of its mentions in the training data. In training a share of the
words is read as if they were not remembered, so that the head learns to tag new words too: without this, a tagger of a
large training set finds names that are new less well than one without a memory.

`fit --live`: the vectors of training words as a stream would have given them, with fewer words behind them. Every
sentence is read in three ways: whole; with no word behind each word; with 1, 2, 4, 8 or 16 words behind, which is drawn
once. Each time that it is learned from, one of the three is drawn (`Versions`). A word is read as `live` reads a
word that becomes final, and the head is told how many words are behind it (`heads.inputs`). So one head serves every
delay.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from boustro.encoders.arriving import RowVectors, Word, WordBuffer, WordRange
from boustro.encoders.base import Encoder, Features
from boustro.encoders.extended import ExtendedEncoder, base_encoder
from boustro.encoders.options import KEPT_WORDS
from boustro.encoders.reading import group_numbers, group_sentences
from boustro.encoders.word_means import MeanSums, WordMeans
from boustro.features.reader import Reader
from boustro.heads.inputs import TO_THE_END, HeadInputs, Streams, encode_distances, sentence_rows
from boustro.progress import Progress
from boustro.text.alignment import guess_spaces
from boustro.types import Sentence

FORGOTTEN = 0.3  # of the words: entities of BC5CDR never seen 61.4 at 0, 63.7 at 0.3, 63.6 at 0.6 (docs/log.md)
MEMORY_ONLY = "sentences without labels, read for the memory only"


def read_remembering(
    reader: Reader, examples: Sequence[Any], unread: Sequence[Sentence], side: np.ndarray | None, seed: int
) -> tuple[Reader, HeadInputs, Callable[[np.ndarray], HeadInputs]]:
    """Return a reader that remembers the words of training examples, the features to train a head for it, and a
    function.

    `unread` are more sentences that are remembered; `side` as for `Reader.read`. The function gives the features where
    examples with some numbers are read as later texts are: they, the rest of their documents and equal texts are not
    remembered.
    """
    sentences, parts = reader.sentences(examples)
    features = base_encoder(reader.encoder(cached=True)).read_all(sentences)
    starts = np.concatenate([[0], np.cumsum(features.lengths)])
    encoder = base_encoder(reader.encoder())
    counts = Counter(word for some in (sentences, unread) for sentence in some for word in sentence.words)
    others = MeanSums(counts, KEPT_WORDS, encoder.streams)
    if unread:
        others.read(encoder, group_sentences(unread, reader.reading.context), sum(map(len, unread)))

    def learn(numbers: Sequence[int]) -> WordMeans:
        sums = copy.deepcopy(others)
        if len(numbers) == len(sentences):
            sums.add(sentences, features.streams)
        elif numbers:
            rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in numbers])
            sums.add([sentences[n] for n in numbers], (stream[rows] for stream in features.streams))
        return sums.means()

    def read(learned: WordMeans) -> Features:
        extended = reader.with_memory(learned).encoder(cached=True)
        assert isinstance(extended, ExtendedEncoder)
        return extended.extend(sentences, features)

    def without(left: np.ndarray) -> HeadInputs:
        hidden = set(parts[left].ravel().tolist())
        documents, texts = ({key(sentences[n]) for n in hidden} - {""} for key in (_document, _letters))
        kept = [
            n
            for n, sentence in enumerate(sentences)
            if n not in hidden and _document(sentence) not in documents and _letters(sentence) not in texts
        ]
        learned = learn(kept)
        later = np.repeat([n in hidden for n in range(len(sentences))], features.lengths)[:, None, None]
        both = zip(read(learned.in_training(FORGOTTEN, seed)).streams, read(learned).streams, strict=True)
        return HeadInputs([a if a is b else np.where(later, b, a) for a, b in both], features.lengths, parts, side)

    learned = learn(range(len(sentences)))
    taught = read(learned.in_training(FORGOTTEN, seed))
    return reader.with_memory(learned), HeadInputs(taught.streams, taught.lengths, parts, side), without


def _document(sentence: Sentence) -> str:
    return sentence.document


def _letters(sentence: Sentence) -> str:
    return "".join(sentence.words)


DELAYS = (1, 2, 4, 8, 16)  # one is drawn for each sentence, so that one head serves every delay
MEMORY_BLOCK_WORDS = 4096
"""Words of the rows that are read at once."""
CUT_BEHIND = "training sentences read with fewer words behind each word"


class Versions(HeadInputs):
    """V ways of reading; `streams` (V · words, L, D) and `sides` (V · words, F) have one behind the other, `lengths`
    and `parts` are those of one. An example is one sentence."""

    def __init__(
        self, streams: Streams, lengths: np.ndarray, sides: np.ndarray, seed: int, parts: np.ndarray | None = None
    ) -> None:
        super().__init__(streams, lengths, parts)
        self._sides, self._seed = sides, seed
        self._draw = np.random.default_rng(seed)

    @property
    def side_width(self) -> int:
        return self._sides.shape[1]

    @property
    def rows(self) -> np.ndarray | None:
        rows, total = super().rows, int(self.starts[-1])
        ways = range(0, len(self._sides), total)
        return None if rows is None else np.concatenate([rows + first for first in ways])

    def select(self, examples: np.ndarray) -> "Versions":
        return Versions(self.streams, self.lengths, self._sides, self._seed, self.parts[examples])

    def keep(self, examples: np.ndarray) -> "Versions":
        numbers = self.parts[examples, 0]
        rows, total = sentence_rows(self.starts, numbers)[0], int(self.starts[-1])
        rows = np.concatenate([rows + first for first in range(0, len(self._sides), total)])
        return Versions([s[rows] for s in self.streams], self.lengths[numbers], self._sides[rows], self._seed)

    def arrays(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        rows, lengths, _ = super().arrays(examples)
        total = int(self.starts[-1])
        drawn = self._draw.integers(len(self._sides) // total, size=len(examples))
        rows = rows + np.repeat(drawn * total, lengths)
        return rows, lengths, self._sides[rows]


def refuse_uncut(encoder: Encoder, context: str) -> None:
    """`ValueError` for an encoder without a backward LM, which is what `cut_inputs` cuts."""
    if not RowVectors(encoder, WordBuffer(), context == "sentence").can_be_cut:
        raise ValueError(
            f"{encoder.spec}: live cuts what a backward LM has read, and this encoder has none that reads on its own; "
            "remove --live (the tagger streams without it)"
        )


def cut_inputs(
    encoder: Encoder, context: str, sentences: Sequence[Sentence], inputs: HeadInputs, seed: int
) -> tuple[Versions, dict[str, int]]:
    """Return the features of sentences in three ways, with distances as side features; and how many sentences are
    cut."""
    drawn = np.random.default_rng([seed, 11]).choice(DELAYS, len(sentences))
    ways = [np.zeros_like(drawn), drawn]
    streams, total = [np.concatenate([stream] * 3) for stream in inputs.streams], int(inputs.starts[-1])
    distances = np.full(3 * total, TO_THE_END)
    with Progress("reading with fewer words behind", "words", total=2 * total) as bar:
        for numbers in group_numbers(sentences, context):
            group = [sentences[n] for n in numbers]
            for way, delays in enumerate(ways, 1):
                first, behind = (
                    way * total + int(inputs.starts[numbers[0]]),
                    np.repeat(delays[numbers], [*map(len, group)]),
                )
                for number, distance, vectors in _cut(encoder, group, behind, context == "sentence"):
                    for stream, vector in zip(streams, vectors, strict=True):
                        stream[first + number] = vector
                    distances[first + number] = distance
                bar.update(len(behind))
    return Versions(streams, inputs.lengths, encode_distances(distances), seed), {CUT_BEHIND: len(sentences)}


def _cut(
    encoder: Encoder, group: Sequence[Sentence], delays: np.ndarray, by_sentence: bool
) -> Iterator[tuple[int, int, list[np.ndarray]]]:
    """For the words of a text that is read as one, their number, distance and vectors, where they are cut."""
    words, rows = WordBuffer(), []
    for sentence in group:
        spaces = sentence.spaces or guess_spaces(sentence.words)
        for n, (word, space) in enumerate(zip(sentence.words, spaces, strict=True)):
            words.append(Word(word, 0, 0, space, n == 0))
    vectors = RowVectors(encoder, words, by_sentence)
    if not words.stop:
        return
    vectors.append(0)
    for number, delay in enumerate(delays.tolist()):
        stop = min(number + delay + 1, words.stop)
        if stop == number + delay + 1:
            rows.append(WordRange(number, stop, fixes=True))
        if rows and (number == len(delays) - 1 or sum(map(len, rows)) >= MEMORY_BLOCK_WORDS):
            streams = vectors.read_first(rows)
            for at, row in enumerate(rows):
                yield row.first, len(row) - 1, [stream[at] for stream in streams]
            rows = []
