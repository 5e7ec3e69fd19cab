"""What a benchmark ran on, how busy that was, and how it times things."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"
BUSY = 0.2
"""Up to so many cores may be busy with other work while a committed table is measured."""
ANYWAY = "RRISE_BUSY"


def seconds_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median_of(times: int, action: Callable[[], object]) -> float:
    return statistics.median(seconds_of(action) for _ in range(times))


def busy_cores(seconds: float = 2.0) -> float:
    """Return how many cores are busy while this process sleeps; the load average where that is unknown."""
    places = Path("/proc/stat")
    if not places.exists():
        return os.getloadavg()[0]

    def ticks() -> tuple[int, int]:
        numbers = [int(text) for text in places.read_text().splitlines()[0].split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all, and those of idle cores

    total, idle = ticks()
    time.sleep(seconds)
    later, later_idle = ticks()
    return (os.cpu_count() or 1) * (1 - (later_idle - idle) / max(1, later - total))


def check_idle(out: Path = RESULTS) -> float:
    """Print and return the load; refuse to measure a committed table on a busy machine, unless told to."""
    busy, told = busy_cores(), os.environ.get(ANYWAY) == "1"
    average = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{busy:.1f} of {os.cpu_count()} cores are busy with other work; load average {average}")
    if busy > BUSY and out.resolve() == RESULTS and not told:
        raise SystemExit(
            f"this machine is busy, and times measured now cannot be trusted: wait until at most {BUSY} "
            f"cores are busy, or set {ANYWAY}=1 to write benchmarks/results anyway"
        )
    return round(busy, 2)


def hardware(device: str = "cpu") -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        **({"gpu": torch.cuda.get_device_name()} if device == "cuda" else {}),
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scipy")},
        "date": date.today().isoformat(),
    }


def import_seconds() -> dict[str, float]:
    def fresh(code: str) -> float:
        return median_of(3, lambda: subprocess.run([sys.executable, "-c", code], check=True))

    return {
        "python_s": fresh("pass"),
        "import_rrise_s": fresh("import rrise"),
        "import_torch_s": fresh("import torch"),
    }
