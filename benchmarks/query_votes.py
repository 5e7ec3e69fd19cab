"""Choose the strength of the surrogate beside query votes, on images that nothing is reported on.

    python benchmarks/query_votes.py OUT/rate-5e-4.npz --votes OUT/votes-validation.npy

It reads the probabilities that `benchmarks/distillation.py` stored, and the votes of the same images. Random
halves of the images calibrate at failure 0.01, the others are judged. Of the votes of each image, some at
random are query votes, the others reference votes.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy import special

from rrise.statistics import blended, fit_calibration
from rrise.votes.array import votes_for

STRENGTHS = (30.0, 100.0, 300.0, 1_000.0)
VOTES = (0, 16, 64, 256, 1_024)
SPLITS, FAILURE = 24, 0.01


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("probabilities", type=Path)
    parser.add_argument("--votes", type=Path, required=True)
    parser.add_argument("--score", default="tapered")
    arguments = parser.parse_args()
    stored, votes = np.load(arguments.probabilities), np.load(arguments.votes)
    shares, truth = stored["average.validation.image"].astype(np.float64), stored["labels.validation"]
    label, top = shares.argmax(axis=1), np.minimum(shares.max(axis=1), 1.0)
    everything, rng, n = votes_for(votes, label), np.random.default_rng(0), int(votes[0].sum())
    orders = [rng.permutation(len(top)) for _ in range(SPLITS)]
    print(f"{len(top)} images, {n} votes each; certified accuracy / average radius in sigma:\n")
    print("| query votes | " + " | ".join(f"strength {one:g}" for one in STRENGTHS) + " |")
    print("|---:|" + "---:|" * len(STRENGTHS))
    for m in VOTES:
        first = rng.hypergeometric(everything, n - everything, m)
        texts = []
        for strength in STRENGTHS:
            blend, found = blended(top, first, m, strength), []
            for order in orders:
                held, judged = order[: len(order) // 2], order[len(order) // 2 :]
                how = {"failure": FAILURE, "score": arguments.score}
                fitted, _ = fit_calibration(blend[held], (everything - first)[held], n - m, **how)
                bound, right = fitted.lower_bound(blend[judged]), label[judged] == truth[judged]
                radius = special.ndtri(np.maximum(bound, 0.5)) * right
                found.append((np.mean((bound > 0.5) & right), np.mean(radius)))
            accuracy, average = np.mean(found, axis=0)
            texts.append(f"{accuracy:.3f} / {average:.3f}")
        print(f"| {m} | {' | '.join(texts)} |")


if __name__ == "__main__":
    main()
