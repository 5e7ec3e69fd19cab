"""The calibrated bound and radius as a table, for runtimes that have no normal quantile.

Bound and radius never decrease as the top probability grows. The table holds the bound and radius at each
knot. The last knot not above a top probability gives a bound and radius that are never above the exact ones.
The look-up only compares and does no arithmetic, so this holds in every runtime and precision.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rrise.errors import SettingError
from rrise.statistics import Calibration, float32_below
from rrise.votes.noise import Noise

Single = NDArray[np.float32]

RADIUS_STEP = 2e-5
"""How far a radius may be below the exact one; for `sigma` above 1, as a share of `sigma`."""
BOUND_STEP = 1e-4
"""How far a bound up to 1/2 may be below the exact one."""
MARGIN = 1e-9
"""Subtracted from every number: more than the rounding errors of SciPy's quantiles."""
_PAST_THE_END = 2.0
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class BoundTable:
    """Knots `[rows, columns]`, ascending row by row, and the bound and radius of each, flattened.

    All are float32: knots are rounded up, bounds and radii down. The first knot is 0, and its bound
    and radius are 0.
    """

    knots: Single
    lower_bound: Single
    radius: Single

    @classmethod
    def of(cls, calibration: Calibration, noise: Noise) -> "BoundTable":
        """Build the table of a calibration for a noise.

        Guarantee: for a top probability `q` in float32, the bound of `look_up` is at most
        `calibration.lower_bound(q)`, and its radius is at most that of this exact bound. Each is below the
        exact value by at most a step, plus `MARGIN` and the rounding to float32. The step is
        `RADIUS_STEP * max(1, sigma)` for radii and `BOUND_STEP` for bounds.
        """
        highest = float(calibration.lower_bound(1.0))
        knots = _smallest_with(calibration, _wanted_bounds(highest, noise))
        exact = calibration.lower_bound(knots)
        if np.any(np.diff(exact) < 0):
            raise SettingError(
                f"the score {calibration.score.name!r} cannot be exported: its bound falls where the top "
                f"probability grows"
            )
        bound = float32_below(np.maximum(exact - MARGIN, 0.0))
        radius = np.maximum(noise.radius(exact) - MARGIN, 0.0)
        radius = np.where(bound > 0.5, float32_below(radius), np.float32(0))
        columns = int(np.ceil(np.sqrt(len(knots))))
        missing = -len(knots) % columns
        return cls(
            np.pad(_up(knots), (0, missing), constant_values=_PAST_THE_END).reshape(-1, columns),
            np.pad(bound, (0, missing), mode="edge"),
            np.pad(radius, (0, missing), mode="edge"),
        )

    def look_up(self, top_probability: Single) -> tuple[Single, Single]:
        """Return bound and radius of each top probability, as the exported graph does; both 0 for NaN."""
        ordered = np.where(np.isnan(top_probability), -1, top_probability)
        place = np.maximum(np.searchsorted(self.knots.ravel(), ordered, side="right") - 1, 0)
        return self.lower_bound[place], self.radius[place]


def _wanted_bounds(highest: float, noise: Noise) -> NDArray[np.float64]:
    """Return the bounds of the knots: in steps of the bound up to 1/2, of the radius above."""
    low = np.arange(BOUND_STEP, min(highest, 0.5), BOUND_STEP)
    if highest <= 0.5:
        return np.append(low, highest) if highest > 0 else low
    step = RADIUS_STEP * max(1.0, noise.sigma) / noise.sigma
    high = noise.bound(np.arange(step, float(noise.radius_in_sigma(highest)), step))
    return np.concatenate([low, [0.5], high[high < highest], [highest]])


def _smallest_with(calibration: Calibration, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 0 and the smallest top probabilities with these bounds, to the last bit, by bisection."""
    low, high = np.zeros_like(bounds), np.ones_like(bounds)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = calibration.lower_bound(middle) >= bounds
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.append(0.0, np.maximum.accumulate(high))


def _up(values: NDArray[np.float64]) -> Single:
    """Return the smallest float32 numbers that are not below the values."""
    return -float32_below(-values)
