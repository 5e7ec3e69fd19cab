"""Fill in the tables of docs/reproduction.md from the published results.

    python benchmarks/reproduction.py            # writes the page
    python benchmarks/reproduction.py --check    # tells whether the page is up to date

Everything comes from `results/DATASET`: metrics over seeds and, for what the paper leaves open, the evidence
per input. No GPU and no dataset is needed.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable

from published import (
    HEAD,
    LEVELS,
    MAIN_LEVEL,
    ORDER,
    ROOT,
    Columns,
    Entry,
    Results,
    column,
    name,
    number,
    percent,
    table,
    text,
)
from reproduction_boundary import boundary
from reproduction_costs import break_evens, cheapest, equal_quality
from reproduction_spread import spread
from rrise.evaluation.measure.outcomes import JENSEN_SHANNON, MONTE_CARLO, RRISE, SURROGATES, TWO_STAGE
from rrise.runs.recipe import read_recipe

PAGE = ROOT / "docs" / "reproduction.md"
DATASETS = ("fashion-mnist", "cifar-10")
MORE_TARGETS = ("fashion-mnist-10000", "cifar-10-10000")
"""Runs with up to 10,000 votes per training image, of base classifiers of their own."""


def accuracy(everything: list[Results]) -> str:
    """Set accuracies of the smoothed classifier and of the surrogate beside the paper's."""
    rows = []
    for results in everything:
        for method, words in ((MONTE_CARLO, "smoothed classifier"), (RRISE, "surrogate")):
            (entry,) = results.entries("paper", method=method, main=True)
            paper = results.paper("main_cert_boundary", method, "CertAcc@0 (%)")
            difference = 100 * entry["mean"]["accuracy"] - paper
            more = {"dataset": results.dataset, "of": words, "paper": paper, "difference": difference}
            rows.append({**entry, **more})
    columns: Columns = {
        "dataset": lambda row: row["dataset"],
        "accuracy of": lambda row: row["of"],
        "paper (%)": lambda row: text(row["paper"]),
        "ours (%)": percent("accuracy"),
        "difference": lambda row: f"{row['difference']:+.2f}",
        "goal (within 1.5)": lambda row: "met" if abs(row["difference"]) <= 1.5 else "missed",
        "CertAcc@0 by its definition (%)": percent("certified_accuracy"),
        "average certified radius": column("average_certified_radius", digits=3),
    }
    return table(columns, rows)


def main_comparison(results: Results) -> str:
    """Set both protocols beside the paper."""

    def paper(metric: str, key: str, scale: float, of: str = "main_cert_boundary") -> Callable[[Entry], str]:
        """Return the paper's number and, behind it, ours minus it."""

        def words(entry: Entry) -> str:
            theirs = results.paper(of, entry["method"], metric)
            if theirs is None:
                return "–"
            return f"{theirs:,.2f} ({scale * entry['mean'][key] - theirs:+,.2f})"

        return words

    columns: Columns = {
        "method": name,
        "protocol": lambda entry: entry["protocol"],
        "accuracy (%)": percent("accuracy"),
        "CertAcc@0 (%)": percent("certified_accuracy"),
        "paper's (difference)": lambda entry: paper("CertAcc@0 (%)", _printed(entry), 100)(entry),
        "OCA (%)": percent("boundary_accuracy"),
        "paper's (difference) ": paper("OCA (%)", "boundary_accuracy", 100),
        "boundary mass (%)": percent("boundary_mass"),
        "paper's (difference)  ": paper("Boundary Mass", "boundary_mass", 100),
        "average certified radius": column("average_certified_radius", digits=3),
        "passes per query": column("mean_passes", digits=0),
        "paper's (difference)   ": paper("Test Cost", "mean_passes", 1, "main_compute"),
    }
    rows = (entry for protocol in results.metrics for entry in results.entries(protocol, main=True))
    return table(columns, rows)


