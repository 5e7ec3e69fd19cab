"""The paper's printed numbers turned into results over seeds, as if we had measured them."""

from collections.abc import Iterator
from typing import Any

from rrise.evaluation.tables.paper import paper_numbers

THRESHOLDS = {
    name: [step * index for index in range(8)]
    for name, step in {
        "FashionMNIST": 0.025,
        "CIFAR-10": 0.025,
        "CIFAR-100": 0.0125,
        "Tiny ImageNet": 0.0125,
    }.items()
}
MAIN = {
    "RRISE": "trainhead_initbase_n{}",
    "Baseline 1": "n{}",
    "Baseline 2": "k{}_decline0.01",
    "Baseline 3": "n{}_tol0.01",
    "Baseline 4": "init0_n{}",
}
KEYS = {
    "CertAcc@0 (%)": ("certified_accuracy", 100),
    "OCA (%)": ("boundary_accuracy", 100),
    "Avg. Radius": ("boundary_radius", 1),
    "Boundary Mass": ("boundary_mass", 100),
    "delta": ("offset", 1),
    "Best Epoch": ("epoch", 1),
    "Test Cost": ("mean_passes", 1),
    "Train Cost": ("targets", 1),
    "Sample Red.": ("sample_reduction", 1),
}
RIVALS = {
    "RRISE BE vs B1": "Baseline 1 n10000",
    "RRISE BE vs B2": "Baseline 2 k10000_decline0.01",
    "RRISE BE vs B3": "Baseline 3 n10000_tol0.01",
}


def paper_results() -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for (table, dataset, method, variant, budget, failure, metric), number in paper_numbers().items():
        votes = int(budget or variant.rpartition("_n")[2].lstrip("nk").partition("_")[0] or 10_000)
        setting = (dataset, method, variant or MAIN[method].format(votes), votes, failure or "0.25")
        result = found.setdefault(setting, _empty(setting))
        for which, value in (("mean", number.mean), ("std", number.std)):
            _put(result[which], table, dataset, metric, value)
    return list(found.values())


def _empty(setting: tuple[Any, ...]) -> dict[str, Any]:
    dataset, method, variant, votes, failure = setting
    surrogate = method in ("RRISE", "Baseline 4")
    zeros = {"targets": 0.0, "training": 0.0, "calibration": 0.0, "training_paper": 0.0}
    return {
        "dataset": dataset,
        "method": method,
        "variant": variant,
        "budget": votes,
        "failure": failure,
        "score": "additive" if surrogate else "",
        "main": (variant, votes, failure) == (MAIN[method].format(10_000), 10_000, "0.25"),
        "mean": {"break_even": {}, **zeros},
        "std": {"break_even": {}, **zeros},
        "runs": 3,
    }


def _put(metrics: dict[str, Any], table: str, dataset: str, metric: str, value: float | None) -> None:
    if metric in RIVALS:
        metrics["break_even"][RIVALS[metric]] = value
    elif metric.startswith("t="):
        key = "boundary_crd" if table.startswith("crd_boundary") else "certified_crd"
        metrics.setdefault(key, [None] * 8)[_place(dataset, float(metric[2:]))] = value
    elif metric in KEYS:
        key, scale = KEYS[metric]
        metrics[key] = None if value is None else value / scale


def _place(dataset: str, threshold: float) -> int:
    return min(range(8), key=lambda index: abs(THRESHOLDS[dataset][index] - threshold))


def printed_rows() -> Iterator[tuple[str, str, str, str, str, str, str, str]]:
    """Give table, setting, metric and text of every number as the paper prints it."""
    for key, number in paper_numbers().items():
        std = "" if number.std is None else f" ± {number.std:.2f}"
        yield (*key, "–" if number.mean is None else f"{number.mean:.2f}{std}")
