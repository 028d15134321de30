"""Contract of encoders: words in, one vector per word, layer and stream out.

A stream is one LM. Its layers are kept apart, because how to mix them is learned and so belongs to the head.

    encoder.encode([["Ada", "left"]])    yields (array,) with one array (2 words, layers, width) per stream

An identity is what decides the numbers, and nothing else: the key of cached features, and what a folder of a trained
head says it was trained on. `to_dict` gives it as JSON has it: fields that are not `None`, and the rest beside them.

    Identity          one LM, or what is made of several and has weights of its own (a fusion, a memory)
    JoinedIdentity    several side by side

Several encoders side by side, `gpt2+./backward`, are a `ConcatEncoder`: the streams of all parts for the same words. A
forward and a backward LM are the pair of the paper (section 2.2); the head joins their vectors.
"""

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise, tee
from operator import methodcaller
from typing import Any, Self

import numpy as np

from boustro.given import each_sentence
from boustro.progress import Progress
from boustro.types import Sentence


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Facts that decide an encoder's numbers; a local encoder and one that answers from elsewhere have the same fields.

    Attributes:
        weights: The fingerprint of the weights, wherever they lie.
        vocabulary: The fingerprint of the pieces, or those of several LMs.
        pooling: Where a word is read.
        context: "sentence" or "document"; `None` for what is made of encoders that have one each.
        direction: "forward", "backward" or "both", where that is no fact of the weights.
        rest: Further facts that decide the numbers, such as the layers.
    """

    weights: str
    vocabulary: str | list[Any]
    pooling: str
    context: str | None = None
    direction: str | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lms(self) -> tuple["Identity", ...]:
        """The parts that stand side by side: itself."""
        return (self,)

    def with_facts(self, **facts: Any) -> Self:
        """Return the identity with further facts."""
        return replace(self, rest={**self.rest, **facts})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not `None` and the further facts beside them, as JSON has them."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rest"}
        return {name: value for name, value in values.items() if value is not None} | dict(self.rest)


@dataclass(frozen=True, kw_only=True)
class JoinedIdentity:
    """The identities of encoders that stand side by side, and what is read besides their vectors."""

    lms: tuple[Identity, ...]
    rest: Mapping[str, Any] = field(default_factory=dict)

    def with_facts(self, **facts: Any) -> Self:
        """Return the identity with further facts."""
        return replace(self, rest={**self.rest, **facts})

    def to_dict(self) -> dict[str, Any]:
        """Return the parts and the further facts beside them, as JSON has them."""
        return {"parts": [lm.to_dict() for lm in self.lms], **self.rest}


WordList = Sentence | Sequence[str]


@dataclass(frozen=True, slots=True)
class Stream:
    """The shape of what one LM gives for a word: `num_layers` vectors of `width`, or one that has `components`."""

    name: str
    num_layers: int
    width: int
    components: int | None = None
    """Of the principal components of the vectors, how many say anything, where they are fewer than the width."""
    whole: bool = False
    """Whether every word of a text has the same vector, which is that of the text."""
    tells: tuple[tuple[str, int], ...] = ()
    """Of O and of kinds of names, which value of the vector is the probability that the word is one."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """The layers and the width, the components where there are fewer, whether it is whole, and what it tells: what
        a head needs to know."""
        if self.tells:
            return (self.num_layers, self.width, self.components, self.whole, self.tells)
        if self.whole:
            return (self.num_layers, self.width, self.components, True)
        return (self.num_layers, self.width, *([] if self.components is None else [self.components]))


@dataclass(frozen=True, slots=True)
class Features:
    """All words of many sentences, concatenated: one array (total words, layers, width) per stream."""

    streams: tuple[np.ndarray, ...]
    lengths: np.ndarray  # (sentences,) words in each

    @property
    def starts(self) -> np.ndarray:
        """(sentences + 1,) the first word of each sentence, and the number of all words."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def sentences(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the arrays of each sentence, as `Encoder.encode` does."""
        for start, stop in pairwise(self.starts):
            yield tuple(stream[start:stop] for stream in self.streams)


