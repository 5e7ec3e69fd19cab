"""The calibrated bound and radius as a table, for runtimes that have no normal quantile.

Bound and radius never decrease as the top probability grows. The table holds the bound and radius at each
knot. The last knot not above a top probability gives a bound and radius that are never above the exact ones.
The look-up only compares and does no arithmetic, so this holds in every runtime and precision.

A bound just above 1/2 is rounded down to 1/2, and stays issued. So the table issues for the same inputs as
the calibration. The promise `issued` needs this: it is about a share of the issued ones.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rrise.errors import SettingError
from rrise.statistics import Calibration, all_over, float32_below
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
    """Knots `[groups, rows, columns]`, ascending row by row, and the bound and radius of each knot.

    All are float32: knots are rounded up, bounds and radii down. The first knot of a group is 0, and its
    bound and radius are 0. `groups` is the group of each class; None: there is one group.
    """

    knots: Single
    lower_bound: Single
    radius: Single
    groups: tuple[int, ...] | None = None

    @classmethod
    def of(cls, calibration: Calibration, noise: Noise) -> "BoundTable":
        """Build the table of a calibration for a noise.

        Guarantee: for a top probability `q` in float32, the bound of `look_up` is at most
        `calibration.lower_bound(q)`, and its radius is at most that of this exact bound. Each is below the
        exact value by at most a step, plus `MARGIN` and the rounding to float32. The step is
        `RADIUS_STEP * max(1, sigma)` for radii and `BOUND_STEP` for bounds.
        """
        number = len(calibration.offsets)
        parts = [_of_group(calibration.of_group(group), noise) for group in range(number)]
        columns = int(np.ceil(np.sqrt(max(len(knots) for knots, _, _ in parts))))
        shape = number, -1, columns
        size = columns * -(-max(len(knots) for knots, _, _ in parts) // columns)
        knots = [np.pad(one, (0, size - len(one)), constant_values=_PAST_THE_END) for one, _, _ in parts]
        bound = [np.pad(one, (0, size - len(one)), mode="edge") for _, one, _ in parts]
        radius = [np.pad(one, (0, size - len(one)), mode="edge") for _, _, one in parts]
        return cls(np.stack(knots).reshape(shape), np.stack(bound), np.stack(radius), calibration.groups)

    def look_up(
        self, top_probability: Single, label: NDArray[np.int64] | None = None
    ) -> tuple[Single, Single]:
        """Return bound and radius of each top probability, as the exported graph does; both 0 for NaN.

        `label` is the class; it is needed only if there are groups.
        """
        ordered = np.where(np.isnan(top_probability), -1, top_probability)
        group = np.zeros(len(ordered), dtype=np.int64)
        if self.groups is not None:
            assert label is not None
            group = np.asarray(self.groups)[label]
        bound, radius = np.zeros_like(ordered), np.zeros_like(ordered)
        for number, knots in enumerate(self.knots):
            mine = group == number
            place = np.maximum(np.searchsorted(knots.ravel(), ordered[mine], side="right") - 1, 0)
            bound[mine], radius[mine] = self.lower_bound[number][place], self.radius[number][place]
        return bound.astype(np.float32), radius.astype(np.float32)


def _of_group(calibration: Calibration, noise: Noise) -> tuple[Single, Single, Single]:
    """Return knots, bounds and radii of a calibration with one group."""
    highest = float(calibration.lower_bound(1.0))
    knots = _smallest_with(calibration, _wanted_bounds(highest, noise, calibration.rule.floor))
    exact = calibration.lower_bound(knots)
    everywhere = calibration.lower_bound(all_over())
    if np.any(np.diff(exact) < 0) or _falls(everywhere) or _falls(noise.radius(everywhere)):
        raise SettingError(
            f"the score {calibration.score.name!r} cannot be exported: its bound falls where the top "
            f"probability grows"
        )
    exact[0] = 0.0  # also for what is no number
    bound = float32_below(np.maximum(exact - MARGIN, 0.0))
    bound = np.where(exact > 0.5, np.maximum(bound, np.float32(0.5)), bound)
    radius = np.maximum(noise.radius(exact) - MARGIN, 0.0)
    return _up(knots), bound, np.where(is_issued(bound), float32_below(radius), np.float32(0))


def is_issued(bound: Single) -> NDArray[np.bool_]:
    """Tell which bounds of a table are issued."""
    return bound >= np.float32(0.5)


def _falls(values: NDArray[np.float64]) -> bool:
    """Whether values fall by more than half of what is subtracted from them anyway."""
    return bool(np.any(np.maximum.accumulate(values) - values > MARGIN / 2))


def _wanted_bounds(highest: float, noise: Noise, floor: float) -> NDArray[np.float64]:
    """Return the bounds of the knots: in steps of the bound up to 1/2, of the radius above.

    Bounds up to the floor are 0 and need no knots.
    """
    low = np.arange(BOUND_STEP, min(highest, 0.5), BOUND_STEP)
    low = low[low > floor]
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
