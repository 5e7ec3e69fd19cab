"""Precision: the number type in which a classifier computes. Another precision is another classifier."""

import copy
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn

from rrise.errors import InputError, SettingError
from rrise.models.checks import check_module
from rrise.models.fingerprint import fingerprint_in_use
from rrise.models.inspection import device_of, precision_name, uncompiled

PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
"""`tf32`: float32 weights, and inputs of matrix products rounded to 10 bits, as in NVIDIA tensor cores."""


def check_precision(precision: str | None) -> str | None:
    """Refuse an unknown precision; None means that of the weights."""
    if precision is not None and precision not in PRECISIONS:
        raise SettingError(f"expected a precision out of {', '.join(PRECISIONS)}; got {precision!r}")
    return precision


def at_precision(module: nn.Module, precision: str | None) -> nn.Module:
    """Return the module if it already has this precision, else a converted copy."""
    if precision == "tf32" and device_of(module).type != "cuda":
        raise SettingError(f"tf32 is a precision of NVIDIA GPUs, but the module is on {device_of(module)}")
    if precision is None or PRECISIONS[precision] == PRECISIONS.get(precision_name(module)):
        return module
    return own_copy(module).to(PRECISIONS[precision])


def own_copy(module: nn.Module) -> nn.Module:
    """Return a copy, so that converting it leaves the caller's module unchanged."""
    try:
        return copy.deepcopy(uncompiled(module))
    except Exception as error:  # a user's module may raise anything
        raise InputError(
            f"{type(module).__name__} cannot be copied ({error}) and hence not converted: pass it in the "
            f"precision and memory format to use"
        ) from error


def identity_at(module: nn.Module, precision: str | None, inputs: torch.Tensor, name: str) -> str:
    """Return the fingerprint of a classifier at a precision; it is called once on the inputs."""
    check_module(module, name)
    dtype = PRECISIONS.get(precision or "")
    if dtype is None or dtype == PRECISIONS.get(precision_name(module)):
        return fingerprint_in_use(module, inputs, name)
    return fingerprint_in_use(own_copy(module).to(dtype), inputs, name)


class _Switches:
    """Torch's settings of float32 arithmetic, which are global to the process.

    Threads that want the same setting run concurrently; a thread that wants another waits for them.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted, self._users = "", 0
        self._before: list[tuple[Any, str, Any]] = []

    @contextmanager
    def held(self, wanted: str) -> Iterator[None]:
        """Hold the switches at a setting; restore them when its last user is done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._users or self._wanted == wanted)
            if not self._users:
                self._wanted, self._before = wanted, _set(_switches(wanted))
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    _set(self._before)
                    self._changed.notify_all()


_SWITCHES = _Switches()


def matrix_products(precision: str) -> AbstractContextManager[None]:
    """Compute float32 products and convolutions in full (`tf32`: in TF32), whatever torch is set to."""
    return _SWITCHES.held("tf32" if precision == "tf32" else "ieee")


@cache
def _switches(wanted: str) -> list[tuple[Any, str, Any]]:
    """Return the objects that torch reads, the names of their attributes and the values to set."""
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):  # before torch 2.9
        return [(place, "allow_tf32", wanted == "tf32") for place in (backends.cuda.matmul, backends.cudnn)]
    places = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    if wanted == "ieee":
        places += [backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn]
    return [(place, "fp32_precision", wanted) for place in places]


def _set(values: list[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """Set the attributes that differ, and return their former values."""
    before = []
    for place, name, value in values:
        if (found := getattr(place, name)) != value:
            before.append((place, name, found))
            setattr(place, name, value)
    return before
