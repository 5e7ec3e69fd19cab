"""Kill and resume, several processes at once, and memory."""

import itertools
import os
import random
import signal
import time
from collections.abc import Generator, Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rrise
from rrise.deployment.bulk import on_ray
from rrise.deployment.bulk.certifying import Part, ShardCertifier
from rrise.deployment.bulk.inputs import Reader
from rrise.deployment.bulk.parts import PartPlace
from rrise.votes.cluster import Cluster
from rrise.votes.storage import LocalStorage
from tests.deployment.service.serving import some_images
from tests.forking import FORKS, with_torch

from .stored import assert_same, certificates_in

SHARDS, SHARD = 12, 20


def _certify(folder: Path, pause: float) -> None:
    """Certify in a process of its own; log each shard, and take a while for each chunk."""
    rows = ShardCertifier._rows

    def slow(self: ShardCertifier, chunk: object) -> object:
        with (folder / "log").open("a") as log:
            log.write(f"{os.getpid()} {chunk.first // SHARD}\n")  # type: ignore[attr-defined]
        time.sleep(pause)
        return rows(self, chunk)  # type: ignore[arg-type]

    ShardCertifier._rows = slow  # type: ignore[assignment, method-assign]
    torch.set_num_threads(1)
    rrise.certify_dataset(folder / "certifier", folder / "inputs.npy", folder / "out", shard=SHARD)


@pytest.fixture
def folder(images_certifier: rrise.SurrogateCertifier, tmp_path: Path) -> Path:
    images_certifier.save(tmp_path / "certifier")
    np.save(tmp_path / "inputs.npy", some_images(SHARDS * SHARD - 3, seed=8))
    return tmp_path


def _parts(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("part-*.parquet")}


def _wait_for(parts: int, folder: Path, process: BaseProcess) -> None:
    deadline = time.monotonic() + 100
    while len(_parts(folder)) < parts:
        assert time.monotonic() < deadline
        assert process.is_alive(), "the process ended early"
        time.sleep(0.005)


def _expected(folder: Path) -> rrise.Certificates:
    inputs = np.load(folder / "inputs.npy")
    return rrise.load_certifier(folder / "certifier").certify(inputs)


def test_killed_and_resumed_loses_at_most_the_shards_under_way(folder: Path) -> None:
    process = with_torch(_certify, folder, 0.1)
    _wait_for(3, folder, process)
    os.kill(process.pid, signal.SIGKILL)  # type: ignore[arg-type]
    process.join()
    kept = _parts(folder)
    assert 3 <= len(kept) < SHARDS
    begun = {line.split()[1] for line in (folder / "log").read_text().splitlines()}
    assert len(begun) - len(kept) <= 2  # one is being certified, one may be being written
    done = rrise.certify_dataset(folder / "certifier", folder / "inputs.npy", folder / "out")
    assert (done.kept, done.parts) == (len(kept), SHARDS)
    assert {name: _parts(folder)[name] for name in kept} == kept
    assert_same(certificates_in(folder / "out"), _expected(folder))
    assert rrise.certify_dataset(folder / "certifier", folder / "inputs.npy", folder / "out").kept == SHARDS


@pytest.mark.slow
def test_killed_twenty_times_at_random_moments(folder: Path) -> None:
    moments = random.Random(0)
    log = folder / "log"
    log.touch()
    for _ in range(20):
        begun = log.stat().st_size
        process = with_torch(_certify, folder, 0.02)
        while log.stat().st_size == begun:
            assert process.is_alive()
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.15))
        os.kill(process.pid, signal.SIGKILL)  # type: ignore[arg-type]
        process.join()
        path = moments.choice([folder / "out" / "part-00000.parquet", *(folder / "out").glob("*.parquet")])
        path.write_bytes(path.read_bytes()[: moments.randrange(2000)] if path.exists() else b"damaged")
    with pytest.warns(RuntimeWarning, match="is computed again"):
        rrise.certify_dataset(folder / "certifier", folder / "inputs.npy", folder / "out")
    assert_same(certificates_in(folder / "out"), _expected(folder))


