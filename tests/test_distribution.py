"""The wheel holds the package, and works where nothing else is installed."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import rrise

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        file.relative_to(source).as_posix()
        for file in (source / "rrise").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted <= held, f"missing: {sorted(wanted - held)}"
    assert not {name for name in held if name.startswith(("tests/", "benchmarks/", "results/"))}


def test_the_citation_names_this_version_and_the_paper() -> None:
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert about["version"] == rrise.__version__
    assert about["preferred-citation"]["title"] == "RRISE: Robust Radius Inference via a Surrogate Estimator"
    assert [author["family-names"] for author in about["preferred-citation"]["authors"]] == [
        "Park",
        "Chaudhari",
        "Joe-Wong",
        "Moura",
    ]


def test_workflows_call_targets_of_the_makefile() -> None:
    rules = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    found = set()
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values():
            wanted = job.get("strategy", {}).get("matrix", {}).get("target", [])
            lines = [step["run"] for step in job["steps"] if "run" in step]
            found |= {line.split()[1] for line in lines if "$" not in line} | set(wanted)
    assert found >= {"test", "demo", "test-all", "dist"}
    assert found <= targets


def steps_of(dockerfile: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments."""
    joined = dockerfile.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_container_runs_without_root_and_reports_its_health() -> None:
    steps = dict(steps_of(DOCKERFILE))
    assert steps["USER"] == "rrise"
    assert "/healthz" in steps["HEALTHCHECK"]
    assert json.loads(steps["ENTRYPOINT"])[:3] == ["rrise", "serve", "/certifier"]


def installed(folder: Path, wheel: Path, extras: str) -> Path:
    """Install the wheel with these extras into an empty environment; return its folder of programs."""
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, f"{wheel}{extras}"], check=True)
    return folder / "bin"


@pytest.mark.slow
def test_an_installed_wheel_runs_the_demo_and_serves_a_query(wheel: Path, tmp_path: Path) -> None:
    programs = installed(tmp_path / "venv", wheel, "[serve,onnx]")
    clean = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def rrise_(*words: object) -> None:
        subprocess.run([programs / "rrise", *map(str, words)], check=True, cwd=tmp_path, env=clean)

    rrise_("demo", "--quick", "--out", "demo")
    rrise_("export", "demo/certifier", "--out", "deployed")
    sample = next((tmp_path / "demo" / "evaluation" / "samples").glob("*.png"))
    rrise_("certify", "deployed", sample)

    # What the container does: the instructions of the Dockerfile after the installation.
    steps = dict(steps_of(DOCKERFILE))
    entry, health = json.loads(steps["ENTRYPOINT"]), json.loads(steps["HEALTHCHECK"].split("CMD ")[1])
    port = free_port()
    words = [{"/certifier": "deployed", "8000": str(port), "0.0.0.0": "127.0.0.1"}.get(w, w) for w in entry]
    server = subprocess.Popen([programs / words[0], *words[1:]], cwd=tmp_path, env=clean)
    try:
        check = [word.replace(":8000", f":{port}") for word in health]
        deadline = time.monotonic() + 120
        while subprocess.run(check, env=clean, capture_output=True, check=False).returncode:
            assert server.poll() is None, shlex.join(words)
            assert time.monotonic() < deadline
            time.sleep(0.5)
        query = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/certify",
            data=sample.read_bytes(),
            headers={"Content-Type": "image/png"},
        )
        with urllib.request.urlopen(query, timeout=30) as answer:
            found = json.loads(answer.read())
        assert found["certificates"][0]["radius"] >= 0
    finally:
        server.terminate()
        server.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
