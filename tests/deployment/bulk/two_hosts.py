"""Two hosts with their own addresses on this machine: network namespaces that a cable joins."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PORT, TOKEN = 6379, "token"
_NETWORK = "10.213.7"
_OWN = 'mkdir -p /tmp/ray && mount -t tmpfs none /tmp/ray && exec "$@"'
_CORES = (
    "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR'); "
    "print('cores', int(ray.cluster_resources().get('CPU', 0)))"
)


@dataclass(frozen=True)
class Host:
    """A network namespace with an address; its Ray has a folder that no other host sees."""

    name: str
    address: str
    log: Path
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def join(self, *words: str) -> None:
        """Start Ray with one core, and go on without waiting."""
        ray = str(Path(sys.executable).with_name("ray"))
        how = [f"--node-ip-address={self.address}", "--num-cpus=1", "--block", "--disable-usage-stats"]
        command = ["ip", "netns", "exec", self.name, "sh", "-c", _OWN, "sh", ray, "start", *words, *how]
        with self.log.open("ab") as log:
            how: dict[str, Any] = {"stdout": log, "stderr": log, "env": environment(self.log.parent)}
            self.started.append(subprocess.Popen(command, **how))

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs words on this host, beside its Ray."""
        return ["nsenter", f"--target={self.started[0].pid}", "--net", "--mount", *words]

    def names(self) -> str:
        """Return the command lines of its processes."""
        found = []
        for process in self._processes():
            with suppress(OSError):
                found.append(Path(f"/proc/{process}/cmdline").read_text().replace("\0", " "))
        return "\n".join(found)

    def kill(self) -> None:
        """End all its processes at once, as a power cut does."""
        for process in self.started:
            process.kill()
        while numbers := self._processes():
            for number in numbers:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        for process in self.started:
            process.wait(timeout=30)

    def _processes(self) -> list[int]:
        found = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        return [int(word) for word in found.stdout.split()]


@contextmanager
def two_hosts(scratch: Path) -> Iterator[tuple[Host, Host]]:
    """Make two hosts that see each other and nothing else; skip the test where that is not allowed."""
    if os.geteuid() != 0 or None in map(shutil.which, ("ip", "nsenter")):
        pytest.skip("network namespaces need root, ip and nsenter")
    hosts = [Host(f"rrise-{os.getpid()}-{i}", f"{_NETWORK}.{i}", scratch / f"host-{i}.log") for i in (1, 2)]
    made = [_ip("netns", "add", host.name) for host in hosts]
    try:
        ends = [f"r{os.getpid() % 100_000}-{i}" for i in (1, 2)]
        if not all(made) or not _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1]):
            pytest.skip("this machine does not allow network namespaces")
        for host, end in zip(hosts, ends, strict=True):
            assert _ip("link", "set", end, "netns", host.name)
            assert _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", end)
            assert _ip("-n", host.name, "link", "set", end, "up")
            assert _ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts[0], hosts[1]
    finally:
        for host, there in zip(hosts, made, strict=True):
            if there:
                host.kill()
                _ip("netns", "del", host.name)


def start_ray(head: Host, other: Host, *, seconds: float = 120.0) -> str:
    """Start Ray on both hosts, wait until it has both cores, and return its address."""
    scratch = head.log.parent
    (scratch / TOKEN).write_text("0" * 64)
    address, end, said = f"{head.address}:{PORT}", time.monotonic() + seconds, "nothing"
    head.join("--head", f"--port={PORT}", "--include-dashboard=false")
    time.sleep(5)
    other.join(f"--address={address}")
    while time.monotonic() < end:
        command = head.command(sys.executable, "-c", _CORES, address)
        how: dict[str, Any] = {"capture_output": True, "text": True, "env": environment(scratch)}
        done = subprocess.run(command, check=False, timeout=seconds, **how)
        if "cores 2" in done.stdout:
            return address
        said = done.stdout + done.stderr[-1000:]
        time.sleep(1)
    raise AssertionError(f"no cluster of two cores after {seconds:g} s: {said}")


def environment(scratch: Path) -> dict[str, str]:
    """Return the environment of a host: without proxies, which it cannot reach, and with the token."""
    found = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**found, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(scratch / TOKEN)}


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0
