"""Compiled functions leave the process as they found it."""

import ctypes
import os
import shutil
import signal
import time

import pytest
import torch

from rrise.models import compiling
from rrise.models.compiling import Compiled


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_each_is_compiled_however_many_there_are() -> None:
    """The compiler keeps a count by function, and silently gives up on one it compiled too often."""

    def tripled_after(shift: int) -> Compiled:
        return Compiled(lambda x: 3 * (x + shift), "tripling")

    with torch._dynamo.config.patch(error_on_recompile=True):
        answers = [tripled_after(shift)(torch.ones(2)).tolist() for shift in (0, 1)]
    assert answers == [[3, 3], [6, 6]]


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
