"""Costs in forward-pass equivalents; one backward pass counts as two.

There are two ways to count what a surrogate costs before its first query. The honest one counts everything
per example: the votes of the targets, training to the selected epoch, and the votes of calibration. The
paper's counts training per minibatch, as if a batch were one pass, and leaves calibration out.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.errors import SettingError
from rrise.evaluation.measure.outcomes import Offline

COUNTED = {False: ("targets", "training", "calibration"), True: ("targets", "training_paper")}
"""Metrics that make up what a surrogate costs before its first query, by whether the paper counts."""
PER_UPDATE = 3
"""One forward pass and one backward pass, which counts as two."""


def offline_total(offline: Offline) -> int:
    """Return all passes before the first query, the honest count: targets, training, calibration.

    >>> offline_total(Offline(targets=900_000, training=900, calibration=100_000))
    1000900
    """
    return offline.targets + offline.training + offline.calibration


def training_paper(offline: Offline) -> int:
    """Return the passes of training as the paper counts them: `ceil(N / batch) * 3 * epoch`.

    `N` are all inputs with targets, also those held out for validation. Per example it would be
    `N * 3 * epoch`.

    >>> training_paper(Offline(training_inputs=50_000, batch_size=512, epoch=146))
    42924
    """
    if offline.epoch == 0:
        return 0
    if offline.batch_size < 1:
        raise SettingError(
            f"expected the batch size of a training of {offline.epoch} epochs, got {offline.batch_size}: "
            f"the paper's count needs it"
        )
    return -(-offline.training_inputs // offline.batch_size) * PER_UPDATE * offline.epoch


def offline_total_paper(offline: Offline) -> int:
    """Return the paper's train cost: targets, and training counted per minibatch; no calibration.

    >>> offline_total_paper(Offline(500_000_000, training_inputs=50_000, batch_size=512, epoch=146))
    500042924
    """
    return offline.targets + training_paper(offline)


def break_even(offline: int, ours: Fraction | float, theirs: Fraction | float) -> int | None:
    """Return `ceil(offline / (theirs - ours))`, the queries from which on we cost no more in all.

    `ours` and `theirs` are passes per query, and the arithmetic is exact. None if a query of theirs is
    no dearer than one of ours: then never. What comes out is only as meaningful as `theirs`: in its main
    comparison the paper prints break-evens that rest on the 5 % variants of Baselines 2 and 3 beside the
    costs of their 1 % variants, which would give less than half as many queries.

    >>> break_even(500_042_924, 1, 10_000), break_even(1_000, 2, 2)
    (50010, None)
    """
    saved = Fraction(theirs) - Fraction(ours)
    return math.ceil(offline / saved) if saved > 0 else None


def savings(queries: ArrayLike, offline: int, ours: float, theirs: float) -> NDArray[np.float64]:
    """Return what we save in all after each number of queries: `S(m) = m theirs - (offline + m ours)`.

    Negative until the break-even.

    >>> savings([0, 50, 100], 1_000, 1, 21).tolist()
    [-1000.0, 0.0, 1000.0]
    """
    m = np.asarray(queries, dtype=np.float64)
    return np.asarray(m * theirs - (offline + m * ours))
