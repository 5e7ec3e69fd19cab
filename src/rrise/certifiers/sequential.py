"""Sequential certification: may stop at any time, and its promise still holds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, per_input_guarantee
from rrise.certifiers.guarantee_words import register_words
from rrise.certifiers.method import Method, register_method
from rrise.certifiers.sequential_rules import Decision, Estimate, Rule
from rrise.certifiers.voting import SELECTION_VOTES, VoteMethod, check_enough_votes, check_whole_number
from rrise.errors import SettingError
from rrise.looks import SKY, Look
from rrise.statistics import Level, anytime_lower, check_level, exact_level, level_text
from rrise.votes.noise import Noise
from rrise.votes.sequence import VoteSequence
from rrise.votes.smoothing import Smoothing

TOLERANCES = (0.01, 0.05)
"""Relative gains at which evaluations stop, the same as for Baseline 3."""

_LARGEST = 0.493
"""The largest failure for which an anytime-valid bound is defined at a proportion of one half."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SequentialLook:
    """What is certified at one look, one entry per input.

    Attributes:
        votes: votes so far, selection included.
        counted: votes so far that count for the bound.
        label: the class that the selection votes chose.
        agreeing: counted votes for the label; for an input that is done, their number at that time.
        lower_bound: the largest bound so far, valid at any stopping time.
        passes: votes drawn per input.
    """

    votes: int
    counted: int
    label: NDArray[np.int64]
    agreeing: NDArray[np.int64]
    lower_bound: Array
    passes: NDArray[np.int64]


