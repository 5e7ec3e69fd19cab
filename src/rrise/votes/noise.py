"""Noise distributions: how noise is drawn, and which radius a bound proves under it.

To add a distribution, add one class here with its name, its norm, `sample` and `radius`. Voting, certifying
and exporting all use the noise in `Smoothing`.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.errors import FolderError
from rrise.files import Json
from rrise.statistics import certified_radius, check_sigma
from rrise.votes.philox import standard_normal


class Noise(ABC):
    """A noise distribution; noise is added to each value of an input independently."""

    name: ClassVar[str]
    """Its name in files and messages."""
    norm: ClassVar[str]
    """The norm in which radii are measured, such as `L2`."""
    clipped: ClassVar[bool] = True
    """Whether noisy inputs are clipped to the input range."""
    sigma: float
    """The noise level: the standard deviation of each value."""

    @abstractmethod
    def sample(self, key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
        """Return noise `[samples, size]` in float32.

        Row i depends only on the key, `draw[i]` and `owner[i]`: the same three give the same row.
        """

    @abstractmethod
    def radius(self, bound: ArrayLike) -> NDArray[np.float64]:
        """Return the radius that a lower bound on the smoothed probability proves; 0 for bounds up to 1/2."""

    @abstractmethod
    def radius_in_sigma(self, bound: ArrayLike) -> NDArray[np.float64]:
        """Return the radius that a bound above 1/2 proves, in units of sigma."""

    @abstractmethod
    def bound(self, radius_in_sigma: ArrayLike) -> NDArray[np.float64]:
        """Return the bound that proves a radius given in units of sigma."""

    def to_json(self) -> Json:
        """Return what identifies this noise; for Gaussian noise, `sigma` alone."""
        own = asdict(self)  # type: ignore[call-overload]
        return {"noise": self.name, **own}


@dataclass(frozen=True)
class Gaussian(Noise):
    """Gaussian noise of standard deviation `sigma` (Cohen et al., 2019); radii are L2.

    Attributes:
        sigma: the standard deviation of each value, positive.

    Raises:
        SettingError: `sigma` is not a positive finite number.

    Example:
        >>> Gaussian(0.25).radius([0.5, 0.9]).round(4).tolist()
        [0.0, 0.3204]
    """

    sigma: float
    name: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "L2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))

    def sample(self, key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
        """Return standard normal numbers times `sigma`."""
        return standard_normal(key, draw, owner, size).mul_(self.sigma)

    def radius(self, bound: ArrayLike) -> NDArray[np.float64]:
        """Return `sigma * Phi^-1(bound)`."""
        return np.asarray(certified_radius(bound, self.sigma))

    def radius_in_sigma(self, bound: ArrayLike) -> NDArray[np.float64]:
        """Return `Phi^-1(bound)`."""
        return np.asarray(special.ndtri(np.asarray(bound, dtype=np.float64)))

    def bound(self, radius_in_sigma: ArrayLike) -> NDArray[np.float64]:
        """Return `Phi(radius / sigma)`."""
        return np.asarray(special.ndtr(np.asarray(radius_in_sigma, dtype=np.float64)))

    def to_json(self) -> Json:
        """Return `sigma` alone, as in all earlier files."""
        return {"sigma": self.sigma} if type(self) is Gaussian else super().to_json()


@dataclass(frozen=True)
class UnclippedGaussian(Gaussian):
    """Gaussian noise that may leave the input range, as in most publications; radii are L2.

    Inputs themselves must lie in the input range all the same.

    Attributes:
        sigma: the standard deviation of each value, positive.

    Raises:
        SettingError: `sigma` is not a positive finite number.

    Example:
        >>> UnclippedGaussian(0.25).to_json()
        {'noise': 'unclipped-gaussian', 'sigma': 0.25}
    """

    name: ClassVar[str] = "unclipped-gaussian"
    clipped: ClassVar[bool] = False


NOISES: dict[str, type[Noise]] = {kind.name: kind for kind in (Gaussian, UnclippedGaussian)}
"""Distributions by name. A file that names none means Gaussian."""


def as_noise(value: "float | Noise") -> Noise:
    """Return the noise; a number means Gaussian noise of that level."""
    return value if isinstance(value, Noise) else Gaussian(value)


def gaussian(sigma: float, *, clip: bool) -> Gaussian:
    """Return Gaussian noise, clipped or not."""
    return Gaussian(sigma) if clip else UnclippedGaussian(sigma)


def noise_from_json(value: Json) -> Noise:
    """Read what `to_json` wrote; the object may have other fields too."""
    name = value.get("noise", Gaussian.name)
    if name not in NOISES:
        raise FolderError(f"expected noise out of {', '.join(NOISES)}; got {name!r}")
    kind: Any = NOISES[name]
    found: Noise = kind(**{field.name: value[field.name] for field in fields(kind)})
    return found
