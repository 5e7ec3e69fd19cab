"""Disjoint, seeded splits, recorded by index."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rrise.errors import SettingError
from rrise.seeds import derive_seed

Indices = NDArray[np.int64]


def split_indices(total: int, sizes: Mapping[str, int], seed: int) -> dict[str, Indices]:
    """Deal `total` inputs at random into named splits that never overlap.

    >>> parts = split_indices(10, {"train": 6, "test": 4}, seed=0)
    >>> sorted(int(i) for part in parts.values() for i in part) == list(range(10))
    True
    """
    wanted = sum(sizes.values())
    if wanted > total or any(size < 1 for size in sizes.values()):
        raise SettingError(
            f"expected splits of at least 1 input that fit into {total}, got {dict(sizes)} ({wanted} in all)"
        )
    order = np.random.default_rng(derive_seed(seed, "splits")).permutation(total)
    ends = np.cumsum(list(sizes.values()))
    return {
        name: np.sort(order[end - size : end]).astype(np.int64)
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def stratified_holdout(values: NDArray[np.float64], share: float, seed: int) -> tuple[Indices, Indices]:
    """Set a share of the inputs aside, spread evenly over the sorted values; return (kept, held out).

    Every run of `1 / share` neighbours in the order of `values` gives one input, so the held-out part
    has the same distribution of values as the rest.
    """
    if not 0 < share < 1 or len(values) < 2:
        raise SettingError(
            f"expected at least 2 inputs and a share strictly between 0 and 1, got {len(values)} and {share}"
        )
    rng = np.random.default_rng(derive_seed(seed, "holdout"))
    count = min(len(values) - 1, max(1, round(len(values) * share)))
    ordered = np.lexsort((rng.random(len(values)), values))
    held_out = np.sort([rng.choice(stratum) for stratum in np.array_split(ordered, count)]).astype(np.int64)
    kept = np.setdiff1d(np.arange(len(values), dtype=np.int64), held_out)
    return kept, held_out
