"""Measure how long it takes to evaluate every method, budget and failure from stored votes.

    python benchmarks/evaluation.py

Votes and predictions are drawn at random, in the shape of a test set: 10,000 inputs with 10,000 votes each,
over 10 and over 200 classes; five surrogates at four target budgets. Everything between having read the votes
and having all numbers of the paper's tables is timed: certificates, metrics, costs and break-evens.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from machine import check_idle, hardware
from rrise.certifiers.methods import JENSEN_SHANNON, RRISE
from rrise.certifiers.predictions import Predictions
from rrise.evaluation.measure.measurement import measure
from rrise.evaluation.measure.methods import SurrogateEvidence, surrogate_outcomes, voting_outcomes
from rrise.evaluation.measure.outcomes import Offline, Outcome
from rrise.votes.sequence import StoredVotes
from rrise.votes.smoothing import Smoothing

RESULTS = Path(__file__).parent / "results"
INPUTS, VOTES, CALIBRATION = 10_000, 10_000, 1_000
BUDGETS = (500, 1_000, 5_000, 10_000)
FAILURES = (0.25, 0.1, 0.05, 0.01)
THRESHOLDS = tuple(0.025 * step for step in range(8))
VARIANTS = ("trainhead_initbase", "trainall_initbase", "trainall_initrandom", "init0", "init1")
LIMITS = {10: 60.0, 200: 180.0}
SMOOTHING = Smoothing("0" * 64, 0.25, (0.0, 1.0), "float32")


def votes_of(inputs: int, n: int, classes: int, seed: int) -> tuple[StoredVotes, np.ndarray]:
    """Draw votes: most inputs are easy, some near 1/2; the other votes fall on all classes alike."""
    random = np.random.default_rng(seed)
    top = random.integers(0, classes, inputs)
    share = random.beta(4.0, 1.0, inputs)
    answers = random.integers(0, classes, (inputs, n), dtype=np.uint8)
    for row in range(inputs):
        answers[row, random.random(n, dtype=np.float32) < share[row]] = top[row]
    return StoredVotes(answers, classes, SMOOTHING, (seed, "test")), share


def predictions_of(votes: StoredVotes, share: np.ndarray, seed: int) -> Predictions:
    random = np.random.default_rng(seed)
    label = votes.counts(0, 100).argmax(axis=1)
    return Predictions(label, (share + random.normal(0, 0.05, len(share))).clip(0.01, 0.999))


def evaluate(classes: int) -> dict:
    """Time the whole evaluation, and each method's part of it."""
    votes, share = votes_of(INPUTS, VOTES, classes, 1)
    selection, _ = votes_of(INPUTS, 100, classes, 2)
    calibration, calibration_share = votes_of(CALIBRATION, VOTES, classes, 3)
    labels = votes.counts(0, 50).argmax(axis=1)
    evidence = [
        SurrogateEvidence(
            JENSEN_SHANNON.name if variant.startswith("init") else RRISE.name,
            f"{variant}_n{budget}",
            budget,
            predictions_of(votes, share, seed),
            predictions_of(calibration, calibration_share, seed + 100),
            Offline(50_000 * budget, 150_000, CALIBRATION * (VOTES + 1), 50_000, 512, 100),
        )
        for seed, (variant, budget) in enumerate((v, b) for v in VARIANTS for b in BUDGETS)
    ]
    seconds: dict[str, float] = defaultdict(float)
    outcomes: list[Outcome] = []
    started = last = time.perf_counter()

    def keep(outcome: Outcome) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[outcome.setting.method] += now - last
        last = now
        outcomes.append(outcome)

    calibration_votes = calibration.votes(VOTES)
    for part in evidence:
        for outcome in surrogate_outcomes(
            part, calibration_votes, FAILURES, how={"rule": "paper", "beta": 0.001}
        ):
            keep(outcome)
    for outcome in voting_outcomes(votes, selection, BUDGETS, FAILURES):
        keep(outcome)
    results = measure(
        outcomes,
        labels,
        votes.votes(VOTES),
        THRESHOLDS,
        main_budget=VOTES,
        main_failure="0.25",
        sigma=SMOOTHING.sigma,
    )
    now = time.perf_counter()
    return {
        "classes": classes,
        "settings": len(results),
        "seconds": now - started,
        "limit_s": LIMITS[classes],
        "by_method_s": {**seconds, "metrics and costs": now - last},
    }


def table(results: dict) -> str:
    machine = results["hardware"]
    lines = [
        f"# Evaluating from stored votes on {machine['torch_threads']} threads of {machine['cpu']}",
        "",
        f"Measured {machine['date']}, Python {machine['python']}, by `python benchmarks/evaluation.py`: "
        f"{INPUTS:,} test inputs with {VOTES:,} votes each, {CALIBRATION:,} calibration inputs, "
        f"{len(BUDGETS)} budgets, {len(FAILURES)} failures, {len(VARIANTS)} surrogates at each budget.",
        "",
        "| classes | settings | seconds | goal | slowest parts |",
        "|---:|---:|---:|---:|---|",
    ]
    for row in results["runs"]:
        slowest = sorted(row["by_method_s"].items(), key=lambda item: -item[1])[:4]
        parts = ", ".join(f"{name} {value:.1f} s" for name, value in slowest)
        numbers = f"{row['settings']} | {row['seconds']:.1f} | {row['limit_s']:.0f}"
        lines.append(f"| {row['classes']} | {numbers} | {parts} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", nargs="*", type=int, default=list(LIMITS), choices=list(LIMITS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = hardware("cpu") | {"busy_cores": check_idle(options.out)}
    results = {"hardware": machine, "runs": [evaluate(classes) for classes in options.classes]}
    options.out.mkdir(exist_ok=True, parents=True)
    (options.out / "evaluation-cpu.json").write_text(json.dumps(results, indent=2) + "\n")
    (options.out / "evaluation-cpu.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
