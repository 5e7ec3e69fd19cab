"""Early stopping with a predicted gain: Baseline 3 of the paper, whose nominal failure does not hold."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, no_guarantee
from rrise.certifiers.guarantee_words import register_words
from rrise.certifiers.method import Method, register_method
from rrise.certifiers.voting import SELECTION_VOTES, VoteMethod, check_enough_votes, check_whole_number
from rrise.errors import SettingError
from rrise.looks import ORANGE, Look
from rrise.statistics import (
    Level,
    check_budget,
    check_level,
    clopper_pearson_lower,
    exact_level,
    level_text,
)
from rrise.votes.array import votes_for
from rrise.votes.noise import Noise
from rrise.votes.sequence import VoteSequence
from rrise.votes.smoothing import Smoothing

LOOKS = 10
"""The paper divides the budget into this many steps."""
TOLERANCES = (0.01, 0.05)
"""Relative gains at which the paper stops."""


@dataclass(frozen=True)
class EarlyStopping(VoteMethod):
    """Votes in steps of `ceil(n / 10)` until more votes would gain little; Baseline 3 of the paper.

    After each step, the top class of all votes so far has a Clopper–Pearson radius. `predicted_bound`
    predicts its bound for `n` votes. An input is done when `(predicted - now) / predicted` of the radii is
    below `tolerance`, when the predicted radius is 0, or after `n` votes. Its certificate is computed as if
    the number of votes had been fixed beforehand.

    **The nominal failure does not hold**: the votes decide when to stop, and which class is bounded. In
    simulations with two classes, the rate of wrong certificates was up to 1.1 times `failure` at a tolerance
    of 0.05, and 1.4 times at 0.3. The proven bound is 20 times `failure`: twice `failure` at each of ten
    looks. This method is here for comparison.

    Attributes:
        n: the most votes per input.
        tolerance: the relative gain of the radius below which voting stops.
        failure: the nominal failure of the bounds, which does not hold.

    Raises:
        SettingError: a setting is invalid, or `n` votes can never certify at this failure.

    Example:
        >>> import numpy as np, torch
        >>> base = torch.nn.Linear(4, 3)
        >>> certifier = EarlyStopping(200, tolerance=0.1, failure=0.01).bind(base, sigma=0.25, seed=0)
        >>> certifier.certify(np.full((2, 4), 0.5)).guarantee.failure_text
        'none'
    """

    n: int
    tolerance: float
    failure: Level = 0.001

    def __post_init__(self) -> None:
        check_whole_number(self, "n")
        check_budget(self.n, float(exact_level(self.failure, "failure")), "failure")
        if not 0 < self.tolerance < 1:
            raise SettingError(f"expected a tolerance strictly between 0 and 1, got {self.tolerance}")

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return (
            f"early stopping (not valid), n={self.n}, tolerance={self.tolerance:g}, "
            f"failure={level_text(exact_level(self.failure, 'failure'))}"
        )

    @property
    def looks(self) -> list[int]:
        """The numbers of votes at which it may stop."""
        step = math.ceil(self.n / LOOKS)
        return [*range(step, self.n, step), self.n]

    def guarantee(self, smoothing: Smoothing, selection_votes: int = SELECTION_VOTES) -> Guarantee:  # noqa: ARG002
        """Return a guarantee that promises nothing: the votes decide their own number."""
        nominal = exact_level(self.failure, "failure")
        settings = {"largest_budget": self.n, "looks": len(self.looks), "tolerance": self.tolerance}
        return no_guarantee("early-stopping", smoothing, nominal, **settings)

    def certify_votes(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:  # noqa: ARG002
        """Certify from `votes` alone, drawn only for inputs that are not done; `selection` is not used."""
        check_enough_votes(votes, self.n)
        alpha = float(exact_level(self.failure, "failure"))
        counts = np.zeros((len(votes), votes.classes), dtype=np.int64)
        passes = np.zeros(len(votes), dtype=np.int64)
        active, before = np.arange(len(votes)), 0
        for now in self.looks:
            counts[active] += votes.counts(before, now, active)
            passes[active] = now
            active = active[self._goes_on(counts[active].max(axis=1), now, votes.smoothing.noise)]
            before = now
        label = counts.argmax(axis=1)
        return Certificates.from_bound(
            label,
            np.atleast_1d(clopper_pearson_lower(votes_for(counts, label), passes, alpha)),
            guarantee=self.guarantee(votes.smoothing),
            passes=passes,
        )

    def _goes_on(self, agreeing: NDArray[np.int64], now: int, noise: Noise) -> NDArray[np.bool_]:
        alpha = float(exact_level(self.failure, "failure"))
        radius = noise.radius(clopper_pearson_lower(agreeing, now, alpha))
        predicted = noise.radius(predicted_bound(agreeing, now, self.n, alpha))
        return np.asarray((predicted > 0) & (predicted - radius >= self.tolerance * predicted))


def predicted_bound(agreeing: ArrayLike, n_now: ArrayLike, n_final: int, alpha: float) -> NDArray[np.float64]:
    """Return the predicted bound of `n_final` votes, when `agreeing` of `n_now` are for the class.

    It is `p - z sqrt(p (1 - p) / n_final)`, with `p = agreeing / n_now` and `z` the `1 - alpha` quantile of
    the normal distribution. It is at most the bound of `n_final` votes that all agree. The prediction serves
    for planning and proves nothing.

    >>> predicted_bound([600, 990, 1000], 1000, 10_000, alpha=0.001).round(4).tolist()
    [0.5849, 0.9869, 0.9993]
    """
    alpha = check_level(alpha, "alpha")
    proportion = np.asarray(agreeing, dtype=np.float64) / np.asarray(n_now, dtype=np.float64)
    spread = np.sqrt(proportion * (1 - proportion) / n_final)
    bound = proportion + special.ndtri(alpha) * spread
    return np.clip(bound, 0.0, alpha ** (1 / n_final))


register_words(
    "early-stopping",
    why="Bounds are computed as if the number of votes had been fixed beforehand. This is not valid under "
    "optional stopping.",
    nominal="the nominal failure {nominal}, which is not valid under optional stopping: the votes decide "
    "when to stop, and choose the class that they bound.",
)
EARLY_STOPPING = register_method(
    Method(
        "Baseline 3",
        label="Baseline 3: early stopping, not valid",
        about="Stops when the predicted gain is small, then bounds as if the number of votes had been fixed "
        "(after Voracek, 2024); its nominal failure does not hold.",
        order=3,
        look=Look(ORANGE, (6, 1.5, 1.5, 1.5), "v", "\\\\\\"),
        in_paper=True,
        variants=lambda n, failure: [
            (f"n{n}_tol{tolerance:g}", partial(EarlyStopping, n, tolerance, failure))
            for tolerance in TOLERANCES
        ],
        main_variant="n{n}_tol0.01",
        paper_variant="tol0.01",
        paper_break_even="tol0.05",
        abbreviation="B3",
        caution="As in the paper, a bound for a fixed number of votes is used at a stopping time that "
        "depends on the votes: it is not valid under optional stopping; its failure is not promised and can "
        "be exceeded.",
    )
)
