"""The terms of a calibration: failure, promise, rule and score, with the checks of what they need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy import special

from rrise.defaults import CONFIDENCE, FAILURE, SCORE
from rrise.errors import SettingError
from rrise.statistics.binomial import check_budget, highest_bound
from rrise.statistics.conformal import Level, conformal_rank, exact_level
from rrise.statistics.promises import Promise, as_promise, smallest_size
from rrise.statistics.rounding import exactly
from rrise.statistics.rules import FLOOR, FLOORED, Rule, as_rule
from rrise.statistics.scores import Score, as_score
from rrise.statistics.threat import Threat


@dataclass(frozen=True)
class Terms:
    """What a calibration is to promise, and how; fixed before anybody looks at calibration inputs.

    Attributes:
        failure: the allowed probability of a wrong bound.
        beta: the failure at which votes are bounded; None: that of the rule.
        score: the calibration score, or its name.
        rule: the calibration rule, or its name.
        promise: `marginal`, `pac` or `issued`.
        confidence: the confidence of `pac` and `issued` over the calibration set; None: 0.95.
        groups: the group of each class, from 0; None: all inputs are one group.
        threat: what may happen to an input before it is certified; None: nothing. `failure` is then that
            under attack.

    Raises:
        SettingError: a name is unknown, or a failure is invalid.

    Example:
        >>> Terms(failure=0.01).gamma
        Fraction(1, 125)
    """

    failure: Level = FAILURE
    beta: Level | None = None
    score: str | Score = SCORE
    rule: str | Rule = FLOORED
    promise: str | Promise = Promise.MARGINAL
    confidence: Level | None = None
    groups: Sequence[int] | None = None
    threat: Threat | None = None

    def __post_init__(self) -> None:
        self.gamma  # noqa: B018  refuses a bad failure
        self.doubt  # noqa: B018
        self.family  # noqa: B018
        if self.kept is Promise.MARGINAL and self.confidence is not None:
            raise SettingError(
                f"a marginal promise has no confidence, got confidence={self.confidence}: choose the promise "
                f"'pac' or 'issued', or leave it out"
            )
        if self.kept is not Promise.MARGINAL and self.by.floor < FLOOR:
            raise SettingError(
                f"the rule {self.by.name!r} keeps a marginal promise alone: choose the rule 'floored' for "
                f"the promise {self.kept.value!r}"
            )
        if self.threat is not None:
            self._check_threat(self.threat)
        groups = None if self.groups is None else sorted(set(self.groups))
        if groups is not None and (not groups or groups != list(range(len(groups)))):
            raise SettingError(
                f"expected the groups of classes to be numbered from 0 without gaps, got {self.groups}"
            )

    def _check_threat(self, threat: Threat) -> None:
        if self.by.floor < FLOOR:
            raise SettingError(f"the rule {self.by.name!r} knows no query noise: choose the rule 'floored'")
        self.check_promise(threat)
        threat.check_failure(self.failure)

    def check_promise(self, threat: Threat) -> None:
        """Refuse a promise that does not carry over to attacked inputs."""
        if threat.matters and (self.kept is Promise.ISSUED or self.groups is not None):
            raise SettingError(
                "an attack radius, or several tries, go with the promises 'marginal' and 'pac' for all "
                "inputs together: an attacker can move inputs from one class to another, and in and out of "
                "the issued ones"
            )

    @property
    def natural(self) -> Level:
        """The failure on inputs that nobody moved; `failure` if there is no threat."""
        return self.failure if self.threat is None else self.threat.natural(self.failure)

    @property
    def floor(self) -> float:
        """Bounds up to this number are not issued, so calibration does not charge for them."""
        return self.by.floor if self.threat is None else max(self.by.floor, self.threat.floor)

    @property
    def family(self) -> Score:
        """The score as an object."""
        return as_score(self.score)

    @property
    def by(self) -> Rule:
        """The rule as an object."""
        return as_rule(self.rule)

    @property
    def kept(self) -> Promise:
        """The promise as an object."""
        return as_promise(self.promise)

    @property
    def exact_beta(self) -> Fraction:
        """The failure at which votes are bounded."""
        return exact_level(self.by.beta if self.beta is None else self.beta, "beta")

    @property
    def gamma(self) -> Fraction:
        """The rate of inputs whose score may exceed the offset."""
        return self.by.share(self.natural, self.exact_beta)

    @property
    def sure(self) -> Fraction | None:
        """The confidence over the calibration set, None for a marginal promise."""
        if not self.kept.has_confidence:
            return None
        return exact_level(CONFIDENCE if self.confidence is None else self.confidence, "confidence")

    @property
    def doubt(self) -> Fraction:
        """The allowed probability of a broken promise, for each group; 0 for a marginal promise."""
        return Fraction(0) if self.sure is None else (1 - self.sure) / self.number_of_groups

    @property
    def number_of_groups(self) -> int:
        """How many groups have an offset of their own."""
        return 1 if self.groups is None else max(self.groups) + 1

    @property
    def smallest_size(self) -> int:
        """The fewest calibration inputs of a group with which the promise can be kept."""
        return smallest_size(self.kept, self.gamma, self.doubt)

    def check_votes(self, votes: int) -> None:
        """Refuse votes that can issue nothing even if all agree; the error says how many it takes."""
        beta = float(self.exact_beta)
        check_budget(votes, beta, "beta")
        if self.threat is None or highest_bound(votes, beta) > self.floor:
            return
        shift, most = self.threat.shift, float(special.ndtri(highest_bound(votes, beta)))
        enough = math.floor(math.log(beta) / math.log(self.floor)) + 1 if self.floor < 1 else None
        votes_or = "" if enough is None else f"at least {enough:,} votes, or "
        raise SettingError(
            f"{votes} votes can never certify at attack radius {exactly(self.threat.radius)}, which is "
            f"{shift:.3g} sigma: if all agree, they prove {most:.3g} sigma; use {votes_or}a "
            f"smaller attack radius"
        )

    def check(self, inputs: int, votes: int) -> None:
        """Refuse too few calibration inputs or votes for these terms; the error says how many it takes."""
        self.check_votes(votes)
        if self.kept is Promise.MARGINAL:
            conformal_rank(inputs, self.gamma)
        if inputs < (needed := self.number_of_groups * self.smallest_size):
            each = "" if self.groups is None else f" for {self.number_of_groups} groups of classes"
            level = float(exact_level(self.failure, "failure"))
            raise SettingError(
                f"{inputs} calibration inputs are too few for failure {level:g} with the promise "
                f"{self.kept.value!r}{each}: use at least {needed}"
            )
