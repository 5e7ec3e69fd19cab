"""The votes of a run: collected once, and kept whatever number of them is wanted."""

import errno
import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import rrise
from rrise.models.catalogue import build_model
from rrise.runs.journal import read_journal
from rrise.runs.recipe import read_recipe
from rrise.runs.run import Run
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.reading import read_votes
from rrise.votes.store import VoteStore

INPUTS = 100


class OnCuda(VoteEngine):
    """An engine that says it computes on a GPU."""

    device_type = "cuda"


@pytest.fixture
def base() -> nn.Module:
    return build_model("small-convnet", seed=0)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    console = Console(file=io.StringIO(), width=400)
    return Run(tmp_path, read_recipe("digits", "quick"), console, device=torch.device("cpu"))


@pytest.fixture
def folder(run: Run) -> Path:
    return run.folder / "votes" / "test"


def said(run: Run) -> str:
    return run.console.file.getvalue()  # type: ignore[attr-defined]


def expected(run: Run, base: nn.Module, n: int) -> np.ndarray:
    images = torch.cat([run.data.inputs("test").shard(index) for index in range(2)])
    assert len(images) == INPUTS
    return rrise.collect_votes(base, images, sigma=0.25, n=n, seed=100, split="test")


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def passes(run: Run) -> list[int]:
    return [entry["passes"] for entry in read_journal(run.folder)]


def collect_on_cuda(run: Run, base: nn.Module, n: int) -> None:
    inputs, plan = run.data.inputs("test"), run.plan("test", n)
    store = VoteStore(run.folder / "votes" / "test", base, inputs, plan, device="cuda")
    store.collect(backend=OnCuda(base, plan, store.sample, Execution(256)))


def test_for_more_only_the_rest_is_computed(run: Run, base: nn.Module, folder: Path) -> None:
    run.votes("test", base, 20)
    np.testing.assert_array_equal(run.votes("test", base, 50), expected(run, base, 50))
    assert passes(run) == [20 * INPUTS, 30 * INPUTS]
    (folder / "shard-00000.parquet").unlink()
    np.testing.assert_array_equal(run.votes("test", base, 60), expected(run, base, 60))
    assert passes(run)[2:] == [64 * 60 + (INPUTS - 64) * 10]
    assert "again" not in said(run)
    run.votes("test", base, 60)
    assert "votes/test: up to date" in said(run)


def test_for_fewer_the_first_are_read_and_all_are_kept(run: Run, base: nn.Module, folder: Path) -> None:
    run.votes("test", base, 50)
    kept = stamps(folder)
    np.testing.assert_array_equal(run.votes("test", base, 20), expected(run, base, 20))
    assert "votes/test: the first 20 of 50 stored votes" in said(run)
    assert stamps(folder) == kept
    assert passes(run) == [50 * INPUTS]


def test_for_fewer_of_an_unfinished_collection_no_more_than_these_are_computed(
    run: Run, base: nn.Module, folder: Path
) -> None:
    run.votes("test", base, 50)
    (folder / "shard-00001.parquet").unlink()
    kept = (folder / "shard-00000.parquet").stat().st_mtime_ns
    np.testing.assert_array_equal(run.votes("test", base, 20), expected(run, base, 20))
    assert passes(run) == [50 * INPUTS, 20 * (INPUTS - 64)]
    assert (folder / "shard-00000.parquet").stat().st_mtime_ns == kept
    np.testing.assert_array_equal(read_votes(folder, n=20), expected(run, base, 20))


def test_finished_votes_of_another_device_are_used(run: Run, base: nn.Module, folder: Path) -> None:
    collect_on_cuda(run, base, 50)
    kept = stamps(folder)
    for n in (50, 20):
        np.testing.assert_array_equal(run.votes("test", base, n), expected(run, base, n))
    assert said(run).count("votes/test: up to date, collected on cuda") == 2
    assert said(run).count("the first 20 of 50") == 1
    assert stamps(folder) == kept
    assert passes(run) == []


@pytest.mark.parametrize("why", ["a shard is missing", "more are wanted"])
def test_unfinished_votes_of_another_device_are_neither_continued_nor_removed(
    run: Run, base: nn.Module, folder: Path, why: str
) -> None:
    collect_on_cuda(run, base, 50)
    if why == "a shard is missing":
        (folder / "shard-00001.parquet").unlink()
    kept = stamps(folder)
    refused = r"are unfinished and were begun on cuda; cpu rounds differently: resume on cuda"
    with pytest.raises(ValueError, match=refused):
        run.votes("test", base, 60 if why == "more are wanted" else 50)
    assert stamps(folder) == kept
    assert passes(run) == []


def test_other_votes_are_collected_again(run: Run, base: nn.Module, folder: Path) -> None:
    collect_on_cuda(run, build_model("small-convnet", seed=1), 20)
    np.testing.assert_array_equal(run.votes("test", base, 30), expected(run, base, 30))
    assert "votes/test: collecting again, because the votes in" in said(run)
    assert " have base = " in said(run)
    (folder / "manifest.json").write_text("{")
    np.testing.assert_array_equal(run.votes("test", base, 30), expected(run, base, 30))
    assert said(run).count("collecting again") == 2


def test_a_full_disk_costs_no_votes(
    run: Run, base: nn.Module, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    run.votes("test", base, 20)
    kept = stamps(folder)
    with monkeypatch.context() as later:
        later.setattr("rrise.votes.storage.write_bytes", full)
        with pytest.raises(ValueError, match="No space left on device"):
            run.votes("test", base, 50)
    assert stamps(folder) == kept
    np.testing.assert_array_equal(run.votes("test", base, 50), expected(run, base, 50))
