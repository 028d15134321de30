"""Every word also by its letters: a fixed vector of its character n-grams and its shape, as a further stream.

    "Ada"    the n-grams of "<ada>", from two letters to five, and the whole; the shapes "Xxx" and "Xx"

Each n-gram and each shape is a random vector of 512 signs, the bits of its BLAKE2b hash. The vector of a word is the
sum of its n-grams' over the square root of their number, and the same of its shapes: words that share letters are
near to each other, and a head learns from an ending or a capital what the LMs have read too little to know.

Sources: Bojanowski et al. 2017 (a word as the sum of its n-grams); Achlioptas 2003 (random projections of signs).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from boustro.encoders.base import Encoder, Features, Stream
from boustro.encoders.extended import ExtendedEncoder
from boustro.encoders.identity import Identity, JoinedIdentity
from boustro.encoders.options import Context
from boustro.types import Sentence

SPELLING = "spelling"  # the name of the stream
SHORTEST, LONGEST = 2, 5
MOST_LETTERS = 100
WIDTH = 8 * blake2b.MAX_DIGEST_SIZE
KEPT_WORDS = 1 << 14


class SpelledEncoder(ExtendedEncoder):
    """The streams of `base`, and behind them that of the letters."""

    def __init__(self, base: Encoder) -> None:
        within: Context = base.within if isinstance(base, ExtendedEncoder) else "sentence"
        super().__init__(base, [Stream(SPELLING, 1, WIDTH)], within)

    @property
    def streams_by_lm(self) -> list[list[int]]:
        return [*self.base.streams_by_lm, [len(self.base.streams)]]

    def identity(self) -> Identity | JoinedIdentity:
        return self.base.identity().with_facts(**{SPELLING: "signs"})

    def further(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        vectors = np.empty((sum(map(len, sentences)), 1, WIDTH), self.dtype)
        words = (word for sentence in sentences for word in sentence.words)
        for row, word in enumerate(words):
            vectors[row, 0] = spell(word)
        yield vectors


def with_spelling(encoder: Encoder, wanted: bool) -> Encoder:
    """The encoder with the letters behind its other streams where they are wanted, else without them."""
    plain = encoder.base if isinstance(encoder, SpelledEncoder) else encoder
    return SpelledEncoder(plain) if wanted else plain


@lru_cache(KEPT_WORDS)
def spell(word: str) -> np.ndarray:
    """The vector (512,) of a word, float32, by the n-grams of its first 100 letters and the shapes of all."""
    framed = f"<{word[:MOST_LETTERS].lower()}>"
    lengths = range(SHORTEST, LONGEST + 1)
    grams = [framed, *(framed[i : i + n] for n in lengths for i in range(len(framed) - n + 1))]
    return _project(grams) + _project(shapes(word))


def shapes(word: str) -> tuple[str, str]:
    """Capitals, other letters, digits and the rest, and the same without repetitions: "U.S.-born" → "X.X.-x"."""
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(kinds), "".join(kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind)


def _project(features: Sequence[str]) -> np.ndarray:
    """The sum of the features' signs over the square root of their number."""
    hashes = b"".join(blake2b(feature.encode("utf-8", "surrogatepass")).digest() for feature in features)
    ones = np.unpackbits(np.frombuffer(hashes, np.uint8).reshape(len(features), -1), axis=1).sum(0, dtype=np.float32)
    return (2 * ones - len(features)) / np.float32(np.sqrt(len(features)))
