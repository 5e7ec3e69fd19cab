"""Votes by processes that are killed, that work at the same time, and that are elsewhere."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from rrise.models.catalogue import build_model
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import read_votes
from rrise.votes.storage import LocalStorage
from rrise.votes.store import VoteStore

SHARDS = 12
COLLECT = f"""
import sys, torch
from pathlib import Path
from rrise.models.catalogue import build_model
from rrise.votes import engine
from rrise.votes.plan import VotePlan
from rrise.votes.store import VoteStore
folder, log = Path(sys.argv[1]), Path(sys.argv[2])
start = engine.VoteEngine._start
def logged(self, shard, *rest):
    with log.open("a") as file:
        file.write(f"{{shard.index}}\\n")
    return start(self, shard, *rest)
engine.VoteEngine._start = logged
torch.set_num_threads(1)
images = torch.rand({SHARD * SHARDS - 5}, 1, 8, 8, generator=torch.Generator().manual_seed(0))
plan = VotePlan(0.25, int(sys.argv[3]), 5, "train")
store = VoteStore(folder, build_model("small-convnet", seed=0), images, plan)
store.collect(batch_size=640, compiled=False)
"""


def _collecting(folder: Path, log: Path, n: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", COLLECT, str(folder), str(log), str(n)])


def _reference(folder: Path, n: int) -> dict[str, bytes]:
    images = torch.rand(SHARD * SHARDS - 5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    store = VoteStore(folder, build_model("small-convnet", seed=0), images, VotePlan(0.25, n, 5, "train"))
    store.collect(batch_size=640, compiled=False)
    return _shards(folder)


def _shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("shard-*.parquet")}


def _wait_for(condition, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        assert process.poll() is None, "the process ended early"
        time.sleep(0.01)


def test_killed_and_continued_gives_the_same_bytes(tmp_path: Path) -> None:
    folder, log, n = tmp_path / "votes", tmp_path / "log", 500
    process = _collecting(folder, log, n)
    _wait_for(lambda: len(_shards(folder)) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 2 <= len(_shards(folder)) < SHARDS
    kept = {name: (folder / name).stat().st_mtime_ns for name in _shards(folder)}
    assert _collecting(folder, log, n).wait(timeout=60) == 0
    assert _shards(folder) == _reference(tmp_path / "reference", n)
    assert {name: (folder / name).stat().st_mtime_ns for name in kept} == kept


@pytest.mark.slow
def test_killed_while_it_grows_and_continued_gives_the_same_bytes(tmp_path: Path) -> None:
    folder, log = tmp_path / "votes", tmp_path / "log"
    begun = _reference(folder, 100)
    process = _collecting(folder, log, 500)
    _wait_for(lambda: sum(content != begun[name] for name, content in _shards(folder).items()) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 2 <= sum(content != begun[name] for name, content in _shards(folder).items()) < SHARDS
    assert _collecting(folder, log, 500).wait(timeout=60) == 0
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
        if process.poll() is not None:  # finished before it was killed: damage something and go on
            for path in moments.sample(sorted(folder.glob("shard-*.parquet")), 6):
                path.write_bytes(path.read_bytes()[: moments.randrange(2000)])
            continue
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert _collecting(folder, log, n).wait(timeout=120) == 0
    assert _shards(folder) == _reference(tmp_path / "reference", n)


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    folder, n = tmp_path / "votes", 500
    logs = [tmp_path / "first", tmp_path / "second"]
    processes = [_collecting(folder, log, n) for log in logs]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    done = [log.read_text().split() if log.exists() else [] for log in logs]
    assert sorted(map(int, done[0] + done[1])) == list(range(SHARDS))  # each shard once
    assert all(done), "one of them did nothing"
    assert _shards(folder) == _reference(tmp_path / "reference", n)
    assert not list(folder.glob(".*")), "claims were left behind"


def test_a_shard_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    """One process has claimed a shard; the other waits for it, and does it when the first dies."""
    folder, n = tmp_path / "votes", 100
    hold = (
        "import sys, time; from pathlib import Path; from rrise.votes.storage import LocalStorage\n"
        "with LocalStorage(Path(sys.argv[1])).claim('shard-00003.parquet') as mine:\n"
        "    print(mine, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", hold, str(folder)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"True\n"
        process = _collecting(folder, tmp_path / "log", n)
        _wait_for(lambda: len(_shards(folder)) == SHARDS - 1, process)
        time.sleep(0.5)
        assert process.poll() is None
        assert "shard-00003.parquet" not in _shards(folder)
        holder.kill()
        assert process.wait(timeout=60) == 0
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
    images = torch.rand(SHARD * SHARDS - 5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    plan = VotePlan(0.25, 500, 5, "train")
    return VoteStore(tmp_path / "ray", build_model("small-convnet", seed=0), images, plan)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
class TestRay:
    @pytest.mark.usefixtures("ray")
    def test_workers_give_the_bytes_of_the_local_back_end(self, store, tmp_path: Path) -> None:
        from rrise.votes.ray_backend import Cluster, ray_backend

        seen = []
        with ray_backend(store, Cluster(workers=2), batch_size=640, compiled=False) as backend:
            votes = store.collect(backend=backend, on_progress=seen.append)
        assert sum(seen) == len(votes) * 500
        assert _shards(store.storage.folder) == _reference(tmp_path / "reference", 500)

    @pytest.mark.usefixtures("ray")
    @pytest.mark.slow
    def test_workers_go_on_where_a_smaller_collection_ended(self, store, tmp_path: Path) -> None:
        from rrise.votes.ray_backend import Cluster, ray_backend

        _reference(store.storage.folder, 200)
        seen = []
        with ray_backend(store, Cluster(workers=2), batch_size=640, compiled=False) as backend:
            votes = store.collect(backend=backend, on_progress=seen.append)
        assert seen[0] == len(votes) * 200
        assert sum(seen) == len(votes) * 500
        assert _shards(store.storage.folder) == _reference(tmp_path / "reference", 500)

    @pytest.mark.slow
    def test_a_killed_worker_is_replaced_and_its_shard_done_again(self, ray, store, tmp_path: Path) -> None:
        from rrise.votes.ray_backend import Cluster, ray_backend

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
        from rrise.votes.ray_backend import Cluster, ray_backend

        points = np.full((SHARD + 10, 2), 0.2, np.float32)
        points[SHARD + 3] = 0.9
        store = VoteStore(tmp_path, Breaks(), points, VotePlan(0.01, 50, 0))
        wrong = pytest.raises(ValueError, match=f"NaN for a noisy copy of input {SHARD + 3}$")
        with ray_backend(store, Cluster(workers=1)) as backend, wrong:
            store.collect(backend=backend)
        assert store.missing() == [1]

    @pytest.mark.usefixtures("ray")
    def test_more_than_the_cluster_has_is_refused(self, store, tmp_path: Path) -> None:
        from rrise.votes.ray_backend import Cluster, ray_backend

        elsewhere = pytest.raises(ValueError, match="make the store with device='cuda'")
        with elsewhere, ray_backend(store, Cluster(gpus_per_worker=1)):
            pass
        there = VoteStore(tmp_path / "there", store.base, store.inputs, store.plan, device="cuda")
        refused = pytest.raises(ValueError, match=r"no worker of .* fits into this cluster, which has 0 GPUs")
        with refused, ray_backend(there, Cluster(gpus_per_worker=1)):
            pass


class Breaks(torch.nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs.mean(dim=1, keepdim=True) > 0.8, torch.nan, inputs)
