import errno
import json
import os
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import rrise
from rrise.errors import FolderError
from rrise.files import signed_json_bytes, write_signed_json
from rrise.models import catalogue
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import read_votes
from rrise.votes.shards import Place, write_shard
from rrise.votes.smoothing import Smoothing
from rrise.votes.storage import storage_at
from rrise.votes.store import VoteStore

build_model = partial(catalogue.build_model, image_size=4, width=4)
"""Of the smallest networks: what is stored does not depend on what voted."""
IMAGES = torch.rand(SHARD * 4 + 3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
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
        (VotePlan(0.25, 100, 5, "train"), "n"),
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


def test_smaller_budgets_are_read_without_another_pass(store: VoteStore) -> None:
    store.collect()
    for n in (1, 50, 137, 200):
        fewer = read_votes(store.storage.folder, n=n)
        again = rrise.collect_votes(
            build_model("small-convnet", seed=0), IMAGES, sigma=0.25, n=n, seed=5, split="train"
        )
        np.testing.assert_array_equal(fewer, again)
        assert fewer.smoothing == again.smoothing
        assert fewer.digests.tolist() == again.digests.tolist()
    for n in (0, 201, 1.5):
        with pytest.raises(ValueError, match=r"n from 1 to 200|whole number for n"):
            read_votes(store.storage.folder, n=n)


def test_a_flipped_byte_among_the_answers_is_found(store: VoteStore) -> None:
    """The answers are most of a file, and the totals do not depend on their order."""
    reference = np.asarray(store.collect()).copy()
    path = store.storage.folder / "shard-00002.parquet"
    content = bytearray(path.read_bytes())
    for position in range(len(content) // 2, len(content), 97):
        damaged = content.copy()
        damaged[position] ^= 0x01
        path.write_bytes(damaged)
        fresh = VoteStore(store.storage.folder, store.base, IMAGES, PLAN)
        assert fresh.missing() in ([2], [])
        np.testing.assert_array_equal(fresh.collect(), reference)


def test_a_store_of_another_device_is_refused(store: VoteStore, tmp_path: Path) -> None:
    store.prepare()
    with pytest.raises(ValueError, match="have device = 'cpu', not 'cuda'"):
        VoteStore(store.storage.folder, store.base, IMAGES, PLAN, device="cuda").prepare()
    with pytest.raises(ValueError, match="have device cuda, not cpu"):
        VoteStore(tmp_path / "elsewhere", store.base, IMAGES, PLAN, device="cuda").collect()


def test_a_back_end_for_something_else_is_refused(store: VoteStore) -> None:
    other = build_model("small-convnet", seed=1)
    for base, plan, field in (
        (other, PLAN, "base classifier"),
        (store.base, VotePlan(0.5, 200, 5, "train"), "sigma"),
        (store.base, VotePlan(0.25, 200, 6, "train"), "plan"),
    ):
        engine = VoteEngine(base, plan, store.sample, Execution(64))
        with pytest.raises(ValueError, match=field):
            store.collect(backend=engine)
    with torch.no_grad():
        store.base.head.weight.mul_(-1)  # the store was made for the base as it was
    with pytest.raises(ValueError, match="this store and what computes its votes do not belong together"):
        store.collect()
    assert not list(store.storage.folder.glob("shard-*"))


def test_how_passes_are_computed_is_found_once(store: VoteStore) -> None:
    store.prepare()
    first = store.execution(batch_size=123)
    assert store.execution() == first
    with pytest.warns(UserWarning, match=r"started with .*123.* and resume with .*321"):
        assert store.execution(batch_size=321).batch_size == 321
    other = VoteStore(store.storage.folder, store.base, IMAGES, PLAN)
    assert other.execution().batch_size == 123


def test_a_changed_choice_of_a_finished_store_is_noticed(store: VoteStore) -> None:
    store.collect()
    path = store.storage.folder / "execution.json"
    path.write_text(path.read_text().replace('"batch_size": ', '"batch_size": 1'))
    for read in (store.collect, lambda: read_votes(store.storage.folder)):
        with pytest.raises(FolderError, match=r"execution\.json was edited: .* delete this file if you"):
            read()
    path.unlink()
    store.collect()
    read_votes(store.storage.folder)


def test_other_versions_are_pointed_out_where_votes_are_added(
    store: VoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.prepare()
    manifest = json.loads((store.storage.folder / "manifest.json").read_text())
    assert manifest["versions"]["torch"] == torch.__version__
    monkeypatch.setattr("rrise.votes.manifest.torch.__version__", "0.0")
    with pytest.warns(UserWarning, match=r"started with other versions .*torch") as caught:
        store.collect(batch_size=100)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.collect()  # nothing is missing


def test_a_store_of_an_earlier_format_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_signed_json(tmp_path / "manifest.json", {"format": 1, "n": 3})
    with pytest.raises(ValueError, match=r"expected votes of format 2 in .*, got format 1"):
        read_votes(tmp_path)
    with pytest.raises(ValueError, match=r"there is no manifest\.json"):
        read_votes(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["shard-00003.parquet", "execution.json"])
def test_a_full_disk_is_a_sentence_and_finished_shards_are_kept(
    store: VoteStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write = rrise.votes.storage.write_bytes

    def full(path: Path, content: bytes) -> None:
        if path.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)

    monkeypatch.setattr("rrise.votes.storage.write_bytes", full)
    with pytest.raises(ValueError, match=f"{name} could not be written to .*: No space left on device"):
        store.collect()
    kept = sorted(path.name for path in store.storage.folder.glob("shard-*"))
    assert len(kept) == (3 if name.startswith("shard") else 0)
    monkeypatch.undo()
    store.collect()
    read_votes(store.storage.folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_missing_permission_is_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    store = VoteStore(tmp_path / "votes", build_model("small-convnet", seed=0), IMAGES, PLAN)
    with pytest.raises(ValueError, match="cannot be written to: Permission denied"):
        store.collect()


def test_a_place_that_cannot_be_written_to_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = VoteStore(tmp_path / "file" / "votes", build_model("small-convnet", seed=0), IMAGES, PLAN)
    with pytest.raises(ValueError, match="cannot be written to: Not a directory"):
        store.collect()


def test_votes_at_a_url(store: VoteStore) -> None:
    url = "memory://votes/train"
    remote = VoteStore(url, build_model("small-convnet", seed=0), IMAGES, PLAN)
    votes = remote.collect()
    np.testing.assert_array_equal(votes, store.collect())
    np.testing.assert_array_equal(read_votes(url), votes)
    remote.storage.write("shard-00001.parquet", b"rubbish")
    with pytest.raises(ValueError, match="votes in memory://votes/train are incomplete: shard-00001"):
        read_votes(url)
    again = VoteStore(url, build_model("small-convnet", seed=0), IMAGES, PLAN)
    assert again.missing() == [1]
    np.testing.assert_array_equal(again.collect(), votes)
    assert {name for name in remote.storage.names() if name.startswith(".")} == set()


def test_an_unknown_kind_of_url_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="cannot store files at nowhere://x"):
        storage_at("nowhere://x")


@pytest.mark.slow
def test_a_large_store_is_read_in_about_a_second(tmp_path: Path) -> None:
    """10^5 inputs x 200 classes x n = 10,000."""
    inputs, classes, n = 10**5, 200, 10_000
    smoothing = Smoothing("0" * 64, 0.25, (0.0, 1.0), "float32").to_json()
    manifest = {"format": 2, "smoothing": smoothing, "n": n, "seed": 0, "split": "train", "shard": SHARD}
    manifest["inputs"] = inputs
    (tmp_path / "manifest.json").write_bytes(signed_json_bytes({"manifest": manifest, "versions": {}}))
    rng = np.random.default_rng(0)
    answers = rng.geometric(0.3, (SHARD, n)).clip(1, classes).astype(np.uint8) - 1
    digests = [bytes([row] * 12) for row in range(SHARD)]
    for index in range(-(-inputs // SHARD)):
        rows = min(SHARD, inputs - index * SHARD)
        place = Place(manifest, index)
        (tmp_path / place.name).write_bytes(write_shard(place, answers[:rows], classes, digests[:rows]))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        votes = read_votes(tmp_path)
        seconds.append(time.perf_counter() - start)
    assert votes.shape == (inputs, classes)
    assert (votes.sum(axis=1) == n).all()
    assert min(seconds) < 3, seconds
