"""Compiled functions leave the process as they found it."""

import ctypes
import os
import signal
import time

import pytest
import torch

from rrise.models import compiling
from rrise.models.compiling import Compiled


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


def test_an_interrupt_after_compiling_still_reaches_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers of GPU code put handlers of their own in the place of Python's, behind its back."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p

    def compile_rudely(function: object, **options: object) -> object:
        libc.signal(signal.SIGINT, 1)  # SIG_IGN
        return function

    monkeypatch.setattr(compiling.torch, "compile", compile_rudely)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    doubled = Compiled(lambda x: 2 * x, "doubling")
    assert doubled(torch.ones(2)).tolist() == [2, 2]
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)
