"""Threads that each compute whole batches: the same votes, errors that arrive, nothing left behind."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.errors import InputError
from rrise.votes.crew import Crew, one_thread
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardInputs
from rrise.votes.plan import SHARD, VotePlan
from tests.closed_forms import Fan

CPU = torch.device("cpu")
POINTS = torch.rand(SHARD, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


def meeting(count: int) -> threading.Barrier:
    """Return where this many threads must be at the same time; otherwise they raise after ten seconds."""
    return threading.Barrier(count, timeout=10)


def test_threads_work_at_the_same_time_each_with_its_own_module() -> None:
    barrier, met = meeting(4), []

    def do(module: nn.Module, task: int) -> int:
        met.append((id(module), threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()))
        barrier.wait()
        return task

    passes: list[int] = []
    with torch.no_grad():
        Crew(nn.Linear(2, 2), CPU).work(range(8), do, passes.append)
    assert sum(passes) == sum(range(8))
    assert len(met) == 8
    assert len({module for module, *_ in met}) == len({thread for _, thread, *_ in met}) == 4
    assert {(threads, gradients) for *_, threads, gradients in met} == {(1, False)}


def test_copies_share_weights_and_buffers() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    barrier, found = meeting(4), []

    def do(one: nn.Module, _: int) -> int:
        found.append({id(tensor) for tensor in [*one.parameters(), *one.buffers()]})
        barrier.wait()
        return 1

    Crew(module, CPU).work(range(4), do)
    assert all(ids == found[0] for ids in found)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_votes_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    votes = rrise.collect_votes(Fan(5), POINTS, sigma=0.3, n=300, seed=3, batch_size=128, compiled=False)
    torch.set_num_threads(1)
    alone = rrise.collect_votes(Fan(5), POINTS, sigma=0.3, n=300, seed=3, batch_size=19_200, compiled=False)
    torch.set_num_threads(4)
    np.testing.assert_array_equal(votes, alone)


class Remembering(nn.Module):
    """A classifier that keeps its inputs between two lines, and waits there for another thread."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self.barrier = [barrier]

    def __deepcopy__(self, memo: dict[int, object]) -> "Remembering":
        return Remembering(*self.barrier)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.kept = inputs
        if len(inputs) == 64:  # a batch of votes, not a check
            self.barrier[0].wait()
        return self.kept


def test_a_module_with_a_memory_meets_no_other_thread() -> None:
    plan = VotePlan(0.3, 64, 0)
    engine = VoteEngine(Remembering(meeting(4)), plan, POINTS, Execution(64))
    ((_, answers),) = engine.answers([ShardInputs(0, POINTS, "")])
    plain = VoteEngine(nn.Identity(), plan, POINTS, Execution(64))
    ((_, expected),) = plain.answers([ShardInputs(0, POINTS, "")])
    np.testing.assert_array_equal(answers, expected)


class Locked(nn.Identity):
    """A classifier that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_a_module_that_cannot_be_copied_works_alone() -> None:
    module, seen = Locked(), []

    def do(one: nn.Module, _: int) -> int:
        seen.append((one, threading.current_thread()))
        return 1

    Crew(module, CPU).work(range(6), do)
    assert seen == [(module, threading.main_thread())] * 6


@pytest.mark.parametrize("apart", [True, False])
def test_an_error_in_any_thread_stops_all_and_arrives(apart: bool) -> None:
    done: list[int] = []
    barrier = meeting(4)

    def do(_: nn.Module, task: int) -> int:
        if task < 4:
            barrier.wait()
        if task < 4 and (threading.current_thread() is not threading.main_thread()) == apart:
            raise KeyError("a class")
        done.append(task)
        return 1

    before = threading.active_count()
    with pytest.raises(KeyError, match="a class"):
        Crew(nn.Identity(), CPU).work(range(10_000), do)
    assert len(done) < 10_000
    assert threading.active_count() == before


def test_an_error_of_the_base_in_a_thread_is_the_error_of_the_collection() -> None:
    class Weary(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("no more")
            return super().forward(inputs)

    with pytest.raises(InputError, match="no more"):
        rrise.collect_votes(Weary(2, 2), POINTS, sigma=0.3, n=2000, batch_size=64, compiled=False)


def test_progress_is_told_by_the_calling_thread_and_is_complete() -> None:
    told: list[tuple[int, threading.Thread]] = []
    rrise.collect_votes(
        Fan(5),
        POINTS,
        sigma=0.3,
        n=200,
        batch_size=64,
        on_progress=lambda passes: told.append((passes, threading.current_thread())),
    )
    assert sum(passes for passes, _ in told) == len(POINTS) * 200
    assert {thread for _, thread in told} == {threading.main_thread()}


def test_one_thread_restores_the_number_after_an_error() -> None:
    def fail() -> None:
        with one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 4


def test_crews_of_several_threads_restore_the_number_together() -> None:
    """The first to begin is the first to end: what it restores must not be what the second began with."""
    begun, ended = threading.Event(), threading.Event()
    after: list[int] = []

    def first() -> None:
        with one_thread():
            begun.set()
            ended.wait(10)
        after.append(torch.get_num_threads())

    def second() -> None:
        begun.wait(10)
        with one_thread():
            ended.set()
            threads[0].join()
            assert torch.get_num_threads() == 1
        after.append(torch.get_num_threads())

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert after == [4, 4]
