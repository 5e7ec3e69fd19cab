"""Write images of a benchmark dataset's shape, size and classes: to try its recipe without the dataset.

    python benchmarks/generated_images.py tiny-imagenet --out generated
    rrise run tiny-imagenet --profile quick --data-root generated

Each class is a colour and a direction of stripes, under much noise: something to learn, and nothing more.
What a recipe gives on them says nothing about the dataset.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rrise.data.benchmarks import BENCHMARKS


def images(labels: NDArray[np.int64], shape: tuple[int, ...], classes: int, seed: int) -> NDArray[np.uint8]:
    """Return an 8-bit image [height, width, channels] for each label."""
    channels, height, width = shape
    of_class, rng = np.random.default_rng(0), np.random.default_rng(seed)
    colours = of_class.uniform(60, 196, (classes, channels))
    angles = of_class.uniform(0, np.pi, classes)
    y, x = np.mgrid[:height, :width]
    made = np.empty((len(labels), height, width, channels), dtype=np.uint8)
    for row, label in enumerate(labels):
        phase = rng.uniform(0, 2 * np.pi)
        stripes = 40 * np.sin((np.cos(angles[label]) * x + np.sin(angles[label]) * y) * 0.6 + phase)
        noisy = colours[label] + stripes[..., None] + rng.normal(0, 25, (height, width, channels))
        made[row] = np.clip(noisy, 0, 255)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=sorted(BENCHMARKS))
    parser.add_argument("--out", type=Path, required=True, help="folder for DATASET.npz, a --data-root")
    options = parser.parse_args()
    benchmark = BENCHMARKS[options.dataset]
    arrays = {}
    for seed, (part, size) in enumerate((("train", benchmark.train), ("test", benchmark.test)), start=1):
        labels = np.arange(size) % benchmark.classes
        made = images(labels, benchmark.shape, benchmark.classes, seed)
        arrays |= {f"x_{part}": made[..., 0] if benchmark.shape[0] == 1 else made, f"y_{part}": labels}
    options.out.mkdir(parents=True, exist_ok=True)
    np.savez(options.out / f"{options.dataset}.npz", **arrays)
    print(options.out / f"{options.dataset}.npz")


if __name__ == "__main__":
    main()
