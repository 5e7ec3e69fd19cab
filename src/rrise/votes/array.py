"""Votes as an array that remembers where it comes from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.data.inputs import DIGEST_SIZE
from rrise.errors import InputError, MismatchError
from rrise.votes.smoothing import Smoothing


class Votes(np.ndarray[Any, np.dtype[np.int64]]):
    """Class counts `[inputs, K]` as an int64 array that knows where it comes from.

    Selecting inputs (`votes[10:20]`, `votes[mask]`) keeps the attributes. Any other operation gives counts of
    unknown origin. The array is read-only; `np.array(votes)` is a plain copy.

    Attributes:
        counts: what it is made from; the array itself afterwards.
        smoothing: the smoothed classifier that the votes estimate; None if unknown.
        stream: seed and split of the noise; votes of the same inputs and stream share noise.
        digests: one digest per input, or None.

    Example:
        >>> import rrise, torch
        >>> votes = rrise.collect_votes(torch.nn.Linear(2, 3), np.full((4, 2), 0.5), sigma=0.25, n=100)
        >>> votes[:2].smoothing.sigma, votes.stream
        (0.25, (0, 'inputs'))
        >>> (votes / 100).sum(axis=1).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    smoothing: Smoothing | None
    stream: tuple[int, str] | None
    digests: NDArray[np.void] | None

    def __new__(
        cls,
        counts: NDArray[np.int64],
        smoothing: Smoothing,
        stream: tuple[int, str] | None = None,
        digests: list[bytes] | NDArray[np.void] | None = None,
    ) -> "Votes":
        """Copy the counts and attach their origin."""
        votes = np.array(counts, dtype=np.int64).view(cls)
        votes.smoothing, votes.stream = smoothing, stream
        votes.digests = None if digests is None else digest_array(digests)
        votes.flags.writeable = False
        return votes

    @classmethod
    def joined(cls, parts: Sequence["Votes"]) -> "Votes":
        """Join votes of several sets of inputs; all must be of one smoothed classifier."""
        if len(parts) == 1:
            return parts[0]
        origins = [part.smoothing for part in parts if part.smoothing is not None]
        if len(origins) < len(parts):
            raise InputError("expected votes of known origin to join, got some plain counts")
        for other in origins[1:]:
            origins[0].check_same(other, "the first votes", "others to join with them")
        known = [part.digests for part in parts if part.digests is not None]
        digests = np.concatenate(known) if len(known) == len(parts) else None
        return cls(np.concatenate([np.asarray(part) for part in parts]), origins[0], digests=digests)

    def __array_finalize__(self, source: Any) -> None:
        self.smoothing, self.stream, self.digests = None, None, None

    def __getitem__(self, key: Any) -> Any:
        picked = super().__getitem__(key)
        rows_only = isinstance(picked, Votes) and not isinstance(key, tuple)
        if rows_only and picked.ndim == self.ndim == 2 and picked.shape[1] == self.shape[1]:
            picked.smoothing, picked.stream = self.smoothing, self.stream
            picked.digests = None if self.digests is None else self.digests[key]
            picked.flags.writeable = False
        return picked

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        plain = [_plain(value) for value in inputs]
        if "out" in keywords:
            keywords["out"] = tuple(_plain(value) for value in keywords["out"])
        return getattr(ufunc, method)(*plain, **keywords)


def count_answers(answers: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Count classes `[inputs, n]` into votes `[inputs, classes]`.

    >>> count_answers(np.array([[0, 2, 2], [1, 1, 1]]), 3).tolist()
    [[1, 0, 2], [0, 3, 0]]
    """
    flat = answers + classes * np.arange(len(answers))[:, None]
    return np.bincount(flat.ravel(), minlength=classes * len(answers)).reshape(-1, classes)


def votes_for(counts: NDArray[np.int64], label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each input, how many of its votes are for its label."""
    return np.asarray(np.take_along_axis(counts, label[:, None], axis=1)[:, 0])


def check_same_inputs(votes: Any, digests: list[bytes] | NDArray[np.void]) -> None:
    """Refuse votes known to be of other inputs than these, or in another order."""
    known = getattr(votes, "digests", None)
    if known is None:
        return
    given = digest_array(digests)
    if len(given) == len(known) and bool((different := given != known).any()):
        raise MismatchError(
            f"the votes are of other inputs than those given, or in another order: they differ in "
            f"{int(different.sum())} of {len(given)} places, first at input {int(different.argmax())}"
        )


def digest_array(digests: list[bytes] | NDArray[np.void]) -> NDArray[np.void]:
    """Return one digest per input as an array."""
    if isinstance(digests, np.ndarray):
        return digests
    return np.frombuffer(b"".join(digests), dtype=np.dtype((np.void, DIGEST_SIZE)))


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Votes) else value


def check_votes(votes: Any, inputs: int, classes: int | None = None) -> tuple[NDArray[np.int64], int]:
    """Return the counts as a plain array and the budget n; refuse invalid votes."""
    counts = np.asarray(votes)
    if counts.ndim != 2 or not np.issubdtype(counts.dtype, np.integer):
        raise InputError(
            f"expected votes as whole numbers of shape (inputs, classes), got {counts.dtype} of shape "
            f"{counts.shape}"
        )
    if len(counts) != inputs:
        raise InputError(f"expected votes for each of the {inputs} inputs, got {len(counts)} rows")
    if inputs == 0:
        raise InputError("expected votes of at least one input, got none")
    if classes is not None and counts.shape[1] != classes:
        raise InputError(f"expected votes over {classes} classes, got {counts.shape[1]}")
    totals = counts.sum(axis=1)
    n = int(totals[0])
    if np.any(counts < 0) or np.any(totals != n) or n < 1:
        raise InputError(
            f"expected the same positive number of votes for every input, got from {int(totals.min())} to "
            f"{int(totals.max())}"
        )
    return counts.astype(np.int64, copy=False), n
