"""The training steps of a run, done by two processes together."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = ["digits", "--profile", "quick", "--device", "cpu", "--out"]
TOGETHER = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def rrise(command: str, folder: Path, *, together: bool) -> subprocess.CompletedProcess[str]:
    launcher = TOGETHER if together else []
    arguments = [sys.executable, *launcher, "-m", "rrise", command, *RUN, str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def history(folder: Path, step: str) -> list[dict[str, float]]:
    return json.loads((folder / step / "manifest.json").read_text())["result"]["history"]["epochs"]


@pytest.mark.slow
def test_two_processes_do_the_training_steps_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = rrise("train-base", folder, together=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("base: written") == 1
    too_early = rrise("train-surrogate", folder, together=True)
    assert too_early.returncode != 0
    assert "the votes of train are not collected yet" in too_early.stderr
    assert rrise("train-surrogate", folder, together=False).returncode == 0
    alone = history(folder, "surrogate")
    shutil.rmtree(folder / "surrogate")
    done = rrise("train-surrogate", folder, together=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "base: up to date" in done.stdout
    for one, two in zip(alone, history(folder, "surrogate"), strict=True):
        assert one["cross_entropy"] == pytest.approx(two["cross_entropy"], rel=1e-3)
    assert not (folder / "checkpoints").exists()
    refused = rrise("run", folder, together=True)
    assert "torchrun works only with rrise train-base and rrise train-surrogate" in refused.stderr
