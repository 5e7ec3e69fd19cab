"""Measure training against a plain compiled loop, and head-only training with and without cached features.

    python benchmarks/training.py                   # this machine's CPU
    python benchmarks/training.py --device cuda     # its GPU

Examples per second of the four pairs of the paper, with their augmentations, noise and 8-bit images, against
the same network in a plain loop (compiled forward pass and loss, gradient clipping, AdamW) on batches that
lie ready on the device. Both are measured in turns; ratios are medians over turns, and say more than rates.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from machine import check_idle, hardware
from rrise.data.augmentation import Augmentation
from rrise.data.sources import Pixels
from rrise.models.catalogue import build_model
from rrise.training.base import Labelled, base_task
from rrise.training.loop import train
from rrise.training.settings import TrainingSettings
from rrise.training.surrogate_training import train_surrogate
from rrise.training.team import Team

RESULTS = Path(__file__).parent / "results"
PAIRS = {
    "fashion-mnist": ("mlp-mixer-tiny", 32, 10, ["crop-2"]),
    "cifar-10": ("resnet-18", 32, 10, ["crop-4", "flip"]),
    "cifar-100": ("efficientnet-b0", 32, 100, ["crop-4", "flip", "randaugment"]),
    "tiny-imagenet": ("vit-tiny", 64, 200, ["resized-crop", "flip", "randaugment", "erasing"]),
}
BATCH = {"cpu": 128, "cuda": 512}
BATCHES = {"cpu": 4, "cuda": 80}
"""Batches to an epoch; an epoch is one measurement."""
HEAD_INPUTS = 60_000


def plain_loop(network: nn.Module, size: int, classes: int, device: str) -> Callable[[int], None]:
    """Return a function that trains for so many steps on ready batches, as a tutorial would write it."""
    settings = TrainingSettings(1, 1e-3)
    network.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=1e-3, weight_decay=settings.weight_decay, fused=True
    )
    batch = BATCH[device]
    ready = [
        (
            torch.rand(batch, 3, size, size, device=device).to(memory_format=torch.channels_last),
            torch.randint(classes, (batch,), device=device),
        )
        for _ in range(4)
    ]

    @torch.compile(dynamic=False)
    def loss_of(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(network(inputs), labels, label_smoothing=0.1)

    def steps(count: int) -> None:
        for step in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                loss = loss_of(*ready[step % len(ready)])
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_clip)
            optimizer.step()
        loss.item()

    return steps


def measure_pair(pair: str, device: str, turns: int) -> dict[str, object]:
    """Train a pair, an epoch at a time, in turns with the plain loop; return examples per second."""
    name, size, classes, augmentations = PAIRS[pair]
    batch, count = BATCH[device], BATCH[device] * BATCHES[device]
    plain = plain_loop(build_model(name, seed=0, classes=classes).to(device), size, classes, device)
    plain(4)
    network = build_model(name, seed=0, classes=classes).to(device)
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    labels = random.integers(0, classes, count)
    settings = TrainingSettings(turns + 1, 1e-3, batch, compiled=True)
    task = base_task(
        network,
        Labelled(network, Pixels(images), labels, (0.0, 1.0)),
        Labelled(network, Pixels(images[:8]), labels[:8], (0.0, 1.0)),
        sigma=0.5,
        settings=settings,
        augmentation=Augmentation(augmentations),
        label_smoothing=0.1,
        input_range=(0.0, 1.0),
        team=Team(),
    )
    rates: dict[str, list[float]] = {"plain": [], "ours": []}
    started = time.perf_counter()
    ready = 0.0

    def after_epoch(epoch: int, _: dict[str, float]) -> None:
        nonlocal started, ready
        now = time.perf_counter()
        if epoch == 1:
            ready = now - started
        else:
            rates["ours"].append(count / (now - started))
            start = time.perf_counter()
            plain(BATCHES[device])
            rates["plain"].append(count / (time.perf_counter() - start))
        started = time.perf_counter()

    train(replace(task, measure=lambda: {task.select_by: 0.0}), settings, on_epoch=after_epoch)
    ratios = np.divide(rates["ours"], rates["plain"])
    return {
        "architecture": name,
        "batch_size": batch,
        **{key: float(np.median(values)) for key, values in rates.items()},
        "ratio": float(np.median(ratios)),
        "first_epoch_s": ready,
        "turns": rates,
    }


class MoreFollows(nn.Module):
    """A network after whose head something follows, so that its features cannot be kept."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return twice the logits."""
        return 2 * self.network(images)


