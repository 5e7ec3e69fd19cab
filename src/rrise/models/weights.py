"""Weights as safetensors: saved and loaded without pickle.

A file may hold only what differs from another one beside it, and name that file with its SHA-256. Both are
then loaded as one.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import nn

from rrise.errors import FolderError, MismatchError
from rrise.files import sha256_of_file, write_bytes

SHARED = "rrise.shared"
"""The entry of a file's metadata that names the file with its other tensors."""


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor], *, shared: Path | None = None) -> None:
    """Write named tensors atomically; tensors that share memory are written separately.

    What the file `shared`, in the same folder, holds under the same name is not written again.
    """
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    metadata = None
    if shared is not None:
        there = load_tensors(shared)
        equal = [name for name, tensor in own.items() if name in there and _same(tensor, there[name])]
        own = {name: tensor for name, tensor in own.items() if name not in equal}
        named = {"file": shared.name, "sha256": sha256_of_file(shared), "names": equal}
        metadata = {SHARED: json.dumps(named)}
    write_bytes(path, safetensors.torch.save(own, metadata))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read named tensors; a missing or damaged file is a `FolderError` that names it."""
    try:
        content = path.read_bytes()
        return {**_shared(path, content), **safetensors.torch.load(content)}
    except FileNotFoundError:
        raise FolderError(f"expected weights in {path}, but the file does not exist") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise FolderError(f"{path} is not a readable safetensors file ({error}): it is damaged") from None


def shared_file(path: Path) -> Path | None:
    """Return the file that a file of weights shares tensors with; None if it holds all of its own."""
    wanted = _named_in(path, path.read_bytes())
    return None if wanted is None else _beside(path, wanted[0])


def _beside(path: Path, name: str) -> Path:
    return path.resolve().parent / Path(name).name


def _named_in(path: Path, content: bytes) -> tuple[str, str, list[str]] | None:
    """Return the name of the other file, its SHA-256, and the names of the tensors to take from it."""
    length = int.from_bytes(content[:8], "little")
    try:
        text = json.loads(content[8 : 8 + length]).get("__metadata__", {}).get(SHARED)
        named = None if text is None else json.loads(text)
        return None if named is None else (str(named["file"]), str(named["sha256"]), list(named["names"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise FolderError(f"{path} is not a readable safetensors file: it is damaged") from None


def _shared(path: Path, content: bytes) -> dict[str, torch.Tensor]:
    """Return the tensors that a file shares with another one in its folder."""
    wanted = _named_in(path, content)
    if wanted is None:
        return {}
    name, digest, names = wanted
    other = _beside(path, name)
    if not other.is_file():
        raise FolderError(f"{path} shares weights with {name}, which is not beside it: copy both files")
    found = other.read_bytes()
    if hashlib.sha256(found).hexdigest() != digest:
        raise FolderError(f"{path} shares weights with {name}, which has changed since: restore that file")
    tensors = safetensors.torch.load(found)
    if not tensors.keys() >= set(names):
        raise FolderError(f"{path} shares weights that {name} does not have: it is damaged")
    return {name: tensors[name] for name in names}


def load_weights(module: nn.Module, tensors: Mapping[str, torch.Tensor], source: str) -> None:
    """Load named tensors into a module of the same architecture; their names must match exactly."""
    try:
        module.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise MismatchError(f"the weights of {source} do not fit {type(module).__name__}: {reason}") from None
