"""How fast an encoder is, measured on the first words of what it is to read."""

import time
from collections.abc import Iterable, Sequence

from boustro.encoders.base import Encoder, WordList
from boustro.text.documents import chunk_by_size

PROBE_SENTENCES, PROBED_WORDS = 100, 500


def num_words(sentences: Iterable[WordList]) -> int:
    """Words of all sentences together."""
    return sum(map(len, sentences))


def words_per_second(encoder: Encoder, sentences: Sequence[WordList]) -> float:
    """The speed over the first sentences, after one that warms up; what is noticed there is not counted."""
    noticed, sample = encoder.counts.copy(), next(chunk_by_size(sentences, len, PROBED_WORDS))
    encoder.encode_all(sample[:1])
    started = time.perf_counter()
    encoder.encode_all(sample)
    seconds = time.perf_counter() - started
    encoder.counts.clear()
    encoder.counts.update(noticed)
    return num_words(sample) / seconds
