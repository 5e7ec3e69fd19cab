"""The smoothed classifier: which base classifier, under which noise."""

from dataclasses import dataclass

from rrise.data.inputs import InputRange
from rrise.errors import MismatchError
from rrise.files import Json
from rrise.votes.noise import Noise, as_noise, noise_from_json


@dataclass(frozen=True)
class Smoothing:
    """The smoothed classifier that votes estimate.

    Attributes:
        base: the fingerprint of the base classifier, which includes its precision.
        noise: the noise added to inputs; a number means Gaussian noise of that level.
        input_range: inputs lie in it, and noisy inputs are clipped to it unless the noise says otherwise;
            None: any input, no clipping.
        precision: the precision in which the base classifier computes.
    """

    base: str
    noise: Noise
    input_range: InputRange
    precision: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", as_noise(self.noise))

    @property
    def sigma(self) -> float:
        """The noise level."""
        return self.noise.sigma

    @property
    def noise_range(self) -> InputRange:
        """The range that noisy inputs are clipped to; None: no clipping."""
        return self.input_range if self.noise.clipped else None

    def to_json(self) -> Json:
        """Return the fields as JSON."""
        limits = None if self.input_range is None else list(self.input_range)
        return {
            "base": self.base,
            **self.noise.to_json(),
            "input_range": limits,
            "precision": self.precision,
        }

    @classmethod
    def from_json(cls, value: Json) -> "Smoothing":
        """Read the fields back."""
        limits = value["input_range"]
        limits = None if limits is None else tuple(limits)
        return cls(value["base"], noise_from_json(value), limits, value["precision"])

    def check_same(self, other: "Smoothing", whose: str, others: str) -> None:
        """Refuse to combine parts of two different smoothed classifiers, and name the first difference."""
        for what, mine, theirs in (
            ("base classifier", self.base[:12], other.base[:12]),
            ("noise", self.noise.name, other.noise.name),
            ("sigma", self.sigma, other.sigma),
            ("noise", self.noise, other.noise),
            ("input range", self.input_range, other.input_range),
            ("precision", self.precision, other.precision),
        ):
            if mine != theirs:
                hint = " (a classifier that changes its own attributes when called looks different each time)"
                raise MismatchError(
                    f"{whose} and {others} do not belong together: {what} {mine} here, {theirs} there"
                    f"{hint if what == 'base classifier' else ''}"
                )
