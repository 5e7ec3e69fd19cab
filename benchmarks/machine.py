"""What a benchmark ran on, and how it times things."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch


def best_of(times: int, action: Callable[[], object]) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


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
        return best_of(3, lambda: subprocess.run([sys.executable, "-c", code], check=True))

    return {
        "python_s": fresh("pass"),
        "import_rrise_s": fresh("import rrise"),
        "import_torch_s": fresh("import torch"),
    }
