"""The loss curve L(N, D) = E + A · N^-α + B · D^-β of N parameters and D pieces, fitted to runs.

    runs (1.5M, 1M): 5.9   (5.2M, 1M): 5.6   (1.5M, 4M): 5.1   …      →  E 3.1, α 0.34, β 0.28

The fit minimises the Huber loss (δ = 1e-3) of log L, so that single runs that went wrong hardly count (Hoffmann et al.
2022, section 3.3 and equation 3). Given α and β the curve is linear in E, A and B, so a grid over α and β with
non-negative least squares finds the start of the search, instead of thousands of random starts.

Five numbers need runs that differ in both: three sizes and three budgets at least. With so few of them the exponents
are rough; `spread` shows how far they move when a run is left out. n runs.
"""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

LEAST_EACH, LEAST_RUNS = 3, 6  # five constants are fitted: with fewer sizes, budgets or runs many of them fit alike
LOSS_DELTA = 1e-3  # of the Huber loss on log L, as Hoffmann et al. 2022 have it, so that one bad run does not rule
LOW, HIGH = 0.02, 3.0
"""The exponents that are searched."""
EXPONENTS = np.geomspace(LOW, HIGH, 24)
STARTS = 4  # the loss has several minima; the best points of the grid are begun from


class FinishedRun(NamedTuple):
    """A finished training run."""

    parameters: float
    pieces: float
    loss: float
    """Nats."""


@dataclass(frozen=True)
class Curve:
    """A fitted curve."""

    irreducible: float
    """E, nats."""
    size_factor: float
    size_exponent: float
    """A and α."""
    data_factor: float
    data_exponent: float
    """B and β."""
    largest_error: float = 0.0
    """Of all runs, as a share of the loss."""
    at_bound: bool = False
    """Whether an exponent is at the end of what was searched, so that the runs do not determine it."""
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest E, α and β when each run is left out in turn."""

    def loss(self, parameters: Any, pieces: Any) -> Any:
        """Nats, of numbers or arrays."""
        size, data = (np.asarray(given, float) for given in (parameters, pieces))
        return (
            self.irreducible
            + self.size_factor * size**-self.size_exponent
            + self.data_factor * data**-self.data_exponent
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return asdict(self)


def refusal(runs: Sequence[FinishedRun]) -> str:
    """Why no curve can be fitted to these runs; empty where one can."""
    sizes, budgets = len({run.parameters for run in runs}), len({run.pieces for run in runs})
    if sizes >= LEAST_EACH and budgets >= LEAST_EACH and len(runs) >= LEAST_RUNS:
        return ""
    return (
        f"no curve: its five numbers need at least {LEAST_EACH} sizes, {LEAST_EACH} budgets and {LEAST_RUNS} runs, and "
        f"there are {sizes} sizes, {budgets} budgets and {len(runs)} runs"
    )


def fit_curve(runs: Sequence[FinishedRun]) -> Curve:
    """Return the curve of the runs; `ValueError` where there are too few, or a loss that is not positive and finite."""
    if message := refusal(runs):
        raise ValueError(message)
    values = np.array(runs, float)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError("a loss, a size or a budget is not positive and finite, so no curve can be fitted")
    # In units of the geometric mean, so that all numbers are near 1.
    units = np.exp(np.log(values[:, :2]).mean(0))
    scaled = np.column_stack([values[:, :2] / units, values[:, 2]])
    best = min((_refined(scaled, start) for start in _starts(scaled)), key=lambda fit: fit[1])[0]
    others = [_refined(np.delete(scaled, n, 0), best)[0] for n in range(len(runs))] if len(runs) > LEAST_RUNS else []
    curve = _curve(best, units)
    errors = np.abs(curve.loss(values[:, 0], values[:, 1]) / values[:, 2] - 1)
    named = {"irreducible": 0, "size_exponent": 3, "data_exponent": 4}
    return Curve(
        *(getattr(curve, name) for name in list(Curve.__dataclass_fields__)[:5]),
        largest_error=float(errors.max()),
        at_bound=any(not LOW * 1.01 < exponent < HIGH / 1.01 for exponent in best[3:]),
        spread={
            name: (float(min(estimates)), float(max(estimates)))
            for name, place in named.items()
            if (estimates := [np.exp(other[place]) if place < 3 else other[place] for other in others])
        },
    )


def _starts(values: np.ndarray) -> list[np.ndarray]:
    """Return the best points of the grid: (log E, log A, log B, α, β), in scaled units."""
    from scipy.optimize import nnls

    size, data, loss = values.T
    starts = []
    for alpha, beta in itertools.product(EXPONENTS, EXPONENTS):
        columns = np.column_stack([np.ones_like(size), size**-alpha, data**-beta]) / loss[:, None]
        factors, distance = nnls(columns, np.ones_like(loss))
        starts.append((distance, [*np.log(np.maximum(factors, 1e-6)), alpha, beta]))
    return [np.array(start) for _, start in sorted(starts, key=lambda pair: pair[0])[:STARTS]]


def _refined(values: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the robust optimum near a start, and its cost."""
    from scipy.optimize import least_squares

    size, data, loss = np.log(values.T)

    def errors(given: np.ndarray) -> np.ndarray:
        e, a, b, alpha, beta = given
        return np.logaddexp(np.logaddexp(e, a - alpha * size), b - beta * data) - loss

    bounds = ([-20, -20, -20, LOW, LOW], [20, 20, 20, HIGH, HIGH])  # e^20 is 5e8: factors of any unit that is in use
    inside = np.clip(start, np.add(bounds[0], 1e-6), np.subtract(bounds[1], 1e-6))
    # the valley is flat along E, so the default tolerances stop early
    optimum = least_squares(errors, inside, bounds=bounds, loss="huber", f_scale=LOSS_DELTA, xtol=1e-12, ftol=1e-12)
    return optimum.x, float(optimum.cost)


def _curve(point: np.ndarray, units: np.ndarray) -> Curve:
    """In parameters and pieces."""
    e, a, b, alpha, beta = point
    size_factor, data_factor = np.exp(a) * units[0] ** alpha, np.exp(b) * units[1] ** beta
    return Curve(float(np.exp(e)), float(size_factor), float(alpha), float(data_factor), float(beta))
