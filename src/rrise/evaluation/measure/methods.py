"""Every method, budget and failure on the same test inputs, from votes and predictions that are stored."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rrise.certifiers.methods import Method, method_by_name
from rrise.certifiers.predictions import Predictions, calibrated_certificates, face_value_certificates
from rrise.certifiers.voting import VoteMethod
from rrise.errors import SettingError
from rrise.evaluation.measure.known import FACE_VALUE, voting_methods
from rrise.evaluation.measure.outcomes import MethodSetting, Offline, Outcome
from rrise.files import Json
from rrise.statistics import SCORES, Terms, exact_level, level_text
from rrise.votes.array import Votes
from rrise.votes.sequence import VoteSequence


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
    """Certify by every registered method that votes, at every budget and failure at which it can certify.

    Those that need `selection` votes are left out without them.
    """
    for failure, budget in itertools.product(failures, budgets):
        level = level_text(exact_level(failure, "failure"))
        for method, variant, make in _variants(budget, failure):
            if method.needs_selection and selection is None:
                continue
            try:
                certifier = make()
            except SettingError:
                continue
            yield Outcome(
                MethodSetting(method.name, variant, budget, level),
                certifier.certify_votes(votes, selection if method.needs_selection else None),
            )


def _variants(n: int, failure: float) -> list[tuple[Method, str, Callable[[], VoteMethod]]]:
    """Return what makes each certifier; one that can never certify so is a `SettingError`.

    Methods of one variant come first, then the first variant of all others, then the second.
    """
    found = []
    for method in voting_methods():
        assert method.variants is not None
        own = list(method.variants(n, failure))
        found += [((len(own) > 1, place), (method, *variant)) for place, variant in enumerate(own)]
    return [variant for _, variant in sorted(found, key=lambda one: one[0])]


def surrogate_outcomes(
    evidence: SurrogateEvidence,
    votes: Votes,
    failures: Sequence[float],
    *,
    how: Json,
    scores: Sequence[str] | None = None,
) -> Iterator[Outcome]:
    """Certify by a surrogate with every score, at every failure that has enough calibration inputs.

    `votes` are those of the calibration inputs. `how` are settings of the calibration, such as rule and
    `beta`. `scores` are all that are registered unless some are named. A
    method that says so comes without calibration too.
    """
    assert votes.smoothing is not None
    for failure in failures:
        level = level_text(exact_level(failure, "failure"))
        if not _can_calibrate(len(evidence.calibration), votes, failure, how):
            continue
        for score in tuple(SCORES) if scores is None else scores:
            try:
                certificates, fitted = calibrated_certificates(
                    evidence.test,
                    evidence.calibration,
                    votes,
                    smoothing=votes.smoothing,
                    seen_in_training=evidence.seen_in_training,
                    failure=failure,
                    score=score,
                    **how,
                )
            except SettingError:
                if "groups" not in how:
                    raise
                continue  # one of its classes has too few calibration inputs
            setting = MethodSetting(evidence.method, evidence.variant, evidence.budget, level, score)
            yield Outcome(setting, certificates, fitted.offset, evidence.offline)
        if method_by_name(evidence.method).uncalibrated:
            certificates = face_value_certificates(evidence.test, votes.smoothing)
            setting = MethodSetting(evidence.method, evidence.variant, evidence.budget, level, FACE_VALUE)
            yield Outcome(setting, certificates, None, replace(evidence.offline, calibration=0))


def _can_calibrate(inputs: int, votes: Votes, failure: float, how: Json) -> bool:
    try:
        Terms(failure=failure, **how).check(inputs, int(np.asarray(votes)[0].sum()))
    except SettingError:
        return False
    return True
