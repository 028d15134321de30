"""Extenders: further streams of words, made from the words and from the vectors of the encoder that reads them.

An `ExtendedEncoder` is an encoder and a list of extenders, each of which is given the streams before its own.

**Mentions** (`PooledMentions`): every word also by what it is elsewhere, the mean vector of its mentions in its
document, in raw text, or in both.

    Vellmar won .  …  She flew to Vellmar .      both mentions get the mean of their two vectors, as a further stream

Mentions are equal words, in the same case. Those of a document stand in sentences that follow each other and name the
same document; a sentence without a document stands alone. Those of raw text were counted beforehand
(`word_means`), and may be those of the word in another case: the mean is that of all of them and of the mentions
at hand. The vectors are those of the highest layer that is read. Source: Akbik, Bergmann and Vollgraf 2019 (pooled
contextualised embeddings), with the mean; there over all that was read so far, here over the document, before and after
the word, and over text that was read once for all taggers. What is tagged later is no part of a tagger's memory, while
its training sentences are: there they count once.

**Letters** (`Spelling`): a fixed vector of the word's character n-grams and its shape.

    "Ada"    the n-grams of "<ada>", from two letters to five, and the whole; the shapes "Xxx" and "Xx"

Each n-gram and each shape is a random vector of 512 signs, the bits of its BLAKE2b hash. The vector of a word is the
sum of its n-grams' over the square root of their number, and the same of its shapes: words that share letters are near
to each other, and a head learns from an ending or a capital what the LMs have read too little to know. Sources:
Bojanowski et al. 2017 (a word as the sum of its n-grams); Achlioptas 2003 (random projections of signs).

**Raw text** (`memory:DIR`): the mean of a word's vectors in raw text that was read beforehand and of
its vector at hand; a word that the text did not have in any case is its vector at hand. The folder, which `boustro
memory` writes, names the encoder that read the text; with another one, or one that reads otherwise, it is refused.

**Names** (`FoundNames`, `names:DIR`): what a small network learned of names from other people's labels, word by word:
whether a name begins or goes on here, which of a few kinds it is, and a vector in which names of one type are near to
each other. The folder, which `boustro lab names` writes, names the encoder whose highest layers the network reads.

W words, K kinds of words, D width of a stream.
"""

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat, tee
from typing import Any, NamedTuple

import numpy as np

from boustro.arrays import read_arrays
from boustro.choose import lazy
from boustro.encoders.base import Encoder, Features, Identity, JoinedIdentity, Stream
from boustro.encoders.options import Context
from boustro.encoders.reading import group_sentences
from boustro.encoders.word_means import CodedVectors, WordMeans, join_means, load_means
from boustro.names import MEMORY, NAMES
from boustro.store import Artefact
from boustro.types import Sentence

weights_fingerprint = lazy("boustro.encoders.loading:weights_fingerprint")  # with torch, which exports do without


class Extender(ABC):
    """Streams behind those of an encoder.

    Attributes:
        streams: Those that it adds.
        scope: What is needed at once to make them.
    """

    streams: tuple[Stream, ...]
    scope: Context = "sentence"

    @abstractmethod
    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        """Yield its streams (W, 1, width) of sentences, whose features are as those before it give them."""

    @abstractmethod
    def identity(self, base: Identity | JoinedIdentity) -> Identity | JoinedIdentity:
        """Return the identity of an encoder with these streams, from that without them."""

    def streams_by_lm(self, before: list[list[int]], count: int) -> list[list[int]]:
        """Return the numbers of the streams by LM, from those of the `count` streams before its own."""
        return [*before, [count]]