def head_training(device: str) -> dict[str, float]:
    """Return seconds of head-only training of the Mixer: the features, 200 epochs on them, and without."""
    random = np.random.default_rng(0)
    base = build_model("mlp-mixer-tiny", seed=0).to(device)
    few = HEAD_INPUTS if device == "cuda" else 1_024

    def seconds(network: nn.Module, inputs: int, epochs: int) -> tuple[float, float]:
        images = Pixels(random.integers(0, 256, (inputs, 3, 32, 32), dtype=np.uint8))
        votes = random.multinomial(1000, np.full(10, 0.1), size=inputs)
        ends = [time.perf_counter()]
        train_surrogate(
            network, images, votes, epochs=epochs, on_epoch=lambda *_: ends.append(time.perf_counter())
        )
        return ends[1] - ends[0], float(np.mean(np.diff(ends[1:])))

    seconds(base, 1_024, 2)  # warm up
    features, epoch = seconds(base, HEAD_INPUTS, 200)
    _, plain = seconds(MoreFollows(base), few, 3)
    return {
        "inputs": HEAD_INPUTS,
        "features_and_first_epoch_s": features,
        "epochs_200_s": 200 * epoch,
        "without_cache_200_s": 200 * plain * HEAD_INPUTS / few,
    }


def table(results: dict) -> str:
    machine = results["hardware"]
    where = machine.get("gpu") or f"{machine['torch_threads']} threads of {machine['cpu']}"
    lines = [
        f"# Training on {where}",
        "",
        f"Measured {machine['date']} on {where}, Python {machine['python']}, torch {machine['torch']}, by "
        f"`python benchmarks/training.py --device {results['device']}`. Examples per second; compare ratios.",
        "",
        "| pair | architecture | batch | plain compiled loop | this library | ratio | first epoch, s |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {pair} | {row['architecture']} | {row['batch_size']} | {row['plain']:,.0f} | {row['ours']:,.0f} "
        f"| {row['ratio']:.3f} | {row['first_epoch_s']:.0f} |"
        for pair, row in results["pairs"].items()
    ]
    head = results.get("head")
    if head:
        lines += [
            "",
            f"Head-only training of the Mixer on {head['inputs']:,} inputs, 200 epochs: "
            f"{head['epochs_200_s']:.1f} s on cached features, which take "
            f"{head['features_and_first_epoch_s']:.1f} s once (with the checks and the first epoch).",
        ]
        if "without_cache_200_s" in head:
            lines[-1] += f" Without them {head['without_cache_200_s']:,.0f} s (extrapolated from 2 epochs)."
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pairs", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    path = options.out / f"training-{options.device}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    pairs = dict(before.get("pairs", {}))
    machine = hardware(options.device) | {"busy_cores": check_idle(options.out)}
    results = {"hardware": machine, "device": options.device, "pairs": pairs}

    def write() -> None:
        results["pairs"] = {pair: pairs[pair] for pair in PAIRS if pair in pairs}
        path.write_text(json.dumps(results, indent=2) + "\n")
        path.with_suffix(".md").write_text(table(results))

    results["head"] = head_training(options.device)
    for pair in options.pairs:
        torch._dynamo.reset()
        pairs[pair] = measure_pair(pair, options.device, options.turns)
        print(pair, {key: value for key, value in pairs[pair].items() if key != "turns"}, flush=True)
        write()
    write()
    print(table(results))


if __name__ == "__main__":
    main()
