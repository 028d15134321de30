"""From scores of the spans of a context to the best answers, without torch; see `heads.questions`.

A trained head and an exported one read their scores here.
"""

import math
from typing import NamedTuple

import numpy as np

from boustro.heads.crf.decode import log_sum_exp

BEST = 5


class Found(NamedTuple):
    """The best spans of a context, `(start, end, probability)`, the most probable first.

    `null` is log p(no answer) - log p(the best span), -inf where every question has an answer; `refused` tells whether
    it is above the threshold.
    """

    spans: list[tuple[int, int, float]]
    null: float
    refused: bool


def read_scores(scores: np.ndarray, longest: int, threshold: float) -> list[Found]:
    """The answers to questions, from scores (S, T): span [i, i + w) at i · `longest` + w - 1, and no answer last."""
    logs = scores - log_sum_exp(scores)[:, None]
    found = []
    for own in logs:
        best = np.argsort(-own[:-1], kind="stable")[:BEST].tolist()
        null = float(own[-1] - own[best[0]])
        likely = [(*divmod(k, longest), math.exp(own[k])) for k in best if own[k] > -1e9]
        found.append(Found([(i, i + w + 1, p) for i, w, p in likely], null, null > threshold))
    return found
