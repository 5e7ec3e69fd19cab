"""Votes drawn from known probabilities when they are asked for, so that many inputs cost little."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.votes.sequence import StoredVotes, VoteSequence
from rrise.votes.smoothing import Smoothing

SMOOTHING = Smoothing("f" * 64, 0.5, None, "float32")


class DrawnVotes(VoteSequence):
    """Inputs that all have the same class probabilities.

    Only the counts are drawn: no vote may be asked for twice, and none skipped. `drawn` says how many
    votes of each input were asked for.
    """

    def __init__(self, probabilities: ArrayLike, inputs: int, length: int, seed: int = 0) -> None:
        self.probabilities = np.asarray(probabilities, dtype=np.float64)
        self.classes, self.length = len(self.probabilities), length
        self.smoothing, self.stream, self.digests = SMOOTHING, None, None
        self.drawn = np.zeros(inputs, dtype=np.int64)
        self.generator = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.drawn)

    def _count(
        self, rows: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        assert np.array_equal(start, self.drawn[rows])
        self.drawn[rows] = stop
        return self.generator.multinomial(stop - start, self.probabilities)


def stored_votes(
    probabilities: NDArray[np.float64], length: int, classes: int = 2, seed: int = 0
) -> StoredVotes:
    """Store votes of inputs whose class 0 has these probabilities and whose other classes share the rest."""
    rng = np.random.default_rng(seed)
    others = rng.integers(1, classes, (len(probabilities), length))
    first = rng.random((len(probabilities), length)) < probabilities[:, None]
    return StoredVotes(np.where(first, 0, others), classes, SMOOTHING)
