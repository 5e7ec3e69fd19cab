"""Calibration rules: which bounds are charged for, and how the failure is split between votes and surrogate.

A rule fixes two things. Its floor says from which lower bound on a promise is made: a bound at or below the
floor is not issued and cannot be wrong. Its split says which conformal failure `gamma` is left when votes are
bounded at failure `beta`, such that the total failure is as promised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from rrise.errors import SettingError, did_you_mean
from rrise.registry import register
from rrise.statistics.conformal import Level, conformal_share, exact_level

FLOOR = 0.5
"""A radius is issued only if its bound is above this number."""


@dataclass(frozen=True)
class Rule:
    """One way to calibrate.

    Attributes:
        name: its name in settings, files and reports.
        floor: bounds up to this number are never issued, so calibration does not charge for them.
        gamma: `gamma(failure, beta)` is the conformal failure that the total failure leaves.
        failure: `failure(beta, gamma)` is the total failure; the inverse of `gamma`.
        beta: the default failure of the bounds that votes prove.
        formula: the total failure as a formula of `beta` and `gamma`.
        about: one sentence for reports.
    """

    name: str
    floor: float
    gamma: Callable[[Fraction, Fraction], Fraction]
    failure: Callable[[Fraction, Fraction], Fraction]
    beta: Fraction
    formula: str
    about: str

    def share(self, failure: Level, beta: Level) -> Fraction:
        """Return the conformal failure `gamma` that a total failure leaves, exactly."""
        return self.gamma(exact_level(failure, "failure"), exact_level(beta, "beta"))


RULES: dict[str, Rule] = {}
"""All rules by name."""


def as_rule(rule: str | Rule) -> Rule:
    """Return the rule; look it up if a name is given."""
    if isinstance(rule, Rule):
        return rule
    if rule not in RULES:
        known = ", ".join(RULES)
        raise SettingError(f"expected a rule out of {known}; got {rule!r}{did_you_mean(str(rule), RULES)}")
    return RULES[rule]


def _register(rule: Rule) -> Rule:
    return register(RULES, rule.name, rule, "rule")


FLOORED = _register(
    Rule(
        "floored",
        FLOOR,
        gamma=lambda failure, beta: failure * (1 - beta),
        failure=lambda beta, gamma: gamma / (1 - beta),
        beta=Fraction(1, 5),
        formula="gamma / (1 - beta)",
        about="Only issued bounds count, and the total failure is gamma / (1 - beta).",
    )
)
"""The default: only issued bounds can fail, and the failure is split as `gamma / (1 - beta)`."""
PAPER = _register(
    Rule(
        "paper",
        0.0,
        gamma=conformal_share,
        failure=lambda beta, gamma: beta + gamma,
        beta=Fraction(1, 1000),
        formula="beta + gamma",
        about="All bounds count, and the total failure is beta + gamma, as in the paper.",
    )
)
"""The paper's rule: every bound counts, and the failure is split by a union bound."""
