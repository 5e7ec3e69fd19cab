"""Every method, budget and level on the same test inputs, from votes and predictions that are stored."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rrise.certifiers.early_stopping import EarlyStopping
from rrise.certifiers.input_specific import InputSpecificBudget
from rrise.certifiers.monte_carlo import MonteCarlo
from rrise.certifiers.predictions import Predictions, calibrated_certificates, face_value_certificates
from rrise.certifiers.sequential import Sequential
from rrise.certifiers.voting import VoteMethod
from rrise.errors import SettingError
from rrise.evaluation.measure.outcomes import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    MONTE_CARLO,
    SEQUENTIAL,
    TWO_STAGE,
    Offline,
    Outcome,
    Setting,
)
from rrise.statistics import SCORES, conformal_rank, conformal_share, exact_level, level_text
from rrise.votes.array import Votes
from rrise.votes.sequence import VoteSequence

TOLERANCES = (0.01, 0.05)
"""Of Baseline 2 (relative decline), Baseline 3 and the sequential method (relative gain), as in the paper."""
FACE_VALUE = "none"


@dataclass(frozen=True)
class SurrogateEvidence:
    """A trained surrogate as its evaluation needs it: its predictions, and what it cost."""

    method: str
    variant: str
    budget: int
    test: Predictions
    calibration: Predictions
    offline: Offline
    seen_in_training: int | None = 0


def voting_outcomes(
    votes: VoteSequence, selection: VoteSequence | None, budgets: Sequence[int], failures: Sequence[float]
) -> Iterator[Outcome]:
    """Certify by every method that votes, at every budget and level at which it can certify at all.

    The two-stage method needs `selection` votes and is left out without them.
    """
    for failure, budget in itertools.product(failures, budgets):
        level = level_text(exact_level(failure, "failure"))
        for method, variant, make in _voting(budget, failure):
            if method == TWO_STAGE and selection is None:
                continue
            try:
                certifier = make()
            except SettingError:
                continue
            yield Outcome(
                Setting(method, variant, budget, level),
                certifier.certify_votes(votes, selection if method == TWO_STAGE else None),
            )


def _voting(n: int, alpha: float) -> Iterator[tuple[str, str, Callable[[], VoteMethod]]]:
    """Give what makes each certifier; one that can never certify so is a `SettingError`."""
    yield MONTE_CARLO, f"n{n}", partial(MonteCarlo, n, alpha, two_stage=False)
    yield TWO_STAGE, f"n{n}", partial(MonteCarlo, n, alpha)
    for tolerance in TOLERANCES:
        yield INPUT_SPECIFIC, f"k{n}_decline{tolerance:g}", partial(InputSpecificBudget, n, tolerance, alpha)
        yield EARLY_STOPPING, f"n{n}_tol{tolerance:g}", partial(EarlyStopping, n, tolerance, alpha)
        yield SEQUENTIAL, f"n{n}_tol{tolerance:g}", partial(Sequential, n, alpha, tolerance=tolerance)


def surrogate_outcomes(
    evidence: SurrogateEvidence,
    votes: Votes,
    failures: Sequence[float],
    *,
    beta: float,
    scores: Sequence[str] = tuple(SCORES),
) -> Iterator[Outcome]:
    """Certify by a surrogate with every score, at every level for which there are enough calibration inputs.

    `votes` are those of the calibration inputs. Baseline 4 comes without calibration too.
    """
    assert votes.smoothing is not None
    for failure in failures:
        level = level_text(exact_level(failure, "failure"))
        if not _can_calibrate(len(evidence.calibration), failure, beta):
            continue
        for score in scores:
            certificates, fitted = calibrated_certificates(
                evidence.test,
                evidence.calibration,
                votes,
                smoothing=votes.smoothing,
                failure=failure,
                beta=beta,
                score=score,
                seen_in_training=evidence.seen_in_training,
            )
            setting = Setting(evidence.method, evidence.variant, evidence.budget, level, score)
            yield Outcome(setting, certificates, fitted.offset, evidence.offline)
        if evidence.method == JENSEN_SHANNON:
            certificates = face_value_certificates(evidence.test, votes.smoothing)
            setting = Setting(evidence.method, evidence.variant, evidence.budget, level, FACE_VALUE)
            yield Outcome(setting, certificates, None, replace(evidence.offline, calibration=0))


def _can_calibrate(inputs: int, failure: float, beta: float) -> bool:
    try:
        conformal_rank(inputs, conformal_share(failure, beta))
    except SettingError:
        return False
    return True
