"""Types of entities from what the labels are called, before anything is answered.

    namer, start = open_namer({"politician": "politician", "T1": "T1"}, start)   a tagger as `predict --types` has it
    prior_scores(namer, sentences, labels, cached=True)            what the live tagger begins at, word by word

The live tagger learns what lacks to the answers. Where each label is called by a kind of names, such as LOC, the
network of names that the session reads tells it already, and nothing more is read.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from boustro.apps.label.vectors import Start
from boustro.tasks.label_types import from_types
from boustro.tasks.tagger import Tagger
from boustro.types import Sentence


def open_namer(means: Mapping[str, str], start: Start, device: str | None = None) -> tuple[Tagger | None, Start]:
    """Return a tagger by what labels are called, or by what is said of them, and what is then known at the start;
    no tagger where `start` knows each label, where none says anything, or where two are read alike."""
    if all(start.of(label) is not None for label in means):
        return None, start
    try:
        namer = from_types(Tagger, means, device)
    except ValueError:
        return None, start
    return namer, Start(None, {}, start.alike, frozenset(namer.types))


def prior_scores(tagger: Tagger, sentences: Sequence[Sentence], labels: Sequence[str], cached: bool) -> np.ndarray:
    """Return (words, labels + 1): inside and kinds of words, which are decoded to the answers of a tagger.

    An answer's probability is that of one tag among all, so it may be below a half: what is inside has more than 0.5,
    what is not has less, and the probability says by how much.
    """
    rows, other = [], [1 / max(1, len(labels))] * len(labels)
    for answer in tagger.answer(sentences, cached=cached):
        for tag, score in zip(answer.tags, answer.scores, strict=True):
            one_hot = [float(label == tag[2:]) for label in labels]
            rows.append([(1 - score) / 2, *other] if tag == "O" else [(1 + score) / 2, *one_hot])
    return np.array(rows, np.float32)
