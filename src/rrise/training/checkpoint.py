"""Checkpoints: the state of a training after an epoch, in one file that is written atomically."""

import hashlib
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from rrise.files import Json, write_bytes

_NAME = "checkpoint.safetensors"
_RECORD = "record"


@dataclass(frozen=True)
class State:
    """What a training needs to resume: tensors by name, and numbers as JSON."""

    tensors: dict[str, torch.Tensor]
    record: Json

    def part(self, name: str) -> dict[str, torch.Tensor]:
        """Return the tensors whose names start with `name.`, without this prefix."""
        start = f"{name}."
        return {
            key.removeprefix(start): value for key, value in self.tensors.items() if key.startswith(start)
        }


class Checkpoint:
    """The file in which a training saves its state after an epoch, and from which it resumes.

    `identity` is everything the training depends on; the state of another training is not used. A state is
    written when `seconds` have passed since the last one, so short epochs do not wait for the disk.
    """

    def __init__(self, folder: Path, identity: Json, seconds: float = 20.0) -> None:
        self.path, self.identity, self.seconds = folder / _NAME, identity, seconds
        self._last = time.monotonic()

    def load(self) -> State | None:
        """Return the saved state, or None if there is none of this training."""
        if not self.path.is_file():
            return None
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
                record = json.loads(file.metadata()[_RECORD])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if record["sha256"] != _checksum(tensors, record["identity"], record["state"]):
                raise ValueError("its checksum does not match its content")
        except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            warnings.warn(
                f"{self.path} cannot be read ({error}): training starts over", RuntimeWarning, stacklevel=2
            )
            return None
        return State(tensors, record["state"]) if record["identity"] == self._identity() else None

    def due(self) -> bool:
        """Tell whether it is time to write."""
        return time.monotonic() - self._last >= self.seconds

    def save(self, state: State) -> None:
        """Write a state, replacing the last one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.tensors.items()}
        identity, numbers = self._identity(), json.loads(json.dumps(state.record))
        checksum = _checksum(tensors, identity, numbers)
        record = json.dumps({"identity": identity, "state": numbers, "sha256": checksum})
        write_bytes(self.path, safetensors.torch.save(tensors, metadata={_RECORD: record}))
        self._last = time.monotonic()

    def clear(self) -> None:
        """Delete the state, and its folder if that is then empty."""
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()

    def _identity(self) -> Any:
        return json.loads(json.dumps(self.identity))


def _checksum(tensors: dict[str, torch.Tensor], identity: Any, numbers: Json) -> str:
    content = {
        name: [str(tensor.dtype), list(tensor.shape), hashlib.sha256(_bytes_of(tensor)).hexdigest()]
        for name, tensor in tensors.items()
    }
    everything = json.dumps([content, identity, numbers], sort_keys=True)
    return hashlib.sha256(everything.encode()).hexdigest()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    flat: memoryview = tensor.reshape(-1).view(torch.uint8).numpy().data
    return flat
