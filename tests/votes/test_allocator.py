"""Memory that a batch has freed is kept for the next one."""

import os
import platform
import subprocess
import sys

import pytest

CODE = """
import resource, numpy as np
from rrise.votes.allocator import keep_memory
print(keep_memory())
for _ in range(3):
    [np.ones(2**21) for _ in range(3)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    [np.ones(2**21) for _ in range(3)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[bool, int]:
    """Return whether memory is kept, and the page faults of ten batches of three blocks."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    kept, count = done.stdout.split()
    return kept == "True", int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep their ways")
def test_the_next_batch_waits_for_no_pages() -> None:
    kept, count = faults()
    assert kept
    assert count < 1000


def test_a_choice_of_the_environment_is_respected() -> None:
    kept, count = faults(MALLOC_TRIM_THRESHOLD_="131072")
    assert not kept
    assert count > 1000
