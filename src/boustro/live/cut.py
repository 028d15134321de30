"""`fit --live`: the vectors of training words as a stream would have given them, with fewer words behind them.

For every sentence a delay is drawn: 0, 1, 2, 4, 8, 16 words, or twice as often all. Each of its words is read with so
many words behind it, as `live` reads a word that becomes final, and the head is told how many (`live.distance`). So one
head serves every delay.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from boustro.encoders.base import Encoder
from boustro.encoders.windows import group_numbers
from boustro.heads.inputs import Inputs
from boustro.live.distance import ALL, encode_distances
from boustro.live.rows import Row, Words
from boustro.live.segment import Word
from boustro.live.vectors import Vectors
from boustro.progress import Progress
from boustro.text.alignment import guess_spaces
from boustro.types import Sentence

DELAYS = (0, 1, 2, 4, 8, 16, ALL, ALL)
BLOCK_WORDS = 4096
"""Words of the rows that are read at once."""
CUT = "training sentences read with fewer words behind each word"


def cut_inputs(
    encoder: Encoder, context: str, sentences: Sequence[Sentence], inputs: Inputs, seed: int
) -> tuple[Inputs, dict[str, int]]:
    """The features of sentences, cut where a delay was drawn, with distances as side features; and how many are cut.

    Raises `ValueError` for an encoder without a backward LM, which is what is cut.
    """
    by_sentence = context == "sentence"
    if not Vectors(encoder, Words(), by_sentence).can_be_cut:
        raise ValueError(
            f"{encoder.spec}: live cuts what a backward LM has read, and this encoder has none that reads on its own; "
            "leave --live out (the tagger streams without it)"
        )
    delays = np.random.default_rng([seed, 11]).choice(DELAYS, len(sentences))
    streams, distances = [np.array(stream) for stream in inputs.streams], np.full(int(inputs.starts[-1]), ALL)
    with Progress("reading with fewer words behind", "words", total=len(distances)) as bar:
        for numbers in group_numbers(sentences, context):
            group, first = [sentences[n] for n in numbers], int(inputs.starts[numbers[0]])
            own = np.repeat(delays[numbers], [len(s) for s in group])
            for number, distance, vectors in _cut(encoder, group, own, by_sentence):
                for stream, vector in zip(streams, vectors, strict=True):
                    stream[first + number] = vector
                distances[first + number] = distance
            bar.update(len(own))
    return Inputs(streams, inputs.lengths, inputs.parts, encode_distances(distances)), {CUT: int((delays < ALL).sum())}


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
    if not words.stop or (delays == ALL).all():
        return
    vectors.append(0)
    for number, delay in enumerate(delays.tolist()):
        stop = min(number + delay + 1, words.stop)
        if delay < ALL and stop == number + delay + 1:
            rows.append(Row(number, stop, fixes=True))
        if rows and (number == len(delays) - 1 or sum(map(len, rows)) >= BLOCK_WORDS):
            streams = vectors.read_first(rows)
            for at, row in enumerate(rows):
                yield row.first, len(row) - 1, [stream[at] for stream in streams]
            rows = []
