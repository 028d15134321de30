"""Measures of a set of word vectors, exact over all pairs and without looping over pairs.

With unit vectors u, the mean cosine of all pairs of different words is (‖Σ u‖² - n) / (n (n - 1)); dimension i adds
((Σ uᵢ)² - Σ uᵢ²) / (n (n - 1)) to it.

    anisotropy         mean cosine of two words of the sample; 0 where directions are spread evenly
    rogue share        the part of that mean, in percent, that the one dimension with the largest part makes
    self-similarity    mean cosine of two occurrences of a word, less the anisotropy: 0 if its vectors share nothing
    intra-sentence     mean cosine of a word with the mean of its sentence, less the anisotropy

Sources: Ethayarajh 2019, sections 3.3 and 3.4 (here with the anisotropy of the same sample); Timkey and van Schijndel
2021, section 3. Letters: n words, d width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from boustro.heads.transforms import unit

LEAST_OCCURRENCES = 5


@dataclass(frozen=True, slots=True)
class Geometry:
    """The measures of one layer of one stream."""

    anisotropy: float
    rogue_share: float
    rogue_dimension: int
    self_similarity: float
    intra_sentence: float


def measure(vectors: np.ndarray, words: Sequence[str], lengths: Sequence[int]) -> Geometry:
    """The measures of `vectors` (n, d) of `words`, which are those of sentences with these lengths, end to end.

    Words with fewer than `LEAST_OCCURRENCES` are left out of the self-similarity, which is `nan` where none remains.
    Raises `ValueError` for fewer than two words.
    """
    if len(vectors) < 2 or len(vectors) != len(words) or len(words) != sum(lengths):
        raise ValueError(f"{len(vectors)} vectors of {len(words)} words in sentences of {sum(lengths)}; two are needed")
    x = np.asarray(vectors, np.float64)
    units = unit(x)
    parts = pair_parts(units)
    mean = float(parts.sum())
    rogue = int(np.abs(parts).argmax())
    rows: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word.lower(), []).append(row)
    own = [pair_parts(units[found]).sum() for found in rows.values() if len(found) >= LEAST_OCCURRENCES]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    inside = [_to_mean(x[a:b], units[a:b]) for a, b in pairwise(bounds) if b - a > 1]
    return Geometry(
        anisotropy=mean,
        rogue_share=100 * float(parts[rogue]) / mean if mean else 0.0,
        rogue_dimension=rogue,
        self_similarity=float(np.mean(own)) - mean if own else float("nan"),
        intra_sentence=float(np.mean(inside)) - mean if inside else float("nan"),
    )


def pair_parts(units: np.ndarray) -> np.ndarray:
    """(d,) what each dimension adds to the mean cosine of all pairs of `units` (n, d); n is at least 2."""
    return (np.square(units.sum(0)) - np.square(units).sum(0)) / (len(units) * (len(units) - 1))


def _to_mean(vectors: np.ndarray, units: np.ndarray) -> float:
    return float((units @ unit(vectors.mean(0))).mean())
