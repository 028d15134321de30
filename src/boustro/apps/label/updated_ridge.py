"""Ridge regression that examples are added to and taken from, each in time that does not grow with their number.

    W minimises  Σ |y - [x; b] · W|² + |√Λ · (W - W₀)|²        P = (Σ [x; b]ᵀ [x; b] + Λ)⁻¹

Λ is diagonal: strength, and for the constant so many examples as it is to be worth, if that is more.

    ridge = OnlineRidge(width=4, outputs=2, strength=1.0)
    ridge.add(x, y)              the same W as from solving for all examples together, up to rounding
    ridge.remove(x, y)           as if they had never been there
    times(x, ridge.leave_out(x, y))     what the others say of them

A group of n examples changes P by a matrix of rank n, so an update costs n · d² and no system of d equations is solved.
The constant b is large beside a vector's length, so the bias is hardly penalised: scores are up to 0.01 from those of
`heads.closed_form.ridge`, whose bias is free, and 1e-14 from solving for all examples. `P` also says how much is known:
[x; b] · P · [x; b]ᵀ, the leverage, is large for a vector that is unlike all examples.

It learns no strength, see `heads.closed_form.ridge`. Sources: Woodbury's identity; Cook and Weisberg 1982 (leverage).
Letters: n examples of an update, d width, C outputs.
"""

from dataclasses import dataclass

import numpy as np

BIAS = 10.0  # the constant feature: so large that the penalty, which is on all weights, hardly shrinks the constant's


@dataclass(frozen=True, slots=True)
class RidgeUpdate:
    """Difference that an update made: W += `weight` (d + 1, C), P -= `sign` · `root` · `root`ᵀ with `root` (d + 1,
    n)."""

    weight: np.ndarray
    root: np.ndarray
    sign: int

    def scores(self, x: np.ndarray) -> np.ndarray:
        """By how much the scores of vectors (N, d) change, (N, C)."""
        return times(x, self.weight)

    def leverage(self, x: np.ndarray) -> np.ndarray:
        """By how much the leverage of vectors (N, d) changes, (N,)."""
        return -self.sign * np.square(times(x, self.root)).sum(1)


class OnlineRidge:
    """Ridge regression that examples join and leave. `weight` is W (d + 1, C), `inverse` is P (d + 1, d + 1), both
    float64."""

    def __init__(self, width: int, outputs: int, strength: float, constant: float = 0.0) -> None:
        """Without examples, and with W₀ = 0; its constant counts as `constant` examples. `ValueError` for a strength
        that is not above 0."""
        if not strength > 0:
            raise ValueError(f"the strength of a ridge regression must be above 0, not {strength}")
        self.weight = np.zeros((width + 1, outputs))
        self.penalty = np.append(np.full(width, strength), max(strength, constant * BIAS**2))  # Λ
        self.inverse = np.diag(1 / self.penalty)

    def widen(self, start: np.ndarray | None = None) -> None:
        """One more output, which was 0 for all examples so far; `start` (d + 1,) is its column of W₀."""
        column = np.zeros(len(self.weight)) if start is None else self.inverse @ (self.penalty * start)
        self.weight = np.column_stack([self.weight, column])

    def restart(self, outputs: slice, start: np.ndarray) -> None:
        """Begin outputs that were 0 for all examples so far at other columns of W₀, (d + 1, outputs)."""
        self.weight = self.weight.copy()  # snapshots have the old one
        self.weight[:, outputs] = self.inverse @ (self.penalty[:, None] * start)

    def add(self, x: np.ndarray, y: np.ndarray) -> RidgeUpdate:
        """Learn examples x (n, d) with their outputs y (n, C)."""
        return self._apply(self._change(x, y, 1))

    def remove(self, x: np.ndarray, y: np.ndarray) -> RidgeUpdate:
        """Forget examples that were added."""
        return self._apply(self._change(x, y, -1))

    def leave_out(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return (d + 1, C): the weights without these examples, which stay learned."""
        return self.weight + self._change(x, y, -1).weight

    def leverage(self, x: np.ndarray) -> np.ndarray:
        """Return (N,): how much vectors (N, d) are unlike the examples."""
        return np.einsum("nd,nd->n", times(x, self.inverse.astype(np.float32)), with_bias(x))

    def _change(self, x: np.ndarray, y: np.ndarray, sign: int) -> RidgeUpdate:
        if not len(x):
            return RidgeUpdate(np.zeros_like(self.weight), np.zeros((len(self.weight), 0)), sign)
        rows = with_bias(x).astype(np.float64)
        known = self.inverse @ rows.T  # (d + 1, n)
        inner = np.eye(len(rows)) + sign * (rows @ known)
        # P · xᵀ · (I ± x P xᵀ)⁻¹ · x · P is root · rootᵀ, by the Cholesky factor of the middle.
        root = np.linalg.solve(np.linalg.cholesky((inner + inner.T) / 2), known.T).T
        residual = y - rows @ self.weight
        return RidgeUpdate(sign * known @ np.linalg.solve(inner, residual), root, sign)

    def _apply(self, change: RidgeUpdate) -> RidgeUpdate:
        if not change.root.size:
            return change
        self.weight = self.weight + change.weight
        self.inverse = self.inverse - change.sign * (change.root @ change.root.T)
        return change


def with_bias(x: np.ndarray) -> np.ndarray:
    """Return (N, d) → (N, d + 1)"""
    return np.hstack([x, np.full((len(x), 1), BIAS, x.dtype)])


def times(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """[x; b] · weight, (N, C), in the precision of x."""
    weight = weight.astype(x.dtype)
    return x @ weight[:-1] + BIAS * weight[-1]
