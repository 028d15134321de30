"""`--memory`: a tagger that reads each word also by the mean vector of its mentions in the training data.

In training a share of the words is read as if they were not remembered, so that the head learns to tag new words too:
without this, a tagger of a large training set finds names that are new less well than one without a memory.
"""

from collections import Counter
from collections.abc import Sequence

from boustro.encoders.base import Encoder, Features
from boustro.encoders.means import MeanSums, WordMeans
from boustro.encoders.options import KEPT_WORDS
from boustro.encoders.windows import group_sentences
from boustro.types import Sentence

FORGOTTEN = 0.3


def learn_memory(
    encoder: Encoder, read: Sequence[Sentence], features: Features, unread: Sequence[Sentence], context: str
) -> WordMeans:
    """The mean vectors of the words of sentences with these features, and of others that the encoder reads now."""
    found = Counter(word for sentences in (read, unread) for sentence in sentences for word in sentence.words)
    sums = MeanSums(found, KEPT_WORDS, encoder.streams)
    sums.add(read, features.streams)
    if unread:
        sums.read(encoder, group_sentences(unread, context), sum(map(len, unread)))
    return sums.means()
