"""Fixed-budget Monte Carlo certification, the reference that the surrogate is measured against."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.by_votes import (
    VoteCertifier,
    check_enough_votes,
    check_selection,
    check_whole_number,
)
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, monte_carlo_guarantee, one_stage_guarantee
from rrise.errors import InputError
from rrise.statistics import Level, check_budget, clopper_pearson_lower, exact_level, level_text
from rrise.votes.array import Votes, check_votes, votes_for
from rrise.votes.sequence import VoteSequence


@dataclass(frozen=True)
class MonteCarlo(VoteCertifier):
    """Certifies from a fixed number `n` of votes; Baseline 1 of the paper is the one-stage form.

    Two-stage (Cohen et al., 2019): the class is the most frequent one among all selection votes; its
    probability is bounded below from the first `n` of the separate votes by Clopper–Pearson at `alpha`. For
    every input, the probability over the noise that a radius is issued and wrong is at most `alpha`.

    One-stage (`two_stage=False`): class and bound come from the same `n` votes. With two classes near 1/2
    that probability is then about `2 alpha`; for no input is it larger. (For a class of probability p up to
    1/2, the probability that its bound exceeds 1/2 is convex in p, so at most `2 p alpha`. If all classes
    are such, the sum is at most `2 alpha`; one above 1/2 adds `alpha` and leaves less than that to the rest.)
    """

    n: int
    alpha: Level = 0.001
    two_stage: bool = True

    def __post_init__(self) -> None:
        check_whole_number(self, "n")
        check_budget(self.n, float(exact_level(self.alpha, "alpha")))

    @property
    def name(self) -> str:
        """What it is called in tables."""
        stages = "two-stage" if self.two_stage else "one-stage"
        return f"Monte Carlo, {stages}, n={self.n}, alpha={level_text(exact_level(self.alpha, 'alpha'))}"

    @property
    def budget(self) -> int:
        """The votes of each input, selection votes not counted."""
        return self.n

    def certify(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:
        """Certify from the first `n` votes; the one-stage form does not look at `selection`."""
        check_enough_votes(votes, self.n)
        alpha = exact_level(self.alpha, "alpha")
        if not self.two_stage:
            counts = votes.counts(0, self.n)
            guarantee = one_stage_guarantee(alpha, self.n, votes.smoothing)
            return _certificates(counts, counts, alpha, self.n, guarantee)
        if selection is None:
            raise InputError(
                "expected selection votes to choose the class by, with noise of their own; two_stage=False "
                "chooses it by the votes themselves, but then the level does not hold"
            )
        smoothing = check_selection(votes, selection)
        chosen = selection.counts(0, selection.length)
        counts, passes = votes.counts(0, self.n), self.n + selection.length
        guarantee = monte_carlo_guarantee(alpha, self.n, selection.length, smoothing)
        return _certificates(counts, chosen, alpha, passes, guarantee)


def monte_carlo_certificates(votes: Votes, selection: Votes, *, alpha: Level = 0.001) -> Certificates:
    """Certify inputs from their votes by the standard two-stage procedure (Cohen et al., 2019).

    The class is the most frequent one among the `selection` votes; its probability is bounded below from
    the separate `votes` by Clopper–Pearson at `alpha`. For every input, the probability over the noise
    that a radius is issued and wrong is at most `alpha`. The two must not share noise: collect them with
    different seeds or splits.
    """
    exact = exact_level(alpha, "alpha")
    counts, n = check_votes(votes, len(votes))
    chosen, selection_n = check_votes(selection, len(votes), counts.shape[1])
    smoothing = check_selection(votes, selection)
    check_budget(n, float(exact))
    guarantee = monte_carlo_guarantee(exact, n, selection_n, smoothing)
    return _certificates(counts, chosen, exact, n + selection_n, guarantee)


def _certificates(
    counts: NDArray[np.int64],
    chosen: NDArray[np.int64],
    alpha: Fraction,
    passes: int,
    guarantee: Guarantee,
) -> Certificates:
    """Bound the class that is most frequent among the votes `chosen` by the votes `counts`."""
    label = chosen.argmax(axis=1)
    bound = clopper_pearson_lower(votes_for(counts, label), counts.sum(axis=1), float(alpha))
    return Certificates.from_bound(
        label, np.atleast_1d(bound), sigma=guarantee.numbers["sigma"], guarantee=guarantee, passes=passes
    )
