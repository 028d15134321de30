"""Product quantisation: a vector as one byte for each of its parts, which names the nearest of 256 centroids there.

    vector     0.3 0.1 | 2.0 0.4 | …        M parts of D / M dimensions
    codes      17      | 203     | …        M bytes instead of 2 · D
    decoded    0.2 0.1 | 2.1 0.4 | …

Every dimension counts the same, whatever its variance: centroids are found among standardised vectors.

Source: Jégou, Douze and Schmid 2011, section II-B. V vectors, D width, M parts, K rows that are asked for.
"""

from dataclasses import dataclass

import numpy as np

NUM_CENTROIDS = 256
SAMPLE = 20_000  # vectors that centroids are found among


@dataclass(frozen=True)
class CodedVectors:
    """Vectors as codes; `vectors[rows]` decodes some of them."""

    codes: np.ndarray  # (V, M) uint8
    centroids: np.ndarray  # (M, 256, D / M) float16

    def __post_init__(self) -> None:
        """Raises `ValueError` where there are not 256 centroids for each part."""
        if (self.codes.shape[1], NUM_CENTROIDS) != self.centroids.shape[:2]:
            raise ValueError("the codes are not those of the centroids")

    @property
    def shape(self) -> tuple[int, int]:
        """(V, D)."""
        return len(self.codes), self.codes.shape[1] * self.centroids.shape[2]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """(K, D) float16: the vectors of rows (K,)."""
        parts = np.arange(self.codes.shape[1])
        return self.centroids[parts, self.codes[rows]].reshape(len(rows), -1)


def check_parts(width: int, num_parts: int) -> None:
    """`ValueError` where vectors of this width do not have so many equal parts."""
    if width % num_parts:
        raise ValueError(f"vectors of width {width} do not have {num_parts} equal parts; give a divisor of {width}")


def encode_vectors(vectors: np.ndarray, num_parts: int) -> CodedVectors:
    """The codes of vectors (V, D); the same vectors give the same codes. `ValueError` as `check_parts` raises it."""
    from sklearn.cluster import KMeans

    check_parts(vectors.shape[1], num_parts)
    spread = vectors.std(0, dtype=np.float32) + np.float32(1e-6)
    sampled = np.random.default_rng(0).permutation(len(vectors))[:SAMPLE]
    codes = np.empty((len(vectors), num_parts), np.uint8)
    centroids = np.zeros((num_parts, NUM_CENTROIDS, vectors.shape[1] // num_parts), np.float16)
    parts = zip(np.split(vectors, num_parts, 1), np.split(spread, num_parts), strict=True)
    for number, (own, scale) in enumerate(parts):
        standardised = own.astype(np.float32) / scale
        different = len(np.unique(standardised[sampled], axis=0))
        means = KMeans(min(NUM_CENTROIDS, different), max_iter=30, random_state=0)
        means.fit(standardised[sampled])
        codes[:, number] = means.predict(standardised)
        centroids[number, : means.n_clusters] = means.cluster_centers_ * scale
    return CodedVectors(codes, centroids)
