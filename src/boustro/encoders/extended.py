"""Encoders whose words have further streams, made from the words and the vectors of the encoder inside.

**Mentions** (`PooledEncoder`): every word also by what it is elsewhere, the mean vector of its mentions in its
document, in raw text, or in both.

    Vellmar won .  …  She flew to Vellmar .      both mentions get the mean of their two vectors, as a further stream

Mentions are equal words, in the same case. Those of a document stand in sentences that follow each other and name the
same document; a sentence without a document stands alone. Those of raw text were counted beforehand
(`word_means`), and may be those of the word in another case: the mean is that of all of them and of the mentions
at hand. The vectors are those of the highest layer that is read. Source: Akbik, Bergmann and Vollgraf 2019 (pooled
contextualised embeddings), with the mean; there over all that was read so far, here over the document, before and after
the word, and over text that was read once for all taggers. What is tagged later is no part of a tagger's memory, while
its training sentences are: there they count once.

**Letters** (`SpelledEncoder`): a fixed vector of the word's character n-grams and its shape.

    "Ada"    the n-grams of "<ada>", from two letters to five, and the whole; the shapes "Xxx" and "Xx"

Each n-gram and each shape is a random vector of 512 signs, the bits of its BLAKE2b hash. The vector of a word is the
sum of its n-grams' over the square root of their number, and the same of its shapes: words that share letters are near
to each other, and a head learns from an ending or a capital what the LMs have read too little to know. Sources:
Bojanowski et al. 2017 (a word as the sum of its n-grams); Achlioptas 2003 (random projections of signs).

**Raw text** (`MemoryEncoder`, `memory:DIR`): the mean of a word's vectors in raw text that was read beforehand and of
its vector at hand; a word that the text did not have in any case is its vector at hand. The folder, which `boustro
memory` writes, names the encoder that read the text; with another one, or one that reads otherwise, it is refused.

**Names** (`NamesEncoder`, `names:DIR`): what a small network learned of names from other people's labels, word by word:
whether a name begins or goes on here, which of a few kinds it is, and a vector in which names of one type are near to
each other. The folder, which `boustro lab names` writes, names the encoder whose highest layers the network reads.

W words, K kinds of words, D width of a stream.
"""

import copy
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat, tee
from pathlib import Path
from typing import Any, Self

import numpy as np

from boustro.arrays import read_arrays
from boustro.choose import lazy
from boustro.encoders.base import Encoder, Features, Identity, JoinedIdentity, Stream
from boustro.encoders.options import Context, ReadingOptions
from boustro.encoders.reading import group_sentences
from boustro.encoders.word_means import CodedVectors, WordMeans, join_means, load_means
from boustro.names import MEMORY, NAMES
from boustro.store import kind_of, read_folder, read_json
from boustro.types import Sentence

naming = lazy("boustro.encoders.loading:naming")  # with torch and transformers, which exports do without
weights_fingerprint = lazy("boustro.encoders.loading:weights_fingerprint")
open_encoder = lazy("boustro.encoders.spec:open_encoder")


