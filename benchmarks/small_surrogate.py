"""Measure a surrogate of a fifth of the base classifier's operations: what a query costs, what it certifies.

    python benchmarks/small_surrogate.py --data-root DATA

The small surrogate is the ready certifier of CIFAR-10. Beside it stands a network of the base classifier's
size, which costs as much as the best published surrogate; its weights here are the base classifier's own,
without any training as a surrogate. Each form is calibrated in itself, with the published votes of 1,000
images at total failure 0.01, and certifies 9,000 test images. What the best published surrogate certifies is
computed from its evidence. Times are medians of turns in one run; compare ratios.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from inference import BATCH, Contender, in_runtime, in_torch, timed
from machine import RESULTS, check_idle, hardware
from ready_certifier import SOURCES, made
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import as_inputs
from rrise.deployment.export.calibration_data import CalibrationData
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.runs.data import RunData
from rrise.runs.recipe import read_recipe
from rrise.runs.steps import RECIPE
from rrise.statistics import fit_calibration
from rrise.votes.array import votes_for

NAME, RANGES = "cifar-10", 256
RADII = (0.0, 0.5, 1.0, 2.0)
"""Radii of the table, in units of sigma."""
GOALS = {"cost": 0.25, "points": 1.0}
PUBLISHED, SMALL, FULL = "best published surrogate", "small surrogate", "size of the base classifier"
RUNTIME = "onnxruntime"


def quality(label: np.ndarray, bound_radius: np.ndarray, issued: np.ndarray, truth: np.ndarray) -> dict:
    """Return certified accuracy at the radii, and the mean radius; both in units of sigma."""
    right = (label == truth) & issued
    accuracy = {f"{radius:g}": float((right & (bound_radius >= radius)).mean()) for radius in RADII}
    return {"certified_accuracy": accuracy, "radius": float(np.where(right, bound_radius, 0.0).mean())}


def of_certificates(found: Certificates, truth: np.ndarray) -> dict:
    sigma = found.guarantee.smoothing.sigma
    return quality(found.label, found.radius / sigma, found.issued, truth)


def of_evidence(evidence: Evidence, failure: str) -> dict:
    """Compute what the published surrogate certifies, by the score of its run."""
    one, votes = evidence.surrogates[0], evidence.calibration_votes
    calibration, _ = fit_calibration(
        one.calibration.top_probability,
        votes_for(votes, one.calibration.label),
        int(np.asarray(votes).sum(axis=1)[0]),
        failure=failure,
    )
    bound = calibration.lower_bound(one.test.top_probability, one.test.label)
    assert votes.smoothing is not None
    radius = votes.smoothing.noise.radius(bound) / votes.smoothing.sigma
    return quality(one.test.label, radius, bound > 0.5, evidence.labels)


def answers(contender: Contender, images: Any) -> Certificates:
    parts = [
        contender.certify(np.asarray(images[start : start + BATCH], np.float32))
        for start in range(0, len(images), BATCH)
    ]
    return Certificates.joined(parts)


def size_of(certifier: SurrogateCertifier, image: np.ndarray) -> dict[str, int]:
    """Return the weights of a network, and the operations of a pass: two for each multiplication."""
    with FlopCounterMode(display=False) as counter:
        certifier.network(as_inputs(image))
    weights = sum(buffer.numel() for buffer in certifier.network.buffers())
    return {"weights": weights, "operations": counter.get_total_flops()}


def table(results: dict[str, Any]) -> str:
    machine, rows = results["hardware"], results["rows"]
    unit = next(row for row in rows if row["network"] == FULL and row["form"].startswith("torch"))
    lines = [
        f"# Small surrogates of CIFAR-10 on {machine['torch_threads']} threads of {machine['cpu']}",
        "",
        f"Measured {machine['date']} by `python benchmarks/small_surrogate.py`, Python {machine['python']}, "
        f"torch {machine['torch']}, with {machine['busy_cores']} cores busy with other work: 9,000 test "
        "images, 1,000 calibration images, total failure 0.01. Time is relative to a pass of the base "
        "classifier (ResNet-18, float32) in torch, and includes the certificate. Radii are in sigma.",
        "",
        "| surrogate | form | weights | operations | one input, ms | relative | in 256, ms each | relative "
        f"| certified accuracy at {', '.join(f'{radius:g}' for radius in RADII)} | average radius |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        accuracy = ", ".join(f"{100 * share:.1f}" for share in row["certified_accuracy"].values())
        cells = [row["network"], row["form"], f"{row['weights']:,}"]
        cells.append(f"{row['operations'] / unit['operations']:.2f}")
        for size in (1, BATCH):
            seconds, bare = row.get(f"certificate_{size}_s"), unit[f"bare_{size}_s"]
            known = seconds is not None
            cells += [f"{1e3 * seconds / size:.2f}", f"{seconds / bare:.2f}"] if known else ["as below", ""]
        cells += [f"{accuracy} %", f"{row['radius']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *results["goals"], ""])


def goals(rows: list[dict[str, Any]]) -> list[str]:
    best, small = rows[0], next(row for row in rows if row["network"] == SMALL and "int8" in row["form"])
    full = next(row for row in rows if row["network"] == FULL)
    lost = 100 * (best["certified_accuracy"]["0"] - small["certified_accuracy"]["0"])
    costs = [small[f"certificate_{size}_s"] / full[f"bare_{size}_s"] for size in (1, BATCH)]
    return [
        f"- Goal: a query costs at most {GOALS['cost']} base passes. In int8 one input costs {costs[0]:.2f}, "
        f"in batches of {BATCH} {costs[1]:.2f}: {'met' if max(costs) <= GOALS['cost'] else 'not met'}.",
        f"- Goal: it loses at most {GOALS['points']:g} point of certified accuracy against the best "
        f"published surrogate. It loses {lost:.1f}: {'met' if lost <= GOALS['points'] else 'not met'}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    busy, small = check_idle(options.out), SOURCES[NAME]
    recipe, evidence = read_recipe(small.evidence / RECIPE), read_evidence(small.evidence).held_out()
    data = RunData(replace(recipe.data, unlabelled=small.unlabelled or ()), options.data_root)
    full = replace(small, weights=Path(str(recipe.base.weights)), options={"width": 64})
    certifiers = {FULL: made(full, recipe, evidence, data), SMALL: made(small, recipe, evidence, data)}
    images, truth = data.values("test"), evidence.labels
    training = data.values("train")
    ranges = np.concatenate([np.asarray(training[place : place + 1], np.float32) for place in range(RANGES)])
    votes = CalibrationData(data.values("calibration")[:], evidence.calibration_votes, ranges)
    found: dict[tuple[str, str], Contender] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for network, certifier in certifiers.items():
            found[network, "torch, float32"] = in_torch(f"{network}, torch", certifier)
            for int8 in (False, True):
                form = f"ONNX Runtime, {'int8' if int8 else 'float32'}"
                folder = Path(scratch) / f"{network}-{int8}".replace(" ", "-")
                one = in_runtime(certifier, votes, folder, int8=int8, runtime=RUNTIME)
                found[network, form] = replace(one, name=f"{network}, {form}")
        times = timed(list(found.values()), np.asarray(images[:BATCH], np.float32))
        measured = {key: of_certificates(answers(one, images), truth) for key, one in found.items()}
    sizes = {name: size_of(one, np.asarray(images[:1], np.float32)) for name, one in certifiers.items()}
    failure = str(recipe.calibration.failure)
    rows = [{"network": PUBLISHED, "form": "any", **sizes[FULL], **of_evidence(evidence, failure)}]
    rows += [
        {"network": network, "form": form, **sizes[network], **times[one.name], **measured[network, form]}
        for (network, form), one in found.items()
    ]
    results = {"hardware": hardware("cpu") | {"busy_cores": busy}, "rows": rows, "goals": goals(rows)}
    options.out.mkdir(exist_ok=True, parents=True)
    (options.out / "small-surrogate-cpu.json").write_text(json.dumps(results, indent=2) + "\n")
    (options.out / "small-surrogate-cpu.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
