"""Lets the C library keep the memory of a batch for the next one.

The usual settings of glibc return large blocks to the system as soon as they are free. Every operator of the
next batch then waits for fresh pages: a sixth of the time of a ResNet-18, most of the time of a small network
whose blocks are just large enough.
"""

import ctypes
import os
import platform
from contextlib import suppress
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of `mallopt` in malloc.h."""
_KEPT = 2**28
"""Bytes of free memory that a thread may keep."""
_LARGEST = 2**25
"""Blocks up to this size are kept, the most that glibc allows."""
_CHOSEN = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")


@cache
def keep_memory() -> bool:
    """Keep up to 256 MB of freed memory in each thread of this process; return whether that was possible.

    Does nothing without glibc, or where the environment chooses an allocator or its settings.
    """
    chosen = any(name.startswith(_CHOSEN) for name in os.environ)
    if chosen or platform.libc_ver()[0] != "glibc":
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _KEPT))
    return False
