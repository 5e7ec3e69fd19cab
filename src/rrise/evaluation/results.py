"""What an evaluation found: certificates of the same test inputs by both methods, and the truth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.evaluation.costs import Costs
from rrise.evaluation.metrics import observed_violations, summarise
from rrise.files import Json
from rrise.votes.array import Votes


@dataclass(frozen=True)
class Evaluation:
    """One entry per test input, `indices` being its place in the dataset; images are 8-bit."""

    indices: NDArray[np.int64]
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    surrogate: Certificates
    monte_carlo: Certificates
    votes: Votes
    costs: Costs

    def metrics(self) -> Json:
        """Return the headline numbers as JSON, unrounded."""
        return {
            "test_inputs": len(self.labels),
            "surrogate": summarise(self.surrogate, self.labels),
            "monte_carlo": summarise(self.monte_carlo, self.labels),
            "observed_violations": observed_violations(self.surrogate, self.votes),
            "passes_offline": self.costs.offline,
            "break_even_queries": self.costs.break_even,
        }

    def certificate_table(self) -> pa.Table:
        """Return the certificates of every test input, in full precision."""
        return pa.table(
            {
                "index": self.indices,
                "true_label": self.labels,
                **_columns("surrogate", self.surrogate),
                **_columns("monte_carlo", self.monte_carlo),
            }
        )


def _columns(prefix: str, certificates: Certificates) -> dict[str, Any]:
    names = ("label", "radius", "lower_bound", "issued")
    return {f"{prefix}_{name}": getattr(certificates, name) for name in names}
