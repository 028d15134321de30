"""Product quantisation after a rotation: a vector as a few bytes, each of which names one of 256 centroids.

    vector      0.3 0.1 2.0 0.4 …           D dimensions
    components  1.9 0.2 0.7 | -0.4 0.1 0.3  the R largest principal components, in M parts
    codes       17          | 203           M bytes instead of 2 · D
    decoded     mean + Σ centroids · axes

Dimensions are standardised first, so that every one counts the same, whatever its variance. Components are dealt out so
that the product of the variances is about the same in every part, and a part has equally many (parametric optimised
product quantisation). At 24 bytes for 512 dimensions this says as much of the mean vectors of words as product
quantisation without a rotation at 64 (docs/log.md).

Source: Ge, He, Ke and Sun 2013, section 3.2; Jégou, Douze and Schmid 2011, section II-B. V vectors, D width, M parts, R
components, K rows that are asked for.
"""

from dataclasses import dataclass

import numpy as np

NUM_CENTROIDS = 256
SAMPLE = 20_000  # vectors that centroids and axes are found among
PART = 8
"""Components of a part, where there are so many."""


@dataclass(frozen=True)
class CodedVectors:
    """Vectors as codes; `vectors[rows]` decodes some of them."""

    codes: np.ndarray  # (V, M) uint8
    centroids: np.ndarray  # (M, 256, R / M) float16
    axes: np.ndarray  # (R, D) float16, part after part
    mean: np.ndarray  # (D,) float16

    def __post_init__(self) -> None:
        """Raises `ValueError` where the arrays do not fit together."""
        parts, number, size = self.centroids.shape
        fits = self.codes.shape[1:] == (parts,) and self.axes.shape == (parts * size, len(self.mean))
        if number != NUM_CENTROIDS or not fits:
            raise ValueError("the codes are not those of the centroids")

    @property
    def shape(self) -> tuple[int, int]:
        """(V, D)."""
        return len(self.codes), len(self.mean)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """(K, D) float32: the vectors of rows (K,)."""
        parts = np.arange(self.codes.shape[1])
        different, own = np.unique(rows, return_inverse=True)  # of a text, where words come again: decoded once
        components = self.centroids[parts, self.codes[different]].reshape(len(different), len(self.axes))
        return (components.astype(np.float32) @ self.axes.astype(np.float32) + self.mean)[own]


def check_parts(width: int, num_parts: int) -> None:
    """`ValueError` where vectors of this width cannot be codes of so many bytes."""
    if num_parts > width:
        raise ValueError(f"a vector of width {width} has codes of at most {width} bytes, not {num_parts}")


def encode_vectors(vectors: np.ndarray, num_parts: int) -> CodedVectors:
    """The codes of vectors (V, D); the same vectors give the same codes. `ValueError` as `check_parts` raises it."""
    from sklearn.cluster import KMeans

    width = vectors.shape[1]
    check_parts(width, num_parts)
    mean = vectors.mean(0, dtype=np.float64)
    deviation = vectors.std(0, dtype=np.float64) + 1e-6
    standardised = ((vectors - mean) / deviation).astype(np.float32)
    sampled = np.random.default_rng(0).permutation(len(vectors))[:SAMPLE]
    variances, axes = np.linalg.eigh(np.cov(standardised[sampled], rowvar=False, ddof=0).reshape(width, width))
    order = deal_out(variances[::-1], num_parts, min(PART, width // num_parts))
    turned = axes[:, ::-1][:, order]
    codes = np.empty((len(vectors), num_parts), np.uint8)
    centroids = np.zeros((num_parts, NUM_CENTROIDS, len(order) // num_parts), np.float16)
    components = standardised @ turned.astype(np.float32)
    for number, own in enumerate(np.split(components, num_parts, 1)):
        means = KMeans(min(NUM_CENTROIDS, len(np.unique(own[sampled], axis=0))), max_iter=30, random_state=0)
        means.fit(own[sampled])
        codes[:, number] = means.predict(own)
        centroids[number, : means.n_clusters] = means.cluster_centers_
    return CodedVectors(codes, centroids, (turned.T * deviation).astype(np.float16), mean.astype(np.float16))


def deal_out(variances: np.ndarray, num_parts: int, size: int) -> np.ndarray:
    """(num_parts · size,) the numbers of the largest variances, which fall, part after part.

    Each goes to the part with the smallest product of variances that has room.
    """
    parts: list[list[int]] = [[] for _ in range(num_parts)]
    products = np.zeros(num_parts)
    logarithms = np.log(np.maximum(variances[: num_parts * size], 1e-6 * max(variances[0], 1e-6)))
    for number, gain in enumerate(logarithms - logarithms[-1] + 1e-3):  # above 0, so that all parts grow alike
        part = min((p for p in range(num_parts) if len(parts[p]) < size), key=products.__getitem__)
        parts[part].append(number)
        products[part] += gain
    return np.concatenate(parts).astype(np.int64)
