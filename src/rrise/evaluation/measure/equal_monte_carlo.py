"""How few votes would do: the cheapest Monte Carlo that certifies as much as a surrogate.

A surrogate mostly certifies less than Monte Carlo with thousands of votes, so what it saves is not these
thousands but the votes with which Monte Carlo certifies as much as the surrogate does.
"""

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.statistics import clopper_pearson_lower
from rrise.votes.array import check_votes, votes_for
from rrise.votes.noise import Noise


def _steps(first: int, last: int) -> tuple[int, ...]:
    """Return whole numbers, each the next one or at most a fifth more than the one before."""
    numbers = [first]
    while (following := max(numbers[-1] + 1, numbers[-1] * 6 // 5)) <= last:
        numbers.append(following)
    return tuple(numbers)


SELECTIONS = _steps(1, 2_000)
BUDGETS = _steps(5, 9_000)
"""Votes of the first and of the second stage that are tried."""
DRAWS = 3


@dataclass(frozen=True)
class Rival:
    """Two-stage Monte Carlo with few votes: its passes per query, and what it certifies on average."""

    passes: int
    certified_accuracy: float
    average_certified_radius: float


class Rivals:
    """Two-stage Monte Carlo with many small numbers of votes on the same inputs.

    The votes are drawn without replacement from the many that there are of each input, which is what
    collecting so few would give, several times, and what they certify is averaged. Both stages have votes of
    their own, as they must. The same votes give the same rivals.
    """

    def __init__(self, votes: Any, labels: NDArray[np.int64], noise: Noise) -> None:
        self._counts, self._n = check_votes(votes, len(labels))
        self._labels, self._noise = labels, noise
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
            bounds = {n: clopper_pearson_lower(np.arange(n + 1), n, level) for n in BUDGETS if n <= self._n}
            radii = {n: self._noise.radius(bound) for n, bound in bounds.items()}
            total = DRAWS * len(self._labels)
            self._at[level] = [
                Rival(
                    selection + n,
                    int(inputs[bounds[n] > 0.5].sum()) / total,
                    float((inputs * radii[n]).sum()) / total,
                )
                for (selection, n), inputs in self._drawn.items()
            ]
        return self._at[level]

    @cached_property
    def _drawn(self) -> dict[tuple[int, int], NDArray[np.int64]]:
        """How many inputs, over all draws, have 0, 1, 2, ... votes that agree in the second stage.

        Of those whose label the first stage gets right; by the votes of both stages.
        """
        found: dict[tuple[int, int], NDArray[np.int64]] = {}
        rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(self._counts).tobytes()))
        for (selection, n), agreeing in self._draws(rng):
            inputs = np.bincount(agreeing, minlength=n + 1)
            found[selection, n] = found.get((selection, n), 0) + inputs
        return found

    def _draws(self, rng: np.random.Generator) -> Iterator[tuple[tuple[int, int], NDArray[np.int64]]]:
        order = np.argsort(-self._counts, axis=1, kind="stable")
        ranked = np.take_along_axis(self._counts, order, axis=1)
        chosen, votes = np.empty_like(self._counts), votes_for(self._counts, self._labels)
        for _, selection in itertools.product(range(DRAWS), SELECTIONS):
            if selection >= self._n:
                continue
            np.put_along_axis(chosen, order, _without_replacement(rng, ranked, selection), axis=1)
            right = chosen.argmax(axis=1) == self._labels
            good = (votes - votes_for(chosen, self._labels))[right]
            for n in BUDGETS:
                if selection + n <= self._n:
                    yield (selection, n), rng.hypergeometric(good, self._n - selection - good, n)


def _without_replacement(rng: np.random.Generator, counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the counts of `n` votes of each input, drawn without replacement.

    Fastest where large counts come first: few votes are then soon drawn.
    """
    drawn, left = np.zeros_like(counts), np.full(len(counts), n)
    others = counts.sum(axis=1)
    for k in range(counts.shape[1]):
        others = others - counts[:, k]
        rows = np.flatnonzero(left)
        if not len(rows):
            break
        drawn[rows, k] = rng.hypergeometric(counts[rows, k], others[rows], left[rows])
        left[rows] -= drawn[rows, k]
    return drawn
