"""`--memory`: each word is read also by the mean vector of its mentions in the training data.

In training a share of the words is read as if they were not remembered, so that the head learns to tag new words too:
without this, a tagger of a large training set finds names that are new less well than one without a memory.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from boustro.encoders.base import Encoder, Features
from boustro.encoders.extended import ExtendedEncoder, innermost
from boustro.encoders.options import KEPT_WORDS
from boustro.encoders.windows import group_sentences
from boustro.encoders.word_means import MeanSums, WordMeans
from boustro.features.reader import Reader
from boustro.heads.inputs import Inputs
from boustro.types import Sentence

FORGOTTEN = 0.3
REMEMBERED = "sentences without labels, read for the memory only"


def read_remembering(
    reader: Reader, examples: Sequence[Any], unread: Sequence[Sentence], side: np.ndarray | None, seed: int
) -> tuple[Reader, Inputs]:
    """A reader that remembers the words of training examples, and the features to train a head for it.

    `unread` are more sentences that are remembered; `side` as for `Reader.read`.
    """
    sentences, parts = reader.sentences(examples)
    features = innermost(reader.encoder(cached=True)).read_all(sentences)
    learned = _learn(innermost(reader.encoder()), sentences, features, unread, reader.reading.context)
    in_training = reader.with_memory(learned.in_training(FORGOTTEN, seed)).encoder(cached=True)
    assert isinstance(in_training, ExtendedEncoder)
    features = in_training.extend(sentences, features)
    return reader.with_memory(learned), Inputs(features.streams, features.lengths, parts, side)


def _learn(
    encoder: Encoder, read: Sequence[Sentence], features: Features, unread: Sequence[Sentence], context: str
) -> WordMeans:
    """The mean vectors of the words of sentences with these features, and of others that the encoder reads now."""
    found = Counter(word for sentences in (read, unread) for sentence in sentences for word in sentence.words)
    sums = MeanSums(found, KEPT_WORDS, encoder.streams)
    sums.add(read, features.streams)
    if unread:
        sums.read(encoder, group_sentences(unread, context), sum(map(len, unread)))
    return sums.means()
