"""Reader: the only path from examples to what a head reads, and from a spec to an encoder that is opened when needed.

    reader = Reader("starter", ReadingOptions(layers="last"))
    reader.read(pairs, cached=True)     `HeadInputs`: each different sentence once, and which of them every pair has
    reader.to_dict()                    {"encoder": the exact spec, "encoder_identity": …}, for the folder of a model

A reader does not change: `alone`, `with_memory` and the others give another one, which has the same LMs in memory.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from boustro.encoders.base import Encoder
from boustro.encoders.options import ReadingOptions, Reads, RecordedReading, Widening
from boustro.given import chunk_by_size
from boustro.heads.inputs import HeadInputs
from boustro.names import is_shipped
from boustro.types import Example, Sentence

if TYPE_CHECKING:
    from boustro.encoders.word_means import WordMeans

MOST_FEATURE_BYTES = 512 * 2**20  # of features, beside the LM and the head


def distinct_sentences(examples: Sequence[Example]) -> tuple[list[Sentence], np.ndarray]:
    """Return the different sentences, and (examples, parts) which of them each example has."""
    numbers: dict[Any, int] = {}
    sentences: list[Sentence] = []
    rows: list[list[int]] = []
    for example in examples:
        rows.append([])
        for part in example.parts:
            number = len(sentences)
            if part is not example:
                number = numbers.setdefault(id(part) if part.document else (part.words, part.spaces, part.text), number)
            if number == len(sentences):
                sentences.append(part.composed)
            rows[-1].append(number)
    return sentences, np.array(rows, np.int64).reshape(len(rows), len(rows[0]) if rows else 1)


def within_memory(examples: Sequence[Any], bytes_per_word: int) -> Iterator[list[Any]]:
    """Yield consecutive examples whose words' features take about `MOST_FEATURE_BYTES`; no document is divided."""
    sizes = chunk_by_size(
        _by_document(examples),
        lambda group: sum(len(s) for e in group for s in e.parts),
        max(MOST_FEATURE_BYTES // bytes_per_word, 1),
    )
    for chunk in sizes:
        yield [example for group in chunk for example in group]


def _by_document(examples: Sequence[Any]) -> Iterator[list[Any]]:
    for name, run in groupby(examples, key=lambda example: next((s.document for s in example.parts), "")):
        group = list(run)
        yield from [group] if name else ([example] for example in group)


def weights_of(identity: Mapping[str, Any]) -> list[Any]:
    """Return the LMs of an encoder, by what they are and not by where they lie, and how their states are scaled.

    `identity` is as `Identity.to_dict` gives it.
    """
    parts = identity.get("parts", [identity])
    return [(part["weights"], part["vocabulary"], part.get("direction"), part.get("scales")) for part in parts]


def refuse_other_weights(encoder: Encoder, spec: str, weights: list[Any] | None) -> None:
    """`ValueError` where the LMs at a spec are not these `weights_of`; `None` is any."""
    if weights is not None and weights != weights_of(encoder.identity().to_dict()):
        shipped = " (the pair of the package changes between versions)" if is_shipped(spec) else ""
        raise ValueError(
            f"the model at {spec!r} is not the one that this head was trained on{shipped}; "
            "name the right one with --encoder, or train again"
        )


@contextlib.contextmanager
def naming_folder(path: Path) -> Iterator[None]:
    """Yield a block that opens the encoder of a folder; where there is none, the error names the folder and
    --encoder."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: its encoder was not found ({error}); name it with --encoder") from error


def load_lms(reader: "Reader") -> Encoder:
    """Return the encoder of a reader's spec, with nothing around it."""
    from boustro.encoders.spec import open_encoder  # here, because it imports torch

    how: dict[str, Any] = {"device": reader.device, "given_states": reader.given_states, "reads": reader.reads}
    encoder = open_encoder(reader.spec, reader.reading, **how)
    if not reader.given_states:
        return encoder
    from boustro.encoders.outside import OutsideLM

    for part, (weights, _, _, scales) in zip(getattr(encoder, "parts", [encoder]), reader.weights or (), strict=False):
        if isinstance(part, OutsideLM):  # an LM without weights is told what a head was trained on
            part.take(weights, scales)
    return encoder


@dataclass(frozen=True)
class OpenEncoders:
    """Encoders of a reader that are in memory, with and without the feature cache: those of its spec, which readers
    share that differ in what widens them, and the same widened. A copy has none of them."""

    lms: dict[bool, Encoder] = field(default_factory=dict)
    wide: dict[bool, Encoder] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"lms": {}, "wide": {}}


