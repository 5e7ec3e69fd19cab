"""Votes by processes that are killed, that work at the same time, and that are elsewhere."""

import fcntl
import os
import random
import signal
import time
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rrise.models import catalogue
from rrise.votes import engine
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import read_votes
from rrise.votes.storage import LocalStorage
from rrise.votes.store import VoteStore
from tests.forking import FORKS, with_torch

SHARDS = 12
build_model = partial(catalogue.build_model, image_size=4, width=4)
"""Of the smallest networks: who votes, and when, does not depend on what votes."""


def _store(folder: Path, n: int) -> VoteStore:
    images = torch.rand(SHARD * SHARDS - 5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    return VoteStore(folder, build_model("small-convnet", seed=0), images, VotePlan(0.25, n, 5, "train"))


def _collect(folder: Path, log: Path, n: int, together: Any) -> None:
    """Collect in a process of its own, from when all of them are there; log each shard, and take a while."""
    start = engine.VoteEngine._start

    def logged(self: engine.VoteEngine, shard: Any, *rest: Any) -> Any:
        with log.open("a") as file:
            file.write(f"{shard.index}\n")
        time.sleep(0.05)
        return start(self, shard, *rest)

    engine.VoteEngine._start = logged  # type: ignore[method-assign]
    torch.set_num_threads(1)
    store = _store(folder, n)
    if together is not None:
        together.wait(60)
    store.collect(batch_size=640, compiled=False)


def _collecting(folder: Path, log: Path, n: int, together: Any = None) -> BaseProcess:
    return with_torch(_collect, folder, log, n, together)


def _reference(folder: Path, n: int) -> dict[str, bytes]:
    _store(folder, n).collect(batch_size=640, compiled=False)
    return _shards(folder)


def _shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("shard-*.parquet")}


