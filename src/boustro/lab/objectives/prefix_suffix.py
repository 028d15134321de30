"""Prefix and suffix: a document is split in two; the prefix sees itself only, the suffix sees everything.

    pieces     [8, 3, 4, 5, 2, 6, E, 1, 9]      E: end of text; the second document is too short to split
    input_ids  [8, M, 4, M, M, 6, E, 1, 9]      M: the mask piece, always; runs of 1 to 3 pieces
    suffix     [0, 0, 0, 1, 1, 1, 1, 0, 0]      the first document is split after 3 of its 6 pieces
    positions  [1, 3, 4, 0, 0, 0, 0, 0, 0]      targets [3, 5, 2, -100, …]
    documents  [0, 0, 0, 0, 0, 0, 0, 1, 1]      no attention across them

The split is uniform between the shares α and 1 - α of the document's pieces. A share β_Y ~ U(0, 1) of the suffix is
hidden, and λ1 - λ2 · β_Y of the prefix: the more is to be written, the more is shown. At least one piece of each part
is hidden. Special pieces are neither counted nor hidden. A segment may have any number of targets, so there are as many
slots as pieces, and unused ones are 0 with the target -100.

A model so trained understands a prefix and writes what follows it, in any order (`boustro.lab.generation`). Since the
prefix never sees the suffix, its states can be computed once. Source: Xiao et al. 2025 (BiGLM), section 2.1.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from boustro.lab.objectives.examples import IGNORED, document_ids, pad_right
from boustro.lab.objectives.masking import Masking
from boustro.lab.objectives.split import HIDDEN_RUN, PREFIX_RATE, PREFIX_RATE_DROP, SPLIT_MARGIN, PrefixSuffixOptions


class PrefixSuffix(NamedTuple):
    """One segment as the model reads it; as `Masked`, with the pieces that prefixes do not see."""

    input_ids: Int[np.ndarray, " T"]
    positions: Int[np.ndarray, " T"]
    targets: Int[np.ndarray, " T"]
    documents: Int[np.ndarray, " T"]
    suffix: Bool[np.ndarray, " T"]


def prefix_suffix(
    pieces: Int[np.ndarray, " T"], rng: np.random.Generator, masking: Masking, split: PrefixSuffixOptions
) -> PrefixSuffix:
    """Split the documents of one segment and hide pieces of them. With full attention `suffix` is False everywhere."""
    documents, suffix = document_ids(pieces, masking.end_id), np.zeros(len(pieces), bool)
    eligible, chosen = ~masking.special[pieces], [np.empty(0, np.int64)]
    starts = np.flatnonzero(np.diff(documents, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(pieces)], strict=True):
        content = start + np.flatnonzero(eligible[start:stop])
        if len(content) >= split.least_pieces:
            first = split_point(len(content), rng)
            suffix[content[first] : stop] = split.prefix_attention == "prefix"
            parts, share = (content[:first], content[first:]), float(rng.random())
            shares = (PREFIX_RATE - PREFIX_RATE_DROP * share, share)
            for part, rate in zip(parts, shares, strict=True):
                chosen.append(part[choose_runs(len(part), rate, rng, HIDDEN_RUN)])
    positions, hidden = np.sort(np.concatenate(chosen)), pieces.copy()
    hidden[positions] = masking.mask_id
    return PrefixSuffix(
        input_ids=hidden,
        positions=pad_right(positions, len(pieces), 0),
        targets=pad_right(pieces[positions], len(pieces), IGNORED),
        documents=documents,
        suffix=suffix,
    )


def split_point(num_pieces: int, rng: np.random.Generator, margin: float = SPLIT_MARGIN) -> int:
    """Return how many of `num_pieces`, at least 2, are the prefix: uniform over the whole numbers from αL to (1 -
    α)L."""
    low = max(1, int(np.ceil(margin * num_pieces)))
    high = max(low, min(num_pieces - 1, int((1 - margin) * num_pieces)))
    return int(rng.integers(low, high + 1))


def choose_runs(num_pieces: int, share: float, rng: np.random.Generator, longest: int) -> Int[np.ndarray, " N"]:
    """Return a share of `num_pieces` places, rounded, but at least one, in runs.

    The places are cut into runs of 1 to `longest` with p ∝ 1/n. Runs are taken in random order until there are enough
    places; the last one taken is cut to fit.
    """
    budget = max(1, int(share * num_pieces + 0.5))
    cumulative = np.cumsum(1 / np.arange(1, longest + 1))
    lengths = 1 + np.searchsorted(cumulative, rng.random(num_pieces) * cumulative[-1], side="right")
    ends = np.minimum(np.cumsum(lengths), num_pieces)
    ends = ends[: 1 + int(np.searchsorted(ends, num_pieces))]
    starts = np.concatenate([[0], ends[:-1]])
    order = rng.permutation(len(ends))
    sizes = (ends - starts)[order]
    places = np.repeat(starts[order] - np.cumsum(sizes) + sizes, sizes) + np.arange(num_pieces)
    return places[:budget]
