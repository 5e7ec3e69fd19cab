"""The results of an invented run, as `results.json` holds them, for tests of tables, figures and pages."""

from typing import Any

from rrise.certifiers.methods import METHODS
from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.known import is_surrogate

SURROGATE = {"targets": 600_000, "training": 27_000, "calibration": 10_010, "training_paper": 54, "epoch": 9}
PASSES = {
    "RRISE": 1.0,
    "Baseline 1": 1000.0,
    "Baseline 2": 588.3,
    "Baseline 3": 728.1,
    "Baseline 4": 1.0,
    "Monte Carlo, two-stage": 1100.0,
    "Sequential, anytime-valid": 421.05,
}


def metrics(method: str, *, share: float = 0.8, **changes: Any) -> dict[str, Any]:
    """Return numbers of the metrics below; the others are undefined, or not in results as old as these."""
    surrogate, passes = is_surrogate(method), PASSES.get(method, 500.0)
    thresholds = [0.0, 0.1, 0.2]
    values: dict[str, Any] = {
        **{key: None for key in METRICS if not key.startswith("rival_")},
        "accuracy": share + 0.05,
        "issued": share + 0.02,
        "certified_accuracy": share,
        "certified_accuracy_at": [share * (1 - t) for t in thresholds],
        "average_certified_radius": 0.2 * share,
        "mean_issued_radius": 0.2,
        "boundary_mass": 0.1,
        "boundary_accuracy": 0.4,
        "boundary_radius": 0.08,
        "boundary_crd": [0.1, 0.05, 0.0],
        "certified_crd": [1.0, 0.7, 0.3],
        "radius_ratio": 0.9,
        "radius_drop": 0.1,
        "agreement": 0.97,
        "violation_rate": 0.02,
        "issued_violation_rate": 0.015,
        "violation_rate_among_issued": 0.025,
        "boundary_violation_rate": 0.3,
        "mean_passes": passes,
        "median_passes": passes,
        "sample_reduction": None if surrogate else 1000 / passes,
        "offset": 0.12 if surrogate else None,
        **(SURROGATE if surrogate else dict.fromkeys(SURROGATE, 0) | {"epoch": None}),
        "break_even": {"Monte Carlo, two-stage n1000": 580} if surrogate else None,
        "seconds": passes / 1000,
    }
    return values | changes


def result(method: str, *, failure: str = "0.1", score: str = "", main: bool = True, **changes: Any) -> Any:
    known = METHODS[method]
    variant = known.main_variant.format(n=1000) if known.votes else f"{known.paper_variant}_n1000"
    if is_surrogate(method):
        score = score or "additive"
    return {
        "method": method,
        "variant": variant,
        "budget": 1000,
        "failure": failure,
        "score": score,
        "main": main,
        "metrics": metrics(method, **changes),
    }


def run(
    dataset: str = "FashionMNIST",
    seed: int = 100,
    methods: tuple[str, ...] = tuple(PASSES),
    protocol: str = "held-out",
    **changes: Any,
) -> dict[str, Any]:
    results = [result(method, **changes) for method in methods]
    if "RRISE" in methods:
        results += [
            result("RRISE", failure=failure, score=score, main=False, violation_rate=rate, **changes)
            for score in ("additive", "probit")
            for failure, rate in (("0.1", 0.08), ("0.05", 0.04))
            if (failure, score) != ("0.1", "additive")
        ]
    return {
        "format": 1,
        "dataset": dataset,
        "run": "example",
        "seed": seed,
        "protocol": protocol,
        "sigma": 0.25,
        "classes": 10,
        "test_inputs": 900,
        "reference_votes": 1000,
        "main_budget": 1000,
        "main_failure": "0.1",
        "thresholds": [0.0, 0.1, 0.2],
        "results": results,
    }
