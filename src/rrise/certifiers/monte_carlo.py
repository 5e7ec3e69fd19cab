"""Fixed-budget Monte Carlo certification, the reference that the surrogate is measured against."""

from typing import Any

import numpy as np

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import monte_carlo_guarantee
from rrise.errors import InputError, MismatchError
from rrise.statistics import Level, check_budget, clopper_pearson_lower, exact_level
from rrise.votes.array import Votes, check_same_inputs, check_votes, votes_for


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
    smoothing = _smoothing_of(votes)
    smoothing.check_same(_smoothing_of(selection), "the votes", "the selection votes")
    if selection.digests is not None:
        check_same_inputs(votes, [bytes(digest) for digest in selection.digests])
    if votes.stream is not None and votes.stream == selection.stream:
        raise MismatchError(
            f"the selection votes share their noise with the votes (seed and split {votes.stream}): collect "
            f"them with another seed or split"
        )
    check_budget(n, float(exact))
    label = chosen.argmax(axis=1)
    agreeing = votes_for(counts, label)
    return Certificates.from_bound(
        label,
        np.atleast_1d(clopper_pearson_lower(agreeing, n, float(exact))),
        sigma=smoothing.sigma,
        guarantee=monte_carlo_guarantee(exact, n, selection_n, smoothing),
        passes=n + selection_n,
    )


def _smoothing_of(votes: Any) -> Any:
    if not isinstance(votes, Votes) or votes.smoothing is None:
        raise InputError(
            "expected votes from collect_votes, which know their base classifier and sigma; got a plain array"
        )
    return votes.smoothing