@dataclass(frozen=True, eq=False, kw_only=True)
class Reader:
    """Reader of examples as vectors, by a spec and options of reading.

    Attributes:
        spec: Of the encoder.
        reading: The options.
        widening: What words are read by besides the encoder.
        reads: What is read of a folder of sentence-transformers (`encoders.sentences`).
        cache: Whether features are kept on disk, or the folder.
        device: See `boustro.load_encoder`.
        memory: The mean vectors of words, by which they are read too, or `None`.
        weights: The only LMs that may be read with, as `weights_of` has them; `None` is any.
        given_states: The states of a causal LM will be given (`encoders.outside`), so that its weights are not loaded.
        load: Makes the encoder.
        opened: Filled when an encoder is asked for.
    """

    spec: str = field(kw_only=False)
    reading: ReadingOptions = field(kw_only=False)
    widening: Widening = Widening()  # noqa: RUF009 (frozen)
    reads: Reads = "words"
    cache: bool | str | Path = True
    device: str | None = None
    memory: "WordMeans | None" = None
    weights: list[Any] | None = None
    given_states: bool = False
    load: "Callable[[Reader], Encoder]" = load_lms
    opened: OpenEncoders = field(default_factory=OpenEncoders, repr=False)

    def encoder(self, cached: bool = False) -> Encoder:
        """Return the encoder, loaded on first use; `cached` puts the feature cache before it.

        Raises `ValueError` where the LMs are not those that the reader must have.
        """
        cached = cached and bool(self.cache)
        wide, opened = self.opened.wide, self.opened.lms
        if cached not in wide:
            if False not in opened:  # the LMs are loaded once for both
                opened[False] = self.load(self)
            if cached not in opened:
                from boustro.encoders.spec import with_cache

                opened[True] = with_cache(opened[False], self.cache)
            from boustro.encoders.extended import with_mentions, with_spelling

            lms = opened[cached]
            refuse_other_weights(lms, self.spec, self.weights)
            self._tell_other_precision(lms)
            read = with_mentions(lms, self.widening.mentions, self.reading.context, self.memory)
            wide[cached] = with_spelling(read, self.widening.spelling)
        return wide[cached]

    @property
    def is_open(self) -> bool:
        """Whether the LMs are in memory."""
        return bool(self.opened.lms)

    @property
    def is_wide(self) -> bool:
        """Whether words are read by more than the encoder."""
        return self.memory is not None or self.widening != Widening()

    def _with(self, **changed: Any) -> Self:
        """Another reader over the same LMs."""
        return replace(self, **{"opened": OpenEncoders(self.opened.lms), **changed})

    def alone(self) -> Self:
        """Return a reader that reads each sentence by itself, not in its document."""
        if self.reading.context == "sentence":
            return self
        return self._with(reading=replace(self.reading, context="sentence"), opened=OpenEncoders())

    def with_given_states(self) -> Self:
        """Return a reader that does not load a causal LM's weights."""
        return self._with(given_states=True, opened=OpenEncoders())

    def with_vectors(self, vectors: np.ndarray) -> Self:
        """Return a reader of W words, once and in order, which takes the vectors (W, L, width) of the LM that reads
        forward from here; `ValueError` where there is no such LM."""
        from boustro.encoders.outside import over_forward

        return self._with(opened=OpenEncoders(self.opened.lms, {False: over_forward(self.encoder(), vectors)}))

    def in_float32(self) -> Self:
        """Return a reader whose LMs compute in float32, and whose features are float32."""
        return self._with(reading=replace(self.reading, dtype="float32"), opened=OpenEncoders())

    def with_memory(self, memory: "WordMeans | None") -> Self:
        """Return a reader that reads words by their means in `memory`, too."""
        return self._with(memory=memory)

    def of_weights(self, identity: dict[str, Any] | None) -> Self:
        """Return a reader that refuses all LMs but those of a saved identity; with `None` it takes any, to train on
        them."""
        if identity is None:
            return self._with(weights=None, reading=self.reading.reading())
        return self._recorded(identity)

    def _recorded(self, identity: dict[str, Any], **changed: Any) -> Self:
        """Return a reader of an identity's LMs, which compute in the type that it has unless the options name one."""
        from boustro.encoders.precision import computed_types

        reading = RecordedReading.of(self.reading, computed_types(identity))
        return self._with(weights=weights_of(identity), reading=reading, **changed)

    def _tell_other_precision(self, lms: Encoder) -> None:
        if isinstance(self.reading, RecordedReading) and not self.given_states:
            from boustro.encoders.precision import tell_other_precision

            tell_other_precision(lms.identity().to_dict(), self.reading)

    def pinned(self) -> Self:
        """Return a reader of the very LMs that are open now, wherever it is copied to."""
        if not self.is_open:
            return self
        identity = self.encoder().identity()
        return self._recorded(identity.to_dict(), spec=self._exact(identity))

    def _exact(self, identity: Any) -> str:
        from boustro.encoders.spec import Spec

        return Spec.parse(self.spec).exact(identity)

    def sentences(self, examples: Sequence[Any]) -> tuple[list[Sentence], np.ndarray]:
        """Return the sentences that are encoded for examples, each once; (examples, parts) numbers of these."""
        return distinct_sentences(examples)

    def read(self, examples: Sequence[Any], cached: bool = False, side: np.ndarray | None = None) -> HeadInputs:
        """Return the features of examples, with `side` features of their words, see `heads.inputs`.

        Examples are checked when they come in (`given`, `tasks.data`), and not here again.
        """
        sentences, parts = self.sentences(examples)
        features = self.encoder(cached).read_all(sentences)
        return HeadInputs(features.streams, features.lengths, parts, side)

    def to_dict(self) -> dict[str, Any]:
        """Return the exact spec and the identity, as a folder's config.json holds them."""
        identity = self.encoder(cached=True).identity()
        return {"encoder": self._exact(identity), "encoder_identity": identity.to_dict()}
