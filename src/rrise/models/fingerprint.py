"""The identity of a classifier: what its votes, its surrogate and its certificates belong to."""

import hashlib
from typing import Any

import torch
from torch import nn

from rrise.models.evaluation_mode import check_module, precision_of


def fingerprint(module: nn.Module) -> str:
    """Return a SHA-256 over layers, weights and precision.

    It covers every submodule's class name and public attributes (numbers, texts, functions by name,
    tensors) and every parameter and buffer; it cannot see the Python code of a `forward`. It does not
    depend on the device or on training mode.

    >>> layer = nn.Linear(2, 2)
    >>> before = fingerprint(layer)
    >>> with torch.no_grad():
    ...     _ = layer.weight.add_(1e-6)
    >>> fingerprint(layer) == before
    False
    """
    check_module(module, "classifier")
    digest = hashlib.sha256(f"precision {precision_of(module)}\n".encode())
    for name, part in module.named_modules():
        digest.update(f"layer {name} {type(part).__name__} {part.extra_repr()}\n".encode())
        for attribute, value in sorted(vars(part).items()):
            if not attribute.startswith("_") and attribute != "training":
                digest.update(f"attribute {attribute} ".encode() + _content(value) + b"\n")
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        digest.update(f"weight {name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Return the raw bytes of a tensor of any type, in row-major order."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _content(value: Any) -> bytes:
    """Return bytes that tell values of plain types apart; other types count by their name alone."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} ".encode() + tensor_bytes(value)
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return repr(value).encode()
    if isinstance(value, list | tuple):
        return b"[" + b",".join(_content(item) for item in value) + b"]"
    if isinstance(value, dict):
        return b"{" + b",".join(repr(key).encode() + b":" + _content(value[key]) for key in value) + b"}"
    return getattr(value, "__qualname__", type(value).__qualname__).encode()
