"""What the metrics of one outcome are computed from."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.methods import ONE_STAGE
from rrise.evaluation.measure import costs, metrics
from rrise.evaluation.measure.equal_monte_carlo import Rival, Rivals
from rrise.evaluation.measure.known import is_surrogate
from rrise.evaluation.measure.outcomes import Outcome
from rrise.votes.array import votes_for


@dataclass(frozen=True, eq=False)
class Context:
    """One outcome, the test inputs, and the other outcomes on them.

    Attributes:
        outcome: what is measured.
        labels: true classes of the test inputs.
        votes: their votes at a high budget, `[inputs, K]`.
        thresholds: the radii at which distributions are told.
        new: which inputs calibrated no surrogate.
        voting: the outcomes of all methods that vote.
        main_budget: the votes of the main comparison.
        paper_counting: whether costs before the first query are counted as the paper does.
        rivals: Monte Carlo with few votes on the same inputs; None where it is not looked for.
    """

    outcome: Outcome
    labels: NDArray[np.int64]
    votes: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    new: NDArray[np.bool_]
    voting: Sequence[Outcome]
    main_budget: int
    paper_counting: bool = False
    rivals: Rivals | None = None

    @property
    def certificates(self) -> Certificates:
        """The certificates of all test inputs."""
        return self.outcome.certificates

    @cached_property
    def is_surrogate(self) -> bool:
        """Whether the method takes one pass per query."""
        return is_surrogate(self.outcome.setting.method)

    @cached_property
    def judged(self) -> Certificates | None:
        """The certificates of the inputs that votes can judge; None where there are none.

        Methods that vote certify from those very votes, so that nothing is left to judge them by. Nothing is
        promised to surrogates' own calibration inputs.
        """
        return self.certificates[self.new] if self.is_surrogate and self.new.any() else None

    @cached_property
    def smoothed(self) -> NDArray[np.int64]:
        """The class with most votes of each input that is judged."""
        return np.asarray(self.votes.argmax(axis=1)[self.new])

    @cached_property
    def violations(self) -> metrics.Violations | None:
        """Bounds above the share of votes for the same class; None where nothing is judged."""
        if self.judged is None:
            return None
        share = votes_for(self.votes, self.certificates.label) / self.votes.sum(axis=1)
        return metrics.violations(self.judged, share[self.new])

    @cached_property
    def baseline(self) -> Certificates | None:
        """Those of Baseline 1 at the same failure: at the same budget if it has one, else at the main one."""
        setting = self.outcome.setting
        found = {
            other.setting.budget: other.certificates
            for other in self.voting
            if other.setting.method == ONE_STAGE.name and other.setting.failure == setting.failure
        }
        return found.get(setting.budget, found.get(self.main_budget))

    @cached_property
    def rival(self) -> Rival | None:
        """The cheapest Monte Carlo that certifies as much, at the same failure and on the same inputs."""
        radius = metrics.average_certified_radius(self.certificates, self.labels)
        calibrated = self.is_surrogate and self.outcome.offset is not None
        if self.rivals is None or not calibrated or not np.isfinite(radius):
            return None
        level = float(Fraction(self.outcome.setting.failure))
        accuracy = float(metrics.certified_accuracy(self.certificates, self.labels, 0.0))
        return self.rivals.cheapest(level, accuracy, radius)

    def break_even(self, passes: Fraction | int) -> int | None:
        """Return the queries from which on the surrogate costs no more, in all, than so many passes each."""
        count = costs.offline_total_paper if self.paper_counting else costs.offline_total
        return costs.break_even(count(self.outcome.offline), exact_mean_passes(self.certificates), passes)


def exact_mean_passes(certificates: Certificates) -> Fraction:
    """Return the mean number of passes per input as a fraction."""
    return Fraction(int(certificates.passes.sum()), len(certificates))
