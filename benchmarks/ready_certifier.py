"""Make a ready certifier of the repository from published evidence and weights.

    python benchmarks/ready_certifier.py fashion-mnist
    python benchmarks/ready_certifier.py cifar-10 --trained OUT/small    # publishes its weights first

It writes `results/ready/NAME`: `certifier/`, `base/` and `samples/`. Weights are links to `results/weights`.
OUT/small is a surrogate that `benchmarks/distillation.py` trained. The surrogate is calibrated in the form
that is shipped: its program, in float32 on a CPU. The votes of the calibration images are those of the
evidence. Its predictions are computed here, so that this needs the dataset; using the certifier does not.
Samples are images that the evidence reports on: the first of each class, and the first two for which the
certifier abstains.
"""

import argparse
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rrise.certifiers.calibrating import calibrate
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import QueryEvidence
from rrise.data.inputs import as_inputs
from rrise.errors import MismatchError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.evaluation.report.images import png_bytes
from rrise.files import file_name, new_folder, write_bytes
from rrise.models.folder import WEIGHTS, load_model, save_model
from rrise.models.inference import top_prediction
from rrise.models.weights import load_tensors, load_weights, save_tensors
from rrise.runs.data import RunData
from rrise.runs.networks import Network, given_base
from rrise.runs.recipe import Recipe, read_recipe
from rrise.runs.steps import RECIPE
from rrise.statistics import exact_level
from rrise.training.surrogate import Surrogate
from rrise.votes.array import votes_for

RESULTS = Path(__file__).parent.parent / "results"
ABSTAINED = 2


LOOKED_AT = 500
"""Reported images among which those are looked for on which the certifier abstains."""
UNUSED = "num_batches_tracked"
"""What batch normalisation counts in training alone; a program has no use for it."""


@dataclass(frozen=True)
class Source:
    """Evidence, and the file of a surrogate's weights: of the evidence, unless it has options of its own."""

    evidence: Path
    weights: Path
    options: dict[str, Any] = field(default_factory=dict)
    unlabelled: tuple[str, ...] | None = None
    """The further datasets that trained it; None: those of the evidence."""


SOURCES = {
    "fashion-mnist": Source(
        RESULTS / "fashion-mnist-distilled" / "seed-100",
        RESULTS / "weights" / "fashion-mnist-surrogate.safetensors",
    ),
    "cifar-10": Source(
        RESULTS / "cifar-10-distilled" / "seed-100",
        RESULTS / "weights" / "cifar-10-surrogate-small.safetensors",
        {"width": 32, "last": 3},
        ("cifar-100",),
    ),
}


def publish(source: Source, trained: Path) -> None:
    """Copy what a training stored to the published weights."""
    found = load_tensors(trained.parent / "weights" / f"{trained.name}.safetensors")
    kept = {name: tensor for name, tensor in found.items() if not name.endswith(UNUSED)}
    save_tensors(source.weights, kept)


def network_of(source: Source, network: Network, data: RunData) -> nn.Module:
    """Return the surrogate with its published weights."""
    other = replace(network, options={**network.options, **source.options})
    module = other.build(0, data, torch.device("cpu"), "surrogate").float()
    unused = {name: tensor for name, tensor in module.state_dict().items() if name.endswith(UNUSED)}
    load_weights(module, {**unused, **load_tensors(source.weights)}, str(source.weights))
    return module.eval()


def made(source: Source, recipe: Recipe, evidence: Evidence, data: RunData) -> SurrogateCertifier:
    """Return the calibrated certifier, its weights stored in bfloat16."""
    network, base = given_base(recipe.base)
    module, images = network_of(source, network, data), data.values("calibration")[:]
    votes, settings = evidence.calibration_votes, recipe.calibration
    assert votes.smoothing is not None
    surrogate = Surrogate(
        module, votes.smoothing.base, smoothing=votes.smoothing, seen=data.training_digests()
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
    if not source.options and not (same and np.allclose(top, published.top_probability, rtol=0, atol=1e-4)):
        raise MismatchError("the predictions of the calibration images are not those of the evidence")
    agreeing = {m: votes_for(held, label) for m, (_, held) in evidence.query.items()}
    n = certifier.calibration.n
    query = QueryEvidence(
        agreeing, {m: everything - first for m, first in agreeing.items()}, {m: n - m for m in agreeing}
    )
    assert certifier.program is not None
    return replace(certifier, program=certifier.program.stored_as(torch.bfloat16), query=query)


def samples(evidence: Evidence, images: Any, certifier: SurrogateCertifier) -> list[int]:
    """Return places of reported images: the first of each class, and the first that are abstained on."""
    abstained = ~certifier.certify(images[:LOOKED_AT]).issued
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
    parser.add_argument("--trained", type=Path, help="OUT/NAME of a training: publish its weights")
    options = parser.parse_args()
    source, folder = SOURCES[options.name], RESULTS / "ready" / options.name
    recipe, evidence = read_recipe(source.evidence / RECIPE), read_evidence(source.evidence).held_out()
    more = {} if source.unlabelled is None else {"unlabelled": source.unlabelled}
    data = RunData(replace(recipe.data, **more), options.data_root)
    if options.trained is not None:
        publish(source, options.trained)
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
        for place in samples(evidence, images, certifier):
            picture = np.round(images[place : place + 1][0] * 255).astype(np.uint8)
            name = f"{evidence.indices[place]:05d}-{file_name(data.class_names[evidence.labels[place]])}.png"
            write_bytes(new / name, png_bytes(picture))
    print(folder)


if __name__ == "__main__":
    main()
