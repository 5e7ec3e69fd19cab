"""Surrogates by votes per training image, weights and objective: tables of docs/reproduction."""

from collections.abc import Callable

from published import HEAD, LEVELS, MAIN_LEVEL, ORDER, Columns, Entry, Results, column, percent, table, text
from reproduction_names import entry_name
from rrise.certifiers.methods import RRISE
from rrise.evaluation.measure.known import is_surrogate


def targets(results: Results) -> str:
    """Tell what the head certifies at the main failure, by votes per training image."""
    columns: Columns = {
        "score": lambda entry: entry["score"],
        "votes per training image": lambda entry: f"{entry['budget']:,}",
        "seeds": lambda entry: str(entry["runs"]),
        "passes for targets": column("targets", digits=0),
    }
    rows = sorted(_heads(results, failure=MAIN_LEVEL), key=lambda row: (row["score"], row["budget"]))
    return table(columns | _AT_THE_MAIN_LEVEL, rows, words=1)


def strategies(results: Results) -> str:
    """Tell what each way to train certifies at the main failure: which weights, and with which objective."""
    rows = sorted(_strategies(results, failure=MAIN_LEVEL), key=lambda row: row["score"])
    columns: Columns = {
        "surrogate": entry_name,
        "score": lambda entry: entry["score"],
        "seeds": lambda entry: str(entry["runs"]),
    }
    by_method = sorted(rows, key=lambda row: ORDER.index(row["method"]))
    return table(columns | _AT_THE_MAIN_LEVEL, by_method, words=2)


def targets_by_level(results: Results) -> str:
    """Tell what the head certifies at each failure, with either score, by votes per training image."""
    columns: Columns = {
        "votes per training image": lambda row: f"{_any(row)['budget']:,}",
        "passes for targets": lambda row: column("targets", digits=0)(_any(row)),
        "accuracy (%)": lambda row: percent("accuracy")(_any(row)),
    }
    return _at_levels(columns, sorted(_heads(results), key=lambda entry: entry["budget"]))


def strategies_by_level(results: Results) -> str:
    """Tell what each way to train certifies at each failure, with either score."""
    return _at_levels({"surrogate": lambda row: entry_name(_any(row))}, _strategies(results))


_AT_THE_MAIN_LEVEL: Columns = {
    "accuracy (%)": percent("accuracy"),
    "CertAcc@0 (%)": percent("certified_accuracy"),
    "average certified radius": column("average_certified_radius", digits=3),
    "OCA (%)": percent("boundary_accuracy"),
    "boundary mass (%)": percent("boundary_mass"),
    "offset": column("offset", digits=3),
}


def _heads(results: Results, **wanted: object) -> list[Entry]:
    found = results.entries(method=RRISE.name, **wanted)
    return [entry for entry in found if entry["variant"].startswith(HEAD)]


def _strategies(results: Results, **wanted: object) -> list[Entry]:
    own = results.entries(method=RRISE.name, main=True)[0]["budget"]
    return [entry for entry in results.entries(budget=own, **wanted) if is_surrogate(entry["method"])]


def _at_levels(columns: Columns, entries: list[Entry]) -> str:
    """Return a table with a row per surrogate, and what it certifies at every failure with either score."""
    rows: dict[str, Entry] = {}
    for entry in entries:
        if entry["score"] in ("additive", "probit"):
            rows.setdefault(entry["variant"], {}).setdefault(entry["failure"], {})[entry["score"]] = entry

    def numbers(level: str, key: str, scale: float, digits: int) -> Callable[[Entry], str]:
        return lambda row: " / ".join(
            text(scale * row[level][score]["mean"][key], digits) for score in ("additive", "probit")
        )

    for level in LEVELS:
        columns[f"CertAcc@0 at {level} (%)"] = numbers(level, "certified_accuracy", 100, 1)
        columns[f"radius at {level}"] = numbers(level, "average_certified_radius", 1, 2)
    return table(columns, rows.values(), words=1)


def _any(row: Entry) -> Entry:
    """Return one of a surrogate's entries, for what does not depend on failure and score."""
    return row[MAIN_LEVEL]["additive"]
