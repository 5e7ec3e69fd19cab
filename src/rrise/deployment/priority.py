"""Priorities of threads: work that a person waits for comes first."""

import os
import threading
from contextlib import suppress

VERIFYING, AUDITING = 10, 19
"""The nice values of verifications and audits, behind certificates; 19 is the lowest priority."""


def step_back(by: int) -> None:
    """Lower the priority of this thread and of those it starts, if the system supports it."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), by)
