"""Precision: which number type a classifier computes in. Another precision is another classifier."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from rrise.errors import InputError, SettingError
from rrise.models.evaluation_mode import check_module, device_of, precision_name, uncompiled
from rrise.models.fingerprint import fingerprint_in_use

PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
"""`tf32` is float32 weights with matrix products rounded to 10 bits, as NVIDIA tensor cores take them."""


def check_precision(precision: str | None) -> str | None:
    """Refuse a name that is no precision; None stands for that of the weights."""
    if precision is not None and precision not in PRECISIONS:
        raise SettingError(f"expected a precision out of {', '.join(PRECISIONS)}; got {precision!r}")
    return precision


def at_precision(module: nn.Module, precision: str | None) -> nn.Module:
    """Return the module if it has this precision already, else a converted copy."""
    if precision == "tf32" and device_of(module).type != "cuda":
        raise SettingError(f"tf32 is a precision of NVIDIA GPUs, and the module is on {device_of(module)}")
    if precision is None or PRECISIONS[precision] == PRECISIONS.get(precision_name(module)):
        return module
    return own_copy(module).to(PRECISIONS[precision])


def own_copy(module: nn.Module) -> nn.Module:
    """Return a copy that can be converted while the caller's module stays as it is."""
    try:
        return copy.deepcopy(uncompiled(module))
    except Exception as error:  # a user's module may raise anything
        raise InputError(
            f"{type(module).__name__} cannot be copied ({error}), so it cannot be converted: pass it in the "
            f"precision and memory format to use"
        ) from error


def identity_at(module: nn.Module, precision: str | None, inputs: torch.Tensor, name: str) -> str:
    """Return the fingerprint a classifier has at a precision; the inputs are to call it once."""
    check_module(module, name)
    dtype = PRECISIONS.get(precision or "")
    if dtype is None or dtype == PRECISIONS.get(precision_name(module)):
        return fingerprint_in_use(module, inputs, name)
    return fingerprint_in_use(own_copy(module).to(dtype), inputs, name)


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Compute float32 matrix products and convolutions in full, or in TF32 for `tf32`, whatever is set."""
    wanted = "tf32" if precision == "tf32" else "ieee"
    with _all_set(wanted) if hasattr(torch.backends.cuda.matmul, "fp32_precision") else _tf32_set(wanted):
        yield


@contextmanager
def _all_set(wanted: str) -> Iterator[None]:
    """Set the switches of torch 2.9 and later."""
    backends: Any = torch.backends
    places = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    if wanted == "ieee":
        places += [backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn]
    before = [place.fp32_precision for place in places]
    for place in places:
        place.fp32_precision = wanted
    try:
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.fp32_precision = value


@contextmanager
def _tf32_set(wanted: str) -> Iterator[None]:
    """Set the switches of earlier versions."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = wanted == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
