"""Prepares a process for serving."""

import gc
import sys
from contextlib import suppress

SWITCH_INTERVAL = 0.0005
"""Seconds after which a busy thread yields to another; a tenth of Python's default."""


def prepare_process() -> None:
    """Prepare this process for serving; call it when everything is loaded.

    Raises the limit of open files to the system's maximum, because each connection needs one. Switches
    sooner to the thread of the forward pass. Excludes permanent objects from garbage collection, because
    scanning them would stall every request.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
