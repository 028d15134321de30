"""One vector for every word, without anything learned from labels: layers standardised and averaged, streams joined.

    (words, layers, width) per stream  →  (x_l - mean_l) / sd_l, the mean over l  →  streams side by side

Mean and standard deviation come from the sentences that a `VectorReader` is made with. The average is an untrained
`LayerMix`: a few dozen labelled sentences are too few to learn a mix from.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from boustro.apps.label.texts import whole_sentence
from boustro.apps.label.updated_ridge import BIAS
from boustro.encoders.base import Encoder
from boustro.encoders.options import UPPER, Context, ReadingOptions, Reads, Widening
from boustro.encoders.spec import Spec
from boustro.features.reader import Reader
from boustro.heads.base import LayerMix
from boustro.heads.factored import aliases
from boustro.heads.inputs import HeadInputs, sentence_rows

READ_WORDS = 8192  # half-precision rows become float32 for the product: this bounds the copy


@dataclass(frozen=True, slots=True)
class WordVectors:
    """One vector per word, (words, d) float16; `starts` (sentences + 1,) is the first word of each sentence."""

    words: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True)
class Start:
    """Knowledge of names before anything is answered, as weights (d + 1,) of a word's vector and of the constant.

    `inside` gives the probability that the word is in a name, `kinds` those of what it then is. The values of a vector
    from the first to the second of `alike` on are near to each other for names of one type. `named` are labels that are
    known by what they are called, see `named_types`; their scores are given with the sentences, and there are no
    weights.
    """

    inside: np.ndarray | None
    kinds: Mapping[str, np.ndarray]
    alike: tuple[int, int]
    named: Set[str] = frozenset()

    def knows(self, label: str) -> bool:
        """Return whether a label means something before an answer has it."""
        return label in self.named or self.of(label) is not None

    def of(self, label: str) -> np.ndarray | None:
        """Return the weights of the kind that a label is called by: `LOC` is PLACE."""
        return next((weights for kind, weights in self.kinds.items() if kind in aliases(label)), None)


def reading_context(examples: Sequence[Any], context: Context | None) -> Context:
    """`context`, or "sentence" where no example names a document: heads see the context that they are trained with."""
    named = any(getattr(example, "document", "") for example in examples)
    return context or "sentence" if named else "sentence"


def vector_source(
    spec: str,
    examples: Sequence[Any],
    layers: str = UPPER,
    cache: bool | str | Path = True,
    device: str | None = None,
    context: Context | None = None,
    pool_mentions: bool = False,
    spelling: bool = False,
    reads: Reads = "words",
    **options: Any,
) -> Reader:
    """Make the `Reader` that a `VectorReader` reads with.

    Args:
        layers: "upper" (the upper half: of 12 blocks, 6 to 12), all, last, or a list such as 2,3,4 or 50%,last.
        context: "document" reads whole documents, if the examples have document boundaries.
        pool_mentions: Add the mean vector of a word's mentions in its document, of the highest layer.
        spelling: Add a vector of a word's letters.
        reads: Of a sentence encoder "text" reads the vector of each text, and not its words.
        options: The other `ReadingOptions`: pooling, spacing, start_piece, prefix, dtype.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    read = reading_context(examples, context)
    reading = ReadingOptions(layers="all" if layers == UPPER else layers, context=read, **chosen)
    Spec.parse(spec).refuse_unread(reading)
    widening = Widening(mentions=pool_mentions, spelling=spelling)
    return Reader(spec, reading, widening=widening, reads=reads, cache=cache, device=device)


