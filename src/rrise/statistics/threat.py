"""Attacked inputs: how the failure grows when somebody moves an input before it is certified.

The surrogate sees the input plus Gaussian query noise of level `s`. Let `a(x)` be the probability over that
noise that the certificate of `x` is wrong. Whoever moves the input by at most `r` shifts the noise by at most
`r`, which raises `a(x)` to at most `Phi(Phi^-1(a(x)) + r / s)`. This function is concave, so its average over
inputs is at most its value at the average. `docs/guarantee.md` has the proof.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

from scipy import special

from rrise.errors import SettingError
from rrise.statistics.conformal import Level, exact_level, level_text
from rrise.statistics.radius import check_sigma
from rrise.statistics.rounding import exactly

_DIGITS, _DIGITS_NATURAL = 6, 12
"""Significant digits of a promised failure, which is rounded up, and of the natural one, rounded down."""
_ROUNDING, _MARGIN = 1e-12, 1e-9
"""Relative margins of both: more than the rounding of SciPy's normal distribution. That of the natural
failure is larger, so that the way back to the promised one rounds to the same number."""


@dataclass(frozen=True)
class Threat:
    """What somebody may do to an input before it is certified, and the noise against it.

    Attributes:
        radius: how far the input may be moved, in L2; 0: nobody moves it.
        query_noise: the level of the Gaussian noise that is added to each query.
        sigma: the noise level of the smoothed classifier.
        tries: how many certificates may be asked for on behalf of one input.

    Raises:
        SettingError: a number is not allowed.

    Example:
        >>> threat = Threat(radius=0.125, query_noise=0.25, sigma=0.25)
        >>> round(float(threat.natural(0.05)), 4)
        0.016
        >>> level_text(threat.under_attack(threat.natural(0.05)))
        '0.05'
    """

    radius: float
    query_noise: float
    sigma: float
    tries: int = 1

    def __post_init__(self) -> None:
        for name in ("query_noise", "sigma"):
            object.__setattr__(self, name, check_sigma(getattr(self, name)))
        if not (self.radius >= 0 and math.isfinite(self.radius)):
            raise SettingError(f"expected an attack radius of at least 0, got {self.radius}")
        if not (1 <= self.tries < math.inf) or self.tries != int(self.tries):
            raise SettingError(f"expected a whole number of tries, at least 1; got {self.tries}")
        object.__setattr__(self, "radius", float(self.radius))
        object.__setattr__(self, "tries", int(self.tries))

    @property
    def shift(self) -> float:
        """By how much the probit of a bound falls on the way to the moved input."""
        return self.radius / self.sigma

    @property
    def matters(self) -> bool:
        """Whether the failure under attack differs from that on natural inputs."""
        return self.radius > 0 or self.tries > 1

    @property
    def floor(self) -> float:
        """The bound whose radius is the attack radius: nothing is issued up to here."""
        return float(special.ndtr(self.shift))

    def natural(self, failure: Level) -> Fraction:
        """Return the failure on natural inputs that keeps `failure` under attack, rounded down."""
        if not self.matters:
            return exact_level(failure, "failure")
        promised = float(exact_level(failure, "failure"))
        one_try = -math.expm1(math.log1p(-promised) / self.tries)
        found = float(special.ndtr(special.ndtri(one_try) - self.radius / self.query_noise))
        level = _rounded(found * (1 - _MARGIN), _DIGITS_NATURAL, ROUND_FLOOR)
        if not level > 0:
            raise SettingError(
                f"failure {promised:g} cannot be kept at attack radius {exactly(self.radius)} with query "
                f"noise {exactly(self.query_noise)}: use more query noise, or a smaller attack radius"
            )
        return level

    def under_attack(self, natural: Fraction) -> Fraction:
        """Return the failure of the best of all tries, from that on natural inputs, rounded up.

        It is `1 - (1 - Phi(Phi^-1(natural) + r / s)) ** tries`.
        """
        if not self.matters:
            return natural
        one_try = float(special.ndtr(special.ndtri(float(natural)) + self.radius / self.query_noise))
        found = -math.expm1(self.tries * math.log1p(-one_try)) if one_try < 1 else 1.0
        return min(Fraction(1), _rounded(found * (1 + _ROUNDING), _DIGITS, ROUND_CEILING))

    def check_failure(self, failure: Level) -> None:
        """Refuse a failure that cannot be written exactly after the way to natural inputs and back."""
        level = exact_level(failure, "failure")
        if self.under_attack(self.natural(level)) != level:
            raise SettingError(
                f"with an attack radius, write failure with at most {_DIGITS} significant digits; got "
                f"{level_text(level)}"
            )


def threat_of(radius: float, query_noise: float | None, tries: int, sigma: float) -> Threat | None:
    """Return what may happen to inputs before they are certified; None without query noise.

    Raises:
        SettingError: there is no query noise, but an attack radius or several tries; or a number is not
            allowed.
    """
    if query_noise is None:
        if radius or tries != 1:
            raise SettingError(
                "an attack radius, or several tries, need query noise: pass query_noise, such as sigma / 2"
            )
        return None
    return Threat(radius, query_noise, sigma, tries)


def _rounded(value: float, digits: int, way: str) -> Fraction:
    """Round to significant digits, up or down."""
    if value <= 0:
        return Fraction(0)
    exact = Decimal(value)
    return Fraction(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=way))