def _printed(entry: Entry) -> str:
    """Return what the paper prints as CertAcc@0: of surrogates it is their accuracy."""
    return "accuracy" if entry["method"] in SURROGATES else "certified_accuracy"


def levels(results: Results) -> str:
    """Tell what each level costs, with both scores, and what Monte Carlo certifies at the same level."""
    own = results.entries(method=RRISE, main=True)[0]["budget"]
    largest = max(entry["budget"] for entry in results.entries(method=TWO_STAGE))
    rows = []
    for level in LEVELS:
        for score in ("additive", "probit"):
            (entry,) = results.entries(variant=f"{HEAD}{own}", failure=level, score=score)
            other = spread(results.evidence[0].held_out(), own, level, score)
            rows.append({**entry, "other images": other})
        rows += results.entries(method=TWO_STAGE, budget=largest, failure=level)
    columns: Columns = {
        "total failure": lambda entry: entry["failure"],
        "method": lambda entry: f"{entry['method']} {entry['score']}".strip(),
        "offset": column("offset", digits=3),
        "issued (%)": percent("issued"),
        "CertAcc@0 (%)": percent("certified_accuracy"),
        "average certified radius": column("average_certified_radius", digits=3),
        "± with other images": lambda entry: entry.get("other images", "–"),
        "bound too high (%)": percent("violation_rate"),
        "issued and too high (%)": percent("issued_violation_rate"),
        "too high among issued (%)": percent("violation_rate_among_issued"),
    }
    return table(columns, rows)


def strategies(results: Results) -> str:
    """Tell all surrogates: which weights were trained, with which objective, on how many votes."""
    rows = [
        entry for entry in results.entries(failure=MAIN_LEVEL) if entry["method"] in (RRISE, JENSEN_SHANNON)
    ]
    columns: Columns = {
        "surrogate": name,
        "score": lambda entry: entry["score"],
        "seeds": lambda entry: str(entry["runs"]),
        "passes for targets": column("targets", digits=0),
        "accuracy (%)": percent("accuracy"),
        "CertAcc@0 (%)": percent("certified_accuracy"),
        "average certified radius": column("average_certified_radius", digits=3),
        "OCA (%)": percent("boundary_accuracy"),
        "boundary mass (%)": percent("boundary_mass"),
        "offset": column("offset", digits=3),
    }
    return table(
        columns, sorted(rows, key=lambda row: (ORDER.index(row["method"]), row["score"], row["budget"]))
    )


def strategy_levels(results: Results) -> str:
    """Tell what each way to train certifies at each level, with either score."""
    own = results.entries(method=RRISE, main=True)[0]["budget"]
    found = [entry for entry in results.entries(budget=own) if entry["method"] in (RRISE, JENSEN_SHANNON)]
    return _at_levels({"surrogate": lambda row: row[0]}, found)


def budget_levels(results: Results) -> str:
    """Tell what the head certifies at each level, with either score, by votes per training image."""
    heads = [entry for entry in results.entries(method=RRISE) if entry["variant"].startswith(HEAD)]
    columns: Columns = {
        "votes per training image": lambda row: f"{_any(row)['budget']:,}",
        "passes for targets": lambda row: number(_any(row), "targets", digits=0),
        "accuracy (%)": lambda row: percent("accuracy")(_any(row)),
    }
    return _at_levels(columns, sorted(heads, key=lambda entry: entry["budget"]))


def _at_levels(columns: Columns, entries: list[Entry]) -> str:
    """Return a table with a row per surrogate, and what it certifies at every level with either score."""
    rows: dict[str, Entry] = {}
    for entry in entries:
        if entry["score"] in ("additive", "probit"):
            rows.setdefault(name(entry), {}).setdefault(entry["failure"], {})[entry["score"]] = entry

    def numbers(level: str, key: str, scale: float, digits: int) -> Callable[[Entry], str]:
        return lambda row: " / ".join(
            text(scale * row[1][level][score]["mean"][key], digits) for score in ("additive", "probit")
        )

    for level in LEVELS:
        columns[f"CertAcc@0 at {level} (%)"] = numbers(level, "certified_accuracy", 100, 1)
        columns[f"radius at {level}"] = numbers(level, "average_certified_radius", 1, 2)
    return table(columns, rows.items())


