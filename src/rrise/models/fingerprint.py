"""The identity of a classifier, to which its votes, surrogate and certificates belong."""

import dataclasses
import functools
import hashlib
import json
import types
from typing import Any

import numpy as np
import torch
from torch import nn

from rrise.files import Json
from rrise.models.checks import check_module
from rrise.models.evaluating import evaluating
from rrise.models.inspection import precision_of, uncompiled
from rrise.models.logits import logits_of

_BUILT = "_rrise_built"


def fingerprint(module: nn.Module, without: str = "") -> str:
    """Return a SHA-256 over layers, weights and precision.

    It covers every parameter and buffer, and every submodule's class name and public attributes: numbers,
    texts, arrays, containers of them, and functions by name. It cannot see the Python code of a `forward`, or
    inside objects of other types. It does not depend on the device or on training mode.

    If an architecture was built by name and not changed since, its name and options represent its layers:
    library versions describe the same layers differently.

    Args:
        module: the classifier; for a compiled one, the module inside counts.
        without: the name of a submodule whose weights do not count.

    Returns:
        The fingerprint, 64 hexadecimal digits.

    Raises:
        InputError: `module` is not a `torch.nn.Module`.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> before = fingerprint(layer)
        >>> with torch.no_grad():
        ...     _ = layer.weight.add_(1e-6)
        >>> fingerprint(layer) == before
        False
    """
    check_module(module, "classifier")
    module = uncompiled(module)
    digest = hashlib.sha256(f"precision {precision_of(module)}\n".encode())
    layers, built = _layers(module), vars(module).get(_BUILT)
    digest.update((built.name if built is not None and built.layers == layers else layers).encode())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if without and name.startswith(f"{without}."):
            continue
        digest.update(f"weight {name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class _Built:
    """The architecture that a module was built as, and its layers at that time."""

    name: str
    layers: str


def mark_as_built(module: nn.Module, architecture: str, options: Json) -> nn.Module:
    """Mark a new module with its architecture and options; copies keep the mark."""
    name = f"architecture {architecture} {json.dumps(options, sort_keys=True, default=repr)}\n"
    vars(module)[_BUILT] = _Built(name, _layers(module))
    return module


def _layers(module: nn.Module) -> str:
    """Return a SHA-256 over the layers, without their weights."""
    digest = hashlib.sha256()
    for name, part in module.named_modules():
        digest.update(f"layer {name} {type(part).__name__} {part.extra_repr()}\n".encode())
        for attribute, value in sorted(vars(part).items()):
            if not attribute.startswith("_") and attribute != "training":
                digest.update(f"attribute {attribute} ".encode() + _content(value) + b"\n")
    return digest.hexdigest()


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Return the raw bytes of a tensor of any type, in row-major order."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def fingerprint_in_use(module: nn.Module, inputs: torch.Tensor, name: str) -> str:
    """Return the fingerprint after one call, when everything lazy is initialised."""
    check_module(module, name)
    with evaluating(module):
        logits_of(module, inputs[:1], name)
    return fingerprint(module)


def _content(value: Any) -> bytes:  # noqa: PLR0911
    """Return bytes that identify values of ordinary types; other objects count only by their type."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} ".encode() + tensor_bytes(value)
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype} {value.shape} ".encode() + value.tobytes()
    if isinstance(value, nn.Module):
        return fingerprint(value).encode()
    if isinstance(value, list | tuple):
        return b"[" + b",".join(_content(item) for item in value) + b"]"
    if isinstance(value, set | frozenset):
        return b"{" + b",".join(sorted(_content(item) for item in value)) + b"}"
    if isinstance(value, dict):
        return b"{" + b",".join(_content(key) + b":" + _content(value[key]) for key in value) + b"}"
    if isinstance(value, functools.partial):
        return b"partial" + _content([value.func, value.args, value.keywords])
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | slice | torch.dtype):
        return repr(value).encode()
    name = getattr(value, "__qualname__", type(value).__qualname__).encode()
    if dataclasses.is_dataclass(value) or isinstance(value, types.SimpleNamespace):
        return name + _content(vars(value))
    return name
