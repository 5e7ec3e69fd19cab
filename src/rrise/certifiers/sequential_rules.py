"""What the sequential method certifies at a look, and which inputs it then votes on further."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rrise.certifiers.voting import SELECTION_VOTES
from rrise.errors import SettingError
from rrise.statistics import SequentialTest, anytime_lower, fewest_trials, sequential_test
from rrise.votes.noise import Noise

LOOKS = 100
"""The default number of looks of an estimate."""
HOPE = 2.0
"""Standard errors added to the proportion of an input that has no certificate yet."""
WRONG_CLASS = 0.001
"""Selection votes of a decision: enough to miss a class that has the wanted probability at most so often."""
FEWEST_SELECTION = 15
"""The fewest selection votes of a decision: fewer would leave the labels of uncertified inputs to chance."""
FIRST, STEP, GROWTH = 8, 4, 10
"""A decision looks after `FIRST` votes, then after `STEP` more, or a `GROWTH`th more if that is further."""
SMALLER = 0.9
"""Share of the failure at which a decision bounds inputs that miss the wanted radius."""

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


class Rule(Protocol):
    """A rule for certifying and stopping; `look` is a place in `looks`."""

    @property
    def selection(self) -> int:
        """The number of votes that choose the label."""

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of votes at which it looks, without selection votes."""

    def bound(self, agreeing: Counts, look: int) -> Array:
        """Return what `agreeing` votes for the label prove."""

    def goes_on(self, bound: Array, agreeing: Counts, look: int) -> NDArray[np.bool_]:
        """Tell which inputs need more votes; `bound` is the largest of each so far."""


@dataclass(frozen=True)
class Estimate:
    """Bounds the probability at each look, and stops where more votes would gain little.

    Attributes:
        n: the most votes, selection included.
        alpha: the failure.
        noise: the noise, which turns bounds into radii.
        tolerance: the relative gain of the radius below which voting stops.
        radius: the radius at which voting stops.
        selection: votes that choose the label.
        step: votes between two looks.
    """

    n: int
    alpha: float
    noise: Noise
    tolerance: float | None
    radius: float | None
    selection: int
    step: int | None

    @cached_property
    def looks(self) -> tuple[int, ...]:
        """Looks at equal distances; the last one after all votes."""
        last = self.n - self.selection
        step = math.ceil(self.n / LOOKS) if self.step is None else self.step
        return (*range(step, last, step), last)

    def bound(self, agreeing: Counts, look: int) -> Array:
        """Return the anytime-valid bound."""
        return anytime_lower(agreeing, self.looks[look], self.alpha)

    def goes_on(self, bound: Array, agreeing: Counts, look: int) -> NDArray[np.bool_]:
        """Go on where neither the radius is reached nor little is to be gained."""
        seen, last = self.looks[look], self.looks[-1]
        radius = self.noise.radius(bound)
        goes_on = np.full(bound.shape, seen < last)
        if self.radius is not None:
            goes_on &= radius < self.radius
        if self.tolerance is not None and seen < last:
            predicted = self.noise.radius(self._predicted(bound, agreeing, seen, last))
            goes_on &= (predicted > 0) & (predicted - radius >= self.tolerance * predicted)
        return goes_on

    def _predicted(self, bound: Array, agreeing: Counts, seen: int, last: int) -> Array:
        """Return the predicted bound after all votes."""
        proportion = agreeing / seen
        error = np.sqrt(proportion * (1 - proportion) / seen)
        hoped = np.minimum(np.where(bound > 0.5, proportion, proportion + HOPE * error), 1.0)
        return anytime_lower(np.floor(hoped * last), last, self.alpha)


@dataclass(frozen=True)
class Decision:
    """Decides whether a radius is certified, with as few votes as possible.

    It runs the exact `sequential_test` of the bound `p0` that proves the radius. An input that is accepted
    gets the bound `p0`. Any other gets the anytime-valid bound at `SMALLER * alpha`, but at most `cap`: the
    largest proportion that the test accepts with a probability of at most `(1 - SMALLER) * alpha`.

    Guarantee: given the selection votes, the probability that a bound ever exceeds the probability `p` of the
    label is at most `alpha`. If `p >= p0`, neither bound exceeds `p`. If `cap < p < p0`, only acceptance is
    wrong, and its probability is at most `alpha`. If `p <= cap`, the probability of acceptance is at most
    `(1 - SMALLER) * alpha`, and the anytime-valid bound ever exceeds `p` with at most `SMALLER * alpha`.

    Attributes:
        n: the most votes, selection included.
        alpha: the failure.
        noise: the noise, which turns bounds into radii.
        radius: the wanted radius.
        wanted_selection: votes that choose the label; None: enough for a class of probability `p0`.
        step: votes between two looks; None: looks at growing distances.

    Raises:
        SettingError: `n` votes can never certify the radius.
    """

    n: int
    alpha: float
    noise: Noise
    radius: float
    wanted_selection: int | None
    step: int | None

    def __post_init__(self) -> None:
        what = f"a radius of {self.radius:g} at sigma={self.noise.sigma:g} and failure={self.alpha:g}"
        if self.p0 >= 1:
            raise SettingError(f"no number of votes can certify {what}: ask for a smaller one")
        enough = self.selection + fewest_trials(self.p0, self.alpha)
        if self.n < enough:
            raise SettingError(
                f"{self.n} votes, {self.selection} of them for selection, can never certify {what}: use at "
                f"least {enough}"
            )

    @cached_property
    def p0(self) -> float:
        """The smallest bound that proves the radius, after rounding."""
        bound = float(self.noise.bound(self.radius / self.noise.sigma))
        while bound < 1.0 and self.noise.radius(bound) < self.radius:
            bound = math.nextafter(bound, 1.0)
        return bound

    @cached_property
    def selection(self) -> int:
        """The wanted number, or the fewest votes in which a class of probability `p0` has the majority."""
        if self.wanted_selection is not None:
            return self.wanted_selection
        votes = np.arange(FEWEST_SELECTION, SELECTION_VOTES)
        enough = np.asarray(stats.binom.cdf(votes // 2, votes, self.p0) <= WRONG_CLASS)
        return int(votes[enough.argmax()]) if enough.any() else SELECTION_VOTES

    @cached_property
    def looks(self) -> tuple[int, ...]:
        """Looks at growing distances, since near `p0` a few votes more change nothing."""
        last = self.n - self.selection
        if self.step is not None:
            return (*range(self.step, last, self.step), last)
        looks = [min(FIRST, last)]
        while looks[-1] < last:
            looks.append(min(last, looks[-1] + max(STEP, looks[-1] // GROWTH)))
        return tuple(looks)

    @cached_property
    def test(self) -> SequentialTest:
        """The test of `p0`."""
        return sequential_test(self.p0, self.looks, self.alpha)

    @cached_property
    def cap(self) -> float:
        """The largest bound of an input that was not accepted."""
        return self.test.proportion_accepted_with((1 - SMALLER) * self.alpha)

    def bound(self, agreeing: Counts, look: int) -> Array:
        """Return `p0` where the test accepts, and the smaller bound elsewhere."""
        smaller = np.minimum(anytime_lower(agreeing, self.looks[look], SMALLER * self.alpha), self.cap)
        return np.where(agreeing >= self.test.accept[look], self.p0, smaller)

    def goes_on(self, bound: Array, agreeing: Counts, look: int) -> NDArray[np.bool_]:
        """Go on where the test has neither accepted nor given up."""
        undecided = (bound < self.p0) & (agreeing > self.test.hopeless[look])
        return np.asarray(undecided & (self.looks[look] < self.looks[-1]))