class ExtendedEncoder(Encoder):
    """The streams of `base`, and behind them those of each extender."""

    def __init__(self, base: Encoder, extenders: Sequence[Extender], spec: str | None = None) -> None:
        self.base, self.extenders, self.spec = base, tuple(extenders), spec or base.spec
        self.streams = (*base.streams, *(stream for extender in extenders for stream in extender.streams))
        self.dtype, self.num_parameters, self.tokenizer = base.dtype, base.num_parameters, base.tokenizer

    @property
    def parts(self) -> Sequence[Encoder]:
        """Encoders that are run and cached."""
        return getattr(self.base, "parts", [self.base])

    @property
    def counts(self) -> Counter[str]:
        return self.base.counts

    @property
    def streams_by_lm(self) -> list[list[int]]:
        by_lm, count = self.base.streams_by_lm, len(self.base.streams)
        for extender in self.extenders:
            by_lm = extender.streams_by_lm(by_lm, count)
            count += len(extender.streams)
        return by_lm

    def identity(self) -> Identity | JoinedIdentity:
        identity = self.base.identity()
        for extender in self.extenders:
            identity = extender.identity(identity)
        return identity

    def over(self, change: Callable[[Encoder], Encoder]) -> Encoder:
        twin = copy.copy(self)
        twin.base = self.base.over(change)
        return twin

    def extend(self, sentences: Sequence[Sentence], features: Features) -> Features:
        """Return all streams of sentences, whose features are as `base` gives them."""
        for extender in self.extenders:
            streams = (*features.streams, *extender.extra_streams(sentences, features))
            features = Features(streams, features.lengths)
        return features

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        given, read = tee(sentences)
        vectors = self.base.read(read)
        for group in group_sentences(given, scope_of(self)):
            parts = [next(vectors) for _ in group]
            streams = tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            yield from self.extend(group, Features(streams, np.array([len(s) for s in group]))).sentences()

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        return self.extend(sentences, self.base.read_all(sentences))


def extenders_of(encoder: Encoder) -> tuple[Extender, ...]:
    """Return the extenders of an encoder; none of a plain one."""
    return getattr(encoder, "extenders", ())


def scope_of(encoder: Encoder) -> Context:
    """Return what is needed at once to make the further streams of an encoder."""
    return "document" if any(extender.scope == "document" for extender in extenders_of(encoder)) else "sentence"


def base_encoder(encoder: Encoder) -> Encoder:
    """Return the encoder without further streams."""
    return getattr(encoder, "base", encoder)


def extended(encoder: Encoder, extenders: Sequence[Extender]) -> Encoder:
    """Return the encoder with these extenders in place of its own."""
    base = base_encoder(encoder)
    return ExtendedEncoder(base, extenders, encoder.spec) if extenders else base


AS_POOLED = ", mentions pooled"  # behind the name of a stream
BLOCK_KINDS, KIND_BLOCK_WORDS = 512, 4096  # whose float32 vectors fit into a processor's cache


class PooledMentions(Extender):
    """For each of `streams` before it one with its pooled mentions.

    The mentions are those of each sentence or of its document (`scope`), those in `known`, the memory of the encoder,
    and those in `learned`, the memory of a tagger, which may have read the very sentences (`WordMeans.training`).
    `weights` is the fingerprint of the folder that `known` comes from.
    """

    def __init__(
        self,
        before: Sequence[Stream],
        scope: Context = "document",
        known: WordMeans | None = None,
        learned: WordMeans | None = None,
        weights: str | None = None,
    ) -> None:
        means = known.means if known else repeat(None)
        counts = (m.num_components if isinstance(m, CodedVectors) else None for m in means)
        each = zip(before, counts, strict=False)  # without a memory there is no end of means
        self.streams = tuple(replace(s, name=s.name + AS_POOLED, num_layers=1, components=count) for s, count in each)
        self.scope, self.known, self.learned, self._weights = scope, known, learned, weights

    def streams_by_lm(self, before: list[list[int]], count: int) -> list[list[int]]:
        return [[*numbers, *(n + count for n in numbers)] for numbers in before]

    def identity(self, base: Identity | JoinedIdentity) -> Identity | JoinedIdentity:
        if self._weights is None:
            return base.with_facts(mentions="mean")
        return _of_folder(self._weights, base, {"mentions": self.scope, "case": "any"})

    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        words, kinds = number_mentions(sentences, self.scope)
        memories = [memory for memory in (self.known, self.learned) if memory]
        earlier = join_means(memories, words) if memories else repeat(None)
        at_hand = self.learned.find(words) < 0 if self.learned and self.learned.training else None
        for stream, means in zip(features.streams, earlier, strict=False):
            yield mean_by_kind(stream[:, -1], kinds, means, at_hand)[:, None]


def with_mentions(encoder: Encoder, wanted: bool, context: str, learned: WordMeans | None = None) -> Encoder:
    """Return the encoder with mentions of documents pooled, where they are wanted and it reads any, and with
    `learned`."""
    scope: Context = "document" if wanted and context == "document" else "sentence"
    first, *others = extenders_of(encoder) or (None,)
    if isinstance(first, PooledMentions):
        if scope == first.scope and learned is first.learned:
            return encoder
        pooled = copy.copy(first)
        pooled.scope, pooled.learned = scope, learned
        return extended(encoder, [pooled, *others])
    if scope == "sentence" and learned is None:
        return encoder
    pooled = PooledMentions(base_encoder(encoder).streams, scope, learned=learned)
    return extended(encoder, [pooled, *extenders_of(encoder)])