class VectorReader:
    """A reader, the layers that are used, and the standardisation that all heads share."""

    def __init__(self, reader: Reader, examples: Sequence[Any], layers: str = UPPER, standardise: bool = True) -> None:
        """Encode the examples that the standardisation comes from; `layers` as in `vector_source`. Vectors of whole
        texts stay as they are, to be compared with those of names."""
        self.reader, self._inputs = reader, reader.read(examples, cached=True)
        shapes = self.encoder.streams
        standardise = standardise and not self.of_texts
        self._first_layer = [(s.num_layers - 1) // 2 if layers == UPPER else 0 for s in shapes]
        self._mixes = []
        for stream, shape, first in zip(self._inputs.streams, shapes, self._first_layer, strict=True):
            self._mixes.append(LayerMix(shape.num_layers - first, shape.width, standardise, shape.components))
            self._mixes[-1].fit(stream[:, first:])

    @property
    def encoder(self) -> Encoder:
        """Encoder that reads the text, behind the cache."""
        return self.reader.encoder(cached=True)

    @property
    def of_texts(self) -> bool:
        """Whether every text has one vector, and its words none of their own."""
        return all(stream.whole for stream in self.encoder.streams)

    @property
    def start(self) -> Start | None:
        """Return what an encoder with names knows, for vectors as they are read here; `None` for any other encoder."""
        at = next((number for number, stream in enumerate(self.encoder.streams) if stream.tells), None)
        if at is None:
            return None
        widths = [mix.width for mix in self._mixes]
        first, mix, tells = sum(widths[:at]), self._mixes[at], dict(self.encoder.streams[at].tells)

        def weigh(place: int, sign: float = 1.0, constant: float = 0.0) -> np.ndarray:
            """Of `constant` and `sign` times a value of the stream, which is standardised."""
            weights = np.zeros(sum(widths) + 1)
            weights[first + place] = sign / float(mix.scale[0, place])
            weights[-1] = (constant + sign * float(mix.mean[0, place])) / BIAS
            return weights

        outside = tells.pop("O")
        of_kinds = {kind: weigh(place) for kind, place in tells.items()}
        return Start(weigh(outside, -1, 1), of_kinds, (first, first + outside))

    def read_names(self, means: Mapping[str, str], texts: WordVectors, several: bool) -> dict[str, np.ndarray]:
        """Return what names of topics, or their descriptions, say of a text, for `LiveTopics.begin`; `texts` have no
        labels. None of labels whose name says nothing, nor of one alone where each text has a label."""
        from boustro.tasks.label_names import spoken, start_of_names

        read = spoken(means)
        if not self.of_texts or len(read) < 2 - several:
            return {}
        names = self.vectors([whole_sentence(text, name) for name, text in read.items()])
        weight, constant = start_of_names(names.words.astype(np.float32), texts.words.astype(np.float32), several)
        return dict(zip(read, np.column_stack([weight, constant / BIAS]), strict=True))

    def train_vectors(self, numbers: np.ndarray) -> WordVectors:
        """Of the examples with these numbers among the first ones, in this order."""
        return self.mix(self._inputs, self._inputs.parts[numbers])

    def vectors(self, examples: Sequence[Any]) -> WordVectors:
        """Of other examples."""
        inputs = self.reader.read(examples, cached=True)
        return self.mix(inputs, inputs.parts)

    @torch.inference_mode()
    def mix(self, inputs: HeadInputs, parts: np.ndarray) -> WordVectors:
        """Return the words of all sentences of `parts`, numbers among those of `inputs`, one after another; or the
        texts."""
        rows, starts = sentence_rows(inputs.starts, parts.ravel())
        if self.of_texts:
            rows, starts = rows[starts[:-1]], np.arange(len(starts))
        result = np.empty((len(rows), sum(mix.width for mix in self._mixes)), np.float16)
        for start in range(0, len(rows), READ_WORDS):
            block = rows[start : start + READ_WORDS]
            mixed = [
                mix(torch.from_numpy(np.array(stream[block])[:, first:]))
                for mix, stream, first in zip(self._mixes, inputs.streams, self._first_layer, strict=True)
            ]
            result[start : start + len(block)] = torch.cat(mixed, 1).half().numpy()
        return WordVectors(result, starts)