class ExtendedEncoder(Encoder):
    """The streams of `base`, and behind them `further` ones; `within` is what is needed at once to make these."""

    def __init__(self, base: Encoder, further: Iterable[Stream], within: Context) -> None:
        self.base, self.spec = base, base.spec
        self.streams = (*base.streams, *further)
        self.scope: Context = within
        self.dtype, self.num_parameters = base.dtype, base.num_parameters

    def over(self, base: Encoder) -> Self:
        """Return a copy over another encoder that gives the same numbers, such as a cached one."""
        twin = copy.copy(self)
        twin.base = base
        return twin

    @property
    def base_encoder(self) -> Encoder:
        """Encoder that reads the text."""
        return self.base.base_encoder if isinstance(self.base, ExtendedEncoder) else self.base

    @property
    def parts(self) -> Sequence[Encoder]:
        """Encoders that are run and cached."""
        return getattr(self.base_encoder, "parts", [self.base_encoder])

    @property
    def counts(self) -> Counter[str]:
        return self.base.counts

    @abstractmethod
    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        """The further streams (W, 1, width) of sentences, whose features are as `base` gives them."""

    def extend(self, sentences: Sequence[Sentence], features: Features) -> Features:
        """All streams of sentences, whose features are as `base_encoder` gives them."""
        if isinstance(self.base, ExtendedEncoder):
            features = self.base.extend(sentences, features)
        return Features((*features.streams, *self.extra_streams(sentences, features)), features.lengths)

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        given, read = tee(sentences)
        vectors = self.base_encoder.read(read)
        for group in group_sentences(given, self.scope):
            parts = [next(vectors) for _ in group]
            streams = tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            yield from self.extend(group, Features(streams, np.array([len(s) for s in group]))).sentences()

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        return self.extend(sentences, self.base_encoder.read_all(sentences))


def base_encoder(encoder: Encoder) -> Encoder:
    """The encoder without further streams."""
    return encoder.base_encoder if isinstance(encoder, ExtendedEncoder) else encoder


POOLED = ", mentions pooled"  # behind the name of a stream
BLOCK_KINDS, KIND_BLOCK_WORDS = 512, 4096  # whose float32 vectors fit into a processor's cache


class PooledEncoder(ExtendedEncoder):
    """The streams of `base`, and behind them one for each with its pooled mentions.

    The mentions are those of each sentence or of its document (`within`), those in `known`, the memory of the encoder,
    and those in `learned`, the memory of a tagger, which may have read the very sentences (`WordMeans.training`).
    """

    def __init__(
        self,
        base: Encoder,
        within: Context = "document",
        known: WordMeans | None = None,
        learned: WordMeans | None = None,
    ) -> None:
        means = known.means if known else repeat(None)
        counts = (m.num_components if isinstance(m, CodedVectors) else None for m in means)
        each = zip(base.streams, counts, strict=False)  # without a memory there is no end of means
        further = (replace(s, name=s.name + POOLED, num_layers=1, components=count) for s, count in each)
        super().__init__(base, further, within)
        self.known, self.learned = known, learned

    @property
    def streams_by_lm(self) -> list[list[int]]:
        count = len(self.base.streams)
        return [[*numbers, *(n + count for n in numbers)] for numbers in self.base.streams_by_lm]

    def identity(self) -> Identity | JoinedIdentity:
        return self.base.identity().with_facts(mentions="mean")

    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        words, kinds = number_mentions(sentences, self.scope)
        memories = [memory for memory in (self.known, self.learned) if memory]
        earlier = join_means(memories, words) if memories else repeat(None)
        at_hand = self.learned.find(words) < 0 if self.learned and self.learned.training else None
        for stream, means in zip(features.streams, earlier, strict=False):
            yield mean_by_kind(stream[:, -1], kinds, means, at_hand)[:, None]


def with_mentions(encoder: Encoder, wanted: bool, context: str, learned: WordMeans | None = None) -> Encoder:
    """The encoder with mentions of documents pooled, where they are wanted and it reads any, and with `learned`."""
    within: Context = "document" if wanted and context == "document" else "sentence"
    if isinstance(encoder, NamesEncoder):
        return encoder.over(with_mentions(encoder.base, wanted, context, learned))
    if isinstance(encoder, PooledEncoder):
        if within == encoder.scope and learned is encoder.learned:
            return encoder
        twin = copy.copy(encoder)
        twin.scope, twin.learned = within, learned
        return twin
    return encoder if within == "sentence" and learned is None else PooledEncoder(encoder, within, learned=learned)


def number_mentions(sentences: Iterable[Sentence], within: Context = "document") -> tuple[list[str], np.ndarray]:
    """The word of each of K kinds, and (W,) for each word the number of its kind: equal for equal words of one text."""
    numbers: dict[tuple[int, str], int] = {}
    groups = enumerate(group_sentences(sentences, within))
    words = ((place, word) for place, group in groups for s in group for word in s.words)
    kinds = np.array([numbers.setdefault(key, len(numbers)) for key in words], np.int64)
    return [word for _, word in numbers], kinds


