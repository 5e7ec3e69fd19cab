"""Weights as safetensors: saved and loaded without pickle."""

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import nn

from rrise.errors import FolderError, MismatchError
from rrise.files import write_bytes


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write named tensors atomically; tensors that share memory are written separately."""
    write_bytes(
        path,
        safetensors.torch.save(
            {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        ),
    )


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read named tensors; a missing or damaged file is a `FolderError` that names it."""
    try:
        return safetensors.torch.load(path.read_bytes())
    except FileNotFoundError:
        raise FolderError(f"expected weights in {path}, but the file does not exist") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise FolderError(f"{path} is not a readable safetensors file ({error}): it is damaged") from None


def load_weights(module: nn.Module, tensors: Mapping[str, torch.Tensor], source: str) -> None:
    """Load named tensors into a module of the same architecture; their names must match exactly."""
    try:
        module.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise MismatchError(f"the weights of {source} do not fit {type(module).__name__}: {reason}") from None
