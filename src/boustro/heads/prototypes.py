"""A linear classifier of few texts that begins at what its labels are called.

    p_c = k · n_c + Σ x, of length 1           n_c what label c is called, x its texts, all of length 1
    s_k(c) = (x - m / 4) · p_c / τ             m the mean, over labels, of the means of their texts
    score(c) = Σ_k q_k · s_k(c) + log((N_c + 20) / (S + 20 C))      N_c of S texts have label c

k says how many texts a name is worth: from a quarter to all of it, where m counts nothing. Few texts cannot tell which
k is right, so all are weighed, q_k being proportional to what is believed of k beforehand times the probability of all
texts by s_k, each left out: its own label has no part of it, and each other label one text less, so that none is ahead
of it. The only text of its label tells nothing of k; it judges the name alone against chance. Where names are worse
than chance on all texts, whatever has names counts the less.

One name may mislead where the others do not. The odds that n_c means c are e² times how much more probable than by
chance the texts of c are by names; n_c counts as far as it is believed. With k = ∞, where there is nothing but names,
the mean of the label's texts stands for the rest of it, moved by the mean of names less that of texts.

Texts are nearer to each other than to a name, so a label with texts is ahead of one without: -m / 4. How many texts a
label has says little of how frequent it is while they are few: 20 of each are counted besides. A logistic regression
with a constant of its own for each label learned these few numbers as if they were sure (docs/log.md).

Source: Nigam et al. 2000, section 5, for a prior in the place of texts; averages over k are Bayesian model averages.
S texts, d width, C labels, K values of k.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from boustro.arrays import unit
from boustro.heads.centroid_pool import TEMPERATURE
from boustro.heads.crf import log_sum_exp

WORTH = (0.25, 1.0, 2.0, 5.0, 15.0, np.inf)
"""k."""
BELIEVED = (0.05, 0.05, 0.08, 0.12, 0.25, 0.45)
"""Of each k beforehand. Two texts of SST say less than its names, and six of TREC more than its names."""
DOUBT = np.array([0, 1 / 3, 2 / 3, 1, 1, 1])
"""How much each k suffers from names that are worse than chance."""
TRUST, LARGEST_TRUST = 1.0, 50.0
"""In nats, how much is believed of names beforehand; and more than any belief."""
LEAST_BELIEVED = 1e-9
"""Of all names together, for a mean of them."""
TEXT_TEMPERATURE = 0.07
"""τ with texts; of a name alone it is that of `heads.centroid_pool`."""
ONE_TRUST = 2.0
"""In nats, how much is believed beforehand of a single name. A text or two tell little: less would lose good names."""
COMMON = 1 / 4
"""Of m; all of it gives labels without a text too much (docs/log.md)."""
COUNTED_BESIDES = 20
"""Texts of each label. Of 16 or fewer a label any frequency is likely."""


@dataclass(frozen=True)
class Prototypes:
    """Weight (C, d) and bias (C,) of the scores, and the probabilities that the names tell more than chance, and that
    each of them (C,) means its label."""

    weight: np.ndarray
    bias: np.ndarray
    trust: float
    believed: np.ndarray


def learn_prototypes(x: np.ndarray, ids: np.ndarray, names: np.ndarray, temperature: float = TEMPERATURE) -> Prototypes:
    """Learn from texts x (S, d), of about length 1, their labels (S,), and the names (C, d), of length 1 or 0.

    `temperature` is that of the names alone. A label with neither a name nor a text has weight 0.
    """
    counts = np.bincount(ids, minlength=len(names))
    known, rows = counts > 0, np.arange(len(ids))
    sums = np.zeros_like(names)
    np.add.at(sums, ids, x)
    means = sums / np.maximum(counts, 1)[:, None]
    common = COMMON * means[known].mean(0)
    less, own_less = sums - means, sums[ids] - x  # one text less of each label, and of its own this one
    alone = counts[ids] == 1
    chance = np.full(len(ids), -np.log(max(2, len(names))))
    by_name = _log_softmax(x @ names.T / temperature)[rows, ids] if names.any() else chance
    told = by_name - chance
    distrust = min(0.0, float(told.sum()))
    believed = np.where(names.any(1), _sigmoid(ONE_TRUST + np.bincount(ids, told, len(names))), 0.0)
    by_name = np.log(believed[ids] * np.exp(by_name) + (1 - believed[ids]) * np.exp(chance))
    read = believed[:, None] * names
    move = read.sum(0) / max(believed.sum(), LEAST_BELIEVED) - means[known].mean(0)
    doubted = (1 - believed) * names.any(1)
    filled = unit(read + (doubted * known)[:, None] * unit(means + move))
    others = own_less / np.maximum(counts[ids] - 1, 1)[:, None]  # the mean of a label's texts without this one
    own_filled = unit(read[ids] + (doubted[ids] * ~alone)[:, None] * unit(others + move))
    evidence, weights, biases = [], [], []
    for worth, doubt in zip(WORTH, DOUBT, strict=True):
        scale, centre = (1 / temperature, 0 * common) if np.isinf(worth) else (1 / TEXT_TEMPERATURE, common)

        def vectors(texts: np.ndarray, own: np.ndarray, worth: float = worth, scale: float = scale) -> np.ndarray:
            return scale * unit(own if np.isinf(worth) else worth * own + texts)

        told_of, own_told = (filled, own_filled) if np.isinf(worth) else (read, read[ids])
        scores = (x - centre) @ vectors(less, told_of).T
        scores[rows, ids] = ((x - centre) * vectors(own_less, own_told)).sum(1)
        right = _log_softmax(scores)[rows, ids]
        of_one = doubt * by_name + (1 - doubt) * chance
        evidence.append(np.where(alone, of_one, right).sum() + doubt * distrust)
        weights.append(vectors(sums, told_of))
        biases.append(-weights[-1] @ centre)
    shares = np.log(BELIEVED) + np.array(evidence)
    shares = np.exp(shares - shares.max()) * (1.0 if names.any() else np.isfinite(WORTH))
    shares /= shares.sum()
    trust = float(_sigmoid(TRUST + told.sum())) if names.any() else 0.0
    return Prototypes(np.tensordot(shares, weights, 1), np.tensordot(shares, biases, 1), trust, believed)


def frequency(ids: np.ndarray, count: int) -> np.ndarray:
    """Return (C,): the logarithm of how frequent each label is believed to be."""
    counts = np.bincount(ids, minlength=count) + COUNTED_BESIDES
    return np.log(counts / counts.sum())


def _sigmoid(odds: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(odds, -LARGEST_TRUST, LARGEST_TRUST)))


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    return scores - log_sum_exp(scores)[:, None]
