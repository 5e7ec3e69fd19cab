"""Fixed-budget Monte Carlo certification, the reference for the surrogate."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, no_guarantee, per_input_guarantee
from rrise.certifiers.guarantee_words import register_words
from rrise.certifiers.method import Method, register_method
from rrise.certifiers.voting import (
    SELECTION_VOTES,
    VoteMethod,
    check_enough_votes,
    check_selection,
    check_whole_number,
)
from rrise.errors import InputError
from rrise.looks import INK, VERMILLION, Look
from rrise.statistics import Level, check_budget, clopper_pearson_lower, exact_level, level_text
from rrise.votes.array import Votes, check_votes, votes_for
from rrise.votes.sequence import VoteSequence
from rrise.votes.smoothing import Smoothing


@dataclass(frozen=True)
class MonteCarlo(VoteMethod):
    """Certifies from a fixed number `n` of votes; Baseline 1 of the paper is the one-stage form.

    Two-stage (Cohen et al., 2019): the class is the most frequent one among all selection votes.
    Clopper–Pearson at `failure` bounds its probability from below, from the first `n` of the separate votes.
    For every input, the probability over the noise that a radius is issued and wrong is at most `failure`.

    One-stage (`two_stage=False`): class and bound come from the same `n` votes. The probability is then at
    most `2 failure` for every input, and about that with two classes near 1/2. (For a class of probability p
    up to 1/2, the probability that its bound exceeds 1/2 is convex in p, hence at most `2 p failure`. If all
    classes are such, the sum is at most `2 failure`. A class above 1/2 adds `failure`, and the rest add less
    than `failure`.)

    Attributes:
        n: votes per input, without selection votes.
        failure: the allowed probability of a wrong certificate; doubled for the one-stage form.
        two_stage: whether separate selection votes choose the class.

    Raises:
        SettingError: `n` votes can never certify at this failure.

    Example:
        >>> import numpy as np, torch
        >>> base = torch.nn.Linear(4, 3)
        >>> certifier = MonteCarlo(200, failure=0.01).bind(base, sigma=0.25, seed=0)
        >>> certifier.certify(np.full((2, 4), 0.5)).passes.tolist()
        [300, 300]
    """

    n: int
    failure: Level = 0.001
    two_stage: bool = True

    def __post_init__(self) -> None:
        check_whole_number(self, "n")
        check_budget(self.n, float(exact_level(self.failure, "failure")), "failure")

    @property
    def name(self) -> str:
        """What it is called in tables."""
        stages = "two-stage" if self.two_stage else "one-stage"
        level = level_text(exact_level(self.failure, "failure"))
        return f"Monte Carlo, {stages}, n={self.n}, failure={level}"

    def guarantee(self, smoothing: Smoothing, selection_votes: int = SELECTION_VOTES) -> Guarantee:
        """Return the guarantee: per input, at `failure`; at twice that for the one-stage form."""
        failure = exact_level(self.failure, "failure")
        if self.two_stage:
            return _two_stage_guarantee(failure, self.n, selection_votes, smoothing)
        if failure >= Fraction(1, 2):
            return no_guarantee("monte-carlo-one-stage", smoothing, failure, votes=self.n)
        promised = per_input_guarantee("monte-carlo-one-stage", 2 * failure, smoothing, votes=self.n)
        return replace(promised, nominal=failure)

    def certify_votes(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:
        """Certify from the first `n` votes; the one-stage form ignores `selection`."""
        check_enough_votes(votes, self.n)
        alpha = exact_level(self.failure, "failure")
        if not self.two_stage:
            counts = votes.counts(0, self.n)
            return _certificates(counts, counts, alpha, self.n, self.guarantee(votes.smoothing))
        if selection is None:
            raise InputError(
                "expected selection votes with separate noise, to choose the class; two_stage=False needs "
                "none, but then the failure may be twice as large"
            )
        guarantee = self.guarantee(check_selection(votes, selection), selection.length)
        chosen = selection.counts(0, selection.length)
        counts, passes = votes.counts(0, self.n), self.n + selection.length
        return _certificates(counts, chosen, alpha, passes, guarantee)


def monte_carlo_certificates(votes: Votes, selection: Votes, *, failure: Level = 0.001) -> Certificates:
    """Certify inputs from their votes by the standard two-stage procedure (Cohen et al., 2019).

    The class is the most frequent one among the `selection` votes. Clopper–Pearson at `failure` bounds its
    probability from below, from the separate `votes`. For every input, the probability over the noise that
    a radius is issued and wrong is at most `failure`.

    Args:
        votes: votes of the inputs, from `collect_votes` or `read_votes`.
        selection: further votes of the same inputs, with another seed or split. The two must not share noise.
        failure: the allowed probability of a wrong certificate.

    Returns:
        One certificate per input.

    Raises:
        MismatchError: the two differ in inputs or smoothed classifier, or share their noise.
        SettingError: there are too few votes to ever certify at this failure.

    Example:
        >>> import numpy as np, torch, rrise
        >>> base, inputs = torch.nn.Linear(4, 3), np.full((2, 4), 0.5)
        >>> votes = rrise.collect_votes(base, inputs, sigma=0.25, n=200, split="votes")
        >>> selection = rrise.collect_votes(base, inputs, sigma=0.25, n=50, split="selection")
        >>> len(monte_carlo_certificates(votes, selection))
        2
    """
    exact = exact_level(failure, "failure")
    counts, n = check_votes(votes, len(votes))
    chosen, selection_n = check_votes(selection, len(votes), counts.shape[1])
    smoothing = check_selection(votes, selection)
    check_budget(n, float(exact), "failure")
    guarantee = _two_stage_guarantee(exact, n, selection_n, smoothing)
    return _certificates(counts, chosen, exact, n + selection_n, guarantee)


def _two_stage_guarantee(failure: Fraction, n: int, selection: int, smoothing: Smoothing) -> Guarantee:
    return per_input_guarantee("monte-carlo", failure, smoothing, votes=n, selection_votes=selection)


def _certificates(
    counts: NDArray[np.int64],
    chosen: NDArray[np.int64],
    alpha: Fraction,
    passes: int,
    guarantee: Guarantee,
) -> Certificates:
    """Choose the most frequent class of the votes `chosen`, and bound it by the votes `counts`."""
    label = chosen.argmax(axis=1)
    bound = clopper_pearson_lower(votes_for(counts, label), counts.sum(axis=1), float(alpha))
    return Certificates.from_bound(label, np.atleast_1d(bound), guarantee=guarantee, passes=passes)


register_words(
    "monte-carlo-one-stage",
    why="The same votes choose the class and bound it.",
    nominal="the nominal failure {nominal}, at which the bounds are computed. It is not valid, because the "
    "same votes choose the class and bound it. Near p = 1/2, with two close classes, about twice as many are "
    "wrong.",
)
ONE_STAGE = register_method(
    Method(
        "Baseline 1",
        label="Baseline 1: Monte Carlo, one-stage",
        about="Chooses the class and bounds it with the same votes, as in the paper: wrong up to twice as "
        "often as its failure says.",
        order=1,
        look=Look(VERMILLION, (6, 2), "s", "///"),
        in_paper=True,
        variants=lambda n, failure: [(f"n{n}", partial(MonteCarlo, n, failure, two_stage=False))],
        main_variant="n{n}",
        abbreviation="B1",
    )
)
TWO_STAGE = register_method(
    Method(
        "Monte Carlo, two-stage",
        about="Chooses the class with separate selection votes (Cohen et al., 2019); its promise holds for "
        "each input.",
        order=5,
        look=Look(INK, (4, 1.5, 1, 1.5, 1, 1.5), "P"),
        variants=lambda n, failure: [(f"n{n}", partial(MonteCarlo, n, failure))],
        main_variant="n{n}",
        needs_selection=True,
        abbreviation="two-stage",
    )
)