def mean_by_kind(
    vectors: np.ndarray,
    kinds: np.ndarray,
    earlier: tuple[np.ndarray, np.ndarray] | None = None,
    at_hand: np.ndarray | None = None,
) -> np.ndarray:
    """(W, D): the mean of the vectors (W, D) of each kind (W,), numbered from 0 without gaps, at each of its words.

    Args:
        vectors, kinds: Of the words at hand.
        earlier: For each kind the number of its earlier vectors (K,) and their mean (K, D), which count too.
        at_hand: For each kind whether its vectors count (K,), and are not among the earlier ones. By default all do.
    """
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(kinds)
    ends = np.cumsum(sizes)
    counts, means = earlier or (np.zeros(len(sizes), np.float32), None)
    once = np.ones(len(sizes), np.float32) if at_hand is None else at_hand.astype(np.float32)
    result = np.empty(vectors.shape, vectors.dtype)
    for first in range(0, len(sizes), BLOCK_KINDS):
        some = slice(first, first + BLOCK_KINDS)
        starts = ends[some] - sizes[some]
        rows = order[starts[0] : ends[some][-1]]
        sums = np.add.reduceat(vectors[rows].astype(np.float32), starts - starts[0], axis=0) * once[some, None]
        if means is not None:
            sums += counts[some, None] * means[some]
        sums /= (once * sizes + counts)[some, None]
        result[rows] = np.repeat(sums.astype(vectors.dtype), sizes[some], axis=0)
    return result


SPELLING = "spelling"  # the name of the stream
SHORTEST_RUN, LONGEST_RUN = 2, 5  # shorter runs of letters are in every word, longer ones are nearly as rare as words
MOST_LETTERS = 100  # an address or a hash has thousands of runs, and none that another word shares
WIDTH = 8 * blake2b.MAX_DIGEST_SIZE  # one bit of the hash is one dimension, +1 or -1
KEPT_WORDS = 1 << 14  # frequent words are spelled once


class SpelledEncoder(ExtendedEncoder):
    """The streams of `base`, and behind them that of the letters."""

    def __init__(self, base: Encoder) -> None:
        within: Context = base.scope if isinstance(base, ExtendedEncoder) else "sentence"
        super().__init__(base, [Stream(SPELLING, 1, WIDTH)], within)

    @property
    def streams_by_lm(self) -> list[list[int]]:
        return [*self.base.streams_by_lm, [len(self.base.streams)]]

    def identity(self) -> Identity | JoinedIdentity:
        return self.base.identity().with_facts(**{SPELLING: "signs"})

    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
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
    lengths = range(SHORTEST_RUN, LONGEST_RUN + 1)
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


FREE = {"context", "dtype", "window", "quantise"}
"""Facts of an encoder's identity that may differ between the raw text and later texts."""
BY_LAYER = ("layers", "scales")
"""Facts that have a value for each layer; a memory is about the highest."""


