"""Choose `beta`: what it brings at failure 0.01, on validation images that nothing is reported on.

    python benchmarks/calibration_beta.py OUT/rate-5e-4.npz --votes RUN/votes/validation

It reads the probabilities that `benchmarks/distillation.py` stored and the votes of the same images. Random
halves of the images calibrate, the others are judged; the same halves for every `beta`.
"""

import argparse
from pathlib import Path

import numpy as np

from rrise.certifiers.predictions import Predictions, calibrated_certificates
from rrise.votes.reading import read_votes

BETAS = (0.001, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
SPLITS = 200


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("probabilities", type=Path)
    parser.add_argument("--votes", type=Path, required=True)
    parser.add_argument("--failure", type=float, default=0.01)
    arguments = parser.parse_args()
    stored = np.load(arguments.probabilities)
    votes = read_votes(arguments.votes)
    name = "average.validation.image"
    shares = stored[name].astype(np.float64)
    predictions = Predictions(shares.argmax(axis=1), np.minimum(shares.max(axis=1), 1.0))
    print(f"{len(votes)} images, {int(np.asarray(votes)[0].sum())} votes each, {name}")
    print("| beta | issued | average radius in sigma |\n|---:|---:|---:|")
    for beta in BETAS:
        rng, found = np.random.default_rng(0), []
        for _ in range(SPLITS):
            order = rng.permutation(len(votes))
            held, judged = order[: len(order) // 2], order[len(order) // 2 :]
            assert votes.smoothing is not None
            certificates, _ = calibrated_certificates(
                predictions[judged],
                predictions[held],
                votes[held],
                smoothing=votes.smoothing,
                failure=arguments.failure,
                beta=beta,
            )
            found.append((certificates.issued.mean(), certificates.radius.mean() / votes.smoothing.sigma))
        issued, radius = np.mean(found, axis=0)
        print(f"| {beta:g} | {issued:.4f} | {radius:.4f} |")


if __name__ == "__main__":
    main()
