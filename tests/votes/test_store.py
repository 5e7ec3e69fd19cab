import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import rrise
from rrise.models.catalogue import build_model
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.store import VoteStore, read_votes

IMAGES = torch.rand(SHARD * 4 + 3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
PLAN = VotePlan(0.25, 200, 5, "train")


@pytest.fixture
def store(tmp_path: Path) -> VoteStore:
    return VoteStore(tmp_path / "votes", build_model("small-convnet", seed=0), IMAGES, PLAN)


def test_stored_votes_are_the_collected_ones(store: VoteStore) -> None:
    stored = store.collect()
    direct = rrise.collect_votes(
        build_model("small-convnet", seed=0), IMAGES, sigma=0.25, n=200, seed=5, split="train"
    )
    np.testing.assert_array_equal(stored, direct)
    again = read_votes(store.storage.folder)
    np.testing.assert_array_equal(again, direct)
    assert again.smoothing == direct.smoothing
    assert again.stream == direct.stream
    assert again.digests.tolist() == direct.digests.tolist()


def test_a_missing_and_a_damaged_shard_are_done_again_and_the_others_kept(store: VoteStore) -> None:
    reference = np.asarray(store.collect()).copy()
    shards = sorted(store.storage.folder.glob("shard-*.parquet"))
    kept = {shard: shard.stat().st_mtime_ns for shard in shards[2:]}
    shards[0].unlink()
    damaged = bytearray(shards[1].read_bytes())
    damaged[len(damaged) // 3] ^= 0xFF
    shards[1].write_bytes(damaged)
    assert not store.finished()
    with pytest.raises(ValueError, match=r"shard-00000\.parquet is missing or damaged"):
        read_votes(store.storage.folder)
    np.testing.assert_array_equal(store.collect(), reference)
    assert {shard: shard.stat().st_mtime_ns for shard in shards[2:]} == kept


@pytest.mark.parametrize("position", range(0, 100, 7))
def test_a_flipped_byte_is_never_read_as_votes(store: VoteStore, position: int) -> None:
    reference = np.asarray(store.collect()).copy()
    shard = store.storage.folder / "shard-00001.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) * position // 100] ^= 0x10
    shard.write_bytes(content)
    np.testing.assert_array_equal(store.collect(), reference)


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (VotePlan(0.5, 200, 5, "train"), "sigma"),
        (VotePlan(0.25, 300, 5, "train"), "n"),
        (VotePlan(0.25, 200, 6, "train"), "seed"),
        (VotePlan(0.25, 200, 5, "test"), "split"),
        (VotePlan(0.25, 200, 5, "train", None), "input_range"),
    ],
)
def test_a_store_of_other_votes_is_refused_naming_the_field(
    store: VoteStore, plan: VotePlan, field: str
) -> None:
    store.prepare()
    with pytest.raises(ValueError, match=f" have {field} = "):
        VoteStore(store.storage.folder, build_model("small-convnet", seed=0), IMAGES, plan).prepare()


def test_a_store_of_another_base_or_other_inputs_is_refused(store: VoteStore) -> None:
    store.prepare()
    with pytest.raises(ValueError, match=" have base = "):
        VoteStore(store.storage.folder, build_model("small-convnet", seed=1), IMAGES, PLAN).prepare()
    with pytest.raises(ValueError, match=" have inputs_sha256 = "):
        VoteStore(store.storage.folder, build_model("small-convnet", seed=0), 1 - IMAGES, PLAN).prepare()


def test_shards_of_other_votes_are_not_taken_over_where_the_manifest_is_lost(store: VoteStore) -> None:
    store.collect()
    (store.storage.folder / "manifest.json").unlink()
    other = VoteStore(
        store.storage.folder, build_model("small-convnet", seed=1), IMAGES, VotePlan(0.9, 200, 6, "train")
    )
    other.prepare()
    assert not other.finished()
    fresh = rrise.collect_votes(
        build_model("small-convnet", seed=1), IMAGES, sigma=0.9, n=200, seed=6, split="train"
    )
    np.testing.assert_array_equal(other.collect(), fresh)


def test_a_shard_in_anothers_place_is_done_again(store: VoteStore) -> None:
    reference = np.asarray(store.collect()).copy()
    first, second = (store.storage.folder / f"shard-0000{i}.parquet" for i in (0, 1))
    second.write_bytes(first.read_bytes())
    np.testing.assert_array_equal(store.collect(), reference)


def test_an_edited_manifest_is_refused(store: VoteStore) -> None:
    store.prepare()
    path = store.storage.folder / "manifest.json"
    path.write_text(path.read_text().replace('"n": 200', '"n": 300'))
    with pytest.raises(ValueError, match="was edited"):
        store.prepare()


def test_a_rewritten_shard_with_its_old_metadata_is_done_again(store: VoteStore) -> None:
    reference = np.asarray(store.collect()).copy()
    path = store.storage.folder / "shard-00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take(list(range(SHARD))[::-1]).replace_schema_metadata(table.schema.metadata), path)
    np.testing.assert_array_equal(store.collect(), reference)
    path.unlink()
    path.mkdir()
    assert not store.finished()


COLLECT = """
import sys, torch
from pathlib import Path
from rrise.models.catalogue import build_model
from rrise.votes.plan import VotePlan
from rrise.votes.store import VoteStore
images = torch.rand(64 * 4 + 3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
plan = VotePlan(0.25, 2000, 5, "train")
VoteStore(Path(sys.argv[1]), build_model("small-convnet", seed=0), images, plan).collect()
"""


def test_killed_and_continued_gives_the_same_votes(tmp_path: Path) -> None:
    folder = tmp_path / "votes"
    process = subprocess.Popen([sys.executable, "-c", COLLECT, str(folder)])
    deadline = time.monotonic() + 60
    while not list(folder.glob("shard-*.parquet")):
        assert time.monotonic() < deadline, "no shard was written"
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list(folder.glob("shard-*.parquet")))
    assert finished < 5
    plan = VotePlan(0.25, 2000, 5, "train")
    continued = VoteStore(folder, build_model("small-convnet", seed=0), IMAGES, plan).collect()
    fresh = VoteStore(tmp_path / "fresh", build_model("small-convnet", seed=0), IMAGES, plan).collect()
    np.testing.assert_array_equal(continued, fresh)