@dataclass(frozen=True)
class Sequential(VoteMethod):
    """Votes until the wanted radius is decided, or until more votes would gain little.

    The first votes choose the label. The others are looked at again and again: they bound the label's
    probability.

    **With `radius` alone, it decides.** Is the radius certified? An exact test of the bound that proves it
    says yes, gives up, or asks for more votes. It looks after 8 votes, then after each tenth more. An input
    far from the question takes some dozens of votes. Giving up costs few certificates where `n` is large: an
    input that the votes after selection, looked at once, would certify with a probability of 95 % is given
    up with one of at most 5 %. A certified input gets the wanted radius. An input that misses it may still
    get a smaller one.

    **Otherwise it estimates.** `anytime_lower` bounds the probability at each look, and the largest bound so
    far counts. An input is done when `(predicted - now) / predicted` of the radii is below `tolerance`, when
    its radius reaches `radius`, or after `n` votes. Without `tolerance`, it takes `n` votes. The predicted
    radius is that of `n` votes in the proportion seen so far. While an input has no certificate, the
    proportion is raised by two standard errors: voting stops early only if a certificate is unlikely.
    Predictions only decide when to stop.

    Guarantee: valid for each input at `failure` under any stopping rule, including these. The probability
    that any of the bounds exceeds the true probability is at most `failure`. A decision that gave up is
    final: nothing is promised to whoever goes on. The price of an estimate is votes: at the same number, the
    radius is smaller than that of a Clopper–Pearson bound, which allows only one look.

    Attributes:
        n: the most votes per input, selection included.
        failure: the allowed probability of a wrong certificate.
        tolerance: the relative gain of the radius below which voting stops; None: never for that reason.
        radius: the wanted radius; None: the largest.
        selection: votes that choose the label. Default: 100; for a decision, the fewest from 15 to 100 that
            find a class of the wanted probability in 999 of 1,000 cases (15 for a radius of `sigma`), or 100
            if so few do not.
        step: votes between two looks. Default: `ceil(n / 100)`; for a decision, growing steps.

    Raises:
        SettingError: a setting is invalid, or `n` votes can never certify at this failure.

    Example:
        >>> import numpy as np, torch
        >>> base = torch.nn.Linear(4, 3)
        >>> certifier = Sequential(500, failure=0.01, radius=0.1).bind(base, sigma=0.25, seed=0)
        >>> bool((certifier.certify(np.full((2, 4), 0.5)).passes <= 500).all())
        True
    """

    n: int
    failure: Level = 0.001
    tolerance: float | None = None
    radius: float | None = None
    selection: int | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if self.selection is None and (self.radius is None or self.tolerance is not None):
            object.__setattr__(self, "selection", SELECTION_VOTES)
        for name in ("n", "selection", "step"):
            if getattr(self, name) is None:
                continue
            check_whole_number(self, name)
            if getattr(self, name) < 1:
                raise SettingError(f"expected {name} to be at least 1 vote, got {getattr(self, name)}")
        if self.tolerance is not None:
            check_level(self.tolerance, "tolerance")
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise SettingError(f"expected a positive radius to stop at, got {self.radius}")
        if self.radius is not None:
            object.__setattr__(self, "radius", float(self.radius))
        failure = float(exact_level(self.failure, "failure"))
        if failure >= _LARGEST:
            raise SettingError(f"expected failure below {_LARGEST}, got {self.failure}")
        enough = _fewest_votes(failure)
        if self.selection is not None and self.n - self.selection < enough:
            raise SettingError(
                f"{self.n} votes, {self.selection} of them for selection, can never certify at "
                f"failure={self.failure}: use at least {self.selection + enough}"
            )

    @property
    def name(self) -> str:
        """What it is called in tables."""
        stops = [
            f"{what}={value:g}"
            for what, value in (("tolerance", self.tolerance), ("radius", self.radius))
            if value is not None
        ]
        level = level_text(exact_level(self.failure, "failure"))
        return ", ".join(["sequential (anytime-valid)", f"n={self.n}", *stops, f"failure={level}"])

    def rule(self, noise: Noise) -> Rule:
        """Return how it certifies and stops under a noise.

        Raises:
            SettingError: `n` votes can never certify the wanted radius.
        """
        alpha = float(exact_level(self.failure, "failure"))
        if self.radius is not None and self.tolerance is None:
            return Decision(self.n, alpha, noise, self.radius, self.selection, self.step)
        selection = SELECTION_VOTES if self.selection is None else self.selection
        return Estimate(self.n, alpha, noise, self.tolerance, self.radius, selection, self.step)

    def guarantee(self, smoothing: Smoothing, selection_votes: int = SELECTION_VOTES) -> Guarantee:  # noqa: ARG002
        """State the guarantee: for each input, at `failure`."""
        rule = self.rule(smoothing.noise)
        settings = {
            "largest_budget": self.n,
            "selection_votes": rule.selection,
            "looks": len(rule.looks),
            "tolerance": self.tolerance,
            "wanted_radius": self.radius,
        }
        failure = exact_level(self.failure, "failure")
        return per_input_guarantee("sequential", failure, smoothing, **settings)

    def certify_votes(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:  # noqa: ARG002
        """Certify from `votes` alone, drawn only for inputs that are not done; `selection` is not used."""
        for look in self.look_by_look(votes):
            last = look
        return self.certificates_at(last, votes.smoothing)

    def certificates_at(self, look: SequentialLook, smoothing: Smoothing) -> Certificates:
        """Return the certificates of a look; they are valid at every look."""
        guarantee = self.guarantee(smoothing)
        return Certificates.from_bound(look.label, look.lower_bound, guarantee=guarantee, passes=look.passes)

    def look_by_look(self, votes: VoteSequence) -> Iterator[SequentialLook]:
        """Yield what is certified at each look, drawing votes only for inputs that are not done."""
        check_enough_votes(votes, self.n)
        rule = self.rule(votes.smoothing.noise)
        label = votes.counts(0, rule.selection).argmax(axis=1)
        agreeing, passes = np.zeros(len(votes), dtype=np.int64), np.zeros(len(votes), dtype=np.int64)
        bound = np.zeros(len(votes))
        active, before = np.arange(len(votes)), rule.selection
        for look, counted in enumerate(rule.looks):
            now = rule.selection + counted
            agreeing[active] += votes.agreeing(label[active], before, now, active)
            passes[active] = now
            bound[active] = np.maximum(bound[active], rule.bound(agreeing[active], look))
            active = active[rule.goes_on(bound[active], agreeing[active], look)]
            before = now
            yield SequentialLook(now, counted, label, agreeing.copy(), bound.copy(), passes.copy())


def _fewest_votes(alpha: float) -> int:
    """Return how many votes, all agreeing, an anytime-valid bound above 1/2 needs."""
    unanimous = np.arange(1, 2 * math.ceil(-math.log2(alpha)) + 20)
    return int(unanimous[np.argmax(anytime_lower(unanimous, unanimous, alpha) > 0.5)])


register_words("sequential", why="This holds whenever and for whatever reason the voting stops.")
SEQUENTIAL = register_method(
    Method(
        "Sequential, anytime-valid",
        about="Stops for any reason, with a bound that holds at every moment; its promise holds for each "
        "input.",
        order=6,
        look=Look(SKY, (8, 2, 2, 2), "X", "---"),
        variants=lambda n, failure: [
            (f"n{n}_tol{tolerance:g}", partial(Sequential, n, failure, tolerance=tolerance))
            for tolerance in TOLERANCES
        ],
        main_variant="n{n}_tol0.01",
        abbreviation="sequential",
    )
)
