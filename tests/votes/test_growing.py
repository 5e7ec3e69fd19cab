"""A collection that is continued for a larger n, and one of which a part is wanted."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import rrise
from rrise.models.catalogue import build_model
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import read_sequence, read_votes
from rrise.votes.store import VoteStore

IMAGES = torch.rand(SHARD * 3 + 5, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def store_for(
    folder: Path, n: int, *, part: bool = False, base: nn.Module | None = None, images: torch.Tensor = IMAGES
) -> VoteStore:
    base = build_model("small-convnet", seed=0) if base is None else base
    return VoteStore(folder, base, images, VotePlan(0.4, n, 5, "train"), part=part)


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("shard-*.parquet")}


def draws(folder: Path) -> list[int]:
    """How many votes the inputs of each shard have, by the counts in the files."""
    tables = [pq.read_table(folder / name) for name in sorted(shards(folder))]
    return [sum(table.column("votes")[0].as_py()) for table in tables]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "votes"


@pytest.fixture(scope="module")
def from_the_start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection for n = 50 in one go."""
    folder = tmp_path_factory.mktemp("from-the-start")
    store_for(folder, 50).collect(batch_size=100)
    return folder


def interrupted_growth(folder: Path, n: int, stored: int) -> None:
    """Go on for a larger n until so many shards are stored."""
    left = stored

    def stop(amount: int) -> None:
        nonlocal left
        left -= amount
        if left <= 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_for(folder, n).collect(on_shards=stop)


@pytest.mark.parametrize("batch_size", [100, 37, 4096])
def test_a_grown_collection_is_the_one_from_the_start_byte_for_byte(
    folder: Path, from_the_start: Path, batch_size: int
) -> None:
    store_for(folder, 20).collect(batch_size=batch_size)
    store, passes, stored = store_for(folder, 50), [], []
    assert store.passes_missing() == 30 * len(IMAGES)
    votes = store.collect(on_progress=passes.append, on_shards=stored.append)
    assert shards(folder) == shards(from_the_start)
    assert json.loads((folder / "manifest.json").read_text())["manifest"]["n"] == 50
    assert passes[0] == 20 * len(IMAGES)
    assert sum(passes) == 50 * len(IMAGES)
    assert sum(stored) == 4
    expected = rrise.collect_votes(store.base, IMAGES, sigma=0.4, n=50, seed=5, split="train")
    np.testing.assert_array_equal(votes, expected)
    np.testing.assert_array_equal(read_votes(folder), expected)
    assert store.finished()
    assert store.passes_missing() == 0


class Counting(nn.Module):
    """A classifier of more classes than a byte holds, which counts the inputs it is asked about."""

    _asked = 0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 300)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        Counting._asked += len(inputs)
        return self.linear(inputs)


def test_only_the_new_draws_are_computed(tmp_path: Path) -> None:
    base, points = Counting(), torch.rand(SHARD + 6, 2, generator=torch.Generator().manual_seed(1))
    store_for(tmp_path / "one", 12, base=base, images=points).collect(batch_size=1)
    store_for(tmp_path / "two", 9, base=base, images=points).collect(batch_size=1)
    store = store_for(tmp_path / "two", 12, base=base, images=points)
    assert store.passes_missing() == 3 * len(points)
    Counting._asked = 0
    store.collect()
    tries = Counting._asked - 3 * len(points)
    assert 0 <= tries <= 3 * SHARD  # to see whether the base is a function of one input
    assert shards(tmp_path / "two") == shards(tmp_path / "one")
    assert read_sequence(tmp_path / "two").answers.dtype == np.uint16


def test_a_missing_and_a_damaged_shard_are_computed_from_scratch(folder: Path, from_the_start: Path) -> None:
    store_for(folder, 20).collect(batch_size=100)
    (folder / "shard-00000.parquet").unlink()
    damage(folder / "shard-00002.parquet")
    store = store_for(folder, 50)
    assert store.missing() == [0, 1, 2, 3]
    assert store.passes_missing() == 2 * SHARD * 50 + (SHARD + 5) * 30
    seen: list[int] = []
    store.collect(on_progress=seen.append)
    assert seen[0] == (SHARD + 5) * 20
    assert sum(seen) == len(IMAGES) * 50
    assert shards(folder) == shards(from_the_start)


