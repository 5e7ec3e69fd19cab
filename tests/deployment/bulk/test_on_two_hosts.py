"""A cluster of two hosts, each with an address of its own: both certify, and one may be lost."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rrise
from tests.deployment.service.serving import some_images

from .two_hosts import Host, environment, start_ray, two_hosts

pytestmark = pytest.mark.slow


def both_work(head: Host, other: Host, out: Path) -> bool:
    """Tell whether each host has a worker, and some parts are there."""
    workers = all("_Worker" in host.names() for host in (head, other))
    return workers and len(list(out.glob("part-*"))) >= 20


def test_both_hosts_certify_and_the_loss_of_one_changes_nothing(
    images_certifier: rrise.SurrogateCertifier, tmp_path: Path
) -> None:
    pytest.importorskip("ray.data", reason="Ray is an extra")
    certifier, inputs, there = tmp_path / "certifier", tmp_path / "inputs.npy", tmp_path / "there"
    images_certifier.save(certifier)
    np.save(inputs, some_images(6_000, seed=8))
    here = rrise.certify_dataset(certifier, inputs, tmp_path / "here", shard=10)
    with two_hosts(tmp_path) as (head, other):
        address = start_ray(head, other)
        words = ["certify", certifier, inputs, "--shard", 10, "--backend", "ray", "--address", address]
        command = head.command(sys.executable, "-m", "rrise", *map(str, words), "--out")
        how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        without = {**environment(tmp_path), "RAY_AUTH_MODE": "disabled"}
        refused = subprocess.run([*command, tmp_path / "no"], check=False, env=without, timeout=200, **how)
        assert "wants its token: set RAY_AUTH_MODE=token" in " ".join(refused.stdout.split())
        running = subprocess.Popen([*command, there], env=environment(tmp_path), **how)
        end = time.monotonic() + 200
        while running.poll() is None and time.monotonic() < end and not both_work(head, other, there):
            time.sleep(0.02)
        other.kill()
        left = here.parts - len(list(there.glob("part-*")))
        said = running.communicate(timeout=300)[0]
        assert running.returncode == 0, said[-2000:]
        assert left > 0, said[-2000:]
    parts = {path.name: path.read_bytes() for path in (tmp_path / "here").glob("part-*")}
    assert {path.name: path.read_bytes() for path in there.glob("part-*")} == parts