def _any(row: Entry) -> Entry:
    """Return one of a surrogate's entries, for what does not depend on level and score."""
    return row[1][MAIN_LEVEL]["additive"]


def steps(results: Results) -> str:
    """Tell what the runs took."""
    return (results.folder / "steps.md").read_text(encoding="utf-8").strip()


def estimates(_: list[Results]) -> str:
    """Tell what the recipes that were not run at full length would take, at the measured rates."""
    training, votes = (
        json.loads((ROOT / "benchmarks" / "results" / f"{kind}-cuda.json").read_text(encoding="utf-8"))
        for kind in ("training", "votes")
    )
    rows = []
    for source, images in (("cifar-100", 50_000), ("tiny-imagenet", 100_000)):
        recipe = read_recipe(source)
        trained_on = images - int(recipe.data.validation)
        examples = training["pairs"][source]["ours"]
        per_second = votes["rows"][f"{recipe.base.architecture} {recipe.votes.precision}"]["d"]
        calibration = round(10_000 * recipe.data.calibration)
        voted = {
            "training": trained_on * (recipe.votes.train + 2 * 1_000),
            "test": 3 * (10_000 * recipe.votes.test + calibration * recipe.votes.calibration),
        }
        rows.append(
            {
                "recipe": source,
                "images": f"{trained_on:,}",
                "examples/s": text(examples, 0),
                "votes/s": text(per_second, 0),
                "base": recipe.base.epochs * trained_on / examples,
                "surrogates": 4 * recipe.surrogate.epochs * trained_on / examples,
                **{name: number / per_second for name, number in voted.items()},
            }
        )
    steps = {
        "base classifier": "base",
        "training votes: 10,000 for one seed, 1,000 for two": "training",
        "calibration and test votes: 10,000 for three seeds": "test",
        "four surrogates that train all weights": "surrogates",
    }
    columns: Columns = {
        "recipe": lambda row: row["recipe"],
        "training images": lambda row: row["images"],
        "examples/s": lambda row: row["examples/s"],
        "votes/s": lambda row: row["votes/s"],
    }
    for words, key in steps.items():
        columns[f"{words} (minutes)"] = lambda row, key=key: text(row[key] / 60, 0)
    columns["in all (minutes)"] = lambda row: text(sum(row[key] for key in steps.values()) / 60, 0)
    return table(columns, rows)


OVERALL: dict[str, Callable[[list[Results]], str]] = {"accuracy": accuracy, "estimates": estimates}
PER_DATASET: dict[str, Callable[[Results], str]] = {
    "main": main_comparison,
    "levels": levels,
    "strategies": strategies,
    "strategy-levels": strategy_levels,
    "budget-levels": budget_levels,
    "boundary": boundary,
    "cheapest": cheapest,
    "break-even": break_evens,
    "equal-quality": equal_quality,
    "steps": steps,
}


def filled(page: str) -> str:
    """Return the page with the text between its marks replaced by tables."""
    everything = {folder: Results(folder) for folder in (*DATASETS, *MORE_TARGETS)}

    def made(match: re.Match[str]) -> str:
        which, _, folder = match["name"].partition(" ")
        compared = [everything[dataset] for dataset in DATASETS]
        content = PER_DATASET[which](everything[folder]) if folder else OVERALL[which](compared)
        return f"<!-- table: {match['name']} -->\n\n{content}\n\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>[^>]+?) -->.*?<!-- end -->", made, page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page)
    if options.check:
        sys.exit(0 if new == page else f"{PAGE} is not up to date: python benchmarks/reproduction.py")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