def number_mentions(sentences: Iterable[Sentence], within: Context = "document") -> tuple[list[str], np.ndarray]:
    """Return the word of each of K kinds, and (W,) for each word the number of its kind: equal for equal words of one
    text."""
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
    """Return (W, D): the mean of the vectors (W, D) of each kind (W,), numbered from 0 without gaps, at each of its
    words.

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
SPELLED_LETTERS = 100  # an address or a hash has thousands of runs, and none that another word shares
SPELLING_WIDTH = 8 * blake2b.MAX_DIGEST_SIZE  # one bit of the hash is one dimension, +1 or -1
SPELLED_WORDS = 1 << 14  # frequent words are spelled once


class Spelling(Extender):
    """The stream of the letters."""

    streams = (Stream(SPELLING, 1, SPELLING_WIDTH),)

    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype

    def identity(self, base: Identity | JoinedIdentity) -> Identity | JoinedIdentity:
        return base.with_facts(**{SPELLING: "signs"})

    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        vectors = np.empty((sum(map(len, sentences)), 1, SPELLING_WIDTH), self._dtype)
        words = (word for sentence in sentences for word in sentence.words)
        for row, word in enumerate(words):
            vectors[row, 0] = spell(word)
        yield vectors


def with_spelling(encoder: Encoder, wanted: bool) -> Encoder:
    """Return the encoder with the letters behind its other streams where they are wanted, else without them."""
    others = [extender for extender in extenders_of(encoder) if not isinstance(extender, Spelling)]
    return extended(encoder, [*others, *([Spelling(encoder.dtype)] if wanted else [])])


@lru_cache(SPELLED_WORDS)
def spell(word: str) -> np.ndarray:
    """Return the vector (512,) of a word, float32, by the n-grams of its first 100 letters and the shapes of all."""
    framed = f"<{word[:SPELLED_LETTERS].lower()}>"
    lengths = range(SHORTEST_RUN, LONGEST_RUN + 1)
    grams = [framed, *(framed[i : i + n] for n in lengths for i in range(len(framed) - n + 1))]
    return _project(grams) + _project(shapes(word))


def shapes(word: str) -> tuple[str, str]:
    """Capitals, other letters, digits and the rest, and the same without repetitions: "U.S.-born" → "X.X.-x"."""
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(kinds), "".join(kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind)


def _project(features: Sequence[str]) -> np.ndarray:
    """Return the sum of the features' signs over the square root of their number."""
    hashes = b"".join(blake2b(feature.encode("utf-8", "surrogatepass")).digest() for feature in features)
    ones = np.unpackbits(np.frombuffer(hashes, np.uint8).reshape(len(features), -1), axis=1).sum(0, dtype=np.float32)
    return (2 * ones - len(features)) / np.float32(np.sqrt(len(features)))


FREE = {"context", "dtype", "window"}
"""Facts of an encoder's identity that may differ between the raw text and later texts."""
BY_LAYER = ("layers", "scales")
"""Facts that have a value for each layer; a memory is about the highest."""


class FolderExtender(NamedTuple):
    """A folder that extends the encoder that its `config` names.

    Attributes:
        said: In words, that the folder is of the encoder, how that was read, and how the folder is made again.
        of: Makes the extender of an encoder; `ValueError` where its streams do not fit.
    """

    folder: Artefact
    config: Mapping[str, Any]
    said: tuple[str, str, str]
    of: Callable[[Encoder], Extender]

    def extend(self, base: Encoder, spec: str) -> Encoder:
        """Return the encoder with the folder's streams; `ValueError` where it reads otherwise than it did for it."""
        if other := sorted(_differing(reading_facts(base), self.config["reading"])):
            how = f"{self.said[1]} with other {', '.join(other)}"
            raise ValueError(f"{self.folder}: {how}; read in the same way, or {self.said[2]}")
        return ExtendedEncoder(base_encoder(base), [*extenders_of(base), self.of(base)], spec)


