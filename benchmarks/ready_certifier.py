"""Make a ready certifier of the repository from published evidence and weights.

    python benchmarks/ready_certifier.py fashion-mnist
    python benchmarks/ready_certifier.py cifar-10 --trained OUT/frozen    # publishes its weights first

It writes `results/ready/NAME`: `certifier/`, `base/` and `samples/`. Weights are links to `results/weights`.
OUT/frozen is a surrogate that `benchmarks/distillation.py` trained (`ready_cifar_10.jsonl`); what it shares
with the base classifier is not stored again. The surrogate is calibrated in the form that is shipped: its
program, in float32 on a CPU. The votes of the calibration images are those of the evidence. Its predictions
are computed here, so that this needs the dataset; using the certifier does not. Samples are images that the
evidence reports on: the first of each of ten classes, and the first two for which the certifier abstains.
What it certifies of all these images is added to `benchmarks/results/ready-certifiers.md`.
"""

import argparse
import copy
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rrise.certifiers.calibrating import calibrate
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.folder import MANIFEST, load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import QueryEvidence
from rrise.data.inputs import as_inputs
from rrise.errors import MismatchError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.evaluation.report.images import png_bytes
from rrise.files import (
    file_name,
    new_folder,
    read_signed_json,
    sha256_of_file,
    write_bytes,
    write_signed_json,
)
from rrise.models.folder import WEIGHTS, load_model, save_model
from rrise.models.inference import top_prediction
from rrise.models.weights import load_tensors, load_weights, save_tensors
from rrise.runs.data import RunData
from rrise.runs.networks import given_base
from rrise.runs.recipe import Recipe, read_recipe
from rrise.runs.steps import RECIPE
from rrise.statistics import clopper_pearson_lower, exact_level
from rrise.training.surrogate import Surrogate
from rrise.votes.array import votes_for

RESULTS = Path(__file__).parent.parent / "results"
CLASSES, ABSTAINED = 10, 2


BATCH = 250
"""Reported images that are certified at once."""
RADII = (0.0, 0.5, 1.0, 2.0)
"""Radii of the table, in units of sigma."""


@dataclass(frozen=True)
class Source:
    """Evidence, and the file of a surrogate's weights."""

    evidence: Path
    weights: Path
    own: bool = True
    """Whether the evidence is that of this surrogate, which images of the same datasets have trained."""


SOURCES = {
    "fashion-mnist": Source(
        RESULTS / "fashion-mnist-distilled" / "seed-100",
        RESULTS / "weights" / "fashion-mnist-surrogate.safetensors",
    ),
    "cifar-10": Source(
        RESULTS / "cifar-10-distilled" / "seed-100",
        RESULTS / "weights" / "cifar-10-surrogate.safetensors",
        own=False,
    ),
    "cifar-100": Source(
        RESULTS / "cifar-100-distilled" / "seed-100",
        RESULTS / "weights" / "cifar-100-surrogate.safetensors",
    ),
}


def publish(source: Source, trained: Path, base: Path) -> None:
    """Copy what a training stored to the published weights; the base classifier's are there already."""
    found = load_tensors(trained.parent / "weights" / f"{trained.name}.safetensors")
    save_tensors(source.weights, found, shared=base)


def made(source: Source, recipe: Recipe, evidence: Evidence, data: RunData) -> SurrogateCertifier:
    """Return the calibrated certifier, its weights stored in bfloat16."""
    _, base = given_base(recipe.base)
    network, images = copy.deepcopy(base).float(), data.values("calibration")[:]
    load_weights(network, load_tensors(source.weights), str(source.weights))
    votes, settings = evidence.calibration_votes, recipe.calibration
    assert votes.smoothing is not None
    surrogate = Surrogate(
        network.eval(), votes.smoothing.base, smoothing=votes.smoothing, seen=data.training_digests()
    )
    certifier = calibrate(
        surrogate,
        images,
        votes,
        failure=exact_level(str(settings.failure), "failure"),
        beta=settings.beta,
        score=settings.score,
        rule=settings.rule,
        base=base,
        class_names=data.class_names,
        allow_seen=True,  # as in a run: the splits are disjoint, and equal images occur in this dataset
    )
    label, top = top_prediction(certifier.network, as_inputs(images))
    everything, published = votes_for(votes, label), evidence.surrogates[0].calibration
    same = np.array_equal(label, published.label)
    if source.own and not (same and np.allclose(top, published.top_probability, rtol=0, atol=1e-4)):
        raise MismatchError("the predictions of the calibration images are not those of the evidence")
    agreeing = {m: votes_for(held, label) for m, (_, held) in evidence.query.items()}
    n = certifier.calibration.n
    query = QueryEvidence(
        agreeing, {m: everything - first for m, first in agreeing.items()}, {m: n - m for m in agreeing}
    )
    assert certifier.program is not None
    return replace(certifier, program=certifier.program.stored_as(torch.bfloat16), query=query)


def samples(evidence: Evidence, found: Certificates) -> list[int]:
    """Return places of reported images: the first of each of some classes, and of those abstained on."""
    _, first = np.unique(evidence.labels, return_index=True)
    return sorted({*np.sort(first)[:CLASSES].tolist(), *np.flatnonzero(~found.issued)[:ABSTAINED].tolist()})


