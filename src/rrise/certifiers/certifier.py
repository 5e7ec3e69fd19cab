"""The one interface of certifiers: inputs in, certificates out."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee
from rrise.data.inputs import InputRange
from rrise.errors import InputError, MismatchError, described
from rrise.models.precision import identity_at
from rrise.statistics import Calibration, CalibrationEvidence
from rrise.votes.smoothing import Smoothing


@runtime_checkable
class Certifier(Protocol):
    """Anything that maps inputs to certificates.

    There are three kinds: a calibrated surrogate, an exported certifier, and a voting method bound to its
    base classifier. The service, the command line and the monitor use only this interface.

    All certifiers treat bad values alike. A value that is not finite or out of range raises an `InputError`
    that names the input. If a surrogate returns NaN for a valid input, the certifier abstains. If a base
    classifier returns NaN under noise, an `InputError` names the input.

    Attributes:
        input_shape: the shape of one input.
        class_names: the names of the classes in order.
        smoothing: the smoothed classifier that certificates are about.
        guarantee: what every certificate promises.
        runtime: the runtime, such as `torch` or `onnxruntime-int8`.

    Example:
        >>> import torch, rrise
        >>> base = torch.nn.Linear(4, 3)
        >>> certifier = rrise.MonteCarlo(200).bind(base, sigma=0.25, input_shape=(4,))
        >>> isinstance(certifier, rrise.Certifier)
        True
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
        """The runtime, such as `torch` or `onnxruntime-int8`."""

    def certify(self, inputs: Any) -> Certificates:
        """Return one certificate per input `[inputs, *input_shape]`."""


class CalibratedCertifier(Certifier, Protocol):
    """A certifier with a calibration of exactly the form that answers."""

    @property
    def calibration(self) -> Calibration:
        """The numbers of the calibration."""

    @property
    def evidence(self) -> CalibrationEvidence:
        """The data that the offset was computed from."""


class Extending:
    """A certifier that extends another one, and shares what that is about."""

    _extended: Certifier

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self._extended.input_shape

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in order."""
        return self._extended.class_names

    @property
    def smoothing(self) -> Smoothing:
        """The smoothed classifier that certificates are about."""
        return self._extended.smoothing

    @property
    def runtime(self) -> str:
        """The runtime of the certifier that it extends."""
        return self._extended.runtime


def check_certifier(value: object) -> None:
    """Refuse anything but a certifier, such as the name of its folder."""
    if not isinstance(value, Certifier):
        load = (
            f": load it first, rrise.load_deployed({str(value)!r})" if isinstance(value, str | Path) else ""
        )
        raise InputError(f"expected a certifier, got {described(value)}{load}")


def check_base(base: nn.Module, smoothing: Smoothing, inputs: torch.Tensor) -> None:
    """Refuse a base classifier that a certifier was not made for; it is called once on `inputs`.

    Raises:
        MismatchError: it is another base classifier, or has other weights.
    """
    given = identity_at(base, smoothing.precision, inputs, "base classifier")
    check_fingerprint(given, smoothing)


def check_fingerprint(given: str, smoothing: Smoothing) -> None:
    """Refuse a fingerprint that is not that of the certifier's base classifier."""
    if given != smoothing.base:
        raise MismatchError(
            f"this certifier was made for the base classifier {smoothing.base[:12]}, got {given[:12]}: "
            f"its radii do not apply to another one; pass the base classifier it was made for"
        )


def typical_inputs(shape: tuple[int, ...], input_range: InputRange, number: int = 4) -> torch.Tensor:
    """Return a few arbitrary inputs for a trial call of a classifier."""
    low, high = (-1.0, 1.0) if input_range is None else input_range
    generator = torch.Generator().manual_seed(0)
    return low + torch.rand((number, *shape), generator=generator) * (high - low)
