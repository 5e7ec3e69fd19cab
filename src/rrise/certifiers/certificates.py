"""What every certifier returns."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.certifiers.guarantee import Guarantee
from rrise.statistics import certified_radius, round_down

DECIMALS = 6


@dataclass(frozen=True, eq=False)
class Certificates:
    """One certificate per input, as arrays of equal length.

    Attributes:
        label: the class answered, also where the certifier abstained.
        radius: L2 distance within which the smoothed classifier keeps answering `label`; 0 if abstained.
        lower_bound: lower bound on the smoothed probability of `label`.
        issued: whether a radius is certified (`lower_bound > 1/2`); otherwise the certifier abstained.
        guarantee: what is promised, at which level, under which assumption.
        passes: forward passes spent on each input.
    """

    label: NDArray[np.int64]
    radius: NDArray[np.float64]
    lower_bound: NDArray[np.float64]
    issued: NDArray[np.bool_]
    guarantee: Guarantee
    passes: NDArray[np.int64]

    @classmethod
    def from_bound(
        cls,
        label: NDArray[np.int64],
        lower_bound: NDArray[np.float64],
        *,
        sigma: float,
        guarantee: Guarantee,
        passes: ArrayLike,
    ) -> "Certificates":
        """Certify the radius that each lower bound proves; `passes` is one number for all, or one each."""
        radius = certified_radius(lower_bound, sigma)
        spent = np.broadcast_to(np.asarray(passes, dtype=np.int64), label.shape)
        return cls(label, radius, lower_bound, lower_bound > 0.5, guarantee, spent)

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, rows: Any) -> "Certificates":
        """Return the certificates of some of the inputs, picked by a mask, a slice or an array of places."""
        names = ("label", "radius", "lower_bound", "issued", "passes")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @property
    def mean_passes(self) -> float:
        """The average number of forward passes per input."""
        return float(self.passes.mean()) if len(self) else 0.0

    def records(self, class_names: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
        """Return plain dictionaries for JSON; radius and lower bound are rounded down."""
        radius, bound = round_down(self.radius, DECIMALS), round_down(self.lower_bound, DECIMALS)
        return [
            {
                "label": int(self.label[i]),
                **({"class_name": class_names[self.label[i]]} if class_names else {}),
                "radius": float(radius[i]),
                "lower_bound": float(bound[i]),
                "issued": bool(self.issued[i]),
            }
            for i in range(len(self))
        ]
