"""Compiled functions that fall back to eager mode if the compiler fails."""

import signal
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Compiled:
    """A function that is compiled at its first call, for arguments of one shape each.

    If the compiler fails, a warning says so, and the function runs in eager mode from then on.
    """

    def __init__(self, function: Callable[..., torch.Tensor], name: str, **options: Any) -> None:
        self._eager, self._name, self._options = function, name, options
        self._run: Callable[..., torch.Tensor] | None = None

    def __call__(self, *arguments: Any) -> torch.Tensor:
        """Call the function."""
        return self._first(*arguments) if self._run is None else self._run(*arguments)

    def _first(self, *arguments: Any) -> torch.Tensor:
        try:
            return self._compile(*arguments)
        finally:
            take_signals_back()

    def _compile(self, *arguments: Any) -> torch.Tensor:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's, about its own code
                self._run = torch.compile(
                    with_own_code(self._eager), dynamic=False, options=self._options or None
                )
                return self._run(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # compilers raise anything
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        self._run = self._eager
        warnings.warn(
            f"the {self._name} does not compile ({reason}): it runs in eager mode, slower",
            RuntimeWarning,
            stacklevel=4,
        )
        return self._run(*arguments)


def take_signals_back() -> None:
    """Let Python handle signals again after a compilation.

    The GPU compiler installs its own signal handlers to clean up its files. With them, an interrupt may end
    the process before a step can report how far it got.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if handler is not None:
            signal.signal(number, handler)


def with_own_code(function: Any) -> types.FunctionType:
    """Return a copy of the function with its own code object.

    The compiler counts compilations per code object and gives up after a few; each copy starts at zero.
    """
    return types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def prefers_channels_last(module: nn.Module) -> bool:
    """Tell whether a module has overlapping convolutions, which run faster in the channels-last format."""
    return any(
        isinstance(part, nn.Conv2d) and max(part.kernel_size) > max(part.stride) for part in module.modules()
    )
