"""The one interface of certifiers: inputs in, certificates out."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee
from rrise.data.inputs import InputRange
from rrise.errors import MismatchError
from rrise.models.precision import identity_at
from rrise.statistics import Calibration, CalibrationEvidence
from rrise.votes.smoothing import Smoothing


@runtime_checkable
class Certifier(Protocol):
    """Anything that maps inputs to certificates.

    The calibrated surrogate, an exported certifier and a voting method bound to its base classifier are
    certifiers. The service, the command line and evaluations use nothing else.

    One policy for bad values holds for all of them. An input that is not a finite number, or out of range, is
    an `InputError` that names it. Where a surrogate returns NaN for a valid input, the certifier abstains.
    A base classifier that returns NaN under noise has no votes: an `InputError` names the input.
    """

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in order."""

    @property
    def smoothing(self) -> Smoothing:
        """The smoothed classifier that certificates are about."""

    @property
    def guarantee(self) -> Guarantee:
        """What every certificate promises."""

    @property
    def runtime(self) -> str:
        """What computes, such as `torch` or `onnxruntime-int8`."""

    def certify(self, inputs: Any) -> Certificates:
        """Return one certificate per input `[inputs, *input_shape]`."""


class CalibratedCertifier(Certifier, Protocol):
    """A certifier that rests on a calibration, of the very form that answers."""

    @property
    def calibration(self) -> Calibration:
        """The numbers of the calibration."""

    @property
    def evidence(self) -> CalibrationEvidence:
        """What the offset was computed from."""


def check_base(base: nn.Module, smoothing: Smoothing, inputs: torch.Tensor) -> None:
    """Refuse a base classifier that a certifier was not made for; `inputs` are to call it once.

    Raises:
        MismatchError: the base classifier is another one, or has other weights.
    """
    given = identity_at(base, smoothing.precision, inputs, "base classifier")
    check_fingerprint(given, smoothing)


def check_fingerprint(given: str, smoothing: Smoothing) -> None:
    """Refuse the fingerprint of another base classifier than a certifier's own."""
    if given != smoothing.base:
        raise MismatchError(
            f"this certifier was made for the base classifier {smoothing.base[:12]}, not for {given[:12]}: "
            f"its radii say nothing about that one; give it the one it belongs to"
        )


def typical_inputs(shape: tuple[int, ...], input_range: InputRange, number: int = 4) -> torch.Tensor:
    """Return a few inputs of any content, to try a classifier on."""
    low, high = (-1.0, 1.0) if input_range is None else input_range
    generator = torch.Generator().manual_seed(0)
    return low + torch.rand((number, *shape), generator=generator) * (high - low)
