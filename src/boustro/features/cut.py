"""`fit --live`: the vectors of training words as a stream would have given them, with fewer words behind them.

Every sentence is read in three ways: whole; with no word behind each word; with 1, 2, 4, 8 or 16 words behind, which is
drawn once. Each time that it is learned from, one of the three is drawn (`heads.versions`). A word is read as `live`
reads a word that becomes final, and the head is told how many words are behind it (`heads.sides`). So one head serves
every delay.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from boustro.encoders.arriving import Row, Vectors, Word, Words
from boustro.encoders.base import Encoder
from boustro.encoders.windows import group_numbers
from boustro.heads.inputs import Inputs
from boustro.heads.sides import ALL, encode_distances
from boustro.heads.versions import Versions
from boustro.progress import Progress
from boustro.text.alignment import guess_spaces
from boustro.types import Sentence

DELAYS = (1, 2, 4, 8, 16)
BLOCK_WORDS = 4096
"""Words of the rows that are read at once."""
CUT = "training sentences read with fewer words behind each word"


def cut_inputs(
    encoder: Encoder, context: str, sentences: Sequence[Sentence], inputs: Inputs, seed: int
) -> tuple[Versions, dict[str, int]]:
    """The features of sentences in three ways, with distances as side features; and how many sentences are cut.

    Raises `ValueError` for an encoder without a backward LM, which is what is cut.
    """
    by_sentence = context == "sentence"
    if not Vectors(encoder, Words(), by_sentence).can_be_cut:
        raise ValueError(
            f"{encoder.spec}: live cuts what a backward LM has read, and this encoder has none that reads on its own; "
            "leave --live out (the tagger streams without it)"
        )
    drawn = np.random.default_rng([seed, 11]).choice(DELAYS, len(sentences))
    ways = [np.zeros_like(drawn), drawn]
    streams, total = [np.concatenate([stream] * 3) for stream in inputs.streams], int(inputs.starts[-1])
    distances = np.full(3 * total, ALL)
    with Progress("reading with fewer words behind", "words", total=2 * total) as bar:
        for numbers in group_numbers(sentences, context):
            group = [sentences[n] for n in numbers]
            for way, delays in enumerate(ways, 1):
                first, own = (
                    way * total + int(inputs.starts[numbers[0]]),
                    np.repeat(delays[numbers], [*map(len, group)]),
                )
                for number, distance, vectors in _cut(encoder, group, own, by_sentence):
                    for stream, vector in zip(streams, vectors, strict=True):
                        stream[first + number] = vector
                    distances[first + number] = distance
                bar.update(len(own))
    return Versions(streams, inputs.lengths, encode_distances(distances), seed), {CUT: len(sentences)}


def _cut(
    encoder: Encoder, group: Sequence[Sentence], delays: np.ndarray, by_sentence: bool
) -> Iterator[tuple[int, int, list[np.ndarray]]]:
    """For the words of a text that is read as one, their number, distance and vectors, where they are cut."""
    words, rows = Words(), []
    for sentence in group:
        spaces = sentence.spaces or guess_spaces(sentence.words)
        for n, (word, space) in enumerate(zip(sentence.words, spaces, strict=True)):
            words.append(Word(word, 0, 0, space, n == 0))
    vectors = Vectors(encoder, words, by_sentence)
    if not words.stop:
        return
    vectors.append(0)
    for number, delay in enumerate(delays.tolist()):
        stop = min(number + delay + 1, words.stop)
        if stop == number + delay + 1:
            rows.append(Row(number, stop, fixes=True))
        if rows and (number == len(delays) - 1 or sum(map(len, rows)) >= BLOCK_WORDS):
            streams = vectors.read_first(rows)
            for at, row in enumerate(rows):
                yield row.first, len(row) - 1, [stream[at] for stream in streams]
            rows = []
