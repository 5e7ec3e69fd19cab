"""What a report shows beside the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.outcomes import Outcome
from rrise.files import Json
from rrise.votes.array import Votes


@dataclass(frozen=True)
class WrongCase:
    """A wrong certificate that an attack got: the picture, natural beside moved, and what was claimed."""

    png: str
    """In Base64."""
    attack: str
    natural: str
    """The answer to the natural input."""
    answer: str
    lower_bound: float
    share: float
    """Of fresh votes for the answer, around the moved input."""


@dataclass(frozen=True)
class Attacked:
    """What an audit found, as a report shows it."""

    verdict: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    attacks: dict[str, str]
    """What each attack does."""
    figure: str
    """As SVG."""
    cases: tuple[WrongCase, ...]


@dataclass(frozen=True, eq=False)
class Shown:
    """What a report shows beside the numbers, an entry for each reported input.

    `indices` are their places in the dataset; images are 8-bit, None where they are not at hand.
    `top_probability` is that of each surrogate by its variant.
    """

    indices: NDArray[np.int64]
    images: NDArray[np.uint8] | None
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    reference: Votes
    top_probability: dict[str, NDArray[np.float64]]
    recipe: str
    """As TOML."""
    paper: bool
    attacked: Attacked | None = None

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        outcomes: Sequence[Outcome],
        *,
        images: NDArray[np.uint8] | None,
        class_names: tuple[str, ...],
        recipe: str,
        paper: bool,
    ) -> "Shown":
        """Take from the evidence what it has, and the rest as given."""
        return cls(
            evidence.indices,
            images,
            evidence.labels,
            class_names,
            tuple(outcomes),
            evidence.reference,
            {one.variant: one.test.top_probability for one in evidence.surrogates},
            recipe,
            paper,
        )

    def certificate_table(self, results: Json) -> pa.Table:
        """Return the certificates of every input by every method of the main comparison, a row each."""
        parts = []
        for outcome, result in zip(self.outcomes, results["results"], strict=True):
            if not result["main"]:
                continue
            setting, certificates = outcome.setting, outcome.certificates
            texts = {name: getattr(setting, name) for name in ("method", "variant", "failure", "score")}
            parts.append(
                pa.table(
                    {
                        "index": self.indices,
                        "true_label": self.labels,
                        **{name: pa.array([text] * len(self.labels)) for name, text in texts.items()},
                        "label": certificates.label,
                        "radius": certificates.radius,
                        "lower_bound": certificates.lower_bound,
                        "issued": certificates.issued,
                        "passes": certificates.passes,
                    }
                )
            )
        return pa.concat_tables(parts)
