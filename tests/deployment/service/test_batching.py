"""Batches: who shares a forward pass, who waits, who is refused, and that nobody is forgotten."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.deployment.service.batching import Batcher, ClosedError, QueueFullError
from rrise.errors import InputError
from tests.made_certificates import made_certificates


def numbered(inputs: NDArray[np.float32]) -> Certificates:
    """Answer each input with its own first value, so that a mix-up is seen."""
    values = inputs.reshape(len(inputs), -1)[:, 0].astype(np.float64)
    return made_certificates(
        values.astype(np.int64), values, values, values > 0.5, inputs.reshape(len(inputs), -1)[:, :1]
    )


def inputs(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)[:, None]


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 30))


class Gate:
    """A forward pass that waits until it is let through, and remembers its batches."""

    def __init__(self, is_open: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.entered, self.let_through = threading.Event(), threading.Event()
        if is_open:
            self.let_through.set()

    def certify(self, batch: NDArray[np.float32]) -> Certificates:
        self.entered.set()
        assert self.let_through.wait(20)
        self.batches.append(batch[:, 0].astype(int).tolist())
        return numbered(batch)


async def entered(gate: Gate) -> None:
    await asyncio.to_thread(gate.entered.wait, 20)


def test_what_arrives_while_a_batch_is_computed_shares_the_next() -> None:
    async def work() -> None:
        gate = Gate()
        batcher = Batcher(gate.certify, max_batch=4, max_delay=0.0, queue=100)
        first = asyncio.create_task(batcher.certify(inputs(0)))
        await entered(gate)
        others = [
            asyncio.create_task(batcher.certify(inputs(*group))) for group in ((1, 2), (3,), (4, 5), (6,))
        ]
        await asyncio.sleep(0.05)
        assert batcher.waiting == 6
        gate.let_through.set()
        answers = await asyncio.gather(first, *others)
        assert [answer.label.tolist() for answer in answers] == [[0], [1, 2], [3], [4, 5], [6]]
        assert gate.batches == [[0], [1, 2, 3], [4, 5, 6]]
        assert batcher.waiting == 0
        await batcher.close()

    run(work)


def test_quick_inputs_that_come_alone_do_not_wait_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrise.deployment.service.batching._QUICK", 0.2)
    threads: list[tuple[int, bool]] = []
    slow, here = threading.Event(), threading.get_ident()

    def certify(batch: NDArray[np.float32]) -> Certificates:
        threads.append((len(batch), threading.get_ident() == here))
        if slow.is_set():
            time.sleep(0.25)
        return answers[len(batch)]

    async def work() -> None:
        batcher = Batcher(certify, max_batch=4, max_delay=0.0, queue=100)

        async def ask(*groups: tuple[float, ...]) -> list[bool]:
            threads.clear()
            await asyncio.gather(*(batcher.certify(inputs(*group)) for group in groups))
            return [at_once for _, at_once in threads]

        assert await ask((1,)) == [False]  # nothing is known yet
        assert await ask((2,)) == [True]
        assert await ask((3, 4)) == [False]
        assert await ask((5,)) == [False]  # several are known to be slower
        slow.set()
        assert await ask((6,)) == [True]
        assert await ask((7,)) == [False]
        slow.clear()
        await batcher.close()

    answers = {size: numbered(inputs(*range(size))) for size in (1, 2)}
    run(work)


def test_a_batch_waits_for_others_when_there_are_some_but_only_for_the_delay() -> None:
    async def work() -> None:
        loop, gate = asyncio.get_running_loop(), Gate(is_open=True)
        batcher = Batcher(gate.certify, max_batch=3, max_delay=0.5, queue=100)

        async def seconds(*groups: NDArray[np.float32]) -> float:
            start = loop.time()
            await asyncio.gather(*(batcher.certify(group) for group in groups))
            return loop.time() - start

        assert await seconds(inputs(1)) < 0.4  # nobody else was there before
        assert await seconds(inputs(1), inputs(2), inputs(3)) < 0.4  # a full batch
        assert await seconds(inputs(4)) > 0.49  # there were others just before
        assert await seconds(inputs(5)) < 0.4
        assert await seconds(inputs(6), inputs(7)) > 0.49
        assert gate.batches == [[1], [1, 2, 3], [4], [5], [6, 7]]
        await batcher.close()

    run(work)


def test_a_full_queue_refuses_at_once_and_recovers() -> None:
    async def work() -> None:
        gate = Gate()
        batcher = Batcher(gate.certify, max_batch=2, max_delay=0.0, queue=3)
        first = asyncio.create_task(batcher.certify(inputs(0)))
        await entered(gate)
        waiting = [asyncio.create_task(batcher.certify(inputs(value))) for value in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await batcher.certify(inputs(3, 4))
        last = asyncio.create_task(batcher.certify(inputs(5)))
        gate.let_through.set()
        answers = await asyncio.gather(first, *waiting, last)
        assert [int(answer.label[0]) for answer in answers] == [0, 1, 2, 5]
        assert (await batcher.certify(inputs(6, 7, 8))).label.tolist() == [6, 7, 8]
        await batcher.close()

    run(work)


def test_a_request_that_was_given_up_is_not_computed() -> None:
    async def work() -> None:
        gate = Gate()
        batcher = Batcher(gate.certify, max_batch=1, max_delay=0.0, queue=10)
        first = asyncio.create_task(batcher.certify(inputs(0)))
        await entered(gate)
        with pytest.raises(TimeoutError):
            await batcher.certify(inputs(1), timeout=0.05)
        second = asyncio.create_task(batcher.certify(inputs(2)))
        gate.let_through.set()
        await asyncio.gather(first, second)
        assert gate.batches == [[0], [2]]
        assert batcher.waiting == 0
        await batcher.close()

    run(work)


def test_a_large_request_is_computed_in_parts() -> None:
    async def work() -> None:
        gate, sizes = Gate(is_open=True), []
        batcher = Batcher(gate.certify, max_batch=4, max_delay=0.0, queue=100, on_batch=sizes.append)
        answer = await batcher.certify(inputs(*range(10)))
        assert answer.label.tolist() == list(range(10))
        assert answer.radius.tolist() == list(range(10))
        assert sizes == [4, 4, 2]
        await batcher.close()

    run(work)


def test_an_input_that_fails_fails_its_own_request_only() -> None:
    def picky(batch: NDArray[np.float32]) -> Certificates:
        if 13 in batch:
            raise InputError("not that one")
        return numbered(batch)

    async def work() -> None:
        batcher = Batcher(picky, max_batch=8, max_delay=0.05, queue=100)
        found = await asyncio.gather(
            *(batcher.certify(inputs(value)) for value in (1, 13, 2)), return_exceptions=True
        )
        assert isinstance(found[1], InputError)
        assert [int(found[place].label[0]) for place in (0, 2)] == [1, 2]  # type: ignore[union-attr]
        assert (await batcher.certify(inputs(3))).label.tolist() == [3]
        await batcher.close()

    run(work)


def test_closing_answers_what_was_accepted_and_accepts_no_more() -> None:
    async def work() -> None:
        gate = Gate()
        batcher = Batcher(gate.certify, max_batch=2, max_delay=5.0, queue=100)
        accepted = [asyncio.create_task(batcher.certify(inputs(value))) for value in range(7)]
        await entered(gate)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0.05)
        with pytest.raises(ClosedError):
            await batcher.certify(inputs(9))
        gate.let_through.set()
        answers = await asyncio.gather(*accepted)
        await closing
        assert [int(answer.label[0]) for answer in answers] == list(range(7))

    run(work)


def test_the_observer_sees_every_answer_in_order_after_it_is_out() -> None:
    async def work() -> None:
        seen: list[tuple[list[int], list[int]]] = []
        batcher = Batcher(
            numbered,
            max_batch=2,
            max_delay=0.0,
            queue=100,
            observe=lambda batch, answers: seen.append((batch[:, 0].tolist(), answers.label.tolist())),
        )
        for value in range(5):
            await batcher.certify(inputs(value))
        await batcher.close()
        assert seen == [([value], [value]) for value in range(5)]

    run(work)


def test_trials_share_batches_and_are_not_observed() -> None:
    seen: list[float] = []

    def observe(batch: NDArray[np.float32], answers: Certificates) -> None:
        assert answers.radius.tolist() == batch[:, 0].tolist()
        seen.extend(batch[:, 0].tolist())

    async def work() -> None:
        gate = Gate()
        batcher = Batcher(gate.certify, max_batch=8, max_delay=0.0, queue=100, observe=observe)
        asked = [asyncio.create_task(batcher.certify(inputs(0), observed=False))]
        await entered(gate)
        for group, observed in (((1, 2), True), ((3, 4), False), ((5,), True)):
            asked.append(asyncio.create_task(batcher.certify(inputs(*group), observed=observed)))
        await asyncio.sleep(0)
        gate.let_through.set()
        found = [(await task).radius.tolist() for task in asked]
        assert found == [[0], [1, 2], [3, 4], [5]]
        await batcher.close()
        assert gate.batches == [[0], [1, 2, 3, 4, 5]]

    run(work)
    assert seen == [1, 2, 5]
