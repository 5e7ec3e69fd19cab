"""Begin the published folder of a distilled surrogate with the evidence of a run that has none.

    python benchmarks/distilled_evidence.py results/cifar-100/seed-100 results/cifar-100-distilled/seed-100 \
        --weights results/weights/cifar-100-base.safetensors --mean .5069 .4864 .4409 --std .2674 .2565 .2763
    python benchmarks/distillation.py results/cifar-100-distilled/seed-100 --out OUT \
        --variants benchmarks/cifar_100_distilled.jsonl
    python benchmarks/extend_published.py results/cifar-100-distilled/seed-100 --variant OUT/cpu

The new folder has the same images, votes and baselines, at total failure 0.01, and a recipe that names the
weights of the base classifier. Until the last command it has the surrogate of the run. Evidence counts votes
and does not tell their order. The votes at query time are therefore a random part of the votes of an input.
This part is distributed as the first votes are: given their counts, all orders are equally likely.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from rrise.certifiers.predictions import calibrated_certificates
from rrise.certifiers.with_votes import STOPS
from rrise.evaluation.measure.evidence import HELD_OUT, Evidence
from rrise.evaluation.measure.evidence_files import read_evidence, write_evidence
from rrise.files import Json, write_text
from rrise.runs.journal import JOURNAL
from rrise.runs.recipe import Recipe, read_recipe
from rrise.runs.steps import RECIPE
from rrise.seeds import derive_seed
from rrise.statistics import level_text
from rrise.votes.array import Votes

FAILURES = [0.01, 0.25, 0.1, 0.05]
CALIBRATION: Json = {"rule": "floored", "beta": "0.2", "promise": "marginal"}


def recipe_of(folder: Path, weights: Path, normalisation: dict[str, list[float]]) -> Recipe:
    """Return the recipe of the run with a distilled surrogate, at total failure 0.01."""
    options = {**read_recipe(folder / RECIPE).base.options, **normalisation}
    return read_recipe(
        folder / RECIPE,
        None,
        {
            "data.protocol": HELD_OUT,
            "base.weights": str(weights),
            "base.options": options,
            "votes.train": 10_000,
            "surrogate.strategy": "distill",
            "calibration.failure": FAILURES[0],
            "calibration.beta": float(CALIBRATION["beta"]),
            "calibration.rule": CALIBRATION["rule"],
            "calibration.score": "tapered",
            "evaluation.surrogates": [],
            "evaluation.protocol": HELD_OUT,
            "evaluation.paper": False,
        },
    )


def part_of(votes: Votes, n: int, random: np.random.Generator) -> Votes:
    """Return the counts of `n` votes of each input, drawn at random without putting them back."""
    drawn = [random.multivariate_hypergeometric(counts, n) for counts in np.asarray(votes)]
    return Votes(np.array(drawn, dtype=np.int64), votes.smoothing)


def query_votes(evidence: Evidence, seed: int) -> dict[int, tuple[Votes, Votes]]:
    """Return parts of the votes; each holds the smaller ones."""
    random = np.random.default_rng(derive_seed(seed, "query votes"))
    most = int(np.asarray(evidence.calibration_votes)[0].sum()) // 2
    of = evidence.reference, evidence.calibration_votes
    found = {}
    for n in sorted((stop for stop in STOPS if stop <= most), reverse=True):
        of = part_of(of[0], n, random), part_of(of[1], n, random)
        found[n] = of
    return dict(sorted(found.items()))


def begun(evidence: Evidence, recipe: Recipe, run: str) -> Evidence:
    """Return the evidence at total failure 0.01, with votes at query time."""
    one, smoothing = evidence.surrogates[0], evidence.reference.smoothing
    assert smoothing is not None
    found, _ = calibrated_certificates(
        one.test,
        one.calibration,
        evidence.calibration_votes,
        smoothing=smoothing,
        failure=FAILURES[0],
        rule=CALIBRATION["rule"],
        beta=float(CALIBRATION["beta"]),
        score="tapered",
    )
    about = {name: value for name, value in evidence.about.items() if name != "beta"}
    about |= {
        "run": run,
        "failures": FAILURES,
        "main_failure": level_text(found.guarantee.failure),
        "calibration": CALIBRATION,
        "promise": found.guarantee.words.promise,
    }
    query = query_votes(evidence, recipe.votes.seed)
    return replace(evidence, about=about, surrogates=(one,), query=query)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("evidence", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="those of its base classifier")
    for name in ("mean", "std"):
        parser.add_argument(f"--{name}", type=float, nargs="+", required=True, help="of its normalisation")
    options = parser.parse_args()
    recipe = recipe_of(options.evidence, options.weights, {"mean": options.mean, "std": options.std})
    evidence = begun(read_evidence(options.evidence).held_out(), recipe, options.folder.parent.name)
    options.folder.mkdir(parents=True)
    write_evidence(options.folder, evidence)
    write_text(options.folder / RECIPE, recipe.to_toml())
    lines = [json.loads(line) for line in (options.evidence / JOURNAL).read_text().splitlines()]
    kept = ("votes/calibration", "votes/test-selection", "votes/test")
    write_text(
        options.folder / JOURNAL, "".join(json.dumps(line) + "\n" for line in lines if line["step"] in kept)
    )
    print(options.folder)


if __name__ == "__main__":
    main()