def _wait_for(condition, process: BaseProcess, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        assert process.is_alive(), "the process ended early"
        time.sleep(0.01)


def _ended(process: BaseProcess) -> int | None:
    process.join(120)
    return process.exitcode


def test_killed_and_continued_gives_the_same_bytes(tmp_path: Path) -> None:
    folder, log, n = tmp_path / "votes", tmp_path / "log", 100
    process = _collecting(folder, log, n)
    _wait_for(lambda: len(_shards(folder)) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert 2 <= len(_shards(folder)) < SHARDS
    kept = {name: (folder / name).stat().st_mtime_ns for name in _shards(folder)}
    assert _ended(_collecting(folder, log, n)) == 0
    assert _shards(folder) == _reference(tmp_path / "reference", n)
    assert {name: (folder / name).stat().st_mtime_ns for name in kept} == kept


@pytest.mark.slow
def test_killed_while_it_grows_and_continued_gives_the_same_bytes(tmp_path: Path) -> None:
    folder, log = tmp_path / "votes", tmp_path / "log"
    begun = _reference(folder, 100)
    process = _collecting(folder, log, 500)
    _wait_for(lambda: sum(content != begun[name] for name, content in _shards(folder).items()) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert 2 <= sum(content != begun[name] for name, content in _shards(folder).items()) < SHARDS
    assert _ended(_collecting(folder, log, 500)) == 0
    assert _shards(folder) == _reference(tmp_path / "reference", 500)


@pytest.mark.slow
def test_killed_twenty_times_at_random_moments(tmp_path: Path) -> None:
    folder, log, n = tmp_path / "votes", tmp_path / "log", 2000
    moments = random.Random(0)
    kills = 0
    while kills < 20:
        process = _collecting(folder, log, n)
        _wait_for((folder / "execution.json").exists, process)
        time.sleep(moments.uniform(0, 1.2))
        if not process.is_alive():  # finished before it was killed: damage something and go on
            for path in moments.sample(sorted(folder.glob("shard-*.parquet")), 6):
                path.write_bytes(path.read_bytes()[: moments.randrange(2000)])
            continue
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    assert _ended(_collecting(folder, log, n)) == 0
    assert _shards(folder) == _reference(tmp_path / "reference", n)


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    folder, n = tmp_path / "votes", 100
    logs = [tmp_path / "first", tmp_path / "second"]
    together = FORKS.Barrier(2)
    processes = [_collecting(folder, log, n, together) for log in logs]
    assert [_ended(process) for process in processes] == [0, 0]
    done = [log.read_text().split() if log.exists() else [] for log in logs]
    assert sorted(map(int, done[0] + done[1])) == list(range(SHARDS))  # each shard once
    assert all(done), "one of them did nothing"
    assert _shards(folder) == _reference(tmp_path / "reference", n)
    assert not list(folder.glob(".*")), "claims were left behind"


def _hold(folder: Path, held: Any) -> None:
    with LocalStorage(folder).claim("shard-00003.parquet") as mine:
        held.put(mine)
        time.sleep(600)


def test_a_shard_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    """One process has claimed a shard; the other waits for it, and does it when the first dies."""
    folder, n, held = tmp_path / "votes", 100, FORKS.SimpleQueue()
    holder = with_torch(_hold, folder, held)
    assert held.get() is True
    process = _collecting(folder, tmp_path / "log", n)
    _wait_for(lambda: len(_shards(folder)) == SHARDS - 1, process)
    time.sleep(0.5)
    assert process.is_alive()
    assert "shard-00003.parquet" not in _shards(folder)
    holder.kill()
    assert _ended(process) == 0
    assert len(read_votes(folder)) == SHARD * SHARDS - 5


def test_a_claim_is_exclusive_and_ends_with_its_block(tmp_path: Path) -> None:
    first, second = LocalStorage(tmp_path), LocalStorage(tmp_path)
    with first.claim("x") as mine, second.claim("x") as also_mine, second.claim("y") as other:
        assert (mine, also_mine, other) == (True, False, True)
    with second.claim("x") as now_mine:
        assert now_mine
    with pytest.raises(KeyboardInterrupt), second.claim("x"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir()), "an interrupt leaves nothing behind"


def test_a_claim_that_was_interrupted_halfway_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    storage = LocalStorage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", interrupted)
        with pytest.raises(KeyboardInterrupt):
            storage.claim("x").__enter__()
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0]
    with storage.claim("x") as mine:
        assert mine
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="Ray is an extra")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture
def store(tmp_path: Path) -> VoteStore:
    return _store(tmp_path / "ray", 500)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
class TestRay:
    @pytest.mark.usefixtures("ray")
    def test_workers_give_the_bytes_of_the_local_back_end(self, store, tmp_path: Path) -> None:
        from rrise.votes.cluster import Cluster
        from rrise.votes.ray_backend import ray_backend

        seen = []
        with ray_backend(store, Cluster(workers=2), batch_size=640, compiled=False) as backend:
            votes = store.collect(backend=backend, on_progress=seen.append)
        assert sum(seen) == len(votes) * 500
        assert _shards(store.storage.folder) == _reference(tmp_path / "reference", 500)

    @pytest.mark.usefixtures("ray")
    @pytest.mark.slow
    def test_workers_go_on_where_a_smaller_collection_ended(self, store, tmp_path: Path) -> None:
        from rrise.votes.cluster import Cluster
        from rrise.votes.ray_backend import ray_backend

        _reference(store.storage.folder, 200)
        seen = []
        with ray_backend(store, Cluster(workers=2), batch_size=640, compiled=False) as backend:
            votes = store.collect(backend=backend, on_progress=seen.append)
        assert seen[0] == len(votes) * 200
        assert sum(seen) == len(votes) * 500
        assert _shards(store.storage.folder) == _reference(tmp_path / "reference", 500)

    @pytest.mark.slow
    def test_a_killed_worker_is_replaced_and_its_shard_done_again(self, ray, store, tmp_path: Path) -> None:
        from rrise.votes.cluster import Cluster
        from rrise.votes.ray_backend import ray_backend

        killed = []

        def kill_once(_: int) -> None:
            if not killed:
                actors = backend._actors
                pid = ray.get(actors[0].state.remote())["pid"]
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        with ray_backend(store, Cluster(workers=2), batch_size=640, compiled=False) as backend:
            store.collect(backend=backend, on_shards=kill_once)
            assert ray.get(backend._actors[0].state.remote())["pid"] != killed[0]
        assert _shards(store.storage.folder) == _reference(tmp_path / "reference", 500)

    @pytest.mark.usefixtures("ray")
    @pytest.mark.slow
    def test_what_goes_wrong_in_a_worker_is_said_here(self, tmp_path: Path) -> None:
        from rrise.votes.cluster import Cluster
        from rrise.votes.ray_backend import ray_backend

        points = np.full((SHARD + 10, 2), 0.2, np.float32)
        points[SHARD + 3] = 0.9
        store = VoteStore(tmp_path, Breaks(), points, VotePlan(0.01, 50, 0))
        wrong = pytest.raises(ValueError, match=f"NaN for a noisy copy of input {SHARD + 3}$")
        with ray_backend(store, Cluster(workers=1)) as backend, wrong:
            store.collect(backend=backend)
        assert store.missing() == [1]

    @pytest.mark.usefixtures("ray")
    def test_more_than_the_cluster_has_is_refused(self, store, tmp_path: Path) -> None:
        from rrise.votes.cluster import Cluster
        from rrise.votes.ray_backend import ray_backend

        elsewhere = pytest.raises(ValueError, match="create the store with device='cuda'")
        with elsewhere, ray_backend(store, Cluster(gpus_per_worker=1)):
            pass
        there = VoteStore(tmp_path / "there", store.base, store.inputs, store.plan, device="cuda")
        refused = pytest.raises(
            ValueError, match=r"no worker fits into this cluster: .*, the cluster has 0 GPUs"
        )
        with refused, ray_backend(there, Cluster(gpus_per_worker=1)):
            pass


class Breaks(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs.mean(dim=1, keepdim=True) > 0.8, torch.nan, inputs)
