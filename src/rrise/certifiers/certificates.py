"""What every certifier returns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.certifiers.guarantee import Guarantee
from rrise.errors import MismatchError
from rrise.statistics import format_down, round_down

DECIMALS = 6
_SHOWN = 10
"""The most certificates that `repr` shows: half from the start and half from the end if there are more."""


@dataclass(frozen=True, eq=False, repr=False)
class Certificates:
    """One certificate per input, as arrays of equal length.

    Attributes:
        label: the predicted class, even if the certifier abstained.
        radius: distance within which the smoothed classifier keeps answering `label`; 0 if abstained.
        lower_bound: lower bound on the smoothed probability of `label`.
        issued: whether a radius is certified: the bound is above 1/2, or an exported graph rounds it down to
            1/2. Otherwise the certifier abstained.
        guarantee: what is promised, with which failure, under which assumptions.
        passes: forward passes per input.
        probabilities: class probabilities `[inputs, K]`, if known: those of the surrogate before
            calibration, or the shares of the votes.
        methods: the method that certified each input, where they differ, as in a cascade.

    Example:
        >>> import numpy as np, torch, rrise
        >>> base = torch.nn.Linear(2, 2)
        >>> certifier = rrise.MonteCarlo(100, failure=0.01).bind(base, sigma=0.25, seed=0)
        >>> certificates = certifier.certify(np.random.default_rng(0).random((3, 2)))
        >>> len(certificates), certificates.passes.tolist()
        (3, [200, 200, 200])
    """

    label: NDArray[np.int64]
    radius: NDArray[np.float64]
    lower_bound: NDArray[np.float64]
    issued: NDArray[np.bool_]
    guarantee: Guarantee
    passes: NDArray[np.int64]
    probabilities: NDArray[np.float32] | None = None
    methods: NDArray[np.str_] | None = None

    @classmethod
    def from_bound(
        cls,
        label: NDArray[np.int64],
        lower_bound: NDArray[np.float64],
        *,
        guarantee: Guarantee,
        passes: ArrayLike,
        probabilities: NDArray[np.float32] | None = None,
    ) -> "Certificates":
        """Certify the radius that each lower bound proves; `passes` is one number, or one per input."""
        radius = guarantee.smoothing.noise.radius(lower_bound)
        spent = np.full(label.shape, passes, dtype=np.int64)
        return cls(label, radius, lower_bound, lower_bound > 0.5, guarantee, spent, probabilities)

    @classmethod
    def joined(cls, parts: Sequence["Certificates"]) -> "Certificates":
        """Join the certificates of several batches under one guarantee."""
        if len(parts) == 1:
            return parts[0]
        if any(part.guarantee != parts[0].guarantee for part in parts):
            raise MismatchError("certificates under different guarantees cannot be joined")
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS
        }
        for name in _OPTIONAL:
            known = [getattr(part, name) for part in parts if getattr(part, name) is not None]
            arrays[name] = np.concatenate(known) if len(known) == len(parts) else None
        return replace(parts[0], **arrays)

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, rows: Any) -> "Certificates":
        """Return the certificates of some inputs, selected by a mask, a slice or an array of indices."""
        arrays: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        for name in _OPTIONAL:
            values = getattr(self, name)
            arrays[name] = None if values is None else values[rows]
        return Certificates(guarantee=self.guarantee, **arrays)

    def where(self, kept: NDArray[np.bool_], other: "Certificates") -> "Certificates":
        """Return these certificates where `kept`, and those of `other` elsewhere, under this guarantee."""
        arrays: dict[str, Any] = {
            name: np.where(kept, getattr(self, name), getattr(other, name)) for name in _ARRAYS
        }
        for name in _OPTIONAL:
            mine, theirs = getattr(self, name), getattr(other, name)
            rows = kept.reshape(-1, *[1] * (0 if mine is None else mine.ndim - 1))
            arrays[name] = None if mine is None or theirs is None else np.where(rows, mine, theirs)
        return replace(self, **arrays)

    def __repr__(self) -> str:
        """Return a small table of at most a few certificates."""
        head = f"Certificates of {len(self)} inputs: {int(self.issued.sum())} issued"
        head += f", {len(self) - int(self.issued.sum())} abstained"
        places = np.arange(len(self))
        if len(self) > _SHOWN:
            places = np.concatenate([places[: _SHOWN // 2], places[-_SHOWN // 2 :]])
        rows = [["", "label", "radius", "lower_bound", "passes"]]
        for place in places:
            radius = format_down(float(self.radius[place])) if self.issued[place] else "abstained"
            bound = format_down(float(self.lower_bound[place]))
            rows.append([str(place), str(self.label[place]), radius, bound, str(self.passes[place])])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows
        ]
        if len(self) > _SHOWN:
            lines.insert(1 + _SHOWN // 2, "...")
        promise = f"failure {self.guarantee.failure_text}, {self.guarantee.kind.value} guarantee"
        return "\n".join([f"{head} ({promise})", *lines])

    @property
    def mean_passes(self) -> float:
        """The average number of forward passes per input."""
        return float(self.passes.mean()) if len(self) else 0.0

    def abstained(self) -> "Certificates":
        """Return the same labels, with nothing certified."""
        nothing = np.zeros(len(self))
        return replace(self, radius=nothing, lower_bound=nothing, issued=np.zeros(len(self), dtype=np.bool_))

    def rounded_down(self) -> "Certificates":
        """Return them with radius and lower bound rounded down to the digits that `records` writes."""
        radius, bound = (round_down(values, DECIMALS) for values in (self.radius, self.lower_bound))
        return replace(self, radius=radius, lower_bound=bound)

    def records(
        self, class_names: tuple[str, ...] | None = None, *, rounded: bool = True
    ) -> list[dict[str, Any]]:
        """Return plain dictionaries for JSON; radius and lower bound are rounded down, unless told not to."""
        if rounded:
            return self.rounded_down().records(class_names, rounded=False)
        radius, bound = self.radius.tolist(), self.lower_bound.tolist()
        label, issued = self.label.tolist(), self.issued.tolist()
        return [
            {
                "label": label[i],
                **({"class_name": class_names[label[i]]} if class_names else {}),
                "radius": radius[i],
                "lower_bound": bound[i],
                "issued": issued[i],
                **({} if self.methods is None else {"method": str(self.methods[i])}),
            }
            for i in range(len(self))
        ]


_ARRAYS = ("label", "radius", "lower_bound", "issued", "passes")
_OPTIONAL = ("probabilities", "methods")
