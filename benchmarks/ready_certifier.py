"""Make a ready certifier of the repository from published evidence and weights.

    python benchmarks/ready_certifier.py fashion-mnist

It writes `results/ready/NAME`: `certifier/`, `base/` and `samples/`. Weights are links to `results/weights`.
The surrogate is calibrated in the form that is shipped: its program, in float32 on a CPU. The votes of the
calibration images are those of the evidence. Its predictions are computed here, so that this needs the
dataset; using the certifier does not. Samples are images that the evidence reports on: the first of each
class, and the first two for which the certifier abstains.
"""

import argparse
import copy
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from rrise.certifiers.calibrating import calibrate
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import QueryEvidence
from rrise.errors import MismatchError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.evaluation.report.images import png_bytes
from rrise.files import file_name, new_folder, write_bytes
from rrise.models.folder import WEIGHTS, load_model, save_model
from rrise.models.weights import load_tensors, load_weights
from rrise.runs.data import RunData
from rrise.runs.networks import given_base
from rrise.runs.recipe import Recipe, read_recipe
from rrise.runs.steps import RECIPE
from rrise.statistics import exact_level
from rrise.training.surrogate import Surrogate
from rrise.votes.array import votes_for

RESULTS = Path(__file__).parent.parent / "results"
ABSTAINED = 2


@dataclass(frozen=True)
class Source:
    """Evidence, and the file of its surrogate's weights."""

    evidence: Path
    weights: Path


SOURCES = {
    "fashion-mnist": Source(
        RESULTS / "fashion-mnist-distilled" / "seed-100",
        RESULTS / "weights" / "fashion-mnist-surrogate.safetensors",
    )
}


def made(source: Source, recipe: Recipe, evidence: Evidence, data: RunData) -> SurrogateCertifier:
    """Return the calibrated certifier, its weights stored in bfloat16."""
    _, base = given_base(recipe.base)
    network = copy.deepcopy(base).float()
    load_weights(network, load_tensors(source.weights), str(source.weights))
    votes, settings = evidence.calibration_votes, recipe.calibration
    assert votes.smoothing is not None
    surrogate = Surrogate(
        network.eval(), votes.smoothing.base, smoothing=votes.smoothing, seen=data.training_digests()
    )
    certifier = calibrate(
        surrogate,
        data.values("calibration")[:],
        votes,
        failure=exact_level(str(settings.failure), "failure"),
        beta=settings.beta,
        score=settings.score,
        rule=settings.rule,
        base=base,
        class_names=data.class_names,
        allow_seen=True,  # as in a run: the splits are disjoint, and equal images occur in this dataset
    )
    label, top = certifier.evidence.label, certifier.evidence.top_probability
    published = evidence.surrogates[0].calibration
    if label is None:
        label = published.label
    same = np.array_equal(votes_for(votes, published.label), certifier.evidence.agreeing)
    if not same or not np.allclose(top, published.top_probability, rtol=0, atol=1e-4):
        raise MismatchError("the predictions of the calibration images are not those of the evidence")
    everything = votes_for(votes, published.label)
    agreeing = {m: votes_for(held, published.label) for m, (_, held) in evidence.query.items()}
    n = certifier.calibration.n
    query = QueryEvidence(
        agreeing, {m: everything - first for m, first in agreeing.items()}, {m: n - m for m in agreeing}
    )
    assert certifier.program is not None
    return replace(certifier, program=certifier.program.stored_as(torch.bfloat16), query=query)


def samples(evidence: Evidence, certifier: SurrogateCertifier) -> list[int]:
    """Return places of reported images: the first of each class, and the first that are abstained on."""
    found = evidence.surrogates[0].test
    abstained = certifier.calibration.lower_bound(found.top_probability, found.label) <= 0.5
    _, first = np.unique(evidence.labels, return_index=True)
    return sorted({*first.tolist(), *np.flatnonzero(abstained)[:ABSTAINED].tolist()})


def link(file: Path, weights: Path) -> None:
    """Replace a file by a link to the published one with the same numbers."""
    written, published = load_tensors(file), load_tensors(weights)
    if written.keys() != published.keys() or not all(
        torch.equal(tensor.float(), published[name].float()) for name, tensor in written.items()
    ):
        raise MismatchError(f"{file} and {weights} differ: the published weights are not those written")
    file.unlink()
    file.symlink_to(os.path.relpath(weights, file.parent))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=SOURCES)
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    source, folder = SOURCES[options.name], RESULTS / "ready" / options.name
    recipe, evidence = read_recipe(source.evidence / RECIPE), read_evidence(source.evidence).held_out()
    data = RunData(recipe.data, options.data_root)
    if not np.array_equal(evidence.indices, data.indices("test")):
        raise MismatchError(f"the test images of the data are not those of {source.evidence}")
    shutil.rmtree(folder, ignore_errors=True)
    certifier = made(source, recipe, evidence, data)
    certifier.save(folder / "certifier", inputs=False)
    link(folder / "certifier" / "surrogate.safetensors", source.weights)
    network, base = given_base(recipe.base)
    (folder / "base").mkdir()
    save_model(folder / "base", network.architecture, base, **network.options)
    link(folder / "base" / WEIGHTS, RESULTS.parent / str(recipe.base.weights))
    load_certifier(folder / "certifier").check_base(load_model(folder / "base"))
    with new_folder(folder / "samples") as new:
        images = data.values("test")
        for place in samples(evidence, certifier):
            picture = np.round(images[place : place + 1][0] * 255).astype(np.uint8)
            name = f"{evidence.indices[place]:05d}-{file_name(data.class_names[evidence.labels[place]])}.png"
            write_bytes(new / name, png_bytes(picture))
    print(folder)


if __name__ == "__main__":
    main()
