"""Compare stored votes with fresh ones in every epoch, at the price of each, on handwritten digits.

    python benchmarks/fresh_votes.py

Cross-entropy is linear in its target, so one noisy vote per input and epoch gives an unbiased gradient: a
surrogate could be trained without a stored target set. Whether that is worth its passes is measured here, by
the error of the surrogate's top probability on test inputs against 2,000 votes each.
"""

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import rrise
from machine import hardware
from rrise.data.catalogue import load_dataset
from rrise.data.sources import Pixels
from rrise.models.catalogue import build_model
from rrise.models.evaluating import evaluating
from rrise.training.base import train_base
from rrise.training.loop import Task, train
from rrise.training.objectives import cross_entropy, measurements
from rrise.training.settings import TrainingSettings
from rrise.training.team import Team
from rrise.training.trainee import Trainee

RESULTS = Path(__file__).parent / "results"
SIGMA = 0.25
EPOCHS = 200
VOTES = 2_000
STORED = (1, 4, 16, 64, 200, 1000)
SEEDS = (100, 200, 300)
OPTIMISER = {"learning_rate": 5e-3, "batch_size": 64}


def error_of(network: nn.Module, inputs: torch.Tensor, truth: torch.Tensor) -> float:
    with evaluating(network):
        return measurements(network(inputs), truth)["top_probability_error"]


def fresh(base: nn.Module, inputs: torch.Tensor, seed: int) -> nn.Module:
    """Train all weights of a copy of the base, each input with one new vote in every epoch."""
    network = build_model("small-convnet", seed=0)
    network.load_state_dict(base.state_dict())
    settings = TrainingSettings(EPOCHS, seed=seed, **OPTIMISER)
    trainee = Trainee(network, cross_entropy, settings, Team())

    def examples(batch: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        clean = inputs[batch]
        noise = torch.randn(clean.shape, generator=generator)
        with evaluating(base):
            votes = base((clean + SIGMA * noise).clamp(0, 1)).argmax(dim=1)
        return clean, F.one_hot(votes, 10).float()

    trained = list(network.parameters())
    measured = iter(range(EPOCHS, 0, -1))  # the last epoch is kept
    train(
        Task(trainee, trained, len(inputs), examples, lambda: {"left": float(next(measured))}, "left"),
        settings,
    )
    return network


def main() -> None:
    digits = load_dataset("digits")
    images, labels = Pixels(digits.train.images), digits.train.labels
    inputs, test = (torch.from_numpy(Pixels(part.images)[:]) for part in (digits.train, digits.test))
    base = build_model("small-convnet", seed=0)
    settings = TrainingSettings(60, 2e-3, 64)
    train_base(
        base, images, labels, Pixels(digits.train.images[:150]), labels[:150], sigma=0.5, settings=settings
    )
    base.eval()
    votes = rrise.collect_votes(base, test, sigma=SIGMA, n=VOTES, split="test")
    truth = torch.from_numpy(np.asarray(votes) / VOTES)
    errors: dict[str, list[float]] = {}
    for seed in SEEDS:
        for n in STORED:
            targets = rrise.collect_votes(base, inputs, sigma=SIGMA, n=n, seed=seed, split="train")
            surrogate = rrise.train_surrogate(
                base, inputs, targets, strategy="all", epochs=EPOCHS, seed=seed, **OPTIMISER
            )
            errors.setdefault(f"stored {n}", []).append(error_of(surrogate.network, test, truth))
        errors.setdefault(f"fresh {EPOCHS}", []).append(error_of(fresh(base, inputs, seed), test, truth))
        print(seed, {name: round(values[-1], 4) for name, values in errors.items()}, flush=True)
    machine = hardware("cpu")
    lines = [
        "# Stored votes, or fresh ones in every epoch",
        "",
        f"Digits, small-convnet, all weights, {EPOCHS} epochs, seeds {', '.join(map(str, SEEDS))}; measured "
        f"{machine['date']} on {machine['torch_threads']} threads of {machine['cpu']} by "
        f"`python benchmarks/fresh_votes.py`. Error: mean absolute error of the top class's probability on "
        f"{len(test)} test inputs.",
        "",
        "| targets | passes of the base per input | error, mean ± sd |",
        "|---|---:|---:|",
    ]
    for name, values in errors.items():
        kind, passes = name.split(" ")
        lines.append(f"| {kind} | {int(passes):,} | {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} |")
    (RESULTS / "fresh-votes.md").write_text("\n".join([*lines, ""]))
    record = {"hardware": machine, "errors": errors}
    (RESULTS / "fresh-votes.json").write_text(json.dumps(record, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
