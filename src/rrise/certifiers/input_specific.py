"""A budget for each input, planned from a few pilot votes: Baseline 2 of the paper."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, per_input_guarantee
from rrise.certifiers.guarantee_words import register_words
from rrise.certifiers.method import Method, register_method
from rrise.certifiers.voting import SELECTION_VOTES, VoteMethod, check_enough_votes, check_whole_number
from rrise.errors import SettingError
from rrise.looks import GREEN, Look
from rrise.statistics import (
    Level,
    certified_radius,
    check_level,
    clopper_pearson_interval,
    clopper_pearson_lower,
    exact_level,
    level_text,
)
from rrise.votes.array import votes_for
from rrise.votes.sequence import VoteSequence
from rrise.votes.smoothing import Smoothing

GRID = 1000
"""The mapping divides the proportions from 0 to 1 into this many steps."""
FEWEST = 100
"""Minimum votes of a pilot, and of a certificate."""
DECLINES = (0.01, 0.05)
"""Relative declines of the radius that the paper accepts."""

_BLOCK = 64


@dataclass(frozen=True)
class InputSpecificBudget(VoteMethod):
    """Plans each input's votes from a pilot, after Seferis et al. (2024); Baseline 2 of the paper.

    The pilot is the first `min(n, max(100, floor(n / 100)))` votes; its top class is the label. That class
    has a two-sided Clopper–Pearson interval at `failure`, widened to the grid. `budget_mapping` gives a
    budget for each end. The larger budget is drawn as fresh votes: at least 100, at most what the pilot
    leaves of `n`. The certificate is the Clopper–Pearson bound at `failure` from the fresh votes alone.
    Proportions strictly between the ends may need more votes than either end; the paper ignores them too.

    Guarantee: valid for each input at `failure`. Label and budget depend on the pilot alone, and the bound
    uses none of the pilot's votes. If both ends map to 0, no vote is drawn and the certifier abstains. The
    bound is then the pilot's own, but at most 1/2: votes that chose a class do not certify it.

    Attributes:
        n: the most votes per input, pilot included.
        decline: the accepted relative decline of the radius, compared with that of `n` votes.
        failure: the allowed probability of a wrong certificate, below 1/2.

    Raises:
        SettingError: a setting is invalid, or `n` votes are too few for this failure.

    Example:
        >>> import numpy as np, torch
        >>> base = torch.nn.Linear(4, 3)
        >>> method = InputSpecificBudget(500, decline=0.1, failure=0.01)
        >>> certifier = method.bind(base, sigma=0.25, seed=0)
        >>> bool((certifier.certify(np.full((2, 4), 0.5)).passes <= 500).all())
        True
    """

    n: int
    decline: float
    failure: Level = 0.001

    def __post_init__(self) -> None:
        check_whole_number(self, "n")
        alpha = exact_level(self.failure, "failure")
        if alpha >= Fraction(1, 2):
            raise SettingError(f"expected failure below 1/2, got {self.failure}")
        check_level(self.decline, "decline")
        enough = int(np.floor(-np.log2(float(alpha)))) + 1
        if self.n - self.pilot < enough:
            raise SettingError(
                f"a budget of n={self.n} leaves {self.n - self.pilot} votes after a pilot of {self.pilot}, "
                f"but failure={self.failure} needs {enough}: use n={FEWEST + enough} or more"
            )

    @property
    def name(self) -> str:
        """What it is called in tables."""
        level = level_text(exact_level(self.failure, "failure"))
        return f"input-specific budget, n={self.n}, decline={self.decline:g}, failure={level}"

    @property
    def pilot(self) -> int:
        """The number of pilot votes."""
        return min(self.n, max(FEWEST, self.n // 100))

    def guarantee(self, smoothing: Smoothing, selection_votes: int = SELECTION_VOTES) -> Guarantee:  # noqa: ARG002
        """State the guarantee: for each input, at `failure`."""
        failure = exact_level(self.failure, "failure")
        settings = {"largest_budget": self.n, "pilot_votes": self.pilot, "decline": self.decline}
        return per_input_guarantee("input-specific-budget", failure, smoothing, **settings)

    def certify_votes(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:  # noqa: ARG002
        """Certify from as many votes as planned; `selection` is not used."""
        check_enough_votes(votes, self.n)
        alpha = float(exact_level(self.failure, "failure"))
        counts = votes.counts(0, self.pilot)
        label = counts.argmax(axis=1)
        agreeing = votes_for(counts, label)
        fresh = self.planned(agreeing)
        bound = np.minimum(np.atleast_1d(clopper_pearson_lower(agreeing, self.pilot, alpha)), 0.5)
        rows = np.flatnonzero(fresh)
        found = votes.agreeing(label[rows], self.pilot, self.pilot + fresh[rows], rows)
        bound[rows] = clopper_pearson_lower(found, fresh[rows], alpha)
        return Certificates.from_bound(
            label,
            bound,
            guarantee=self.guarantee(votes.smoothing),
            passes=self.pilot + fresh,
        )

    def planned(self, agreeing: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the fresh votes to draw, given how many pilot votes agree; 0 if none would help."""
        alpha = float(exact_level(self.failure, "failure"))
        low, high = clopper_pearson_interval(agreeing, self.pilot, alpha)
        _, mapped = budget_mapping(self.n, self.decline, alpha)
        ends = np.stack([np.floor(low * GRID), np.ceil(high * GRID)]).astype(np.int64)
        largest = mapped[ends].max(axis=0)
        wanted = np.minimum(np.maximum(largest, FEWEST), self.n - self.pilot)
        return np.where(largest > 0, wanted, 0)


