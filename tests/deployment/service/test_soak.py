"""The service under load for long: its memory stays what it is.

`RRISE_SOAK_SECONDS` changes the ten minutes.
"""

import os
import threading
import time
from pathlib import Path

import httpx
import pytest

from .test_process import BODY, folder, process

__all__ = ["folder"]
SECONDS = float(os.environ.get("RRISE_SOAK_SECONDS", "600"))
CLIENTS = 16
GROWTH = 1.1


def megabytes(process_id: int) -> float:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_ten_minutes_of_load_leave_memory_flat(folder: Path, tmp_path: Path) -> None:
    statuses: set[int] = set()
    with process(folder, "--monitor", str(tmp_path / "monitor.db")) as (running, address):
        end = time.monotonic() + SECONDS

        def ask_until_the_end() -> None:
            with httpx.Client(timeout=30) as client:
                while time.monotonic() < end:
                    statuses.add(client.post(f"{address}/v1/certify", **BODY).status_code)

        clients = [threading.Thread(target=ask_until_the_end) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(SECONDS / 10)
        warm = megabytes(running.pid)
        for client in clients:
            client.join()
        assert statuses == {200}
        assert megabytes(running.pid) <= GROWTH * warm
