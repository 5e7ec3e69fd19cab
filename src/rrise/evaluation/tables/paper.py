"""The numbers that the paper prints, to be shown beside ours.

`paper.csv` holds every number of its tables: the table, the setting as that table names it, the metric, mean
and standard deviation. Columns that a table does not have are empty, and so is a mean that is printed
as a dash. The numbers are as printed, also where the text defines something else (see `table_layouts`).
"""

import csv
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

from rrise.certifiers.methods import method_by_name
from rrise.evaluation.measure.known import is_papers_score, is_surrogate
from rrise.evaluation.tables.values import Number

BUDGET, FAILURE = 10_000, "0.25"
"""What the paper's tables mean where they do not say another budget or failure."""

SUFFIXES = {
    "FashionMNIST": "",
    "CIFAR-10": "_cifar10",
    "CIFAR-100": "_cifar100",
    "Tiny ImageNet": "_tiny_imagenet",
}
"""How the names of the paper's tables end that are about one dataset."""

_FIELDS = ("table", "dataset", "method", "variant", "budget", "total_failure", "metric")


@cache
def paper_numbers() -> Mapping[tuple[str, ...], Number]:
    """Return the paper's numbers by table, dataset, method, variant, budget, total failure and metric.

    >>> numbers = paper_numbers()
    >>> numbers["main_cert_boundary", "CIFAR-10", "RRISE", "", "", "", "CertAcc@0 (%)"]
    Number(mean=70.26, std=0.07)
    """
    content = (resources.files("rrise.evaluation.tables") / "paper.csv").read_text(encoding="utf-8")
    return {
        tuple(line[field] for field in _FIELDS): Number(_float(line["mean"]), _float(line["std"]))
        for line in csv.DictReader(content.splitlines())
    }


def paper_number(
    table: str, setting: Mapping[str, Any], metric: str, *, family: str, varied: frozenset[str]
) -> Number | None:
    """Return what the paper prints for this setting in this table, or None if it prints nothing.

    `varied` names what the table tells apart, out of `variant`, `budget` and `failure`; what it does not
    must be what the paper uses throughout. `family` is the variant without its budget.

    Where budgets are not told apart, a surrogate on any number of votes stands beside the paper's, which has
    10,000 of them: see `targets_differ`.
    """
    method = method_by_name(setting["method"])
    if not method.in_paper or not is_papers_score(setting["score"]):
        return None
    usual = {
        "variant": family == method.paper_variant,
        "budget": setting["budget"] == BUDGET,
        "failure": Fraction(setting["failure"]) == Fraction(FAILURE),
    }
    alike = _hides_targets(setting, varied)
    if "variant" in varied or alike:
        usual["budget"] = True
    if not all(usual[name] or name in varied for name in usual):
        return None
    given = {
        "variant": f"{family}_n{BUDGET}" if alike else setting["variant"],
        "budget": str(setting["budget"]),
        "failure": f"{float(Fraction(setting['failure'])):g}",
    }
    key = (given[name] if name in varied else "" for name in ("variant", "budget", "failure"))
    return paper_numbers().get((table, setting["dataset"], setting["method"], *key, metric))


def targets_differ(setting: Mapping[str, Any], varied: frozenset[str]) -> bool:
    """Whether a surrogate has targets from other than the paper's number of votes, which the table hides."""
    return _hides_targets(setting, varied) and setting["budget"] != BUDGET


def _hides_targets(setting: Mapping[str, Any], varied: frozenset[str]) -> bool:
    return is_surrogate(setting["method"]) and "budget" not in varied


def _float(text: str) -> float | None:
    return float(text) if text else None
