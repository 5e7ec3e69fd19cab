"""Time the `quick` profile of each recipe from the paper, from nothing to the report.

    python benchmarks/quick_recipes.py [--data-root DATA] [--generated GENERATED] [NAME ...]

Datasets are looked for below `--data-root` and where `rrise run` looks, unless the folder of `--generated`
has a file of `generated_images.py` for them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import check_idle, hardware
from published import Columns, table
from rrise.data.benchmarks import BENCHMARKS
from rrise.files import Json
from rrise.runs.journal import read_journal
from rrise.runs.recipe import RecipeFile

RESULTS = Path(__file__).parent / "results"
CHANGES = {"tiny-imagenet": {"base.epochs": 10}}  # some hundred steps of each base classifier


def command_of(name: str) -> list[str]:
    changes = [f"{setting}={value}" for setting, value in CHANGES.get(name, {}).items()]
    return ["run", name, "--profile", "quick", *(word for change in changes for word in ("--set", change))]


def timed(name: str, data_root: Path | None) -> Json:
    """Run a recipe's quick profile in a process of its own; return what it took and what it trained."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / name
        command = [sys.executable, "-m", "rrise", *command_of(name), "--out", str(out)]
        start = time.perf_counter()
        subprocess.run([*command, *(["--data-root", str(data_root)] if data_root else [])], check=True)
        whole = time.perf_counter() - start
        steps = {entry["step"]: entry["seconds"] for entry in read_journal(out)}
    recipe = RecipeFile.find(name).recipe("quick", CHANGES.get(name, {}))
    images = recipe.data.train - recipe.data.validation
    return {
        "command": " ".join(["rrise", *command_of(name)]),
        "training_images": images,
        "base_steps": recipe.base.epochs * -(-images // recipe.base.batch_size),
        "base_s": steps["base"],
        "votes_s": sum(seconds for step, seconds in steps.items() if step.startswith("votes/")),
        "all_s": whole,
    }


def told(measured: dict[str, Json]) -> str:
    columns: Columns = {
        "command": lambda row: f"`{row['command']}`",
        "images": lambda row: row["images"],
        "training images": lambda row: f"{row['training_images']:,}",
        "steps of the base": lambda row: str(row["base_steps"]),
        "base (s)": lambda row: f"{row['base_s']:.0f}",
        "votes (s)": lambda row: f"{row['votes_s']:.0f}",
        "whole run (minutes)": lambda row: f"{row['all_s'] / 60:.1f}",
    }
    return table(columns, measured.values(), words=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(BENCHMARKS))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--generated", type=Path)
    options = parser.parse_args()
    busy, measured = check_idle(), {}
    for name in options.names:
        is_generated = options.generated is not None and (options.generated / f"{name}.npz").exists()
        row = timed(name, options.generated if is_generated else options.data_root)
        measured[name] = {"images": "generated" if is_generated else "real", **row}
    machine = hardware() | {"busy_cores": busy}
    (RESULTS / "quick-cpu.json").write_text(
        json.dumps({"hardware": machine, "recipes": measured}, indent=1) + "\n"
    )
    head = (
        f"# Quick profiles on {machine['torch_threads']} threads of {machine['cpu']}\n\n"
        f"Measured {machine['date']} on {machine['cores']} cores, Python {machine['python']}, "
        f"torch {machine['torch']}, by `python benchmarks/quick_recipes.py`: each command from the start of "
        "its process to its end, one at a time.\nWhat these runs certify says nothing about the paper.\n"
    )
    (RESULTS / "quick-cpu.md").write_text(f"{head}\n{told(measured)}\n")


if __name__ == "__main__":
    main()