def test_interrupted_and_grown_again_it_is_the_one_from_the_start(folder: Path, from_the_start: Path) -> None:
    store_for(folder, 20).collect(batch_size=100)
    interrupted_growth(folder, 30, stored=1)
    assert draws(folder) == [30, 20, 20, 20]
    interrupted_growth(folder, 50, stored=2)
    assert draws(folder) == [50, 50, 20, 20]
    store = store_for(folder, 50)
    assert store.passes_missing() == (SHARD + 5) * 30
    store.collect()
    assert shards(folder) == shards(from_the_start)
    assert not list(folder.glob(".*"))


def test_what_all_inputs_have_is_read_while_a_collection_grows(folder: Path) -> None:
    before = np.asarray(store_for(folder, 20).collect(batch_size=100))
    interrupted_growth(folder, 50, stored=2)
    np.testing.assert_array_equal(read_votes(folder, n=20), before)
    np.testing.assert_array_equal(read_sequence(folder, n=20).votes(20), before)
    for read in (read_votes, read_sequence):
        with pytest.raises(
            ValueError, match=r"incomplete: shard-00002\.parquet has 20 of 50 votes per input"
        ):
            read(folder)


def test_a_store_for_fewer_is_refused_and_says_how_to_read_them(folder: Path) -> None:
    store_for(folder, 20).collect(batch_size=100)
    kept = shards(folder)
    refused = r"have n = 20, not 7: read the first 7 with read_votes\('.*votes', n=7\)"
    with pytest.raises(ValueError, match=refused):
        store_for(folder, 7).collect()
    plan, base = VotePlan(0.9, 30, 5, "train"), build_model("small-convnet", seed=0)
    with pytest.raises(ValueError, match=r"have sigma = 0\.4, not 0\.9$"):
        VoteStore(folder, base, IMAGES, plan).prepare()
    assert shards(folder) == kept


def test_a_part_of_more_votes_is_read_and_all_are_kept(folder: Path) -> None:
    store_for(folder, 20).collect(batch_size=100)
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    store = store_for(folder, 7, part=True)
    assert store.found() == {"n": 20}
    assert store.passes_missing() == 0
    expected = rrise.collect_votes(store.base, IMAGES, sigma=0.4, n=7, seed=5, split="train")
    votes = store.collect()
    np.testing.assert_array_equal(votes, expected)
    assert (votes.smoothing, votes.stream) == (expected.smoothing, expected.stream)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == kept


def test_a_part_of_an_unfinished_collection_takes_no_more_than_that_part(
    folder: Path, from_the_start: Path
) -> None:
    store_for(folder, 50).collect(batch_size=100)
    (folder / "shard-00001.parquet").unlink()
    store = store_for(folder, 7, part=True)
    assert store.passes_missing() == 7 * SHARD
    np.testing.assert_array_equal(store.collect(), read_votes(from_the_start, n=7))
    assert draws(folder) == [50, 7, 50, 50]
    assert store_for(folder, 50).passes_missing() == 43 * SHARD
    store_for(folder, 50).collect()
    assert shards(folder) == shards(from_the_start)


def test_a_longer_shard_of_another_process_is_not_replaced_by_a_shorter_one(
    folder: Path, from_the_start: Path
) -> None:
    """One process collects 20 while another, which came later, has stored 50 for the last two shards."""
    longer = shards(from_the_start)

    def others_work(_: int) -> None:
        for name in ("shard-00002.parquet", "shard-00003.parquet"):
            (folder / name).write_bytes(longer[name])

    votes = store_for(folder, 20).collect(batch_size=100, on_shards=others_work)
    np.testing.assert_array_equal(votes, read_votes(from_the_start, n=20))
    assert draws(folder) == [20, 20, 50, 50]
    np.testing.assert_array_equal(read_votes(folder), votes)
    np.testing.assert_array_equal(read_sequence(folder).votes(20), votes)


def test_shards_of_other_votes_are_no_beginnings(folder: Path, from_the_start: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    VoteStore(other, build_model("small-convnet", seed=0), IMAGES, VotePlan(0.4, 20, 6, "train")).collect()
    store_for(folder, 20).collect(batch_size=100)
    (folder / "shard-00001.parquet").write_bytes((other / "shard-00001.parquet").read_bytes())
    (folder / "shard-00002.parquet").write_bytes((folder / "shard-00000.parquet").read_bytes())
    store_for(folder, 50).collect()
    assert shards(folder) == shards(from_the_start)


def test_a_grown_collection_remembers_the_versions_it_was_begun_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("rrise.votes.manifest.torch.__version__", "0.0")
        store_for(folder, 20).collect(batch_size=100)
    for n in (30, 50):
        with pytest.warns(UserWarning, match=r"started with other versions \(\{'torch': '0\.0'\}\)"):
            store_for(folder, n).collect()
