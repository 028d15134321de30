"""Maps of vectors that are fitted to a sample without labels: what is done to vectors before they are compared.

    transform = TRANSFORMS["standardised"].fit(sample)      # (n, d)
    transform.apply(vectors)                                # (..., d) → (..., d), float32
    TRANSFORMS["standardised"].from_arrays(transform.arrays())

    raw            x
    standardised   (x - mean) / deviation, each dimension by itself; a constant dimension is only centred
    top-removed    x - mean without its part along the first k principal components of the sample; k = d / 100
    whitened       standardised(x) · C^(-1/2), where C = (1 - s) · correlations of the sample + s · I

A few dimensions with large means and variances dominate the cosines of raw states; each of the maps takes away more of
that. The shrinkage s is Ledoit and Wolf's, of the standardised sample, so that no large dimension decides it: near 0
for a large sample, larger where n is not above d.

Sources: Timkey and van Schijndel 2021 (standardising); Mu and Viswanath 2018, *All-but-the-top*; Su et al. 2021 and
Kessy et al. 2018 (whitening; here ZCA-cor); Ledoit and Wolf 2004, equations 14 to 17.
Letters: n vectors of the sample, d width, k components.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

BLOCK_ROWS = 4096  # rows that are float64 at once


@dataclass(frozen=True, eq=False)
class Transform(ABC):
    """A fitted map; its fields are its arrays."""

    name: ClassVar[str]

    @classmethod
    def fit(cls, sample: np.ndarray) -> "Transform":
        """Return the map for `sample` (n, d); raises `ValueError` for another shape and for an empty sample."""
        if sample.ndim != 2 or not sample.size:
            raise ValueError(f"a transform is fitted to vectors (n, d), got an array of shape {sample.shape}")
        return cls._fit(sample)

    @classmethod
    @abstractmethod
    def _fit(cls, sample: np.ndarray) -> "Transform": ...

    @staticmethod
    @abstractmethod
    def shapes(width: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays for vectors of this width."""

    @abstractmethod
    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """Return the image of `vectors` (..., d), float32."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` needs, float32."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Transform":
        """Return the map that gave these arrays; others beside them are ignored. `KeyError` where one is missing."""
        return cls(**{field.name: np.asarray(arrays[field.name], np.float32) for field in fields(cls)})


class Raw(Transform):
    """Vectors as they are."""

    name = "raw"

    @staticmethod
    def shapes(width: int) -> dict[str, tuple[int, ...]]:
        return {}

    @classmethod
    def _fit(cls, sample: np.ndarray) -> "Raw":
        return cls()

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(vectors, np.float32)


@dataclass(frozen=True, eq=False)
class Standardised(Transform):
    """Each dimension with mean 0 and variance 1."""

    name: ClassVar[str] = "standardised"
    mean: np.ndarray  # (d,)
    deviation: np.ndarray  # (d,)

    @staticmethod
    def shapes(width: int) -> dict[str, tuple[int, ...]]:
        return {"mean": (width,), "deviation": (width,)}

    @classmethod
    def _fit(cls, sample: np.ndarray) -> "Standardised":
        mean = sample.mean(0, dtype=np.float64)
        variance = sum(np.square(block).sum(0) for block in _centred(sample, mean)) / len(sample)
        # a smaller variance is rounding of the mean, and the dimension constant
        deviation = np.where(variance > 1e-12 * np.square(mean), np.sqrt(variance), 1)
        return cls(mean.astype(np.float32), deviation.astype(np.float32))

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return (np.asarray(vectors, np.float32) - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class TopRemoved(Transform):
    """Centred vectors without their part along the sample's first principal components."""

    name: ClassVar[str] = "top-removed"
    mean: np.ndarray  # (d,)
    components: np.ndarray  # (k, d), orthonormal

    @staticmethod
    def shapes(width: int) -> dict[str, tuple[int, ...]]:
        return {"mean": (width,), "components": (_num_removed(width), width)}

    @classmethod
    def _fit(cls, sample: np.ndarray) -> "TopRemoved":
        return cls.fit_components(sample, _num_removed(sample.shape[1]))

    @classmethod
    def fit_components(cls, sample: np.ndarray, count: int) -> "TopRemoved":
        """Fit with `count` components instead of d / 100."""
        mean, covariance, _ = shrunk_covariance(sample)
        axes = np.linalg.eigh(covariance)[1][:, ::-1].T[:count]
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])  # so that equal samples give equal bytes
        return cls(mean.astype(np.float32), (axes * signs[:, None]).astype(np.float32))

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        centred = np.asarray(vectors, np.float32) - self.mean
        return centred - centred @ self.components.T @ self.components


@dataclass(frozen=True, eq=False)
class Whitened(Transform):
    """Dimensions that are uncorrelated in the sample and have variance 1, each as near as can be to what it was."""

    name: ClassVar[str] = "whitened"
    mean: np.ndarray  # (d,)
    deviation: np.ndarray  # (d,)
    matrix: np.ndarray  # (d, d), symmetric

    @staticmethod
    def shapes(width: int) -> dict[str, tuple[int, ...]]:
        return {"mean": (width,), "deviation": (width,), "matrix": (width, width)}

    @classmethod
    def _fit(cls, sample: np.ndarray) -> "Whitened":
        scaled = Standardised._fit(sample)
        _, covariance, shrinkage = shrunk_covariance(scaled.apply(sample))
        values, axes = np.linalg.eigh((1 - shrinkage) * covariance + shrinkage * np.eye(len(covariance)))
        scale = np.where(values > 1e-9 * max(values[-1], 1), 1 / np.sqrt(np.maximum(values, 1e-30)), 0)
        return cls(scaled.mean, scaled.deviation, (axes * scale @ axes.T).astype(np.float32))

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        return (np.asarray(vectors, np.float32) - self.mean) / self.deviation @ self.matrix


TRANSFORMS: dict[str, type[Transform]] = {kind.name: kind for kind in (Raw, Standardised, TopRemoved, Whitened)}


def shrunk_covariance(sample: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the mean (d,) and the covariance (d, d) of a sample, and Ledoit and Wolf's shrinkage from 0 to 1."""
    mean, size = sample.mean(0, dtype=np.float64), len(sample)
    total, fourth = np.zeros((len(mean), len(mean))), 0.0
    for block in _centred(sample, mean):
        total += block.T @ block
        fourth += float(np.square(np.square(block).sum(1)).sum())
    covariance = total / size
    squared = float(np.square(covariance).sum())
    distance = squared - np.trace(covariance) ** 2 / len(mean)  # of the covariance from the multiple of I
    error = (fourth / size - squared) / size  # expected, of the covariance itself
    return mean, covariance, float(np.clip(error / distance, 0, 1)) if distance > 1e-12 * squared else 1.0


def _num_removed(width: int) -> int:
    """k, of the vectors' width d."""
    return max(1, round(width / 100))


def _centred(sample: np.ndarray, mean: np.ndarray) -> Iterator[np.ndarray]:
    """Return the sample minus its mean, in float64, a block of rows at a time."""
    return (sample[start : start + BLOCK_ROWS].astype(np.float64) - mean for start in range(0, len(sample), BLOCK_ROWS))