def open_memory(folder: Artefact) -> FolderExtender:
    """Open the memory of a folder; `FileNotFoundError` and `ValueError` where it is missing or damaged."""
    known, config = load_means(folder)
    weights = weights_fingerprint(folder, None)

    def extender(base: Encoder) -> Extender:
        if [means.shape[1:] for means in known.means] != [(stream.width,) for stream in base.streams]:
            raise ValueError(f"{folder}: damaged (vectors of another width); write the memory folder again")
        return PooledMentions(base.streams, "sentence", known, weights=weights)

    spec, anew = config["encoder"], "write the memory anew with boustro lab memory"
    said = f"{folder} is a memory of {spec}", f"{spec} read the text of this memory", anew
    return FolderExtender(folder, config, said, extender)


def _of_folder(weights: str, base: Identity | JoinedIdentity, facts: Mapping[str, Any]) -> Identity:
    """Return the identity of an encoder with the streams of a folder, which has weights of its own."""
    return Identity(
        weights=weights,
        vocabulary=[lm.vocabulary for lm in base.lms],
        pooling=", ".join(lm.pooling for lm in base.lms),
        rest={**facts, "base": base.to_dict()},
    )


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
    """Return the names of the facts in which two encoders differ, such as pooling; `parts` where they have other
    parts."""
    parts, others = (facts.get("parts", [facts]) if isinstance(facts, Mapping) else [] for facts in (here, there))
    if len(parts) != len(others) or not all(isinstance(part, Mapping) for part in others):
        return {"parts"}
    pairs = zip(parts, others, strict=True)
    return {name for a, b in pairs for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


def named_by_folder(folder: Artefact) -> list[str]:
    """Return the spec of the encoder that the folder of a memory or of names names; none of any other folder."""
    if folder.kind not in (MEMORY, NAMES):
        return []
    with folder.opened(folder.kind):
        return [folder.config()["encoder"]]


NETWORK, NUM_PLACES = "names.safetensors", 3  # outside, begins, goes on
LOWEST_LOG = -12.0
"""The lowest logarithm of a probability that is told."""
REPEATS = 4
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
        return REPEATS * len(self.leave) + NUM_PLACES + self.num_kinds

    def tells(self, kinds: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """Return which values of its stream are the probabilities of O and of the kinds."""
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
        return np.concatenate([*values * REPEATS, place, kinds], 1)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Of each row, at least -12."""
    shifted = scores - scores.max(1, keepdims=True)
    return np.maximum(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)), LOWEST_LOG)


class FoundNames(Extender):
    """The stream of names, from the `num_read` streams that its network was trained on."""

    def __init__(self, network: NamesNetwork, kinds: Sequence[str], num_read: int, dtype: np.dtype, weights: str):
        self.network, self.kinds, self.num_read, self._dtype, self._weights = network, kinds, num_read, dtype, weights
        self.streams = (Stream(NAMES, 1, network.width, tells=network.tells(kinds)),)

    def identity(self, base: Identity | JoinedIdentity) -> Identity:
        return _of_folder(self._weights, base, {})

    def extra_streams(self, sentences: Sequence[Sentence], features: Features) -> Iterator[np.ndarray]:
        read = features.streams[: self.num_read]
        values = np.empty((len(read[0]), 1, self.network.width), self._dtype)
        for first in range(0, len(values), KIND_BLOCK_WORDS):
            some = slice(first, first + KIND_BLOCK_WORDS)
            values[some, 0] = self.network.read(np.concatenate([stream[some, -1] for stream in read], 1))
        yield values


def open_names(folder: Artefact) -> FolderExtender:
    """Open the network of a folder; raises as `open_memory`."""
    network, config = load_names(folder)
    weights = weights_fingerprint(folder, None)

    def extender(base: Encoder) -> Extender:
        if sum(stream.width for stream in base.streams) != len(network.mean):
            raise ValueError(f"{folder}: damaged (vectors of another width); write the names folder again")
        return FoundNames(network, list[str](config["kinds"]), len(base.streams), base.dtype, weights)

    spec, anew = config["encoder"], "train it anew with boustro lab names"
    said = f"{folder} has names of {spec}", f"its network was trained on {spec}", anew
    return FolderExtender(folder, config, said, extender)


def load_names(folder: Artefact) -> tuple[NamesNetwork, dict[str, Any]]:
    """Return the network and the config of a folder; `FileNotFoundError` or `ValueError` where it is missing or
    damaged."""
    with folder.opened(NAMES, needs=(NETWORK, "config.json")):
        config, arrays = folder.config(), read_arrays(folder / NETWORK, folder.read(NETWORK))
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
