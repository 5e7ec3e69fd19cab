"""How few votes would do: the cheapest Monte Carlo that certifies as much as a surrogate.

A surrogate certifies less than Monte Carlo with thousands of votes, so what it saves is not these thousands
but the votes with which Monte Carlo certifies as much as the surrogate does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.statistics import certified_radius, clopper_pearson_lower
from rrise.votes.array import check_votes, votes_for

SELECTIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
BUDGETS = (5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 100, 120, 150, 200, 300, 500, 700, 1_000, 2_000, 5_000)
"""Votes of the first and of the second stage that are tried: what is cheapest is so among these."""


@dataclass(frozen=True)
class Rival:
    """Two-stage Monte Carlo with few votes: its passes per query, and what it certifies."""

    passes: int
    certified_accuracy: float
    average_certified_radius: float


class Rivals:
    """Two-stage Monte Carlo with many small numbers of votes on the same inputs.

    The votes are drawn, without replacement and by a seed, from the many that there are of each input: that
    is what collecting so few would give. Both stages have votes of their own, as they must.
    """

    def __init__(self, votes: Any, labels: NDArray[np.int64], sigma: float, seed: int = 0) -> None:
        self._counts, self._n = check_votes(votes, len(labels))
        self._labels, self._sigma, self._seed = labels, sigma, seed
        self._at: dict[float, list[Rival]] = {}

    def cheapest(self, level: float, certified_accuracy: float, radius: float) -> Rival | None:
        """Return the one with the fewest passes that certifies at least so much at `alpha = level`.

        Both CertAcc(0) and the average certified radius count. None if none does, or nothing is asked for.
        """
        if certified_accuracy <= 0:
            return None
        enough = [
            rival
            for rival in self.at(level)
            if rival.certified_accuracy >= certified_accuracy and rival.average_certified_radius >= radius
        ]
        return min(enough, key=lambda rival: rival.passes, default=None)

    def at(self, level: float) -> Sequence[Rival]:
        """Return what each certifies at `alpha = level`."""
        if level not in self._at:
            self._at[level] = [self._certified(*drawn, level) for drawn in self._drawn]
        return self._at[level]

    def _certified(
        self, selection: int, n: int, label: NDArray[np.int64], agreeing: NDArray[np.int64], level: float
    ) -> Rival:
        bound, right = clopper_pearson_lower(agreeing, n, level), label == self._labels
        radius = np.where(right, certified_radius(bound, self._sigma), 0)
        return Rival(selection + n, float((right & (bound > 0.5)).mean()), float(radius.mean()))

    @cached_property
    def _drawn(self) -> list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        return list(self._draw())

    def _draw(self) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield votes of both stages, the label that the first chooses, and votes for it in the second."""
        rng = np.random.default_rng(self._seed)
        for selection in SELECTIONS:
            if selection >= self._n:
                return
            chosen = _without_replacement(rng, self._counts, selection)
            label = chosen.argmax(axis=1)
            good = votes_for(self._counts - chosen, label)
            for n in BUDGETS:
                if selection + n <= self._n:
                    yield selection, n, label, rng.hypergeometric(good, self._n - selection - good, n)


def _without_replacement(rng: np.random.Generator, counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the counts of `n` votes of each input, drawn without replacement."""
    drawn, left = np.zeros_like(counts), np.full(len(counts), n)
    others = counts.sum(axis=1)
    for k in range(counts.shape[1]):
        others = others - counts[:, k]
        drawn[:, k] = rng.hypergeometric(counts[:, k], others, left)
        left = left - drawn[:, k]
    return drawn
