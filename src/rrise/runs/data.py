"""The data of a run: a dataset, its splits by index, and further inputs for the surrogate."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.data.augmentation import Augmentation
from rrise.data.catalogue import Dataset, Part, load_dataset
from rrise.data.sources import Pixels, load_images
from rrise.data.splits import Indices, Splits, plan_splits
from rrise.errors import InputError, MismatchError
from rrise.runs.settings import DataSettings
from rrise.seeds import derive_seed
from rrise.votes.inputs import ShardedInputs

INPUT_RANGE = (0.0, 1.0)
COPIES, UNLABELLED = "copies", "unlabelled"
_BATCH = 1000
_REPEATED = 0.05
"""The share of calibration or test inputs that may equal inputs that train the surrogate."""


class RunData:
    """The dataset of a run, with inputs and labels by split.

    Splits are `train`, `validation`, `calibration` and `test`. `copies` and `unlabelled` are further inputs
    for the surrogate, without labels of their own. 8-bit images stay 8-bit until they are used.
    """

    def __init__(self, settings: DataSettings, root: Path | None = None) -> None:
        self.settings = settings
        self._root = root
        self.dataset: Dataset = load_dataset(settings.source, root)
        self.splits: Splits = plan_splits(
            len(self.dataset.train),
            len(self.dataset.test),
            seed=settings.seed,
            validation=settings.validation,
            calibration=settings.calibration,
            train_limit=settings.train,
            test_limit=settings.test,
            protocol=settings.protocol,
        )
        self._values: dict[str, Any] = {}
        self._inputs: dict[str, ShardedInputs] = {}

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in order."""
        return self.dataset.class_names

    @property
    def for_surrogate(self) -> list[str]:
        """The splits whose inputs train the surrogate, in order."""
        more = {COPIES: self.settings.copies > 0, UNLABELLED: bool(self.settings.unlabelled)}
        return ["train", *(name for name, wanted in more.items() if wanted)]

    def indices(self, split: str) -> Indices:
        """Return the indices of a split's inputs in their part of the dataset."""
        found: Indices = getattr(self.splits, split)
        return found

    def values(self, split: str) -> Any:
        """Return the inputs of a split, to be sliced: `Pixels`, or a float array."""
        if split not in self._values:
            self._values[split] = self._make(split)
        return self._values[split]

    def inputs(self, split: str) -> ShardedInputs:
        """Return the checked inputs of a split, with their digests."""
        if split not in self._inputs:
            self._inputs[split] = ShardedInputs(self.values(split), INPUT_RANGE)
        return self._inputs[split]

    def labels(self, split: str) -> torch.Tensor:
        """Return the labels of a split."""
        return torch.from_numpy(self._part(split).labels[self.indices(split)])

    def fingerprint(self, split: str) -> str:
        """Return a checksum of the inputs of a split and of their labels, if any."""
        digest = hashlib.sha256(self.inputs(split).fingerprint.encode())
        if split not in (COPIES, UNLABELLED):
            digest.update(self.labels(split).numpy().tobytes())
        return digest.hexdigest()

    def training_values(self) -> Any:
        """Return the training inputs of the surrogate, all splits joined."""
        return _joined([self.values(split) for split in self.for_surrogate])

    def training_labels(self) -> torch.Tensor | None:
        """Return the labels of the surrogate's training inputs; None if some have no label."""
        if UNLABELLED in self.for_surrogate:
            return None
        return self.labels("train").repeat(1 + self.settings.copies)

    def training_digests(self) -> frozenset[bytes]:
        """Return the digests of the inputs that train the surrogate."""
        return frozenset(digest for split in self.for_surrogate for digest in self.inputs(split).digests)

    def check_held_out(self) -> None:
        """Refuse calibration and test inputs that train the surrogate.

        Real datasets repeat a few training inputs in their test part. These do no harm, because calibration
        and test inputs are drawn from it alike. For the same reason, the few that are unlabelled inputs too
        are not left out of the training: new inputs that repeat them could not be left out either.
        """
        for source, names in (
            (self.settings.source, ["train", *([COPIES] if self.settings.copies else [])]),
            (" and ".join(self.settings.unlabelled), [UNLABELLED] if self.settings.unlabelled else []),
        ):
            seen = {digest for name in names for digest in self.inputs(name).digests}
            for split in ("calibration", "test"):
                digests = self.inputs(split).digests
                common = sum(digest in seen for digest in digests)
                if common > _REPEATED * len(digests):
                    raise MismatchError(
                        f"{common} of {len(digests)} {split} inputs also train the surrogate: the guarantee "
                        f"needs held-out inputs; check {source}"
                    )

    @cached_property
    def normalisation(self) -> dict[str, list[float]]:
        """Mean and standard deviation per channel of the training inputs, rounded to 4 decimals."""
        values = self.values("train")
        total = squares = np.zeros(1)
        count = 0
        for start in range(0, len(values), _BATCH):
            batch = np.asarray(values[start : start + _BATCH], dtype=np.float64)
            batch = np.moveaxis(batch, 1, -1).reshape(-1, batch.shape[1])
            total, squares = total + batch.sum(axis=0), squares + (batch**2).sum(axis=0)
            count += len(batch)
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0))
        std = np.where(std < 1e-4, 1.0, std)
        return {"mean": mean.round(4).tolist(), "std": std.round(4).tolist()}

    def pictures(self, split: str) -> NDArray[np.uint8]:
        """Return the inputs of a split as 8-bit images for display; other inputs become strips."""
        values = self.values(split)
        if isinstance(values, Pixels):
            images: NDArray[np.uint8] = values.images
            return images
        levels: NDArray[np.uint8] = np.round(np.clip(values, 0, 1) * 255).astype(np.uint8)
        return levels if self.has_pictures else levels.reshape(len(levels), 1, 1, -1)

    @property
    def has_pictures(self) -> bool:
        """Whether inputs can be written as image files."""
        shape = self.dataset.test.images.shape[1:]
        return len(shape) == 3 and shape[0] in (1, 3)

    def _part(self, split: str) -> Part:
        return self.dataset.train if split in ("train", "validation") else self.dataset.test

    def _make(self, split: str) -> Any:
        if split == COPIES:
            return self._copies()
        if split == UNLABELLED:
            return self._unlabelled()
        return _sliced(self._part(split).images[self.indices(split)])

    def _copies(self) -> Any:
        """Return augmented copies of the training inputs: all first copies, then all second ones."""
        augmentation = Augmentation(self.settings.copies_augmentations)
        values = self.values("train")
        parts = []
        for copy in range(self.settings.copies):
            generator = torch.Generator().manual_seed(derive_seed(self.settings.seed, COPIES, copy))
            for start in range(0, len(values), _BATCH):
                batch = torch.from_numpy(np.asarray(values[start : start + _BATCH], dtype=np.float32))
                made = augmentation(batch, generator).numpy()
                parts.append(np.round(made * 255).astype(np.uint8) if isinstance(values, Pixels) else made)
        return _sliced(np.concatenate(parts))

    def _unlabelled(self) -> Any:
        """Return the unlabelled inputs of all sources, as they are or reduced to the size of the others."""
        wanted = np.shape(self.values("train")[:1])[1:]
        parts = []
        for source in self.settings.unlabelled:
            values = load_images(source, "train", self._root)
            reduced = _reduced(values, wanted)
            if reduced is None:
                found = np.shape(values[:1])[1:]
                raise InputError(
                    f"expected unlabelled inputs of shape {wanted}, as in {self.settings.source}, or images "
                    f"of a multiple of that size; got {found} in {source}"
                )
            parts.append(reduced)
        return _joined(parts)


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Pixels) for part in parts):
        return Pixels(np.concatenate([part.images for part in parts]))
    return np.concatenate([np.asarray(part[:], dtype=np.float32) for part in parts])


def _reduced(values: Any, wanted: tuple[int, ...]) -> Any:
    """Return inputs of the wanted shape: as they are, or images averaged over squares; None if neither."""
    found = np.shape(values[:1])[1:]
    if found == wanted:
        return values
    if not isinstance(values, Pixels) or len(wanted) != 3 or found[0] != wanted[0]:
        return None
    times = found[1] // wanted[1]
    if found[1:] != (times * wanted[1], times * wanted[2]):
        return None
    parts = []
    for start in range(0, len(values), _BATCH):
        batch = values.images[start : start + _BATCH].astype(np.uint32)
        rows = batch.reshape(len(batch), wanted[0], wanted[1], times, wanted[2], times).sum(axis=(3, 5))
        parts.append(((rows + times**2 // 2) // times**2).astype(np.uint8))
    return Pixels(np.concatenate(parts))


def _sliced(images: NDArray[Any]) -> Any:
    return Pixels(images) if images.dtype == np.uint8 else images