def test_two_processes_share_the_parts(folder: Path) -> None:
    processes = [with_torch(_certify, folder, 0.1) for _ in range(2)]
    for process in processes:
        process.join(100)
        assert process.exitcode == 0
    done = [line.split() for line in (folder / "log").read_text().splitlines()]
    assert sorted(int(shard) for _, shard in done) == list(range(SHARDS))  # each once
    assert len({process for process, _ in done}) == 2
    assert_same(certificates_in(folder / "out"), _expected(folder))
    assert not list((folder / "out").glob(".*")), "claims were left behind"


def _hold(folder: Path, held: object) -> None:
    with LocalStorage(folder).claim("part-00003.parquet") as mine:
        held.put(mine)  # type: ignore[attr-defined]
        time.sleep(600)


@pytest.mark.slow
def test_a_part_of_a_killed_process_is_taken_over(folder: Path) -> None:
    held = FORKS.SimpleQueue()
    (folder / "out").mkdir()
    rrise.certify_dataset(folder / "certifier", folder / "inputs.npy", folder / "out", shard=SHARD)
    (folder / "out" / "part-00003.parquet").unlink()
    holder = with_torch(_hold, folder / "out", held)
    assert held.get() is True
    process = with_torch(_certify, folder, 0)
    time.sleep(0.5)
    assert process.is_alive()
    assert len(_parts(folder)) == SHARDS - 1
    holder.kill()
    process.join(100)
    assert process.exitcode == 0
    assert len(_parts(folder)) == SHARDS


class AllAtOnce:
    """Takes all shards before it certifies the first, as a cluster does."""

    def __init__(self, folder: Path, reader: Reader, batch_size: int, _: Cluster) -> None:
        self._shards = ShardCertifier(rrise.load_certifier(folder), reader, batch_size)

    def __enter__(self) -> "AllAtOnce":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def parts(self, places: Iterable[PartPlace], on_progress: Any = None) -> Generator[Part, None, None]:
        yield from self._shards.parts(list(places), on_progress)


def test_a_cluster_claims_the_folder_and_not_each_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "RayShards", AllAtOnce)
    call = (folder / "certifier", folder / "inputs.npy", folder / "out")
    claims = []

    def count(_: int) -> None:
        claims.append([path.name for path in (folder / "out").glob(".*claim")])

    done = rrise.certify_dataset(*call, shard=SHARD, cluster=Cluster(), on_progress=count)
    assert done.parts == SHARDS
    assert_same(certificates_in(folder / "out"), _expected(folder))
    assert len(claims) >= SHARDS
    assert all(len(names) == 1 and "cluster" in names[0] for names in claims)
    (folder / "out" / "part-00003.parquet").unlink()
    with LocalStorage(folder / "out").claim("cluster"), pytest.raises(ValueError, match="another process"):
        rrise.certify_dataset(*call, cluster=Cluster())


def _peak_memory(folder: Path, count: int, peaks: object) -> None:
    """Certify many inputs, and report by how many bytes the resident memory grew at its peak."""
    torch.set_num_threads(1)
    certifier = rrise.load_certifier(folder / "certifier")
    certifier.certify(np.load(folder / "inputs.npy"))
    before, peak = _resident(), [0]
    rrise.certify_dataset(
        certifier,
        folder / f"{count}.npy",
        folder / f"out-{count}",
        on_progress=lambda _: peak.append(_resident() - before),
    )
    peaks.put(max(peak))  # type: ignore[attr-defined]


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_inputs(folder: Path) -> None:
    """Ten times the inputs, and 300 MB of them, take no more memory beyond a few buffers."""
    found = []
    for count in (130_000, 1_300_000):
        whole = np.lib.format.open_memmap(folder / f"{count}.npy", "w+", np.float32, (count, 1, 8, 8))
        tile = np.load(folder / "inputs.npy")
        for start in range(0, count, len(tile)):
            whole[start : start + len(tile)] = tile[: count - start]
        del whole
        peaks = FORKS.SimpleQueue()
        process = with_torch(_peak_memory, folder, count, peaks)
        process.join(300)
        assert process.exitcode == 0
        found.append(peaks.get())
    assert (folder / "1300000.npy").stat().st_size > 300e6
    assert found[1] < 150e6
    assert found[1] < 1.3 * found[0] + 20e6
    assert all(one > 0 for one, _ in itertools.pairwise(found))
