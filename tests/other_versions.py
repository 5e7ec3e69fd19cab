"""Runs the tests with the oldest or the newest versions of the libraries that `pyproject.toml` accepts.

    python tests/other_versions.py oldest
    RRISE_TORCH=2.13.0 python tests/other_versions.py newest tests/certifiers

Further arguments go to pytest. The environment is `.venv-oldest` or `.venv-newest`. RRISE_TORCH names
another version of PyTorch, for machines where only one is at hand. Warnings are no errors here: other
versions warn of other things.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = ("serve", "onnx", "vision")
TOOLS = ["pytest>=8", "pytest-xdist", "hypothesis", "statsmodels", "httpx", "pyyaml"]
ROOMS = ["statistics", "data", "models", "votes", "training", "certifiers", "audit", "deployment"]


def requirements(which: str, torch: str | None) -> list[str]:
    """Return what to install: all direct dependencies, with the oldest accepted release of each, or any."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    if which == "oldest":
        wanted = [oldest(one) for one in wanted]
    if torch is not None:  # the exporter and its runtime follow torch
        own = {"torch": f"torch=={torch}"} | {name: name for name in ("onnx", "onnxscript", "onnxruntime")}
        wanted = [own.get(re.split(r"\W", one)[0], one) for one in wanted]
    return wanted


def oldest(requirement: str) -> str:
    """Return a requirement that only the oldest accepted release series meets.

    >>> oldest("numpy>=1.26"), oldest("safetensors>=0.4.3"), oldest("torchvision")
    ('numpy==1.26.*', 'safetensors==0.4.3', 'torchvision')
    """
    name, bound, version = requirement.partition(">=")
    if not bound:
        return requirement
    return f"{name}=={version}" if version.count(".") > 1 else f"{name}=={version}.*"


def main() -> None:
    which, *words = sys.argv[1:]
    if which not in ("oldest", "newest"):
        sys.exit(f"expected oldest or newest, got {which!r}")
    folder = ROOT / f".venv-{which}"
    if not folder.exists():
        venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--upgrade"]
    wanted = requirements(which, os.environ.get("RRISE_TORCH"))
    subprocess.run([*install, *wanted, *TOOLS], check=True)
    subprocess.run([*install, "--no-deps", "-e", ROOT], check=True)
    subprocess.run([python, "-m", "pip", "list"], check=True)
    tests = words or [f"tests/{room}" for room in ROOMS]
    command = [python, "-m", "pytest", "-W", "default", "--numprocesses=logical", "--dist=worksteal", *tests]
    sys.exit(
        subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode
    )


if __name__ == "__main__":
    main()
