"""Try a scale for each input, learned on other images: does it sharpen one-pass certificates?

    python benchmarks/learned_scale.py results/cifar-10-distilled/seed-100 --data-root DATA \
        --surrogate OUT/weights/long.safetensors --votes OUT/votes-validation.npy \
        --tuning-votes OUT/tuning-votes.npy

The bound of an input is `Phi(z - t h(z) exp(a u))`: `h` is the spread of the score `tapered`, and `u` is
predicted from what the surrogate says: by gradient boosting on numbers of its output, and on them and its
features. The boosting learns how far the surrogate errs on the test images of CIFAR-100, which trained
neither network, from 500 votes each. With `--collect` these votes are collected first. Random halves of the
validation images calibrate at failure 0.01, and the others are judged; nothing is reported on these images.
"""

import argparse
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import nn

import rrise
from distillation import saved_base
from distillation_table import monte_carlo
from rrise.data.catalogue import load_dataset
from rrise.data.inputs import as_inputs
from rrise.data.sources import Pixels
from rrise.files import write_bytes
from rrise.models.evaluating import evaluating
from rrise.models.head import find_head
from rrise.models.weights import load_tensors, load_weights
from rrise.runs.data import RunData
from rrise.runs.recipe import Recipe, read_recipe
from rrise.statistics import exact_level
from rrise.statistics.scores import SPREAD
from rrise.votes.array import votes_for

Numbers = NDArray[np.float64]
BETA, GAMMA, FAILURE = 0.2, 0.008, exact_level(0.01, "failure")
SPLITS, FACTORS = 200, (0.3, 0.6, 1.0)
COMPONENTS, ROUNDS, CLASSES = 30, 120, 10


class Seen:
    """What a surrogate says about images, and what their votes prove."""

    def __init__(self, network: nn.Module, images: Pixels, counts: NDArray[np.int64]) -> None:
        logits, self.features = outputs(network, images)
        shares = special.softmax(logits, axis=1)
        ordered = np.sort(shares, axis=1)[:, ::-1]
        self.label, n = shares.argmax(axis=1), int(counts[0].sum())
        agreeing = votes_for(counts, self.label)
        self.unanimous = agreeing == n
        proved = special.betaincinv(np.maximum(agreeing, 1), n - agreeing + 1, BETA)
        self.allowed = np.maximum(special.ndtri(np.where(agreeing == 0, 0.5, proved)), 0.0)
        self.probit = special.ndtri(np.clip(ordered[:, 0], 1e-9, 1 - 1e-9))
        self.spread = np.interp(self.probit, list(SPREAD), list(SPREAD.values()))
        entropy = -(shares * np.log(shares + 1e-12)).sum(axis=1)
        gaps = np.log(ordered[:, 1] + 1e-9) - np.log(ordered[:, 2] + 1e-9)
        second = special.ndtri(np.clip(ordered[:, 1], 1e-9, 0.999))
        evidence = special.logsumexp(logits, axis=1)
        self.numbers = np.stack([self.probit, second, entropy, gaps, evidence], axis=1)

    @property
    def error(self) -> Numbers:
        """How far the surrogate claims more than the votes prove, in spreads."""
        return np.where(self.unanimous, 0.0, (self.probit - self.allowed) / self.spread)


def outputs(network: nn.Module, images: Pixels) -> tuple[Numbers, Numbers]:
    """Return logits, and the features that enter the last layer."""
    head, found = find_head(network, CLASSES), []
    hook = head.register_forward_pre_hook(lambda _, entering: found.append(entering[0].detach()))
    logits = []
    with evaluating(network):
        for start in range(0, len(images), 500):
            logits.append(network(as_inputs(images[start : start + 500])))
    hook.remove()
    return torch.cat(logits).double().numpy(), torch.cat(found).double().numpy()


def scales(tuning: Seen, judged: Seen) -> Iterator[tuple[str, Numbers]]:
    """Yield learned logarithms of the scale of judged images, with their names."""
    wanted = ~tuning.unanimous & (tuning.probit > 0.2)
    target = np.log(np.maximum(np.abs(tuning.error), 0.05))[wanted]
    components = PCA(COMPONENTS, random_state=0).fit(tuning.features)
    both = [
        np.concatenate([one.numbers, components.transform(one.features)], axis=1) for one in (tuning, judged)
    ]
    for name, (learn, use) in {
        "output": (tuning.numbers, judged.numbers),
        "output and features": (both[0], both[1]),
    }.items():
        model = HistGradientBoostingRegressor(
            max_iter=ROUNDS, learning_rate=0.05, max_leaf_nodes=15, l2_regularization=10, random_state=0
        )
        found = model.fit(learn[wanted], target).predict(use)
        yield name, found - found.mean()


def judge(seen: Seen, scale: Numbers, right: NDArray[np.bool_], ceiling: float) -> Numbers:
    """Return certified accuracy at 0 and the average certified radius in sigma, over random halves."""
    spread = seen.spread * scale
    scores = np.where(seen.unanimous, -np.inf, (seen.probit - seen.allowed) / spread)
    rng, found, half = np.random.default_rng(0), [], len(scores) // 2
    for _ in range(SPLITS):
        order = rng.permutation(len(scores))
        held, others = order[:half], order[half:]
        offset = np.sort(scores[held])[int(np.ceil((half + 1) * (1 - GAMMA))) - 1]
        bound = np.minimum(seen.probit[others] - offset * spread[others], ceiling)
        radius = np.maximum(bound, 0.0) * right[others]
        found.append((np.mean(radius > 0), np.mean(radius)))
    return np.mean(found, axis=0)


def surrogate_of(folder: Path, recipe: Recipe, weights: Path) -> nn.Module:
    network = saved_base(folder, recipe)[1].float()
    load_weights(network, load_tensors(weights), str(weights))
    return network


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--surrogate", type=Path, required=True)
    parser.add_argument("--votes", type=Path, required=True)
    parser.add_argument("--tuning-votes", type=Path, required=True)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args()
    recipe = read_recipe(options.evidence / "recipe.toml")
    data, other = RunData(recipe.data, options.data_root), load_dataset("cifar-100", options.data_root)
    tuning = Pixels(other.test.images)
    if options.collect:
        votes = rrise.collect_votes(
            saved_base(options.evidence, recipe)[1],
            tuning,
            sigma=recipe.votes.sigma,
            n=500,
            seed=5,
            split="tuning",
            precision=recipe.votes.precision,
        )
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(votes))
        write_bytes(options.tuning_votes, buffer.getvalue())
    network = surrogate_of(options.evidence, recipe, options.surrogate)
    counts, labels = np.load(options.votes), data.labels("validation").numpy()
    known = Seen(network, tuning, np.load(options.tuning_votes).astype(np.int64))
    seen = Seen(network, data.values("validation"), counts)
    ceiling = float(special.ndtri(BETA ** (1 / counts[0].sum())))
    best, right = monte_carlo(counts, labels, FAILURE), seen.label == labels
    print(f"{len(labels):,} images judged, {len(known.label):,} of CIFAR-100 for tuning\n")
    print("| scale learned from | factor | CA, share | ACR, share |\n|---|---:|---:|---:|")
    rows = [("none: `tapered`", 0.0, np.zeros(len(labels)))]
    rows += [(name, factor, found) for name, found in scales(known, seen) for factor in FACTORS]
    for name, factor, found in rows:
        accuracy, radius = judge(seen, np.exp(factor * found), right, ceiling) / best
        print(f"| {name} | {factor:g} | {accuracy:.3f} | {radius:.3f} |")


if __name__ == "__main__":
    main()
