"""Priorities of threads: what a person waits for goes first."""

import os
import threading
from contextlib import suppress

VERIFYING, AUDITING = 10, 19
"""How far verifications and audits step back behind certificates; 19 is the lowest priority."""


def step_back(by: int) -> None:
    """Give this thread, and those it starts, a lower priority, where the system knows such."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), by)
