"""A head that compares the vector of a marked word with the centroids of its candidates: word senses.

    score(sense) = cosine(vector, centroid of the sense) + prior · log(count of the sense + 1)

The candidates of a word are a range of the labels, the senses of its entry (lemma and part of speech); which range, the
side features say. A centroid is the mean of the vectors of a sense's occurrences, transformed and of length 1. The
prior is chosen by leaving out one document at a time, with copies of its texts: its words are scored with centroids and
counts of the other documents only (`held_out_credit`), because the words of a document share senses. A sense without
occurrences, as where a part is left out, is no answer; a word all of whose senses lack them has no candidates.

Sources: Melamud et al. 2016 and Peters et al. 2018 (1-nearest centroid); Loureiro and Jorge 2019.
Letters: N occurrences, S senses, K senses of an entry, d width.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from boustro.arrays import unit
from boustro.heads.base import Head
from boustro.heads.embedding import FittedTransform
from boustro.heads.inputs import SENSE_FEATURES, Kinship
from boustro.heads.layout import check_lengths
from boustro.heads.options import CentroidOptions

PRIORS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3)
DEFAULT_PRIOR = 0.1
"""Where no occurrence can be held out."""
BLOCK_OCCURRENCES = 8192  # cosines to all senses of as many words are in memory at once


class SenseTargets(NamedTuple):
    """Labels of occurrences: `labels[i]` is one of the labels of `occurrences[i]`, which may have several.

    Attributes:
        occurrences: (M,) numbers of examples.
        labels: (M,) numbers of labels.
    """

    occurrences: np.ndarray
    labels: np.ndarray


class CentroidBody(nn.Module):
    """The transform, and for each sense its centroid and how often it occurs."""

    counts: Tensor
    prior: Tensor

    def __init__(self, width: int, num_labels: int, options: CentroidOptions) -> None:
        super().__init__()
        width -= SENSE_FEATURES
        self.transform = FittedTransform(options.transform, width)
        self.centroids = nn.Parameter(torch.zeros(num_labels, width, dtype=torch.float16), requires_grad=False)
        self.register_buffer("counts", torch.zeros(num_labels, dtype=torch.int64))
        self.register_buffer("prior", torch.tensor(DEFAULT_PRIOR if options.prior is None else options.prior))


class CentroidHead(Head):
    """A head with a centroid for each sense. Targets are `SenseTargets`; the prediction for an example is the scores
    (K,) of its candidates.

    An example has one marked word, or none where its word has no candidates; then K is 0.
    """

    closed_form = True
    body: CentroidBody
    options: CentroidOptions
    held_out: dict[str, Any] | None = None
    """How the prior was chosen."""

    @property
    def prior(self) -> float:
        """Weight of the prior, given or chosen: the weights hold it with 7 digits."""
        return float(f"{float(self.body.prior):.6g}")

    def facts(self) -> dict[str, Any]:
        return {"prior": self.prior, "held_out": self.held_out or {}}

    def pool(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> Float[Tensor, "S d"]:
        """Return the marked word of each example, its candidates behind the vector; zeros for an example without one.

        Raises `ValueError` where `lengths` do not sum to N.
        """
        check_lengths(lengths, len(vectors))
        examples = torch.arange(len(lengths)).repeat_interleave(lengths.cpu()).to(vectors.device)
        marked = vectors[:, -1] > vectors[:, -SENSE_FEATURES]
        pooled = vectors.new_zeros(len(lengths), vectors.shape[1])
        pooled[examples[marked]] = vectors[marked]
        return pooled

    @torch.no_grad()
    def solve(
        self, pooled: Float[Tensor, "N d"], targets: SenseTargets, lengths: Tensor, kin: Kinship | None = None
    ) -> None:
        """Set the transform, the centroids, the counts and, where it is not given, the prior."""
        words, body = pooled.cpu().numpy(), self.body
        vectors = words[:, :-SENSE_FEATURES].astype(np.float16)
        transform = body.transform.fit(vectors)
        for start in range(0, len(vectors), BLOCK_OCCURRENCES):
            vectors[start : start + BLOCK_OCCURRENCES] = unit(
                transform.apply(vectors[start : start + BLOCK_OCCURRENCES])
            )
        order = np.argsort(targets.labels, kind="stable")
        counts = np.bincount(targets.labels, minlength=len(self.labels))
        rows = np.split(targets.occurrences[order], np.cumsum(counts)[:-1])  # of each sense
        body.counts.copy_(torch.from_numpy(counts))
        body.centroids.copy_(torch.from_numpy(centroids_of(vectors, rows)))
        if self.options.prior is not None:
            return
        entries = np.unique(words[:, -SENSE_FEATURES:].astype(np.int64), axis=0)
        senses = [rows[start:stop] for start, stop in entries]
        credit, total = held_out_credit(vectors, senses, np.arange(len(words)) if kin is None else kin.groups)
        if total:
            body.prior.fill_(PRIORS[int(credit[:-1].argmax())])
            *accuracies, frequent = (round(100 * float(right) / total, 2) for right in credit)
            by_prior = dict(zip(map(str, PRIORS), accuracies, strict=True))
            self.held_out = {"occurrences": total, "accuracy": by_prior, "most_frequent_sense": frequent}

    def predict(self, vectors: Float[Tensor, "N d"], lengths: Tensor) -> list[np.ndarray]:
        pooled, body = self.pool(vectors, lengths).cpu().numpy(), self.body
        x = unit(body.transform.transform.apply(pooled[:, :-SENSE_FEATURES]))
        centroids, counts, prior = body.centroids.cpu().numpy(), body.counts.cpu().numpy(), self.prior
        scores = []
        for vector, (start, stop) in zip(x, pooled[:, -SENSE_FEATURES:].astype(np.int64), strict=True):
            cosines, own = centroids[start:stop].astype(np.float32) @ vector, counts[start:stop]
            found = np.where(own > 0, cosines + prior * np.log(own + 1), -np.inf)
            scores.append(found if own.any() else found[:0])
        return scores


def centroids_of(vectors: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return (S, d) float16: the centroids of the senses with these rows of `vectors` (N, d), which have length 1."""
    centroids = np.empty((len(rows), vectors.shape[1]), np.float16)
    for sense, sense_rows in enumerate(rows):
        centroids[sense] = unit(vectors[sense_rows].astype(np.float32).sum(0))
    return centroids