class MemoryEncoder(PooledEncoder):
    """The encoder that a folder names, with the folder's memory.

    Raises `FileNotFoundError` and `ValueError` if the folder or its encoder is missing, damaged or changed, and
    `ValueError` for options that read other vectors than the folder has.
    """

    def __init__(
        self,
        path: str,
        reading: ReadingOptions,
        *,
        spec: str,
        device: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        self._weights = weights_fingerprint(path, None)
        known, config = load_means(Path(path))
        said = "is a memory of {}", "{} read the text of this memory", "write the memory anew with boustro lab memory"
        base = _open_base(path, config, reading, device, *said)
        super().__init__(base, "sentence", known)
        self.spec, self.tokenizer = spec, getattr(base, "tokenizer", tokenizer)
        if [means.shape[1:] for means in known.means] != [(stream.width,) for stream in base.streams]:
            raise ValueError(f"{path}: damaged (vectors of another width); write the memory folder again")

    def identity(self) -> Identity:
        base = self.base.identity()
        return Identity(
            weights=self._weights,
            vocabulary=[lm.vocabulary for lm in base.lms],
            pooling=", ".join(lm.pooling for lm in base.lms),
            rest={"mentions": self.scope, "case": "any", "base": base.to_dict()},
        )


def _open_base(
    path: str, config: Mapping[str, Any], reading: ReadingOptions, device: str | None, what: str, how: str, anew: str
) -> Encoder:
    """The encoder that a folder's config names; `ValueError` where it reads otherwise than it did for the folder.

    `what`, `how` and `anew` say what the folder is of the encoder `{}`, how that was read, and how it is made again.
    """
    with naming(f"{path} {what.format(config['encoder'])}"):
        base = open_encoder(config["encoder"], reading, device=device)
    if other := sorted(_differing(reading_facts(base), config["reading"])):
        how = f"{how.format(config['encoder'])} with other {', '.join(other)}"
        raise ValueError(f"{path}: {how}; read in the same way, or {anew}")
    return base


def reading_facts(encoder: Encoder) -> Any:
    """Return the facts that decide the vectors of an encoder's highest layer."""

    def facts(value: Any) -> Any:
        if isinstance(value, Mapping):
            kept = {name: facts(fact) for name, fact in value.items() if name not in {*FREE, *BY_LAYER}}
            highest = {name: value[name][-1] for name in BY_LAYER if name in value}
            return kept | {name: fact for name, fact in highest.items() if (name, fact) != ("scales", 1)}
        return [facts(item) for item in value] if isinstance(value, (list, tuple)) else value

    return facts(encoder.identity().to_dict())


def _differing(here: Any, there: Any) -> set[str]:
    """The names of the facts in which two encoders differ, such as pooling; `parts` where they have other parts."""
    parts, others = (facts.get("parts", [facts]) if isinstance(facts, Mapping) else [] for facts in (here, there))
    if len(parts) != len(others) or not all(isinstance(part, Mapping) for part in others):
        return {"parts"}
    pairs = zip(parts, others, strict=True)
    return {name for a, b in pairs for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


def named_by_folder(path: str) -> list[str]:
    """The spec of the encoder that the folder of a memory or of names names; empty for any other folder."""
    if (kind := kind_of(path)) not in (MEMORY, NAMES):
        return []
    with read_folder(path, kind):
        return [read_json(Path(path) / "config.json")["encoder"]]


NETWORK, NUM_PLACES = "names.safetensors", 3  # outside, begins, goes on
LOWEST = -12.0
"""The lowest logarithm of a probability that is told."""
COPIES = 4
"""How often the stream has a value: heads bring every value to one spread, and a few would count little beside many."""


@dataclass(frozen=True)
class NamesNetwork:
    """D values of a word's highest layers → H units → outside, begins, goes on; a vector of R values; C kinds."""

    mean: np.ndarray  # (D,)
    scale: np.ndarray  # (D,)
    enter: np.ndarray  # (H, D)
    enter_bias: np.ndarray  # (H,)
    leave: np.ndarray  # (3 + R + C, H)
    leave_bias: np.ndarray  # (3 + R + C,)
    num_kinds: int

    @property
    def width(self) -> int:
        """Of its stream."""
        return COPIES * len(self.leave) + NUM_PLACES + self.num_kinds

    def tells(self, kinds: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """Which values of its stream are the probabilities of O and of the kinds."""
        first = len(self.leave) - self.num_kinds
        return ("O", first - NUM_PLACES), *((kind, first + number) for number, kind in enumerate(kinds))

    def read(self, vectors: np.ndarray) -> np.ndarray:
        """From vectors (W, D) the vector, the probabilities of outside, begins and goes on, and those of the kinds, the
        first and the last times that of not outside, four times; then the logarithms of the probabilities."""
        standard = (vectors.astype(np.float32) - self.mean) * self.scale
        hidden = np.maximum(standard @ self.enter.T + self.enter_bias, 0)
        outputs = hidden @ self.leave.T + self.leave_bias
        place, vector, kinds = np.split(outputs, [NUM_PLACES, len(self.leave) - self.num_kinds], axis=1)
        place, kinds = log_softmax(place), log_softmax(kinds) if self.num_kinds else kinds
        inside = 1 - np.exp(place[:, :1])
        values = [vector * inside, np.exp(place), np.exp(kinds) * inside]
        return np.concatenate([*values * COPIES, place, kinds], 1)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row, at least -12."""
    shifted = scores - scores.max(1, keepdims=True)
    return np.maximum(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)), LOWEST)


class NamesEncoder(ExtendedEncoder):
    """The streams of the encoder that a folder names, and behind them that of names.

    Raises as `MemoryEncoder`.
    """

    def __init__(
        self,
        path: str,
        reading: ReadingOptions,
        *,
        spec: str,
        device: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        self._weights = weights_fingerprint(path, None)
        self.network, config = load_names(Path(path))
        said = "has names of {}", "its network was trained on {}", "train it anew with boustro lab names"
        base = _open_base(path, config, reading, device, *said)
        within: Context = base.scope if isinstance(base, ExtendedEncoder) else "sentence"
        self.kinds = list[str](config["kinds"])
        super().__init__(base, [Stream(NAMES, 1, self.network.width, tells=self.network.tells(self.kinds))], within)
        self.spec, self.tokenizer = spec, getattr(base, "tokenizer", tokenizer)
        self.num_read = len(base.streams)
        if sum(stream.width for stream in base.streams) != len(self.network.mean):
            raise ValueError(f"{path}: damaged (vectors of another width); write the names folder again")

    def over(self, base: Encoder) -> Self:
        twin = super().over(base)
        twin.streams = (*base.streams, self.streams[-1])
        twin.scope = base.scope if isinstance(base, ExtendedEncoder) else "sentence"
        return twin

    @property
    def streams_by_lm(self) -> list[list[int]]:
        return [*self.base.streams_by_lm, [len(self.base.streams)]]

    def identity(self) -> Identity:
        base = self.base.identity()
        return Identity(
            weights=self._weights,
            vocabulary=[lm.vocabulary for lm in base.lms],
            pooling=", ".join(lm.pooling for lm in base.lms),
            rest={"base": base.to_dict()},
        )

    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        read = features.streams[: self.num_read]
        values = np.empty((len(read[0]), 1, self.network.width), self.dtype)
        for first in range(0, len(values), KIND_BLOCK_WORDS):
            some = slice(first, first + KIND_BLOCK_WORDS)
            values[some, 0] = self.network.read(np.concatenate([stream[some, -1] for stream in read], 1))
        yield values


def find_names(encoder: Encoder) -> NamesEncoder | None:
    """The encoder with names that is inside another one, or is this one."""
    while isinstance(encoder, ExtendedEncoder) and not isinstance(encoder, NamesEncoder):
        encoder = encoder.base
    return encoder if isinstance(encoder, NamesEncoder) else None


def load_names(path: Path) -> tuple[NamesNetwork, dict[str, Any]]:
    """The network and `config.json` of a folder; `FileNotFoundError` or `ValueError` where it is missing or damaged."""
    with read_folder(path, NAMES, needs=(NETWORK, "config.json")):
        config, arrays = read_json(path / "config.json"), read_arrays(path / NETWORK)
        network = NamesNetwork(
            **{name: array.astype(np.float32) for name, array in arrays.items()}, num_kinds=len(config["kinds"])
        )
        if (
            not isinstance(config["encoder"], str)
            or "reading" not in config
            or network.enter.shape[1] != len(network.mean)
        ):
            raise ValueError("no encoder is named")
        return network, config
