"""From the outcomes of one run to its numbers, as `results.json` holds them."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.certifiers.certificates import Certificates
from rrise.errors import InputError, SettingError
from rrise.evaluation.measure import costs, metrics
from rrise.evaluation.measure.equal_monte_carlo import Rivals
from rrise.evaluation.measure.outcomes import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    MONTE_CARLO,
    RRISE,
    SEQUENTIAL,
    SURROGATES,
    TWO_STAGE,
    Outcome,
    Setting,
)
from rrise.files import Json
from rrise.votes.array import check_votes, votes_for

_MAIN_VOTING = {
    MONTE_CARLO: "n{}",
    INPUT_SPECIFIC: "k{}_decline0.01",
    EARLY_STOPPING: "n{}_tol0.01",
    TWO_STAGE: "n{}",
    SEQUENTIAL: "n{}_tol0.01",
}

_AGAINST_VOTES = (
    "agreement",
    "violation_rate",
    "issued_violation_rate",
    "violation_rate_among_issued",
    "boundary_violation_rate",
)


def measure(
    outcomes: Sequence[Outcome],
    labels: ArrayLike,
    reference: Any,
    thresholds: Sequence[float],
    *,
    main_budget: int,
    main_failure: str,
    main_surrogate: tuple[str, str, str] | None = None,
    paper_counting: bool = False,
    calibrated_on: NDArray[np.bool_] | None = None,
    sigma: float | None = None,
) -> list[Json]:
    """Return one result per outcome, in their order: its setting, `main`, and `metrics` as JSON.

    `labels` are the true classes of the test inputs and `reference` their votes `[inputs, K]` at a high
    budget, against which agreement and violations are measured. `main` marks the main comparison of the
    paper, at `main_budget` and `main_failure`; `main_surrogate` is method, variant and score of the
    run's own surrogate; without one it is the paper's, `trainhead_initbase` with the additive score.

    The methods that vote certify from those very votes, so that their agreement and violations are undefined.
    Those of surrogates leave out the inputs `calibrated_on`, for which nothing is promised.

    Break-evens of a surrogate are against every method that votes with the same failure, at the passes it
    really took, and count honestly unless `paper_counting` (see `costs`). Given `sigma`, there is one more:
    the cheapest Monte Carlo that certifies as much (see `equal_monte_carlo`). A metric is None where it is
    undefined, or infinite: a surrogate taken at face value may claim a probability of exactly 1.
    """
    truth, radii = np.asarray(labels), _thresholds(thresholds)
    counts, n = check_votes(reference, len(truth))
    _check(outcomes, len(truth), counts.shape[1])
    smoothed = counts.argmax(axis=1)
    new = np.ones(len(truth), dtype=np.bool_) if calibrated_on is None else ~calibrated_on
    main = _main_settings(
        [outcome.setting for outcome in outcomes], main_budget, main_failure, main_surrogate
    )
    voting = [outcome for outcome in outcomes if outcome.setting.method not in SURROGATES]
    rivals = None if sigma is None else Rivals(reference, truth, sigma)
    results = []
    for outcome in outcomes:
        certificates = outcome.certificates
        numbers = {
            **_quality(certificates, truth, radii),
            **_against_baseline(outcome, voting, main_budget),
            **_against_votes(outcome, new, smoothed, votes_for(counts, certificates.label) / n),
            **_cost(outcome, voting, paper_counting),
        }
        numbers |= _against_rival(outcome, numbers, rivals, paper_counting)
        results.append({**asdict(outcome.setting), "main": outcome.setting in main, "metrics": numbers})
    return results


def _quality(certificates: Certificates, labels: NDArray[np.int64], radii: NDArray[np.float64]) -> Json:
    distribution = metrics.certified_crd(certificates, radii)
    return {
        "accuracy": metrics.accuracy(certificates, labels),
        "issued": float(certificates.issued.mean()),
        "certified_accuracy": float(metrics.certified_accuracy(certificates, labels, 0.0)),
        "certified_accuracy_at": metrics.certified_accuracy(certificates, labels, radii).tolist(),
        "average_certified_radius": _finite(metrics.average_certified_radius(certificates, labels)),
        "mean_issued_radius": _finite(metrics.mean_issued_radius(certificates)),
        "boundary_mass": metrics.boundary_mass(certificates),
        "boundary_accuracy": metrics.boundary_accuracy(certificates, labels),
        "boundary_radius": metrics.boundary_radius(certificates),
        "boundary_crd": metrics.boundary_crd(certificates, radii).tolist(),
        "certified_crd": None if distribution is None else distribution.tolist(),
    }


def _against_baseline(outcome: Outcome, voting: Sequence[Outcome], main_budget: int) -> Json:
    """Compare with Baseline 1 at the same level: at the same budget if it has one, else at the main one."""
    baselines = {
        other.setting.budget: other.certificates
        for other in voting
        if other.setting.method == MONTE_CARLO and other.setting.failure == outcome.setting.failure
    }
    baseline = baselines.get(outcome.setting.budget, baselines.get(main_budget))
    ratio = None if baseline is None else _finite(metrics.radius_ratio(outcome.certificates, baseline))
    return {"radius_ratio": ratio, "radius_drop": None if ratio is None else 1 - ratio}


def _against_votes(
    outcome: Outcome, new: NDArray[np.bool_], smoothed: NDArray[np.int64], estimate: NDArray[np.float64]
) -> Json:
    if outcome.setting.method not in SURROGATES or not new.any():
        return dict.fromkeys(_AGAINST_VOTES)
    certificates = outcome.certificates[new]
    found = metrics.violations(certificates, estimate[new])
    return dict(zip(_AGAINST_VOTES, (metrics.agreement(certificates, smoothed[new]), *found), strict=True))


def _cost(outcome: Outcome, voting: Sequence[Outcome], paper_counting: bool) -> Json:
    setting, certificates, offline = outcome.setting, outcome.certificates, outcome.offline
    surrogate = setting.method in SURROGATES
    return {
        "mean_passes": certificates.mean_passes,
        "median_passes": metrics.median_passes(certificates),
        "sample_reduction": None if surrogate else metrics.sample_reduction(certificates, setting.budget),
        "offset": None if outcome.offset is None else _finite(float(outcome.offset)),
        "epoch": int(offline.epoch) if surrogate else None,
        "targets": int(offline.targets),
        "training": int(offline.training),
        "calibration": int(offline.calibration),
        "training_paper": costs.training_paper(offline),
        "break_even": _break_evens(outcome, voting, paper_counting) if surrogate else None,
        "seconds": None if outcome.seconds is None else float(outcome.seconds),
    }


def _against_rival(outcome: Outcome, numbers: Json, rivals: Rivals | None, paper_counting: bool) -> Json:
    """Compare with the Monte Carlo that certifies as much, at the same level and on the same inputs."""
    found = None
    radius = numbers["average_certified_radius"]
    calibrated = outcome.setting.method in SURROGATES and outcome.offset is not None
    if rivals is not None and calibrated and radius is not None:
        level = float(Fraction(outcome.setting.failure))
        found = rivals.cheapest(level, numbers["certified_accuracy"], radius)
    if found is None:
        return dict.fromkeys(("rival_passes", "rival_break_even"))
    ours = _exact_mean_passes(outcome.certificates)
    even = costs.break_even(_offline_total(outcome, paper_counting), ours, Fraction(found.passes))
    return {"rival_passes": found.passes, "rival_break_even": even}


def _offline_total(outcome: Outcome, paper_counting: bool) -> int:
    return (costs.offline_total_paper if paper_counting else costs.offline_total)(outcome.offline)


def _break_evens(outcome: Outcome, voting: Sequence[Outcome], paper_counting: bool) -> Json:
    total = _offline_total(outcome, paper_counting)
    ours = _exact_mean_passes(outcome.certificates)
    return {
        f"{other.setting.method} {other.setting.variant}": costs.break_even(
            total, ours, _exact_mean_passes(other.certificates)
        )
        for other in voting
        if other.setting.failure == outcome.setting.failure
    }


def _exact_mean_passes(certificates: Certificates) -> Fraction:
    return Fraction(int(certificates.passes.sum()), len(certificates))


def _main_settings(
    settings: Sequence[Setting], budget: int, failure: str, surrogate: tuple[str, str, str] | None
) -> set[Setting]:
    """Return the settings of the main comparison; Baseline 4 has the surrogate's budget and score."""
    level = {
        (setting.method, setting.variant, setting.score): setting
        for setting in settings
        if setting.failure == failure
    }
    ours = surrogate or (RRISE, f"trainhead_initbase_n{budget}", "additive")
    targets = level[ours].budget if ours in level else budget
    wanted = {
        ours,
        (RRISE, f"trainhead_initbase_n{targets}", ours[2]) if ours[0] == JENSEN_SHANNON else ours,
        (JENSEN_SHANNON, f"init0_n{targets}", ours[2]),
        *((method, variant.format(budget), "") for method, variant in _MAIN_VOTING.items()),
    }
    return {setting for name, setting in level.items() if name in wanted}


def _check(outcomes: Sequence[Outcome], inputs: int, classes: int) -> None:
    seen = set()
    for outcome in outcomes:
        setting, label = outcome.setting, outcome.certificates.label
        name = f"{setting.method} {setting.variant} at failure {setting.failure} {setting.score}".rstrip()
        if len(label) != inputs:
            raise InputError(
                f"expected certificates of {name} for each of the {inputs} test inputs, got {len(label)}"
            )
        if label.min() < 0 or label.max() >= classes:
            raise InputError(
                f"expected labels of {name} to be among the {classes} classes of the reference votes, got "
                f"{label.min()} to {label.max()}"
            )
        if name in seen:
            raise InputError(f"expected every setting once, got {name} twice: leave one of them out")
        seen.add(name)


def _thresholds(thresholds: Sequence[float]) -> NDArray[np.float64]:
    radii = np.asarray(thresholds, dtype=np.float64)
    if radii.ndim != 1 or not np.isfinite(radii).all() or (radii < 0).any():
        raise SettingError(f"expected thresholds as a list of radii of at least 0, got {thresholds}")
    return radii


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
