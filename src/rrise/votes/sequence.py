"""Votes in the order of their draws, for methods that stop early or choose a budget per input."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.errors import InputError
from rrise.votes.array import Votes, count_answers, votes_for
from rrise.votes.smoothing import Smoothing

_CHUNK = 1 << 18
"""How many answers are counted at a time."""


class VoteSequence(ABC):
    """The votes of inputs, vote by vote, stored or drawn on demand.

    Vote number j of an input is always the same, whenever and in whatever range it is requested.
    """

    smoothing: Smoothing
    stream: tuple[int, str] | None
    digests: NDArray[np.void] | None
    classes: int
    length: int
    """Votes per input."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of inputs."""

    @abstractmethod
    def _count(
        self, rows: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Count votes `start` to `stop - 1` of these inputs, `[rows, classes]`; all are in range."""

    def counts(self, start: ArrayLike, stop: ArrayLike, rows: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the class counts of votes `start` to `stop - 1`, `[rows, classes]`.

        `rows` are the inputs to count, all by default. `start` and `stop` are one number, or one per row.
        """
        chosen, first, last = self._ranges(start, stop, rows)
        if chosen.size == 0:
            return np.zeros((0, self.classes), dtype=np.int64)
        return self._count(chosen, first, last)

    def agreeing(
        self, label: NDArray[np.int64], start: ArrayLike, stop: ArrayLike, rows: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Return how many of votes `start` to `stop - 1` are for `label`, a class for each of the `rows`."""
        return votes_for(self.counts(start, stop, rows), label)

    def _ranges(
        self, start: ArrayLike, stop: ArrayLike, rows: ArrayLike | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows, and the start and stop of each; refuse what is out of range."""
        chosen = np.arange(len(self)) if rows is None else self._checked(rows)
        first, last = (
            np.ascontiguousarray(np.broadcast_to(np.asarray(end, dtype=np.int64), chosen.shape))
            for end in (start, stop)
        )
        if chosen.size and (first.min() < 0 or last.max() > self.length or np.any(first > last)):
            raise InputError(
                f"expected votes from 0 to {self.length}, the number per input; got {first.min()} to "
                f"{last.max()}"
            )
        return chosen, first, last

    def _checked(self, rows: ArrayLike) -> NDArray[np.int64]:
        chosen = np.asarray(rows)
        if chosen.size == 0:
            return np.zeros(0, dtype=np.int64)
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise InputError(
                f"expected rows as a 1-D array of input numbers, got {chosen.dtype} of shape {chosen.shape}"
            )
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise InputError(
                f"expected inputs from 0 to {len(self) - 1}, got {chosen.min()} to {chosen.max()}"
            )
        return chosen.astype(np.int64)

    def votes(self, n: int) -> Votes:
        """Return the class counts of the first `n` votes of every input."""
        return Votes(self.counts(0, n), self.smoothing, self.stream, self.digests)


class StoredVotes(VoteSequence):
    """Votes drawn earlier: the class of each, `[inputs, n]`."""

    def __init__(
        self,
        answers: NDArray[Any],
        classes: int,
        smoothing: Smoothing,
        stream: tuple[int, str] | None = None,
        digests: NDArray[np.void] | None = None,
    ) -> None:
        if answers.ndim != 2 or not np.issubdtype(answers.dtype, np.integer):
            raise InputError(
                f"expected answers as whole numbers of shape (inputs, n), got {answers.dtype} of shape "
                f"{answers.shape}"
            )
        if answers.size and not 0 <= int(answers.min()) <= int(answers.max()) < classes:
            raise InputError(
                f"expected answers from 0 to {classes - 1}, got from {answers.min()} to {answers.max()}"
            )
        self.answers, self.classes = answers, classes
        self.smoothing, self.stream, self.digests = smoothing, stream, digests
        self.length = answers.shape[1]

    def __len__(self) -> int:
        return len(self.answers)

    def _count(
        self, rows: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return count_ranges(self.answers, self.classes, rows, start, stop)

    def agreeing(
        self, label: NDArray[np.int64], start: ArrayLike, stop: ArrayLike, rows: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Return how many of votes `start` to `stop - 1` are for `label`, a class for each of the `rows`."""
        chosen, first, last = self._ranges(start, stop, rows)
        found = np.zeros(len(chosen), dtype=np.int64)
        if not len(chosen):
            return found
        low, high = int(first.min()), int(last.max())
        whole = bool((first == low).all() and (last == high).all())
        wanted = np.asarray(label).astype(self.answers.dtype)[:, None]
        step = max(1, _CHUNK // max(1, high - low))
        for begin in range(0, len(chosen), step):
            part = slice(begin, begin + step)
            same = self.answers[chosen[part], low:high] == wanted[part]
            if not whole:
                same &= within(first[part], last[part], low, high)
            found[part] = np.count_nonzero(same, axis=1)
        return found


def count_ranges(
    answers: NDArray[Any],
    classes: int,
    rows: NDArray[np.int64],
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Count the answers `start` to `stop - 1` of the given rows of `[inputs, n]`."""
    low, high = int(start.min()), int(stop.max())
    whole = bool((start == low).all() and (stop == high).all())
    counts = np.zeros((len(rows), classes), dtype=np.int64)
    step = max(1, _CHUNK // max(1, high - low))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        drawn = answers[rows[part], low:high]
        if whole:
            counts[part] = count_answers(drawn, classes)
        else:
            kept = within(start[part], stop[part], low, high)
            counts[part] = count_answers(np.where(kept, drawn, np.int32(classes)), classes + 1)[:, :classes]
    return counts


def within(start: NDArray[np.int64], stop: NDArray[np.int64], low: int, high: int) -> NDArray[np.bool_]:
    """Tell, for each row, which of the votes `low` to `high - 1` are in `start` to `stop - 1`."""
    place = np.arange(low, high)
    return (place >= start[:, None]) & (place < stop[:, None])
