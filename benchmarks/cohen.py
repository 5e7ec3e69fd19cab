"""The votes of Cohen et al.'s published algorithm, as a loop of our own, and its best batch size.

Cohen, Rosenfeld and Kolter, *Certified adversarial robustness via randomized smoothing*, ICML 2019: one input
at a time, batches of noisy copies, answers counted one by one on the host.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
_LONGEST = 2.0
"""If a batch takes more than this many seconds, larger ones are not tried."""


def cohen_votes(
    module: nn.Module, image: torch.Tensor, n: int, batch: int, *, sigma: float, classes: int
) -> np.ndarray:
    """Count the answers for n noisy copies of one input, `[1, ...]`; it has the module's number type."""
    counts = np.zeros(classes, dtype=int)
    with torch.no_grad():
        for start in range(0, n, batch):
            copies = image.repeat((min(batch, n - start), *[1] * (image.ndim - 1)))
            answers = module(copies + torch.randn_like(copies) * sigma).argmax(1)
            for answer in answers.cpu().numpy():
                counts[answer] += 1
    return counts


def best_batch(passes: Callable[[int], object], wait: Callable[[], object], seconds: float = 0.4) -> int:
    """Return the batch size at which a function of it makes most passes per second, tried in three turns."""
    rates: dict[int, list[float]] = {}
    for _ in range(3):
        for batch in BATCHES:
            if batch // 2 in rates and batch / rates[batch // 2][0] > _LONGEST:
                break
            if batch not in rates:  # warms up
                passes(batch)
            wait()
            start, done = time.perf_counter(), 0
            while done == 0 or time.perf_counter() - start < seconds / 3:
                passes(batch)
                done += batch
            wait()
            rates.setdefault(batch, []).append(done / (time.perf_counter() - start))
    return max(rates, key=lambda batch: float(np.median(rates[batch])))
