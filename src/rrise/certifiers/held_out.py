"""The calibration inputs of a certifier and their votes, with which an export calibrates again.

They lie beside the files of a certifier folder and are none of them: the certifier works without, so that
the file can be deleted before the folder is given away.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.errors import FolderError
from rrise.models.weights import load_tensors, save_tensors

HELD_OUT = "held-out.safetensors"
MOST_BYTES = 100_000_000
"""Larger calibration inputs are not kept."""
_WHITE = np.float32(255)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Calibration inputs `[inputs, ...]` in float32, and their votes `[inputs, K]`."""

    inputs: NDArray[np.float32]
    votes: NDArray[np.int64]

    @classmethod
    def kept(cls, inputs: torch.Tensor, votes: NDArray[np.int64]) -> "HeldOut | None":
        """Return both, or None if the inputs are too large to be kept."""
        values = inputs.numpy()
        return cls(values, votes) if values.nbytes <= MOST_BYTES else None

    def save(self, folder: Path) -> None:
        """Write the file; what was made from 8-bit images is stored in 8 bits."""
        bytes_of = np.rint(np.clip(self.inputs, 0, 1) * _WHITE).astype(np.uint8)
        exact = np.array_equal(bytes_of.astype(np.float32) / _WHITE, self.inputs)
        arrays = {"inputs": bytes_of if exact else self.inputs, "votes": self.votes}
        save_tensors(folder / HELD_OUT, {name: torch.tensor(array) for name, array in arrays.items()})

    @classmethod
    def load(cls, folder: Path) -> "HeldOut | None":
        """Read the file of a certifier folder; None if there is none."""
        if not (folder / HELD_OUT).exists():
            return None
        tensors = load_tensors(folder / HELD_OUT)
        if set(tensors) != {"inputs", "votes"}:
            raise FolderError(f"{folder / HELD_OUT} does not hold calibration inputs and votes: delete it")
        inputs = tensors["inputs"].numpy()
        values = inputs.astype(np.float32) / _WHITE if inputs.dtype == np.uint8 else inputs
        return cls(values, tensors["votes"].numpy())
