"""Disjoint, seeded splits, recorded by index."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rrise.errors import SettingError
from rrise.files import Json
from rrise.seeds import derive_seed

Indices = NDArray[np.int64]

PROTOCOLS = ("held-out", "paper")


@dataclass(frozen=True)
class Splits:
    """Which inputs of a dataset serve which purpose, as sorted indices.

    `train` and `validation` index the train part and never overlap. `calibration` and `test` index the
    test part. In the protocol "held-out" they never overlap; in "paper" `test` contains `calibration`.
    """

    train: Indices
    validation: Indices
    calibration: Indices
    test: Indices
    protocol: str

    def to_json(self) -> Json:
        """Return the protocol and all indices, as recorded in a run's folder."""
        return {
            "protocol": self.protocol,
            **{name: getattr(self, name).tolist() for name in ("train", "validation", "calibration", "test")},
        }


def plan_splits(
    train: int,
    test: int,
    *,
    seed: int,
    validation: int | float,
    calibration: int | float,
    train_limit: int | None = None,
    test_limit: int | None = None,
    protocol: str = "held-out",
) -> Splits:
    """Plan the splits of a dataset with `train` and `test` inputs.

    A limit keeps that many inputs of a part, drawn at random, or all if there are fewer. `validation` and
    `calibration` are taken from these, as a count (an int) or as a rounded share (a float). "held-out"
    reports on the rest of the test part. "paper" calibrates on the same inputs and reports on the whole
    test part, including them. The split of each part depends only on the seed and on its own settings.

    >>> splits = plan_splits(60_000, 10_000, seed=0, validation=5_000, calibration=0.1)
    >>> [len(part) for part in (splits.train, splits.validation, splits.calibration, splits.test)]
    [55000, 5000, 1000, 9000]
    """
    if protocol not in PROTOCOLS:
        raise SettingError(f"expected a protocol out of {', '.join(PROTOCOLS)}; got {protocol!r}")
    training, selection = _set_aside(
        "train", train, "validation", limit=train_limit, size=validation, seed=seed
    )
    reported, calibrating = _set_aside(
        "test", test, "calibration", limit=test_limit, size=calibration, seed=seed
    )
    if protocol == "paper":
        reported = np.union1d(reported, calibrating)
    return Splits(training, selection, calibrating, reported, protocol)


def _set_aside(
    part: str, total: int, name: str, *, limit: int | None, size: int | float, seed: int
) -> tuple[Indices, Indices]:
    """Return the rest of a part, and the inputs set aside from it."""
    if limit is not None and limit < 1:
        raise SettingError(f"expected {part}_limit to be at least 1, got {limit}")
    kept = total if limit is None else min(limit, total)
    count = _count(name, size, kept)
    if not 1 <= count < kept:
        raise SettingError(
            f"expected {name} to take at least 1 and leave at least 1 of the {kept} inputs of the {part} "
            f"part, got {size} ({count} inputs)"
        )
    order = np.random.default_rng(derive_seed(seed, "splits", part)).permutation(total).astype(np.int64)
    return np.sort(order[count:kept]), np.sort(order[:count])


def _count(name: str, size: int | float, total: int) -> int:
    if isinstance(size, float):
        if not 0 < size < 1:
            raise SettingError(
                f"expected {name} as a count such as 1000 or as a share such as 0.1; got {size}"
            )
        return round(size * total)
    return size


def split_indices(total: int, sizes: Mapping[str, int], seed: int) -> dict[str, Indices]:
    """Divide `total` inputs at random into named splits that never overlap.

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
    """Hold out a share of the inputs, stratified by the values; return (kept, held out).

    One input is drawn from every `1 / share` neighbours in the order of `values`, so the held-out part
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
