"""Choose the spread of the score `tapered`, on images that nothing is reported on.

    python benchmarks/score_shapes.py OUT/rate-5e-4.npz OUT/cut.npz --votes OUT/votes-validation.npy

It reads the probabilities that `benchmarks/distillation.py` stored, and the votes of the same images. A
spread says how far surrogates err, by the probit that they claim. For each spread, random halves of the
images calibrate at failure 0.01, and the others are judged. Numbers are means over surrogates and halves, as
shares of Monte Carlo with the same votes.
"""

import argparse
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

from distillation_table import monte_carlo
from rrise.statistics import Score, fit_calibration
from rrise.statistics.scores import SPREAD, tapered_by

Numbers = NDArray[np.float64]
FAILURE, SPLITS = Fraction(1, 100), 24
KNOTS = tuple(SPREAD)
SPREADS = {
    "1 everywhere: `probit`": (1.0, 1.0, 1.0, 1.0, 1.0),
    "constant on the logit scale": (1.0, 0.88, 0.66, 0.49, 0.37),
    "falling": (1.0, 1.0, 0.85, 0.6, 0.4),
    "falling late": (1.0, 1.0, 1.0, 0.5, 0.35),
    "small at both ends": (0.5, 1.0, 1.0, 0.5, 0.35),
    "small at both ends, flatter": (0.5, 1.0, 1.0, 0.6, 0.45),
    "very small above 3": (0.5, 1.0, 1.0, 0.4, 0.15),
    "very small below 1": (0.15, 1.0, 1.0, 0.5, 0.35),
    "`tapered`": tuple(SPREAD.values()),
}


def with_temperature(shares: Numbers, temperature: float) -> Numbers:
    """Return the top probabilities after dividing the logits by a temperature."""
    return special.softmax(np.log(np.maximum(shares, 1e-30)) / temperature, axis=1).max(axis=1)


def lowered_by_the_runner_up(shares: Numbers, factor: float) -> Numbers:
    """Return top probabilities that fall with the share of the runner-up in the rest, in probits."""
    ordered = np.sort(shares, axis=1)
    share = ordered[:, -2] / np.maximum(1 - ordered[:, -1], 1e-12)
    z = special.ndtri(np.clip(ordered[:, -1], 1e-15, 1 - 1e-15))
    return special.ndtr(z - factor * (share - 0.7) * np.interp(z, KNOTS, list(SPREAD.values())))


CHANGES = {
    **{f"temperature {t:g}": partial(with_temperature, temperature=t) for t in (0.8, 0.9, 1.1, 1.25)},
    **{
        f"runner-up, factor {factor:g}": partial(lowered_by_the_runner_up, factor=factor)
        for factor in (-0.6, -0.3, 0.3, 0.6)
    },
}
"""What may happen to the top probability before `tapered`."""


def judged(
    score: Score, shares: Numbers, top: Numbers, counts: NDArray[np.int64], truth: NDArray[np.int64]
) -> Numbers:
    """Return certified accuracy at 0 and average certified radius in sigma, over random halves."""
    label, top = shares.argmax(axis=1), np.minimum(top, 1.0)
    agreeing, n = counts[np.arange(len(top)), label], int(counts[0].sum())
    rng, found = np.random.default_rng(0), []
    for _ in range(SPLITS):
        order = rng.permutation(len(top))
        held, others = order[: len(order) // 2], order[len(order) // 2 :]
        fitted, _ = fit_calibration(top[held], agreeing[held], n, failure=FAILURE, score=score)
        bound, right = fitted.lower_bound(top[others]), label[others] == truth[others]
        radius = special.ndtri(np.maximum(bound, 0.5)) * right
        found.append((np.mean((bound > 0.5) & right), np.mean(radius)))
    return np.mean(found, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("probabilities", nargs="+", type=Path)
    parser.add_argument("--votes", type=Path, required=True)
    arguments = parser.parse_args()
    counts = np.load(arguments.votes)
    files = [np.load(place) for place in arguments.probabilities]
    stored = [one["average.validation.image"].astype(np.float64) for one in files]
    truth = files[0]["labels.validation"]
    best = monte_carlo(counts, truth, FAILURE)
    judge = partial(judged, counts=counts, truth=truth)
    print(f"{len(truth):,} images, {counts[0].sum():,} votes each, {len(stored)} surrogates\n")
    print(f"| spread at probits {', '.join(f'{knot:g}' for knot in KNOTS)} | | CA, share | ACR, share |")
    print("|---|---|---:|---:|")
    for name, spread in SPREADS.items():
        score = tapered_by(dict(zip(KNOTS, spread, strict=True)), "tried")
        accuracy, radius = np.mean([judge(score, one, one.max(axis=1)) for one in stored], axis=0) / best
        print(f"| {', '.join(f'{part:g}' for part in spread)} | {name} | {accuracy:.3f} | {radius:.3f} |")
    print("\n| `tapered`, after another top probability | CA, share | ACR, share |\n|---|---:|---:|")
    for name, change in CHANGES.items():
        accuracy, radius = np.mean([judge(score, one, change(one)) for one in stored], axis=0) / best
        print(f"| {name} | {accuracy:.3f} | {radius:.3f} |")


if __name__ == "__main__":
    main()