@lru_cache(maxsize=256)
def budget_mapping(k: int, decline: float, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the proportions 0, 0.001, ..., 1 and the votes that each needs for nearly the radius of `k`.

    The full radius of a proportion `p` is the Clopper–Pearson radius of `round(k p)` successes out of `k`.
    The votes are the smallest `n` at which `round(n p)` successes out of `n` reach at least `1 - decline`
    times that radius; 0 if the full radius is 0. Halves round to even. Rounding can favour one `n`, so the
    next larger ones may fall short again. `alpha` must be below 1/2.

    >>> proportion, n = budget_mapping(10_000, 0.01, 0.001)
    >>> [int(n[i]) for i in (500, 520, 600, 900, 1000)]
    [0, 9901, 8951, 6515, 8954]
    """
    step = np.arange(GRID + 1)
    full = _radius(step, np.full(GRID + 1, k), alpha)
    smallest = np.zeros(GRID + 1, dtype=np.int64)
    active = np.flatnonzero(full > 0)
    wanted = (1 - decline) * full[active]
    start = _earliest(active, wanted, k, alpha)
    while active.size:
        candidates = np.minimum(start[:, None] + np.arange(_BLOCK), k)
        reached = _radius(active[:, None], candidates, alpha) >= wanted[:, None]
        found, first = reached.any(axis=1), reached.argmax(axis=1)
        smallest[active[found]] = candidates[found, first[found]]
        active, wanted, start = active[~found], wanted[~found], start[~found] + _BLOCK
    proportion = step / GRID
    for array in (proportion, smallest):
        array.flags.writeable = False
    return proportion, smallest


def _radius(step: NDArray[np.int64], n: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """Return the radius, in units of sigma, of `round(n step / GRID)` successes of `n`."""
    return certified_radius(clopper_pearson_lower(np.rint(n * step / GRID), n, alpha), 1.0)


def _earliest(
    step: NDArray[np.int64], wanted: NDArray[np.float64], k: int, alpha: float
) -> NDArray[np.int64]:
    """Return, for each proportion above 1/2, an `n` below which the wanted radius is out of reach.

    Rounding adds at most half a success. With that half, the bound is the `alpha` quantile of
    Beta(n p + 1/2, n (1 - p) + 1/2), or of Beta(n, 1) if there would be more than `n` successes. Mean and
    concentration of both grow with `n`, hence their quantiles grow too. Bisection finds where they suffice.
    """
    bound = special.ndtr(wanted)
    low, high = np.zeros(len(step), dtype=np.int64), np.full(len(step), k)
    while np.any(high - low > 1):
        middle = np.maximum((low + high) // 2, 1)
        successes = np.minimum(middle * step / GRID + 0.5, middle)
        reached = special.betaincinv(successes, middle - successes + 1, alpha) >= bound
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.asarray(np.maximum(high - 1, 1))


register_words(
    "input-specific-budget",
    why="The pilot votes that chose the label and the number of votes had no part in the bound.",
)
INPUT_SPECIFIC = register_method(
    Method(
        "Baseline 2",
        label="Baseline 2: input-specific budget",
        about="Plans the votes of each input with a pilot and certifies with fresh ones (after Seferis et "
        "al., 2024); its promise holds for each input.",
        order=2,
        look=Look(GREEN, (2, 1.5), "^", "..."),
        in_paper=True,
        variants=lambda n, failure: [
            (f"k{n}_decline{decline:g}", partial(InputSpecificBudget, n, decline, failure))
            for decline in DECLINES
        ],
        main_variant="k{n}_decline0.01",
        paper_variant="decline0.01",
        paper_break_even="decline0.05",
        abbreviation="B2",
    )
)
