"""What the recipes that were not run at full length would take: a table of docs/reproduction."""

import json

from published import ROOT, Columns, Entry, Results, table, text
from rrise.runs.recipe import read_recipe

NOT_RUN = {"cifar-100": 50_000, "tiny-imagenet": 100_000}
"""Recipes and their labelled images for training and validation."""

STEPS = {
    "base classifier": "base",
    "training votes": "training",
    "calibration and test votes": "test",
    "four surrogates": "surrogates",
}


def estimates(_: list[Results]) -> str:
    """Tell the minutes of each step at the measured rates."""
    columns: Columns = {
        "recipe": lambda row: row["recipe"],
        "training images": lambda row: row["images"],
        "training examples per second": lambda row: row["examples/s"],
        "votes per second": lambda row: row["votes/s"],
    }
    for words, key in STEPS.items():
        columns[f"{words} (minutes)"] = lambda row, key=key: text(row[key] / 60, 0)
    columns["total (minutes)"] = lambda row: text(sum(row[key] for key in STEPS.values()) / 60, 0)
    return table(columns, [_seconds(*item) for item in NOT_RUN.items()], words=1)


def _seconds(source: str, images: int) -> Entry:
    """Return the seconds of each step: 10,000 training votes for one seed and 1,000 for two more.

    Calibration and test images get the recipe's votes for three seeds; four surrogates train all weights.
    """
    training, votes = (
        json.loads((ROOT / "benchmarks" / "results" / f"{kind}-cuda.json").read_text(encoding="utf-8"))
        for kind in ("training", "votes")
    )
    recipe = read_recipe(source, "paper")
    trained_on = images - int(recipe.data.validation)
    examples = training["pairs"][source]["ours"]
    per_second = votes["rows"][f"{recipe.base.architecture} {recipe.votes.precision}"]["d"]
    calibration = round(10_000 * recipe.data.calibration)
    tested = 3 * (10_000 * recipe.votes.test + calibration * recipe.votes.calibration)
    return {
        "recipe": source,
        "images": f"{trained_on:,}",
        "examples/s": text(examples, 0),
        "votes/s": text(per_second, 0),
        "base": recipe.base.epochs * trained_on / examples,
        "training": trained_on * (recipe.votes.train + 2 * 1_000) / per_second,
        "test": tested / per_second,
        "surrogates": 4 * recipe.surrogate.epochs * trained_on / examples,
    }
