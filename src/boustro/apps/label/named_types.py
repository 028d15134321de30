"""Types of names from what the labels are called, before anything is answered.

    start = guess_types(reader.start, vectors, sentences, ["politician", "political party", "LOC"])

    score(name, label) = (m + n) / 2 · l + log(0.02 + Σ_k P(k | name) · P(k | label)) / 10

m is the vector of the name and n that of the name with five words on each side, both by the sentence encoder of the
package; l is the vector of "the name of a politician". P(k | name) is what the network of names says of the kinds k;
P(k | label) is the softmax of cosines to the kinds' own names over 0.05, and 1 for a label that is called by a kind.
A ridge regression from the vectors of names to softmax(score / 0.05) gives the weights that the tagger begins at.

Of gold names on development sets this is right for seven of ten where types are everyday words, and for few where
they are terms of a trade; the regression keeps most of it (docs/log.md). Nothing is centred: that evens types out which
are of very different frequency.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from boustro.apps.label.incremental import STRENGTH
from boustro.apps.label.updated_ridge import OnlineRidge, times
from boustro.apps.label.vectors import Start, WordVectors
from boustro.encoders.extended import log_softmax
from boustro.encoders.spec import load_encoder
from boustro.heads.factored import find_runs, mean_vectors
from boustro.names import SHIPPED_SENTENCES
from boustro.tasks.label_types import KIND_SHARPNESS, kinds_of_types, read_types, read_words
from boustro.tasks.labellings import says_nothing
from boustro.types import Sentence

KIND_SHARE, LEAST = 0.1, 0.02
"""0.05 to 0.15 and 0.005 to 0.1 are as good."""
EACH_SIDE = 5
"""Words on each side."""
MOST_READ = 300
"""Different names that are read, in some four seconds of a core; twice as many gain a point at most."""


def guess_types(
    start: Start, vectors: WordVectors, sentences: Sequence[Sentence], labels: Sequence[str], device: str | None = None
) -> Start:
    """Add the types of the names in these sentences to what is known; unchanged where each label is called by a kind,
    or fewer than two say what they are."""
    told = [label for label in labels if start.of(label) is not None or not says_nothing(label)]
    if not start.kinds or len(told) < 2 or all(start.of(label) is not None for label in told):
        return start
    words = vectors.words.astype(np.float32)
    inside = times(words, start.inside[:, None])[:, 0] > 0.5
    runs = find_runs(np.where(inside, 0, -1), np.zeros(len(words), bool), vectors.starts[:-1])
    numbers = np.searchsorted(vectors.starts, runs.first, "right") - 1
    spans = zip(numbers, runs.first - vectors.starts[numbers], runs.stop - vectors.starts[numbers], strict=True)
    names: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {}
    for place, (number, first, stop) in enumerate(spans):
        own = sentences[number].words
        names.setdefault(own[first:stop], (place, own[max(0, first - EACH_SIDE) : stop + EACH_SIDE]))
    if not names:
        return start
    names = dict([*names.items()][:MOST_READ])
    places, near = zip(*names.values(), strict=True)
    means = mean_vectors(words, runs)[[*places]]
    encoder = load_encoder(SHIPPED_SENTENCES, reads="text", device=device, cache=False)
    texts = (read_words(encoder, [*names]) + read_words(encoder, near)) / 2
    of_kinds = np.clip(times(means, np.stack([*start.kinds.values()], 1)), 1e-6, None)
    of_kinds /= of_kinds.sum(1, keepdims=True)
    alike = of_kinds @ kinds_of_types(encoder, [*start.kinds], told).T
    named = read_types(encoder, {label: label for label in told})
    scores = texts @ named.T + KIND_SHARE * np.log(LEAST + alike)
    ridge = OnlineRidge(words.shape[1], len(told), STRENGTH * float(np.square(words).sum()) / len(words))
    ridge.add(means, np.exp(log_softmax(KIND_SHARPNESS * scores)))
    return replace(start, types=dict(zip(told, ridge.weight.T, strict=True)))