def held_out_credit(
    vectors: np.ndarray,
    entries: Iterable[Sequence[np.ndarray]],
    documents: np.ndarray,
    priors: Sequence[float] = PRIORS,
) -> tuple[np.ndarray, int]:
    """Return how many occurrences each prior gets right without their own document, and of how many.

    The credit (priors + 1,) is last that of the most frequent sense, of several the first label, whatever the vectors.
    Entries with one sense, and occurrences none of whose senses is in another document, are not counted: no prior
    changes what they get. `entries` have the rows of each of their senses; `documents` (N,) are numbers.
    """
    credit, total = np.zeros(len(priors) + 1), 0
    for senses in entries:
        if len(senses) > 1:
            for right, asked in _held_out(vectors, senses, documents, np.array(priors)):
                credit += right
                total += asked
    return credit, total


def _held_out(
    vectors: np.ndarray, senses: Sequence[np.ndarray], documents: np.ndarray, priors: np.ndarray
) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (number right by prior and by frequency alone, number of occurrences) of one entry, a document at a
    time."""
    rows, inverse = np.unique(np.concatenate(senses), return_inverse=True)
    gold = np.zeros((len(rows), len(senses)), bool)
    gold[inverse, np.repeat(np.arange(len(senses)), [len(sense_rows) for sense_rows in senses])] = True
    x = vectors[rows].astype(np.float32)  # (N, d)
    sums, counts = gold.T.astype(np.float32) @ x, gold.sum(0)  # (K, d), (K,)
    order = np.argsort(documents[rows], kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(documents[rows][order])) + 1):
        held_gold = gold[mine]
        left = counts - held_gold.sum(0)
        answerable = (held_gold & (left > 0)).any(1)
        if not answerable.any():
            continue
        centroids = unit(sums - held_gold.T.astype(np.float32) @ x[mine])
        cosines = np.where(left > 0, x[mine] @ centroids.T, -np.inf)[answerable]  # (n, K)
        chosen = (cosines[None] + priors[:, None, None] * np.log(left + 1)).argmax(-1)  # (priors, n)
        chosen = np.vstack([chosen, np.full_like(chosen[:1], left.argmax())])
        yield held_gold[answerable][np.arange(chosen.shape[1]), chosen].sum(1), int(answerable.sum())