def measured(evidence: Evidence, found: Certificates) -> dict[str, Any]:
    """Return what is certified of the reported images, beside Monte Carlo with all their votes."""
    smoothing, failure = found.guarantee.smoothing, found.guarantee.failure
    assert failure is not None
    votes = evidence.reference
    label = np.asarray(votes).argmax(axis=1)
    bound = clopper_pearson_lower(votes_for(votes, label), int(np.asarray(votes)[0].sum()), float(failure))
    rival = label, smoothing.noise.radius(bound), bound > 0.5
    rows = {}
    for name, (classes, radius, issued) in {
        "surrogate": (found.label, found.radius, found.issued),
        "monte_carlo": rival,
    }.items():
        right, scaled = (classes == evidence.labels) & issued, radius / smoothing.sigma
        rows[name] = {
            "certified_accuracy": [float((right & (scaled >= least)).mean()) for least in RADII],
            "radius": float(np.where(right, scaled, 0.0).mean()),
        }
    above = found.lower_bound > votes_for(votes, found.label) / np.asarray(votes).sum(axis=1)
    return {**rows, "images": len(found), "above_share_of_votes": float((above & found.issued).mean())}


def table(results: dict[str, Any]) -> str:
    """Return the table of all ready certifiers."""
    lines = [
        "# What the ready certifiers certify",
        "",
        "Computed by `python benchmarks/ready_certifier.py NAME` with the certifiers of `results/ready`, in "
        "float32 on a CPU, at total failure 0.01. Monte Carlo is one-stage, with the 10,000 published votes "
        "of each image. *Above*: the share of images with an issued bound above the share of these votes. "
        "Radii are in units of sigma.",
        "",
        f"| certifier | images | certified accuracy at {', '.join(f'{radius:g}' for radius in RADII)} "
        "| Monte Carlo | average radius, Monte Carlo | above |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in results.items():
        own, rival = (
            ", ".join(f"{100 * share:.1f}" for share in row[who]["certified_accuracy"]) + " %"
            for who in ("surrogate", "monte_carlo")
        )
        radii = f"{row['surrogate']['radius']:.2f}, {row['monte_carlo']['radius']:.2f}"
        above = f"{100 * row['above_share_of_votes']:.2f} %"
        lines.append(f"| {name} | {row['images']:,} | {own} | {rival} | {radii} | {above} |")
    return "\n".join([*lines, ""])


def report(name: str, row: dict[str, Any]) -> None:
    """Add what a certifier certifies to the committed table."""
    path = Path(__file__).parent / "results" / "ready-certifiers.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    results = {known_name: row if known_name == name else known.get(known_name) for known_name in SOURCES}
    results = {known_name: found for known_name, found in results.items() if found is not None}
    path.write_text(json.dumps(results, indent=2) + "\n")
    path.with_suffix(".md").write_text(table(results))


def link(file: Path, weights: Path) -> None:
    """Replace a file by a link to the published one with the same numbers."""
    written, published = load_tensors(file), load_tensors(weights)
    if written.keys() != published.keys() or not all(
        torch.equal(tensor.float(), published[name].float()) for name, tensor in written.items()
    ):
        raise MismatchError(f"{file} and {weights} differ: the published weights are not those written")
    file.unlink()
    file.symlink_to(os.path.relpath(weights, file.parent))


def sign(folder: Path) -> None:
    """Write the checksums of the files that are links now: a file may share weights with another one."""
    manifest = read_signed_json(folder / MANIFEST)
    files = {name: sha256_of_file(folder / name) for name in manifest["files"]}
    write_signed_json(folder / MANIFEST, {**manifest, "files": files})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=SOURCES)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--trained", type=Path, help="OUT/NAME of a training: publish its weights")
    options = parser.parse_args()
    source, folder = SOURCES[options.name], RESULTS / "ready" / options.name
    recipe, evidence = read_recipe(source.evidence / RECIPE), read_evidence(source.evidence).held_out()
    data = RunData(recipe.data if source.own else replace(recipe.data, unlabelled=()), options.data_root)
    if options.trained is not None:
        publish(source, options.trained, Path(str(recipe.base.weights)))
    if not np.array_equal(evidence.indices, data.indices("test")):
        raise MismatchError(f"the test images of the data are not those of {source.evidence}")
    shutil.rmtree(folder, ignore_errors=True)
    certifier = made(source, recipe, evidence, data)
    certifier.save(folder / "certifier", inputs=False)
    link(folder / "certifier" / "surrogate.safetensors", source.weights)
    sign(folder / "certifier")
    network, base = given_base(recipe.base)
    (folder / "base").mkdir()
    save_model(folder / "base", network.architecture, base, **network.options)
    link(folder / "base" / WEIGHTS, RESULTS.parent / str(recipe.base.weights))
    load_certifier(folder / "certifier").check_base(load_model(folder / "base"))
    images = data.values("test")
    parts = (images[start : start + BATCH] for start in range(0, len(images), BATCH))
    found = Certificates.joined([certifier.certify(part) for part in parts])
    report(options.name, measured(evidence, found))
    with new_folder(folder / "samples") as new:
        for place in samples(evidence, found):
            picture = np.round(images[place : place + 1][0] * 255).astype(np.uint8)
            name = f"{evidence.indices[place]:05d}-{file_name(data.class_names[evidence.labels[place]])}.png"
            write_bytes(new / name, png_bytes(picture))
    print(folder)


if __name__ == "__main__":
    main()
