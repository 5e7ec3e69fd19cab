"""The one-time fit that turns the surrogate's top probability into a lower bound."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.defaults import FAILURE, SCORE
from rrise.errors import InputError, SettingError
from rrise.statistics.binomial import clopper_pearson_lower, highest_bound
from rrise.statistics.calibration_checks import (
    abstaining_offset,
    check_family,
    check_group_size,
    check_probabilities,
    groups_of,
)
from rrise.statistics.conformal import Level
from rrise.statistics.promises import OFFSETS, Promise, with_margin
from rrise.statistics.rules import FLOOR, FLOORED, Rule
from rrise.statistics.scores import Score
from rrise.statistics.terms import Terms
from rrise.statistics.threat import Threat


@dataclass(frozen=True)
class Calibration:
    """The numbers of one calibration.

    Guarantee: see `docs/guarantee.md`. For an input drawn like the calibration inputs, let `p` be the
    smoothed probability of the surrogate's class. The promised failure bounds how often `lower_bound` is
    above 1/2 and above `p`. Under the rule `paper`, it bounds how often `lower_bound` is above `p`.

    Attributes:
        score: the calibration score, which is a nested family of bounds.
        offsets: the offset of each group, at which bounds are taken from the family.
        ranks: how many scores of each group are at most its offset.
        sizes: the number of calibration inputs in each group.
        n: votes per calibration input.
        beta: the failure of the Clopper–Pearson bounds.
        gamma: the rate of inputs whose score may exceed the offset.
        rule: which bounds count, and how the failure follows from `beta` and `gamma`.
        promise: what the failure is about.
        confidence: the confidence of the promise over the calibration set, for all groups together; None
            for a marginal promise.
        groups: the group of each class; None: all inputs are one group.
        threat: what may happen to an input before it is certified, and the query noise; None: nothing.
    """

    score: Score
    offsets: tuple[float, ...]
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    n: int
    beta: Fraction
    gamma: Fraction
    rule: Rule = FLOORED
    promise: Promise = Promise.MARGINAL
    confidence: Fraction | None = None
    groups: tuple[int, ...] | None = None
    threat: Threat | None = None

    @property
    def failure(self) -> Fraction:
        """The promised total failure; if there is a threat, that under attack."""
        return self.natural_failure if self.threat is None else self.threat.under_attack(self.natural_failure)

    @property
    def natural_failure(self) -> Fraction:
        """The total failure on inputs that nobody moved."""
        return self.rule.failure(self.beta, self.gamma)

    @cached_property
    def floor(self) -> float:
        """Bounds up to this number are not issued."""
        return terms_of(self).floor

    @property
    def offset(self) -> float:
        """The offset; the largest one if there are several groups."""
        return max(self.offsets)

    @property
    def rank(self) -> int:
        """The rank of the offset; the sum over groups if there are several."""
        return sum(self.ranks)

    @property
    def size(self) -> int:
        """The number of calibration inputs."""
        return sum(self.sizes)

    @cached_property
    def ceiling(self) -> float:
        """The lower bound after `n` unanimous votes; no bound of this calibration exceeds it."""
        return highest_bound(self.n, float(self.beta))

    def lower_bound(self, top_probability: ArrayLike, label: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the calibrated lower bound on the smoothed probability of the surrogate's class.

        It is 0 where nothing is promised: at or below the floor. `label` is the surrogate's class; it is
        needed only if classes have offsets of their own. If there is a threat, it is a bound at the input
        that was submitted, which may be the attack radius away from the natural one.
        """
        q = check_probabilities(top_probability, "top probabilities")
        if self.groups is None:
            bound = self.score.bound(q, self.offset, self.ceiling)
        elif label is None:
            raise InputError("this calibration has an offset per group of classes: pass the classes")
        else:
            bound, of_input = np.zeros_like(q), np.asarray(self.groups)[np.asarray(label)]
            for group in np.unique(of_input):
                members = of_input == group
                bound[members] = self.score.bound(q[members], self.offsets[group], self.ceiling)
        return np.asarray(np.where(bound > self.floor, self._where_submitted(bound), 0.0))

    def _where_submitted(self, bound: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what bounds at natural inputs prove at the attack radius from them; 0 up to 1/2."""
        if self.threat is None or self.threat.shift == 0:
            return bound
        moved = special.ndtr(special.ndtri(bound) - with_margin(self.threat.shift))
        return np.where(moved > FLOOR, moved, 0.0)

    def scores(self, top_probability: ArrayLike, agreeing: ArrayLike) -> NDArray[np.float64]:
        """Return the calibration scores of inputs with `agreeing` of `n` votes for the surrogate's class."""
        q = check_probabilities(top_probability, "top probabilities")
        lower = clopper_pearson_lower(agreeing, self.n, float(self.beta))
        return self.score.residual(q, np.maximum(lower, self.floor), self.ceiling)

    def of_group(self, group: int) -> "Calibration":
        """Return the calibration of one group alone."""
        picked: dict[str, Any] = {
            name: (getattr(self, name)[group],) for name in ("offsets", "ranks", "sizes")
        }
        return replace(self, **picked, groups=None)


@dataclass(frozen=True)
class CalibrationEvidence:
    """The values from which the offset was computed, one per calibration input, in order.

    Attributes:
        top_probability: the surrogate's top probability.
        agreeing: the number of votes for the surrogate's class.
        lower: the Clopper–Pearson lower bound of these votes.
        score: the calibration score.
        label: the surrogate's class; None if it was not recorded.
    """

    top_probability: NDArray[np.float64]
    agreeing: NDArray[np.int64]
    lower: NDArray[np.float64]
    score: NDArray[np.float64]
    label: NDArray[np.int64] | None = None


def fit_calibration(
    top_probability: ArrayLike,
    agreeing: ArrayLike,
    n: int,
    *,
    failure: Level = FAILURE,
    beta: Level | None = None,
    score: str | Score = SCORE,
    rule: str | Rule = FLOORED,
    promise: str | Promise = Promise.MARGINAL,
    confidence: Level | None = None,
    label: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    threat: Threat | None = None,
) -> tuple[Calibration, CalibrationEvidence]:
    """Fit the offset on calibration inputs.

    The score of an input is the smallest offset at which its bound is at most what its votes prove, or not
    issued. For a marginal promise, the offset is the score of rank `ceil((M+1)(1-gamma))` among M inputs.

    Args:
        top_probability: the surrogate's top probability, one per calibration input.
        agreeing: how many of the `n` votes of each calibration input are for the surrogate's class.
        n: votes per calibration input.
        failure: the allowed probability of a wrong bound.
        beta: the failure at which votes are bounded. Default: that of the rule.
        score: the calibration score, or its name.
        rule: the calibration rule, or its name.
        promise: `marginal`, `pac` or `issued`.
        confidence: the confidence of `pac` and `issued` over the calibration set. Default: 0.95.
        label: the surrogate's class for each calibration input; needed with `groups`.
        groups: the group of each class, from 0; each group gets an offset and a promise of its own.
        threat: what may happen to an input before it is certified; `failure` is then that under attack.

    Returns:
        The calibration, and the values from which it was computed.

    Raises:
        InputError: the arrays are not probabilities and counts of one shape.
        SettingError: a failure is invalid, or there are too few calibration inputs or votes for it.

    Example:
        >>> calibration, _ = fit_calibration([0.9] * 40, [900] * 40, n=1000, failure=0.1, score="additive")
        >>> calibration.rank, round(calibration.offset, 4)
        (38, 0.0088)
    """
    terms = Terms(failure, beta, score, rule, promise, confidence, groups, threat)
    chosen, how, exact_beta = terms.family, terms.by, terms.exact_beta
    terms.check_votes(n)
    q = check_probabilities(top_probability, "top probabilities")
    counts = np.asarray(agreeing)
    if q.shape != counts.shape or q.ndim != 1:
        raise InputError(
            f"expected one top probability and one vote count per calibration input, "
            f"got arrays of shape {q.shape} and {counts.shape}"
        )
    lower = clopper_pearson_lower(counts, n, float(exact_beta))
    ceiling = highest_bound(n, float(exact_beta))
    target = np.maximum(lower, terms.floor)
    residual = chosen.residual(q, target, ceiling)
    limits = chosen.residual(q, np.full_like(q, FLOOR), ceiling)
    if not (np.all(np.isfinite(residual)) and np.all(np.isfinite(limits))):
        raise InputError("a calibration score is not finite: the offset cannot be computed")
    if q.size == 0:
        raise SettingError("the calibration set is empty: expected at least one calibration input")
    of_input = groups_of(groups, label, q.size)
    offsets, ranks, sizes = [], [], []
    nothing = abstaining_offset(chosen, ceiling)
    for group in range(terms.number_of_groups):
        rows = of_input == group
        check_group_size(int(rows.sum()), group, terms)
        found = OFFSETS[terms.kept](residual[rows], limits[rows], terms.gamma, terms.doubt)
        offset = nothing if found.offset is None else _with_margin(found.offset, terms)
        check_family(chosen, offset, ceiling, found.rank, np.stack([q, target, residual])[:, rows])
        offsets.append(offset)
        ranks.append(found.rank)
        sizes.append(int(rows.sum()))
    calibration = Calibration(
        chosen,
        tuple(offsets),
        tuple(ranks),
        tuple(sizes),
        n,
        beta=exact_beta,
        gamma=terms.gamma,
        rule=how,
        promise=terms.kept,
        confidence=terms.sure,
        groups=None if groups is None else tuple(groups),
        threat=threat,
    )
    classes = None if label is None else np.asarray(label).astype(np.int64)
    return calibration, CalibrationEvidence(q, counts.astype(np.int64), lower, residual, classes)


def refit_calibration(
    former: Calibration,
    top_probability: ArrayLike,
    agreeing: ArrayLike,
    label: ArrayLike | None = None,
    n: int | None = None,
) -> tuple[Calibration, CalibrationEvidence]:
    """Fit a calibration on the terms of a former one: failure, score, rule, promise and groups.

    Args:
        former: the calibration whose settings to use.
        top_probability: the surrogate's top probability, one per calibration input.
        agreeing: how many of the `former.n` votes of each input are for the surrogate's class.
        label: the surrogate's class for each input; needed if `former` has groups.
        n: votes per input, if they differ from those of `former`.

    Returns:
        The calibration, and the values from which it was computed.
    """
    return fit_calibration(top_probability, agreeing, n or former.n, label=label, **vars(terms_of(former)))


def refit_for(
    former: Calibration, evidence: CalibrationEvidence, threat: Threat, failure: Level | None = None
) -> tuple[Calibration, CalibrationEvidence]:
    """Fit a calibration for another threat with the same query noise, on the same evidence.

    Args:
        former: the calibration whose other settings to use.
        evidence: the values from which it was computed.
        threat: what may happen to an input before it is certified.
        failure: the failure under attack. Default: what follows from that of `former` on natural inputs.
    """
    if failure is None:
        failure = threat.under_attack(former.natural_failure)
    terms = {**vars(terms_of(former)), "failure": failure, "threat": threat}
    return fit_calibration(
        evidence.top_probability, evidence.agreeing, former.n, label=evidence.label, **terms
    )


def terms_of(former: Calibration) -> Terms:
    """Return the terms that a calibration was fitted with."""
    return Terms(
        failure=former.failure,
        beta=former.beta,
        score=former.score,
        rule=former.rule,
        promise=former.promise,
        confidence=former.confidence,
        groups=former.groups,
        threat=former.threat,
    )


def _with_margin(offset: float, terms: Terms) -> float:
    """Return the offset to use.

    The paper's is not negative and has no margin. That of `issued` was tested as it is used.
    """
    if terms.by.floor < FLOOR:
        return max(0.0, offset)
    return offset if terms.kept is Promise.ISSUED else float(with_margin(offset))