class Encoder(ABC):
    """The interface of all encoders, cached ones too."""

    spec: str
    streams: tuple[Stream, ...]
    dtype: np.dtype  # of the arrays
    counts: Counter[str]  # texts read in windows, words that were cut or unknown, …
    num_parameters: int
    tokenizer: Any = None  # of an encoder that reads pieces

    @property
    def streams_by_lm(self) -> list[list[int]]:
        """The numbers of the streams that come from each LM."""
        return [[number] for number in range(len(self.streams))]

    def over(self, change: "Callable[[Encoder], Encoder]") -> "Encoder":
        """Return what reads as it does, with `change` of each encoder that reads the text, such as behind a cache."""
        return change(self)

    @property
    def bytes_per_word(self) -> int:
        """Bytes of the features of one word, in memory and on disk: layers x width x bytes of a value."""
        return sum(stream.num_layers * stream.width for stream in self.streams) * self.dtype.itemsize

    @abstractmethod
    def identity(self) -> Identity | JoinedIdentity:
        """Return what decides the numbers, and nothing else: weights, tokenizer, layers, pooling, dtype, …"""

    def encode(self, sentences: Iterable[WordList]) -> Iterator[tuple[np.ndarray, ...]]:
        """Per sentence a tuple of arrays (words, layers, width), one per stream, in text order.

        Raises `ValueError`, with the place, for what is no sentence.
        """
        return self.read(sentence.composed for sentence in each_sentence(sentences))

    def encode_all(self, sentences: Iterable[WordList]) -> Features:
        """Return the vectors of all sentences, concatenated; raises as `encode`."""
        return self.read_all([sentence.composed for sentence in each_sentence(sentences)])

    @abstractmethod
    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        """Encode sentences that were checked when they came in; yields as `encode` does."""

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        """Encode sentences that were checked when they came in, all at once; returns as `encode_all` does."""
        lengths = np.array([len(s) for s in sentences], np.int64)
        total = int(lengths.sum())
        arrays = tuple(np.empty((total, s.num_layers, s.width), self.dtype) for s in self.streams)
        position = 0
        with Progress(self.spec, "words", total=total) as bar:
            for parts in self.read(sentences):
                for array, part in zip(arrays, parts, strict=True):
                    array[position : position + len(part)] = part
                position += len(parts[0])
                bar.update(len(parts[0]))
        return Features(arrays, lengths)


class ConcatEncoder(Encoder):
    """All streams of `parts`, in their order."""

    def __init__(self, parts: Sequence[Encoder], spec: str) -> None:
        self.parts, self.spec = list(parts), spec
        self.streams = tuple(stream for part in parts for stream in part.streams)
        self.dtype = self.parts[0].dtype
        self.num_parameters = sum(part.num_parameters for part in parts)

    def over(self, change: Callable[[Encoder], Encoder]) -> Encoder:
        twin = copy.copy(self)
        twin.parts = [part.over(change) for part in self.parts]
        return twin

    @property
    def counts(self) -> Counter[str]:
        return sum((part.counts for part in self.parts), Counter())

    @property
    def streams_by_lm(self) -> list[list[int]]:
        by_lm, start = [], 0
        for part in self.parts:
            by_lm += [[start + number for number in lm_streams] for lm_streams in part.streams_by_lm]
            start += len(part.streams)
        return by_lm

    def identity(self) -> Identity | JoinedIdentity:
        identities = [*map(methodcaller("identity"), self.parts)]
        return JoinedIdentity(lms=tuple(lm for identity in identities for lm in identity.lms))

    def read(self, sentences: Iterable[Sentence]) -> Iterator[tuple[np.ndarray, ...]]:
        copies = tee(sentences, len(self.parts))
        for arrays in zip(*(part.read(given) for part, given in zip(self.parts, copies, strict=True)), strict=True):
            yield tuple(array for part in arrays for array in part)

    def read_all(self, sentences: Sequence[Sentence]) -> Features:
        features = [*map(methodcaller("read_all", sentences), self.parts)]
        return Features(tuple(s for f in features for s in f.streams), features[0].lengths)


def base_parts(encoder: Encoder) -> list[Encoder]:
    """Return the encoders that read the text, also of parts that have parts themselves."""
    parts = getattr(encoder, "parts", None)
    return [encoder] if parts is None else [one for part in parts for one in base_parts(part)]


def check_vocabularies(names: Sequence[str], vocabularies: Sequence[dict[str, int]]) -> None:
    """Raise `ValueError` unless all vocabularies are equal."""
    for name, vocabulary in zip(names[1:], vocabularies[1:], strict=True):
        if vocabulary != vocabularies[0]:
            differing = sum(vocabularies[0].get(piece) != i for piece, i in vocabulary.items())
            raise ValueError(
                f"{names[0]} and {name} have different vocabularies ({len(vocabularies[0]):,} and {len(vocabulary):,} "
                f"pieces, {differing:,} differ); pair LMs that share one tokenizer, or train a backward LM with it"
            )
