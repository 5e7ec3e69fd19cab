"""Objectives of the base classifier on the digits: certified accuracy by Monte Carlo, clipped and not.

    python benchmarks/base_objectives.py runs/objectives      measures what is missing, and writes the page

The base classifier and its training are those of the recipe `digits`, but for its noise, which is that of the
votes, and for the label smoothing of all but the first row. Nothing was tuned on these digits. The votes are
cast on all test digits, which trained and selected nothing.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rrise
from machine import hardware
from rrise.data.catalogue import load_dataset
from rrise.files import write_text
from rrise.models.folder import load_model
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe

RESULTS = Path(__file__).parent / "results" / "base-objectives"
RADII = (0.0, 0.25, 0.5)
SIGMAS, SEEDS = (0.25, 0.5), (100,)
VOTES, SELECTION_VOTES, FAILURE = 500, 100, 0.001


def objectives(sigma: float) -> dict[str, dict[str, Any]]:
    """Return the changes to the recipe by the name of their row."""
    plain = {"base.label_smoothing": 0.0}
    consistency = {**plain, "base.objective": "consistency"}
    mix = {**plain, "base.objective": "smoothmix", "base.objective_options": {"step_size": 2 * sigma}}
    return {
        "cross-entropy, label smoothing 0.1": {},
        "cross-entropy": plain,
        "consistency, weight 5": {**consistency, "base.objective_options": {"weight": 5}},
        "consistency, weight 20": consistency,
        "smoothmix": mix,
    }


def measured(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Train a base classifier, or read it, and certify all test digits."""
    recipe = read_recipe("digits", changes=changes)
    run_recipe(folder, recipe, Console(quiet=True), until="base")
    test = load_dataset("digits").test
    noise = (rrise.Gaussian if recipe.votes.clip else rrise.UnclippedGaussian)(recipe.votes.sigma)
    base, images = load_model(folder / "base"), test.images / np.float32(255)
    how: dict[str, Any] = {"sigma": noise, "seed": recipe.votes.seed, "batch_size": 2048, "compiled": False}
    votes, selection = (
        rrise.collect_votes(base, images, n=n, split=split, **how)
        for n, split in ((VOTES, "test"), (SELECTION_VOTES, "test-selection"))
    )
    found = rrise.monte_carlo_certificates(votes, selection, failure=FAILURE)
    radius = np.where((found.label == test.labels) & found.issued, found.radius, -1.0)
    return {
        "certified": [float((radius >= at).mean()) for at in RADII],
        "average_radius": float(radius.clip(min=0).mean()),
    }


def page(found: dict[str, Any], machine: dict[str, Any]) -> str:
    """Return the results in Markdown: the mean over the seeds that were measured."""
    parts = [
        "# Objectives of the base classifier, on the digits",
        f"Measured {machine['date']} on {machine['cores']} cores of {machine['cpu']} by "
        "`python benchmarks/base_objectives.py`. The base classifier is that of the recipe `digits`: a small "
        "convolutional network, 897 training images, 60 epochs. It is trained with the noise that is "
        "certified (`base.sigma = votes.sigma`).",
        f"Monte Carlo with {VOTES:,} votes at failure {FAILURE:g} certifies all 750 test digits. Where it "
        "abstains or its label is wrong, the input counts as not certified, with radius 0. Seeds of the "
        f"training: {', '.join(map(str, SEEDS))}. From the choice of digits alone, the standard error of a "
        "share is up to 1.8 points. Options are the publications' for CIFAR-10 at sigma 0.25, "
        "unless the row says otherwise; steps of SmoothMix are 2 sigma long, as there. Nothing was tuned.",
    ]
    for sigma in SIGMAS:
        for clip in (True, False):
            heads = " | ".join(f"radius {at:g}" for at in RADII)
            parts.append(f"## Sigma {sigma:g}, noisy inputs {'clipped to [0, 1]' if clip else 'not clipped'}")
            rows = [f"| objective | {heads} | average radius |", "|---|---:|---:|---:|---:|"]
            for name in objectives(sigma):
                some = [found[key] for seed in SEEDS if (key := key_of(name, sigma, clip, seed)) in found]
                if some:
                    shares = np.mean([one["certified"] for one in some], axis=0)
                    average = np.mean([one["average_radius"] for one in some])
                    cells = [name, *(f"{100 * share:.1f} %" for share in shares)]
                    rows.append(f"| {' | '.join([*cells, f'{average:.3f}'])} |")
            parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def key_of(name: str, sigma: float, clip: bool, seed: int) -> str:
    return f"{name}; {sigma:g}; {'clipped' if clip else 'unclipped'}; {seed}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="a folder for the runs")
    folder, results = parser.parse_args().runs, RESULTS.with_suffix(".json")
    stored = json.loads(results.read_text()) if results.exists() else {"found": {}}
    found = stored["found"]
    for seed in SEEDS:
        for sigma in SIGMAS:
            for clip in (True, False):
                for name, changes in objectives(sigma).items():
                    if (key := key_of(name, sigma, clip, seed)) in found:
                        continue
                    noise = {"base.sigma": sigma, "votes.sigma": sigma, "votes.clip": clip}
                    found[key] = measured(folder / str(len(found)), {**noise, "base.seed": seed, **changes})
                    print(key, found[key], flush=True)
                    stored["machine"] = hardware()
                    write_text(results, json.dumps(stored, indent=1) + "\n")
                    write_text(RESULTS.with_suffix(".md"), page(found, stored["machine"]))


if __name__ == "__main__":
    main()
