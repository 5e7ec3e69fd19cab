"""What more passes per query bring: the surrogate with query votes, Monte Carlo and the sequential method."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import no_guarantee
from rrise.certifiers.methods import RRISE, SEQUENTIAL, TWO_STAGE
from rrise.certifiers.with_votes import usual_strength
from rrise.errors import SettingError
from rrise.evaluation.measure.equal_monte_carlo import Rivals
from rrise.evaluation.measure.metrics import average_certified_radius, certified_accuracy
from rrise.files import Json
from rrise.statistics import blended, fit_calibration
from rrise.votes.array import check_votes, votes_for

if TYPE_CHECKING:
    from rrise.evaluation.measure.evidence import Evidence
    from rrise.evaluation.measure.methods import SurrogateEvidence

STEPS = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
"""Passes at which Monte Carlo is shown."""


def passes_curve(evidence: "Evidence") -> list[Json]:
    """Return points of passes per query against certified accuracy and average radius, method by method.

    All are at the main failure. Monte Carlo is shown at its best: at each number of passes, the better of all
    splits between its two stages, for either number. There is no curve without stored query votes.
    """
    if not evidence.query:
        return []
    return [*_with_votes(evidence), *_monte_carlo(evidence), *_sequential(evidence)]


def _with_votes(evidence: "Evidence") -> Iterator[Json]:
    _, variant, score = evidence.about["certifier"]
    ours = next(one for one in evidence.surrogates if one.variant == variant)
    takes_votes = evidence.calibrated_by.get("threat") is None
    for votes in (0, *(sorted(evidence.query) if takes_votes else ())):
        try:
            found = surrogate_with_votes(evidence, ours, votes, score=score)
        except SettingError:
            continue
        yield _point(evidence, RRISE.name, found)


def surrogate_with_votes(
    evidence: "Evidence", surrogate: "SurrogateEvidence", votes: int, *, score: str
) -> Certificates:
    """Return the certificates of a surrogate with so many query votes, calibrated as it is without them."""
    failure = evidence.about["main_failure"]
    tests, calibration = surrogate.test, surrogate.calibration
    counts, n = check_votes(evidence.calibration_votes, len(calibration))
    tops = {"test": tests.top_probability, "calibration": calibration.top_probability}
    agreeing = votes_for(counts, calibration.label)
    if votes:
        first, held = evidence.query[votes]
        of_test, of_held = votes_for(np.asarray(first), tests.label), votes_for(held, calibration.label)
        tops = {
            "test": blended(tests.top_probability, of_test, votes, usual_strength(votes)),
            "calibration": blended(calibration.top_probability, of_held, votes, usual_strength(votes)),
        }
        agreeing, n = agreeing - of_held, n - votes
    fitted, _ = fit_calibration(
        tops["calibration"],
        agreeing,
        n,
        failure=failure,
        score=score,
        label=calibration.label,
        **evidence.calibrated_by,
    )
    assert evidence.reference.smoothing is not None
    return Certificates.from_bound(
        tests.label,
        fitted.lower_bound(tops["test"], tests.label),
        guarantee=no_guarantee("in a curve", evidence.reference.smoothing),
        passes=1 + votes,
    )


def _monte_carlo(evidence: "Evidence") -> Iterator[Json]:
    smoothing = evidence.reference.smoothing
    assert smoothing is not None
    rivals = Rivals(evidence.reference, evidence.labels, smoothing.noise)
    known = rivals.at(float(evidence.about["main_failure"]))
    for step in STEPS:
        within = [rival for rival in known if rival.passes <= step]
        if within:
            yield {
                "method": TWO_STAGE.name,
                "passes": step,
                "certified_accuracy": max(rival.certified_accuracy for rival in within),
                "average_certified_radius": max(rival.average_certified_radius for rival in within),
            }


def _sequential(evidence: "Evidence") -> Iterator[Json]:
    wanted = [
        outcome
        for outcome in evidence.voting
        if outcome.setting.method == SEQUENTIAL.name
        and outcome.setting.failure == evidence.about["main_failure"]
    ]
    points = [_point(evidence, SEQUENTIAL.name, outcome.certificates) for outcome in wanted]
    yield from sorted(points, key=lambda point: float(point["passes"]))


def _point(evidence: "Evidence", method: str, found: Certificates) -> Json:
    labels: NDArray[np.int64] = evidence.labels
    return {
        "method": method,
        "passes": found.mean_passes,
        "certified_accuracy": float(certified_accuracy(found, labels, [0.0])[0]),
        "average_certified_radius": average_certified_radius(found, labels),
    }
