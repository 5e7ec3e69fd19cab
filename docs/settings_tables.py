"""Fills the tables of settings, methods, scores and metrics in the documents.

`--check` only says which are out of date. A document has `<!-- settings: NAME -->` or
`<!-- registry: NAME -->` above a table and `<!-- end -->` below it.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rrise.audit.attacks import ATTACKS
from rrise.certifiers.methods import methods
from rrise.deployment.monitor.settings import MonitorSettings
from rrise.deployment.service.settings import ServiceSettings
from rrise.evaluation.measure.all_metrics import METRICS
from rrise.runs.settings import TABLES
from rrise.runs.vote_recipe import VoteRecipe
from rrise.settings import declared, markdown_table
from rrise.statistics import SCORES
from rrise.training.base_objectives import BASE_OBJECTIVES

DOCUMENTS = sorted(Path(__file__).parent.glob("*.md"))
OPTIONS: dict[str, type] = {"serve": ServiceSettings, "monitor": MonitorSettings}
"""Settings that are set on the command line alone; all others are keys of a recipe."""
OF_OBJECTIVES = {f"objective {name}": kind for name, kind in BASE_OBJECTIVES.items() if declared(kind)}
SETTINGS: dict[str, type] = {**OPTIONS, "rrise vote": VoteRecipe, **TABLES, **OF_OBJECTIVES}
_PLACE = re.compile(r"(<!-- (?P<kind>settings|registry): (?P<name>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(headings: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [headings.split(", "), ["---"] * (headings.count(", ") + 1), *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines)


def methods_table() -> str:
    """Return all methods as a table: what tables call them, what figures do, and what they do."""
    rows = ([one.name, one.shown_as, one.about, "yes" if one.in_paper else "no"] for one in methods())
    return _table("in tables, in figures, what it does, in the paper", rows)


def metrics_table() -> str:
    """Return all metrics as a table: name, heading, unit, meaning, and the key in `results.json`."""
    rows = (
        [one.label, one.heading if one.table else "", one.unit, one.meaning, f"`{one.key}`"]
        for one in METRICS.values()
    )
    return _table("name, in tables, unit, meaning, in `results.json`", rows)


def scores_table() -> str:
    """Return all calibration scores as a table: the bound as a formula, and the unit of the offset."""
    rows = ([f"`{one.name}`", f"`{one.formula}`", one.unit] for one in SCORES.values())
    return _table("score, lower bound, offset d", rows)


def attacks_table() -> str:
    """Return all attacks of an audit as a table: name, what it does, whether it needs gradients."""
    rows = ([f"`{one.name}`", one.about, "yes" if one.needs_gradients else "no"] for one in ATTACKS.values())
    return _table("attack, what it does, needs gradients of the surrogate", rows)


REGISTRIES: dict[str, Callable[[], str]] = {
    "attacks": attacks_table,
    "methods": methods_table,
    "metrics": metrics_table,
    "scores": scores_table,
}


def names_in(text: str, kind: str = "settings") -> list[str]:
    """Return which tables a document has a place for."""
    return [place["name"] for place in _PLACE.finditer(text) if place["kind"] == kind]


def filled(text: str) -> str:
    """Return a document with its tables as settings, methods and metrics are declared now."""

    def table(place: re.Match[str]) -> str:
        name = place["name"]
        if place["kind"] == "registry":
            return f"{place[1]}{REGISTRIES[name]()}\n{place[4]}"
        return f"{place[1]}{markdown_table(SETTINGS[name], options=name in OPTIONS)}\n{place[4]}"

    return _PLACE.sub(table, text)


def main() -> None:
    """Fill all documents, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a table is out of date")
    only_check = parser.parse_args().check
    outdated = [document for document in DOCUMENTS if filled(document.read_text()) != document.read_text()]
    for document in outdated:
        if not only_check:
            document.write_text(filled(document.read_text()))
        print(f"{document}: {'out of date, run make docs' if only_check else 'filled'}")
    sys.exit(1 if outdated and only_check else 0)


if __name__ == "__main__":
    main()
