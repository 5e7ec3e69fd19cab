"""Populations of inputs whose failure rates are known exactly, to judge calibrations by.

`HALF_SPACE` is a surrogate that errs in both directions. `WORST` attains the bound `gamma / (1 - beta)`: its
family issues the ceiling or nothing, and the true probability lies just below the ceiling.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rrise.statistics import Calibration, Score

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Inputs:
    top_probability: Array
    true_probability: Array  # of the surrogate's class

    def __getitem__(self, rows: object) -> "Inputs":
        return Inputs(self.top_probability[rows], self.true_probability[rows])  # type: ignore[index]


def half_space(rng: np.random.Generator, count: int) -> Inputs:
    """An input is its signed distance to a hyperplane in units of sigma: p of class 1 is Phi(distance)."""
    distance = rng.normal(0.8, 1.0, count)
    predicted = stats.norm.cdf(1.2 * distance + 0.3 * np.sin(3 * distance) + 0.1)
    truth = stats.norm.cdf(distance)
    positive = predicted >= 0.5
    return Inputs(np.where(positive, predicted, 1 - predicted), np.where(positive, truth, 1 - truth))


JUDGES = half_space(np.random.default_rng(2024), 10_000)
"""Fresh inputs, the same for all calibrations: the rates of their population up to 0.001 or so."""


def wrong_rates(fitted: Calibration, judges: Inputs = JUDGES) -> tuple[float, float]:
    """Return how often a bound is issued and wrong: among all inputs, and among the issued ones."""
    bound = fitted.lower_bound(judges.top_probability)
    issued = bound > 0.5
    wrong = issued & (bound > judges.true_probability)
    return float(wrong.mean()), float(wrong.sum() / max(1, issued.sum()))


WORST = Score(
    "worst",
    residual=lambda u, allowed, ceiling: np.where(allowed >= ceiling, -10.0, u),
    bound=lambda u, offset, ceiling: np.where(u > offset, ceiling, 0.0),
)
"""Issues the ceiling where the surrogate's number is above the offset, and abstains elsewhere."""


def worst_votes(rng: np.random.Generator, shape: tuple[int, ...], n: int, beta: float) -> NDArray[np.int64]:
    """Votes of inputs whose true probability lies just below the ceiling: unanimous with chance `beta`."""
    ceiling = beta ** (1 / n)
    return rng.binomial(n, np.nextafter(ceiling, 0), shape)


def within(observed: Array, promised: float, errors: float = 4.0) -> bool:
    """Tell whether rates are on average at most what was promised, up to some standard errors."""
    return bool(observed.mean() <= promised + errors * observed.std() / len(observed) ** 0.5)
