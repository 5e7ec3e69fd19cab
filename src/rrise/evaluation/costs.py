"""Costs in forward-pass equivalents; one backward pass counts as two."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """What the surrogate costs once, and what each certificate costs then and by Monte Carlo."""

    target_votes: int
    surrogate_training: int
    calibration: int
    per_query: int
    monte_carlo_per_query: int

    @property
    def offline(self) -> int:
        """All passes before the first query."""
        return self.target_votes + self.surrogate_training + self.calibration

    @property
    def break_even(self) -> int | None:
        """The number of queries from which on the surrogate is cheaper in all; None if never.

        >>> Costs(900_000, 900, 100_000, 1, 10_101).break_even
        100
        """
        saved = self.monte_carlo_per_query - self.per_query
        return math.ceil(self.offline / saved) if saved > 0 else None
