"""A cascade: a cheap certificate where it is good enough, and Monte Carlo where it is not."""

from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import CalibratedCertifier, Extending, check_certifier
from rrise.certifiers.guarantee import Guarantee, Kind
from rrise.certifiers.guarantee_words import CASCADE, register_words
from rrise.certifiers.monte_carlo import MonteCarlo
from rrise.certifiers.voting import VoteMethod
from rrise.defaults import FAILURE
from rrise.errors import SettingError
from rrise.progress import OnProgress
from rrise.statistics import Level, level_text

VOTES = 10_000


class Cascade(Extending):
    """Certifies by a calibrated surrogate, and again by votes where the wanted radius is not reached.

    The second certificate draws fresh votes of the input. Its own promise therefore holds for each input,
    whatever it is.

    Guarantee: the probability that a radius is issued and wrong is at most the sum of both failures. One of
    the two certificates is returned; the first is wrong with the first probability at most, the second with
    the second, whatever the input. The sum is of the first certifier's kind. If the first has an attack
    radius, it holds for inputs moved by up to that. The second failure then counts once for each try.

    Args:
        first: a calibrated surrogate, with or without votes; its promise is `marginal` or `pac`, for all
            inputs together.
        base: the base classifier.
        radius: the wanted radius; a smaller one, or none, leads to the second certificate.
        method: how the second certificate is made. Default: Monte Carlo with 10,000 votes.
        failure: the failure of that Monte Carlo. Default: 0.01.

    Raises:
        MismatchError: `base` is not the base classifier of `first`.
        SettingError: the promise of `first` cannot be kept, `method` has none, or `radius` is not positive.

    Example:
        certifier = rrise.Cascade(rrise.load_certifier("certifier"), base, radius=0.25)
        certificates = certifier.certify(images)
    """

    def __init__(
        self,
        first: CalibratedCertifier,
        base: nn.Module,
        *,
        radius: float,
        method: VoteMethod | None = None,
        failure: Level | None = None,
    ) -> None:
        check_certifier(first)
        if not radius > 0:
            raise SettingError(f"expected a positive radius, got {radius}")
        if method is not None and failure is not None:
            raise SettingError("expected method or failure, got both: the method has its own failure")
        self.first = self._extended = first
        self.radius = float(radius)
        usual = MonteCarlo(VOTES, failure=FAILURE if failure is None else failure)
        self.second = (method or usual).bind_like(base, first)
        self.guarantee = _sum(first.guarantee, self.second.guarantee, self.radius)

    def __repr__(self) -> str:
        return f"Cascade({self.first!r}, then {self.second!r}, radius={self.radius:g})"

    @property
    def most_passes(self) -> int:
        """The most passes per input."""
        return 1 + self.second.most_passes

    def certify(self, inputs: Any, *, on_progress: OnProgress | None = None) -> Certificates:
        """Certify inputs, each by the method that gives the larger radius; `methods` names it.

        Args:
            inputs: a batch `[inputs, *input_shape]` of floating-point numbers in the input range.
            on_progress: called with the number of passes of the base classifier since the last call.

        Returns:
            One certificate per input, with its number of passes.

        Raises:
            InputError: an input is invalid, or the base classifier returns NaN under noise.
        """
        first = self.first.certify(inputs)
        again = np.flatnonzero(~first.issued | (first.radius < self.radius))
        methods = np.full(len(first), first.guarantee.method, dtype=object)
        parts = ("label", "radius", "lower_bound", "issued")
        found: dict[str, Any] = {name: getattr(first, name).copy() for name in (*parts, "passes")}
        if len(again):
            second = self.second.certify(np.asarray(inputs)[again], on_progress=on_progress)
            better = second.radius >= first.radius[again]
            for name in parts:
                found[name][again[better]] = getattr(second, name)[better]
            found["passes"][again] += second.passes
            methods[again[better]] = second.guarantee.method
            found["lower_bound"][~found["issued"]] = 0.0
        return replace(
            first, **found, guarantee=self.guarantee, probabilities=None, methods=methods.astype(str)
        )


def _sum(first: Guarantee, second: Guarantee, radius: float) -> Guarantee:
    """Return the promise of the whole; refuse parts whose promises do not add up."""
    facts = first.calibration
    if first.kind not in (Kind.MARGINAL, Kind.PAC) or facts is None or facts.groups is not None:
        raise SettingError(
            "a cascade needs a calibrated surrogate with the promise 'marginal' or 'pac' for all inputs "
            "together: an error among issued radii, or for each class, does not carry over"
        )
    if second.kind is not Kind.PER_INPUT or second.failure is None or first.failure is None:
        raise SettingError(
            f"a cascade needs a method that keeps its promise for each input, not {second.method}"
        )
    tries = 1 if facts.threat is None else facts.threat.tries
    failure = first.failure + tries * second.failure
    if failure >= 1:
        raise SettingError(
            f"the failures of both certifiers add up to {float(failure):g} for {tries} tries, so nothing "
            f"would be promised: use a smaller failure"
        )
    return replace(
        first,
        method=CASCADE,
        failure=failure,
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        settings={
            "radius": radius,
            "first_failure": level_text(first.failure),
            "second_failure": level_text(second.failure),
        },
    )


register_words(
    CASCADE,
    why="Inputs whose first radius is smaller than the wanted one get a certificate from votes of their own. "
    "That one holds for each input at its own failure; the failure above is the sum of both, over all tries.",
)
