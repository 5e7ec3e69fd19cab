"""Compare the surrogates that `benchmarks/distillation.py` stored, on images that are never reported on.

    python benchmarks/distillation_table.py OUT --votes OUT/votes-validation.npy

A one-pass certificate is calibrated on a random half of the validation images and judged on the other half.
The score of an image is `Phi^-1(min(q, ceiling)) - Phi^-1(max(l, 1/2))`: `q` is the surrogate's top
probability, and `l` the bound that the votes of its class prove at failure beta. The offset is the score of
rank `ceil((M + 1) (1 - gamma))`, with `gamma = failure (1 - beta)`. Shares are of Monte Carlo with the same
votes.
"""

import argparse
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]
BETA, SPLITS = Fraction(1, 5), 500
COLUMNS = (
    ("surrogate", "{}"),
    ("weights", "{}"),
    ("epochs", "{}"),
    ("million votes", "{:.1f}"),
    ("seconds", "{:.0f}"),
    ("agreement", "{:.4f}"),
    ("error", "{:.4f}"),
    ("cross-entropy", "{:.4f}"),
    ("probit error, 99 %", "{:.3f}"),
    ("offset", "{:.3f}"),
    ("CA", "{:.4f}"),
    ("ACR", "{:.4f}"),
    ("CA, share", "{:.3f}"),
    ("ACR, share", "{:.3f}"),
)


def lower(successes: NDArray[np.int64], n: int, level: float) -> Numbers:
    """Return the Clopper–Pearson lower bound."""
    bound = special.betaincinv(np.maximum(successes, 1), n - successes + 1, level)
    return np.where(successes == 0, 0.0, np.where(successes == n, level ** (1 / n), bound))


def halves(inputs: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return random halves: one calibrates, one is judged."""
    random = np.random.default_rng(0)
    orders = [random.permutation(inputs) for _ in range(SPLITS)]
    return [(order[: inputs // 2], order[inputs // 2 :]) for order in orders]


def monte_carlo(
    counts: NDArray[np.int64], labels: NDArray[np.int64], failure: Fraction
) -> tuple[float, float]:
    """Return certified accuracy at 0 and average certified radius in sigma of Monte Carlo."""
    n, top = int(counts[0].sum()), counts.argmax(axis=1)
    z = special.ndtri(lower(counts.max(axis=1), n, float(failure)))
    right = (top == labels) & (z > 0)
    return float(right.mean()), float(np.where(right, z, 0).mean())


def judged(
    q: Numbers, counts: NDArray[np.int64], labels: NDArray[np.int64], failure: Fraction
) -> dict[str, float]:
    """Measure a surrogate's class probabilities `[inputs, K]` against votes."""
    inputs, n = len(q), int(counts[0].sum())
    rows, chosen, top = np.arange(inputs), q.argmax(axis=1), counts.argmax(axis=1)
    shares = counts / n
    ceiling = float(BETA) ** (1 / n)
    z = special.ndtri(np.minimum(q[rows, chosen], ceiling))
    proved = lower(counts[rows, chosen], n, float(BETA))
    scores = z - special.ndtri(np.maximum(proved, 0.5))
    seen = special.ndtri(np.clip(shares[rows, chosen], 0.5 / n, 1 - 0.5 / n))
    accuracy, radius, offsets = [], [], []
    for calibrating, others in halves(inputs):
        rank = math.ceil((len(calibrating) + 1) * (1 - failure * (1 - BETA)))
        if rank > len(calibrating):
            raise SystemExit(
                f"{inputs} images are too few for a failure of {float(failure)}: use --failure 0.1"
            )
        offset = np.sort(scores[calibrating])[rank - 1]
        bound = z[others] - offset
        right = (bound > 0) & (chosen[others] == labels[others])
        accuracy.append(right.mean())
        radius.append(np.where(right, bound, 0).mean())
        offsets.append(offset)
    return {
        "agreement": float((chosen == top).mean()),
        "error": float(np.abs(q[rows, top] - shares.max(axis=1)).mean()),
        "cross-entropy": float(-(shares * np.log(np.maximum(q, 1e-30))).sum(axis=1).mean()),
        "probit error, 99 %": float(np.quantile(z - seen, 0.99)),
        "offset": float(np.mean(offsets)),
        "CA": float(np.mean(accuracy)),
        "ACR": float(np.mean(radius)),
    }


def rows_of(out: Path, counts: NDArray[np.int64], failure: Fraction) -> list[dict[str, object]]:
    """Return the rows of the table: every variant, with its last and its averaged weights."""
    rows: list[dict[str, object]] = []
    places = sorted(out.glob("*.npz"), key=lambda place: place.stat().st_mtime)
    for place in places:
        record, found = json.loads(place.with_suffix(".json").read_text()), np.load(place)
        labels = found["labels.validation"]
        reference = monte_carlo(counts, labels, failure)
        for weights in ("last", "average"):
            if f"{weights}.validation.image" not in found:
                continue
            q = found[f"{weights}.validation.image"].astype(np.float64)
            measured = judged(q, counts, labels, failure)
            rows.append(
                {
                    "surrogate": record["variant"]["name"],
                    "weights": weights,
                    "epochs": record["settings"]["epochs"],
                    "million votes": record["votes"] / 1e6,
                    "seconds": record["seconds"],
                    **measured,
                    "CA, share": measured["CA"] / reference[0],
                    "ACR, share": measured["ACR"] / reference[1],
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--votes", type=Path, required=True)
    parser.add_argument("--failure", type=Fraction, default=Fraction(1, 100))
    options = parser.parse_args()
    failure = options.failure
    counts = np.load(options.votes)
    rows = rows_of(options.out, counts, failure)
    print("| " + " | ".join(name for name, _ in COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for row in rows:
        print("| " + " | ".join(text.format(row[name]) for name, text in COLUMNS) + " |")
    labels = np.load(next(options.out.glob("*.npz")))["labels.validation"]
    accuracy, radius = monte_carlo(counts, labels, failure)
    print(
        f"\nMonte Carlo with the same {counts[0].sum():,} votes: CA {accuracy:.4f}, ACR {radius:.4f}; ",
        end="",
    )
    print(f"{len(labels):,} images.")


if __name__ == "__main__":
    main()
