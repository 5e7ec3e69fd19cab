"""Votes in the order in which they were drawn: what methods that stop early, or look first, work on."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.errors import InputError
from rrise.votes.array import Smoothing, Votes

_CHUNK = 1 << 24
"""Answers to count at a time."""


class VoteSequence(ABC):
    """The votes of inputs, vote by vote; they are stored, or drawn as they are asked for.

    Vote number j of an input is the same whenever and in whatever part it is asked for.
    """

    smoothing: Smoothing
    stream: tuple[int, str] | None
    digests: NDArray[np.void] | None
    classes: int
    length: int
    """How many votes each input has."""

    @abstractmethod
    def __len__(self) -> int:
        """How many inputs there are."""

    @abstractmethod
    def _count(
        self, rows: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Count votes `start` to `stop - 1` of these inputs, `[rows, classes]`; all are in range."""

    def counts(self, start: ArrayLike, stop: ArrayLike, rows: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return how often each class is among votes `start` to `stop - 1`, `[rows, classes]`.

        `rows` are the inputs to count for, all by default; `start` and `stop` are one number or one each.
        """
        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, dtype=np.int64)
        first, last = (
            np.ascontiguousarray(np.broadcast_to(np.asarray(end, dtype=np.int64), chosen.shape))
            for end in (start, stop)
        )
        if chosen.size == 0:
            return np.zeros((0, self.classes), dtype=np.int64)
        if first.min() < 0 or last.max() > self.length or np.any(first > last):
            raise InputError(
                f"expected votes from 0 to {self.length}, which each input has; got {first.min()} to "
                f"{last.max()}"
            )
        return self._count(chosen, first, last)

    def votes(self, n: int) -> Votes:
        """Return the first `n` votes of every input, counted."""
        return Votes(self.counts(0, n), self.smoothing, self.stream, self.digests)


class StoredVotes(VoteSequence):
    """Votes that were drawn before: the class of each, `[inputs, n]`."""

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
        self.answers, self.classes = answers, classes
        self.smoothing, self.stream, self.digests = smoothing, stream, digests
        self.length = answers.shape[1]

    def __len__(self) -> int:
        return len(self.answers)

    def _count(
        self, rows: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        low, high = int(start.min()), int(stop.max())
        whole = bool((start == low).all() and (stop == high).all())
        counts = np.zeros((len(rows), self.classes), dtype=np.int64)
        step = max(1, _CHUNK // max(1, high - low))
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            answers = self.answers[rows[part], low:high].astype(np.int32)
            if not whole:
                place = np.arange(low, high)
                outside = (place < start[part, None]) | (place >= stop[part, None])
                answers[outside] = self.classes
            width = self.classes + 1
            flat = (answers + width * np.arange(len(answers), dtype=np.int32)[:, None]).ravel()
            found = np.bincount(flat, minlength=width * len(answers)).reshape(-1, width)
            counts[part] = found[:, : self.classes]
        return counts
