"""Change what the paper leaves open in a recipe, one thing at a time, and say what each change gains.

    python benchmarks/trials.py fashion-mnist --out runs/trials [--data-root DATA]

Each trial is a run of `rrise run` with few votes, in a folder of its own below `--out`, which goes on where
it was interrupted. Those that are finished are reported, from their run folders alone, so that folders may
come from several machines; `--report` runs nothing.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from published import Columns, table
from rrise.certifiers.methods import ONE_STAGE, RRISE
from rrise.files import Json
from rrise.runs.journal import read_journal
from rrise.runs.recipe import RecipeFile, parse_changes

RESULTS = Path(__file__).parent / "results"
PROFILE = "paper"
VOTES = {"votes.train": 16, "votes.calibration": 1_000, "votes.test": 250}
TRIALS: dict[str, dict[str, list[str]]] = {
    "fashion-mnist": {
        "recipe": [],
        "epochs-100": ["base.epochs=100"],
        "learning-rate-5e-4": ["base.learning_rate=5e-4"],
        "learning-rate-2e-3": ["base.learning_rate=2e-3"],
        "width-256": ["base.options={image_size=32, classes=10, width=256}"],
        "regularised": ['base.augmentations=["crop-2", "flip", "randaugment"]'],
    },
    "cifar-10": {
        "recipe": [],
        "epochs-100": ["base.epochs=100"],
        "learning-rate-5e-4": ["base.learning_rate=5e-4"],
        "learning-rate-2e-3": ["base.learning_rate=2e-3"],
        "weight-decay-0.05": ["base.weight_decay=0.05"],
        "regularised": ["data.validation=1000", 'base.augmentations=["crop-4", "flip", "randaugment"]'],
    },
}
"""By name: changes of the paper's settings."""


def as_words(settings: list[str]) -> list[str]:
    """Return settings as arguments of the command line."""
    return [word for one in settings for word in ("--set", one)]


def result(folder: Path) -> Json | None:
    """Return what a finished run reached, and what its base classifier took; None of an unfinished one."""
    evaluated = folder / "evaluation" / "results.json"
    if not evaluated.is_file():
        return None
    base = json.loads((folder / "base" / "manifest.json").read_text())["result"]["history"]
    results = json.loads(evaluated.read_text())
    main = {
        entry["method"]: entry["metrics"]
        for entry in results["results"]
        if entry["main"] and entry["failure"] == results["main_failure"]
    }
    pieces = [entry for entry in read_journal(folder) if entry["step"] == "base"]
    return {
        "epoch": base["selected_epoch"],
        "epochs": len(base["epochs"]),
        "noisy_validation_error": base["epochs"][base["selected_epoch"] - 1]["noisy_validation_error"],
        "smoothed_accuracy": main[ONE_STAGE.name]["accuracy"],
        "surrogate_accuracy": main[RRISE.name]["accuracy"],
        "certified_accuracy": main[RRISE.name]["certified_accuracy"],
        "average_certified_radius": main[RRISE.name]["average_certified_radius"],
        "test_inputs": results["test_inputs"],
        "settings": results["settings"],
        "base_s": sum(piece["seconds"] for piece in pieces),
        **{name: pieces[-1][name] for name in ("hardware", "torch", "date")},
    }


def told(measured: dict[str, Json]) -> str:
    columns: Columns = {
        "settings": lambda row: f"`{row['words']}`" if row["words"] else "the recipe",
        "base: epoch kept": lambda row: f"{row['epoch']} of {row['epochs']}",
        "noisy validation error": lambda row: f"{row['noisy_validation_error']:.4f}",
        "smoothed accuracy (Monte Carlo, %)": lambda row: f"{100 * row['smoothed_accuracy']:.2f}",
        "surrogate accuracy (%)": lambda row: f"{100 * row['surrogate_accuracy']:.2f}",
        "CertAcc@0 of the surrogate (%)": lambda row: f"{100 * row['certified_accuracy']:.2f}",
        "average certified radius": lambda row: f"{row['average_certified_radius']:.3f}",
        "training the base (s)": lambda row: f"{row['base_s']:.0f}",
    }
    return table(columns, measured.values(), words=1)


def report(name: str, changes: list[str], measured: dict[str, Json]) -> None:
    (RESULTS / f"trials-{name}.json").write_text(json.dumps(measured, indent=1) + "\n")
    machines = {f"{row['date']} on {row['hardware']}, torch {row['torch']}" for row in measured.values()}
    right = ((row["surrogate_accuracy"], row["test_inputs"]) for row in measured.values())
    largest = max((share * (1 - share) / inputs) ** 0.5 for share, inputs in right)
    sizes = " or ".join(f"{inputs:,}" for inputs in sorted({row["test_inputs"] for row in measured.values()}))
    head = (
        f"# {name}: what else was tried\n\n"
        f"Measured {'; '.join(sorted(machines))}, by `python benchmarks/trials.py {name}`: one run each of "
        f"`rrise run {' '.join([name, *changes])}` and the settings named here.\n"
        f"On {sizes} test images, which the trials share; the standard error of an accuracy is at most "
        f"{100 * largest:.1f} points.\n"
    )
    (RESULTS / f"trials-{name}.md").write_text(f"{head}\n{told(measured)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=TRIALS, help="the recipe")
    parser.add_argument(
        "trials",
        nargs="*",
        metavar="TRIAL",
        help="which ones, all if none is named: "
        + "; ".join(f"of {name} {', '.join(trials)}" for name, trials in TRIALS.items()),
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder for their run folders")
    parser.add_argument("--data-root", type=Path, help="where datasets lie")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all trials"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, report what is finished")
    options = parser.parse_args()
    known = TRIALS[options.name]
    if unknown := set(options.trials) - set(known):
        parser.error(f"{options.name} has no trial {', '.join(sorted(unknown))}: it has {', '.join(known)}")
    settings = [*(f"{name}={value}" for name, value in VOTES.items()), *options.set]
    changes, common = parse_changes(settings), ["--profile", PROFILE, *as_words(settings)]
    where = ["--data-root", str(options.data_root)] if options.data_root else []
    for trial in [] if options.report else options.trials or known:
        command = [
            "run",
            options.name,
            *common,
            *as_words(known[trial]),
            "--out",
            str(options.out / trial),
            *where,
        ]
        if code := subprocess.run([sys.executable, "-m", "rrise", *command], check=False).returncode:
            sys.exit(code)
    measured = {}
    for trial, words in known.items():
        if (row := result(options.out / trial)) is not None:
            recipe = RecipeFile.find(options.name).recipe(PROFILE, {**changes, **parse_changes(words)})
            if (difference := recipe.difference(row.pop("settings"))) is not None:
                name, theirs, ours = difference
                parser.error(
                    f"the run of {trial} has {name} {theirs!r}, and not {ours!r}: name another --out"
                )
            measured[trial] = {"words": " ".join(as_words(words)), **row}
    if not measured:
        parser.error(f"no trial below {options.out} is finished")
    report(options.name, common, measured)
    print(RESULTS / f"trials-{options.name}.md")


if __name__ == "__main__":
    main()
