"""Results of a made-up dataset by every method, and the tables of them."""

from typing import Any

from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.tables.tables import build_tables
from rrise.evaluation.tables.values import Table

LEVELS = ("0.25", "0.1")
VARIANTS = {
    "RRISE": ("trainhead_initbase_n{}", "trainall_initbase_n{}"),
    "Baseline 1": ("n{}",),
    "Baseline 2": ("k{}_decline0.01", "k{}_decline0.05"),
    "Baseline 3": ("n{}_tol0.01", "n{}_tol0.05"),
    "Baseline 4": ("init0_n{}",),
    "Monte Carlo, two-stage": ("n{}",),
    "Sequential, anytime-valid": ("n{}_tol0.01",),
}


def metrics(**changed: Any) -> dict[str, Any]:
    """Return numbers of the metrics below; the others are undefined, or not in results as old as these."""
    return {
        **{key: None for key in METRICS if not key.startswith("rival_")},
        "accuracy": 0.875,
        "issued": 0.9,
        "certified_accuracy": 0.8123456789,
        "certified_accuracy_at": [0.8123456789, 0.7, 0.6],
        "average_certified_radius": 0.31,
        "mean_issued_radius": 0.35,
        "boundary_mass": 0.05,
        "boundary_accuracy": 0.4,
        "boundary_radius": 0.08,
        "boundary_crd": [0.05, 0.03, 0.01],
        "certified_crd": [1.0, 0.99, 0.9],
        "radius_ratio": 0.97,
        "radius_drop": 0.03,
        "agreement": 0.99,
        "violation_rate": 0.2,
        "issued_violation_rate": 0.15,
        "violation_rate_among_issued": 0.25,
        "boundary_violation_rate": 0.3,
        "mean_passes": 1.0,
        "median_passes": 1.0,
        "sample_reduction": None,
        "offset": 0.02,
        "epoch": 7.0,
        "targets": 600_000_000.0,
        "training": 1_000_000.0,
        "calibration": 10_000_000.0,
        "training_paper": 2_000.0,
        "break_even": {
            "Baseline 1 n10000": 61_107.0,
            "Baseline 2 k10000_decline0.01": 100_000.0,
            "Baseline 2 k10000_decline0.05": 300_000.0,
            "Baseline 3 n10000_tol0.01": 90_000.0,
            "Baseline 3 n10000_tol0.05": 400_000.0,
        },
        "seconds": None,
        **changed,
    }


def result(
    method: str, variant: str, budget: int, failure: str, score: str, **changed: Any
) -> dict[str, Any]:
    found = metrics(**changed)
    main = (variant, budget, failure) == (VARIANTS[method][0].format(10_000), 10_000, "0.25")
    return {
        "dataset": "My_data & 5%",
        "method": method,
        "variant": variant,
        "budget": budget,
        "failure": failure,
        "score": score,
        "main": main and score in ("", "additive"),
        "mean": found,
        "std": dict.fromkeys(found),
        "runs": 1,
    }


def one_run(**changed: Any) -> list[dict[str, Any]]:
    scores = {"RRISE": ("additive", "probit"), "Baseline 4": ("additive", "probit", "none")}
    return [
        result(method, variant.format(budget), budget, failure, score, **changed)
        for method, variants in VARIANTS.items()
        for variant in variants
        for budget in (500, 10_000)
        for failure in LEVELS
        for score in scores.get(method, ("",))
    ]


def built(results: list[dict[str, Any]], **options: Any) -> dict[str, Table]:
    thresholds = {one["dataset"]: [0, 0.1, 0.2] for one in results}
    return {
        table.name: table
        for table in build_tables(results, thresholds, **{"protocol": "held-out", **options})
    }
