"""Reader: the only path from examples to what a head reads, and from a spec to an encoder that is opened when needed.

    reader = Reader("starter", ReadingOptions(layers="last"), parts=lambda pair: pair.parts)
    reader.read(pairs, cached=True)     `Inputs`: each different sentence once, and which of them every pair has
    reader.to_dict()                    {"encoder": the exact spec, "encoder_identity": …}, for the folder of a model

A reader does not change: `alone`, `with_memory` and the others give another one, which has the same LMs in memory.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from boustro.encoders.base import Encoder
from boustro.encoders.options import ReadingOptions, Widening
from boustro.encoders.pooled import with_mentions
from boustro.encoders.spelling import with_spelling
from boustro.encoders.word_means import WordMeans
from boustro.features.sentences import Parts, distinct_sentences
from boustro.features.weights import refuse_other_weights, weights_of
from boustro.heads.inputs import Inputs
from boustro.types import Sentence


def itself(example: Sentence) -> tuple[Sentence]:
    """The parts of an example that is a sentence."""
    return (example,)


class Reader:
    """What a spec and options of reading name; the weights are loaded once, with and without the feature cache.

    Attributes:
        spec: Of the encoder.
        reading: The options.
        cache: Whether features are kept on disk, or the folder.
        memory: The mean vectors of words, by which they are read too, or `None`.
    """

    def __init__(
        self,
        spec: str,
        reading: ReadingOptions,
        *,
        parts: Parts = itself,
        widening: Widening = Widening(),  # noqa: B008 (frozen)
        cache: bool | str | Path = True,
        device: str | None = None,
        trained: str = "this head was trained on",
    ) -> None:
        """Nothing is loaded yet.

        Args:
            parts: The sentences of an example, see `features.sentences`.
            widening: What words are read by besides the encoder.
            device: See `boustro.load_encoder`.
            trained: The end of "the model is not the one that …".
        """
        self.spec, self.reading, self.parts, self.widening = spec, reading, parts, widening
        self.cache, self.device = cache, device
        self.memory: WordMeans | None = None
        self._trained_on: list[Any] | None = None
        self._trained = trained
        self._given_states = False
        self._loaded: dict[bool, Encoder] = {}  # shared with the readers that differ in what widens them
        self._opened: dict[bool, Encoder] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the encoders, which a copy opens again when it needs them."""
        return {**self.__dict__, "_loaded": {}, "_opened": {}}

    def encoder(self, cached: bool = False) -> Encoder:
        """The encoder, loaded on first use; `cached` puts the feature cache before it.

        Raises `ValueError` where the LMs are not those that the reader must have.
        """
        cached = cached and bool(self.cache)
        if cached not in self._opened:
            loaded = self._load(cached)
            if self._given_states:
                self._tell(loaded)
            refuse_other_weights(loaded, self.spec, self._trained_on, self._trained)
            read = with_mentions(loaded, self.widening.mentions, self.reading.context, self.memory)
            self._opened[cached] = with_spelling(read, self.widening.spelling)
        return self._opened[cached]

    def _load(self, cached: bool) -> Encoder:
        if cached not in self._loaded:
            from boustro.encoders.spec import load_encoder, unread_by, with_cache  # here, because it imports torch

            self._loaded[cached] = (
                with_cache(self._load(False), self.cache)  # the LMs are loaded once for both
                if cached
                else load_encoder(
                    self.spec,
                    device=self.device,
                    given_states=self._given_states,
                    **self.reading.reading() | unread_by(self.spec, self.reading),  # which folders of 0.1 may have
                )
            )
        return self._loaded[cached]

    def _tell(self, encoder: Encoder) -> None:
        """Tell an LM without weights what a head was trained on."""
        from boustro.encoders.outside import OutsideLM

        parts = getattr(encoder, "parts", [encoder])
        for part, (weights, _, _, scales) in zip(parts, self._trained_on or (), strict=False):
            if isinstance(part, OutsideLM):
                part.take(weights, scales)

    @property
    def is_open(self) -> bool:
        """Whether the LMs are in memory."""
        return bool(self._loaded)

    def alone(self) -> Self:
        """A reader that reads each sentence by itself, not in its document."""
        if self.reading.context == "sentence":
            return self
        twin = self._twin(reading=replace(self.reading, context="sentence"))
        twin._loaded = {}
        return twin

    def with_given_states(self) -> Self:
        """A reader that does not load a causal LM's weights, because its states will be given (`encoders.outside`)."""
        return self._twin(_given_states=True, _loaded={})

    def with_vectors(self, vectors: np.ndarray) -> Self:
        """A reader of W words, once and in order, which takes the vectors (W, L, width) of the LM that reads forward
        from here; `ValueError` where there is no such LM."""
        from boustro.encoders.outside import over_forward

        twin = self._twin()
        twin._opened = {False: over_forward(self.encoder(), vectors)}
        return twin

    def in_float32(self) -> Self:
        """A reader whose LMs compute in float32, and whose features are float32."""
        twin = self._twin(reading=replace(self.reading, dtype="float32"))
        twin._loaded = {}
        return twin

    def with_memory(self, memory: WordMeans | None) -> Self:
        """A reader that reads words by their means in `memory`, too."""
        return self._twin(memory=memory)

    def of_weights(self, identity: dict[str, Any] | None) -> Self:
        """A reader that refuses all LMs but those of a saved identity; with `None` it takes any, to train on them."""
        return self._twin(_trained_on=None if identity is None else weights_of(identity))

    def pinned(self) -> Self:
        """A reader of the very LMs that are open now, wherever it is copied to."""
        if not self.is_open:
            return self
        from boustro.encoders.spec import exact_spec

        identity = self.encoder().identity()
        return self._twin(spec=exact_spec(self.spec, identity), _trained_on=weights_of(identity.to_dict()))

    def _twin(self, **changed: Any) -> Self:
        twin = copy.copy(self)
        vars(twin).update(changed, _loaded=self._loaded, _opened={})
        return twin

    def sentences(self, examples: Sequence[Any]) -> tuple[list[Sentence], np.ndarray]:
        """What is encoded for examples, each sentence once; (examples, parts) numbers of these."""
        return distinct_sentences(examples, self.parts)

    def read(self, examples: Sequence[Any], cached: bool = False, side: np.ndarray | None = None) -> Inputs:
        """The features of examples, with `side` features of their words, see `heads.inputs`.

        Examples are checked when they come in (`given`, `tasks.data`), and not here again.
        """
        sentences, parts = self.sentences(examples)
        features = self.encoder(cached).read_all(sentences)
        return Inputs(features.streams, features.lengths, parts, side)

    def to_dict(self) -> dict[str, Any]:
        """The exact spec and the identity, as a folder's config.json holds them."""
        from boustro.encoders.spec import exact_spec

        identity = self.encoder(cached=True).identity()
        return {"encoder": exact_spec(self.spec, identity), "encoder_identity": identity.to_dict()}
