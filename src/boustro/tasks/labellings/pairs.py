"""Pairs of texts: one label from the set that the training data show, or a number.

The side features of a word are whether it is in the other text, whatever its case; whether it is not; whether it is not
and has a capital first or a digit; and whether it is marked.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from boustro.heads.sides import PAIR as SIDE_FEATURES
from boustro.tasks.data.pairs import Pair
from boustro.tasks.labellings.base import Labelling
from boustro.tasks.labellings.scores import ScoreLabelling
from boustro.tasks.labellings.texts import TextLabelling


def side_features(pairs: Sequence[Pair]) -> np.ndarray:
    """(all words of all pairs, SIDE_FEATURES)."""
    rows = []
    for pair in pairs:
        lower = [frozenset(word.lower() for word in part.words) for part in pair.parts]
        for number, part in enumerate(pair.parts):
            marked = pair.marks[number] if pair.marks else ()
            for i, word in enumerate(part.words):
                missing = word.lower() not in lower[1 - number]
                name = word[:1].isupper() or any(map(str.isdigit, word))
                rows.append((not missing, missing, missing and name, i in marked))
    return np.array(rows, np.float32).reshape(-1, SIDE_FEATURES)


class PairLabelling(TextLabelling):
    """One label per pair; scored by accuracy."""

    scheme_name = "pair"

    @classmethod
    def suiting(cls, examples: Sequence[Any]) -> type[Labelling]:
        return cls

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)


class PairScoreLabelling(ScoreLabelling):
    """A number per pair."""

    scheme_name = "pair-score"

    def side(self, examples: Sequence[Any]) -> np.ndarray:
        return side_features(examples)
