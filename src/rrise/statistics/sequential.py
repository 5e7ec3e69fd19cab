"""An exact sequential test: is a proportion above `p0`? It looks many times and takes few trials."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rrise.errors import SettingError
from rrise.statistics.binomial import check_level, clopper_pearson_upper

SPENDING = 0.25
"""By a look at a share `s` of all trials, a chance of at most `alpha * s ** SPENDING` has been spent."""
HOPE = 0.95
"""Giving up is judged at the proportion that a single look at all trials would prove with this chance."""
GIVING_UP = 0.05
"""The chance that an input with that proportion is given up."""

_ROUNDING = 1e-9
"""Share of `alpha` left unspent, far above the rounding of the sums."""

_SMALLEST = 1e-200
"""A smaller `alpha` would be lost among the numbers that floats round to 0."""

Counts = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SequentialTest:
    """At each look: the fewest successes that prove a proportion above `p0`, and the most that end hope.

    A sequence of trials is accepted at the first look with at least `accept` successes. If it is not accepted
    and has at most `hopeless` successes, it is given up: it is never accepted later. Otherwise it goes on,
    until the last look.

    Guarantee: for every true proportion of at most `p0`, the probability of acceptance is at most `alpha`,
    even if somebody ends the trials earlier, at any look and for any reason. Nothing is promised to whoever
    goes on after giving up.

    Attributes:
        p0: the proportion to exceed.
        looks: the numbers of trials at the looks.
        accept: for each look, the fewest successes that are accepted; `looks + 1` if none are.
        hopeless: for each look, the most successes that are given up; -1 if none are.
        accepted_at: looks and successes at which a sequence may be accepted, `[2, ways]`: trials, successes.
        chances: the probability of each of these ways, if the proportion is `p0`.
    """

    p0: float
    looks: tuple[int, ...]
    accept: Counts
    hopeless: Counts
    accepted_at: Counts
    chances: Array

    def acceptance(self, p: float) -> float:
        """Return the probability of acceptance, if the true proportion is `p`.

        A sequence of `t` trials with `k` successes has the probability `p^k (1-p)^(t-k)`. The chances at `p0`
        are therefore multiplied by the ratio of these.
        """
        trials, successes = self.accepted_at
        ratio = successes * np.log(p / self.p0) + (trials - successes) * np.log((1 - p) / (1 - self.p0))
        return float(np.sum(self.chances * np.exp(ratio)))

    def proportion_accepted_with(self, chance: float) -> float:
        """Return a proportion below `p0` that is accepted with a probability of at most `chance`.

        It is the largest one, up to 1e-6. Smaller proportions are accepted less often.
        """
        low, high = 0.0, self.p0
        while high - low > 1e-6:
            middle = (low + high) / 2
            seldom = self.acceptance(middle) <= chance * (1 - _ROUNDING)
            low, high = (middle, high) if seldom else (low, middle)
        return low


@lru_cache(maxsize=32)
def sequential_test(p0: float, looks: tuple[int, ...], alpha: float) -> SequentialTest:
    """Return the sequential test of the proportions up to `p0`, exact at `alpha`.

    **Accepting.** Let the true proportion be `p0`. The distribution of the successes of all undecided
    sequences is passed from look to look, by the binomial distribution of the trials between them. At a look,
    `accept` is the smallest number such that the probability of all acceptances so far is at most
    `alpha * (trials / last look) ** SPENDING` (spending as by Lan and DeMets, 1983, with the exact
    distribution). The probability of ever being accepted is the last of these sums, at most `alpha`.

    **Proportions below `p0`** are accepted less often. Draw a uniform number for each trial; the trial
    succeeds if the number is below the proportion. With a smaller proportion, there are never more successes
    at any look. Where the smaller one is accepted, the larger one has not been given up before, and is
    accepted by then.

    **Ending earlier**, for any reason, can only prevent an acceptance.

    **Giving up.** The same construction, turned round, counts failures. It tests at `GIVING_UP` whether
    the proportion is at least `hope`: the one that a single look at all trials, with a Clopper–Pearson bound
    at `alpha`, would prove with a probability of `HOPE`. A sequence with that proportion or a larger one is
    given up with a probability of at most `GIVING_UP`. This says how useful the test is. Its `alpha` would
    hold with any other line too, since the distribution above leaves out what is given up.

    Args:
        p0: the proportion to exceed, strictly between 0 and 1.
        looks: increasing numbers of trials.
        alpha: the allowed probability of acceptance at `p0` or below.

    Returns:
        The test; the last 32 are kept.

    Raises:
        SettingError: a setting is invalid, or even trials that all succeed would never be accepted.

    Example:
        >>> test = sequential_test(0.8, (20, 50, 100), alpha=0.01)
        >>> test.accept.tolist(), test.hopeless.tolist()
        ([21, 47, 90], [15, 43, 87])
        >>> round(test.acceptance(0.8), 5), round(test.acceptance(0.95), 2)
        (0.00938, 0.98)
    """
    p0, alpha = check_level(p0, "p0"), check_level(alpha, "alpha")
    if alpha < _SMALLEST:
        raise SettingError(f"expected alpha of at least {_SMALLEST:g}, got {alpha:g}")
    if not looks or min(np.diff(looks, prepend=0)) < 1:
        raise SettingError(f"expected increasing numbers of trials to look at, got {looks}")
    enough = fewest_trials(p0, alpha)
    if looks[-1] < enough:
        raise SettingError(
            f"{looks[-1]} trials can never prove a proportion above {p0:.6g} at alpha={alpha:g}: use at "
            f"least {enough}"
        )
    hopeless = _hopeless(p0, looks, alpha)
    accept, ways, chances = _spending_line(p0, looks, alpha, hopeless)
    for array in (hopeless, accept, ways, chances):
        array.setflags(write=False)  # the test is kept and shared
    return SequentialTest(p0, looks, accept, hopeless, ways, chances)


def fewest_trials(p0: float, alpha: float) -> int:
    """Return how many trials, all successes, prove a proportion above `p0` in one look.

    >>> fewest_trials(0.5, 0.001)
    10
    """
    return int(np.ceil(np.log(alpha * (1 - _ROUNDING)) / np.log(p0)))


def _hopeless(p0: float, looks: tuple[int, ...], alpha: float) -> Counts:
    """Return the most successes at each look that are given up."""
    trials, last = np.array(looks), looks[-1]
    one_too_few = int(np.argmax(stats.binom.sf(np.arange(last), last, p0) <= alpha))
    failing = 1 - float(clopper_pearson_upper(one_too_few, last, 1 - HOPE))
    few = np.floor(trials * failing - 12 * np.sqrt(trials * failing) - 12).astype(np.int64)
    fewest_failures, _, _ = _spending_line(failing, looks, GIVING_UP, np.maximum(few, -1))
    return np.maximum(trials - fewest_failures, -1)


def _spending_line(
    p0: float, looks: tuple[int, ...], alpha: float, given_up: Counts
) -> tuple[Counts, Counts, Array]:
    """Return the fewest successes accepted at each look, and all ways to be accepted with their chances.

    Chances are those at `p0`. Sequences with at most `given_up` successes at a look are undecided no longer.
    """
    accept, ways, chances = [], [], []
    undecided, lowest, before, spent = np.ones(1), 0, 0, 0.0
    for now, ending in zip(looks, given_up.tolist(), strict=True):
        new = now - before
        undecided = np.convolve(undecided, stats.binom.pmf(np.arange(new + 1), new, p0))
        allowed = alpha * (1 - _ROUNDING) * (now / looks[-1]) ** SPENDING - spent
        at_least = np.cumsum(undecided[::-1])[::-1]
        place = int(np.searchsorted(-at_least, -allowed))
        accept.append(lowest + place if place < len(undecided) else now + 1)
        accepted = undecided[place:]
        ways.append([np.full(len(accepted), now), lowest + np.arange(place, len(undecided))])
        chances.append(accepted)
        spent += float(accepted.sum())
        left = min(max(0, ending + 1 - lowest), place)
        undecided, lowest, before = undecided[left:place], lowest + left, now
        if not undecided.size:
            undecided = np.zeros(1)
    chance = np.concatenate(chances)
    return np.array(accept), np.concatenate(ways, axis=1)[:, chance > 0], chance[chance > 0]
