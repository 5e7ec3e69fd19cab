"""Micro-batching: inputs that arrive together share a forward pass."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates

Inputs = NDArray[np.float32]
Certify = Callable[[Inputs], Certificates]
Observe = Callable[[Inputs, Certificates], object]


_QUICK = 0.0005
"""Seconds within which one input is certified at once: to hand it to the thread would take as long."""


class QueueFullError(Exception):
    """The queue is full; the request was not accepted."""


class ClosedError(Exception):
    """The batcher is closing and accepts no more requests."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    inputs: Inputs
    answered: "asyncio.Future[Certificates]"
    observed: bool


def _give_up(answered: "asyncio.Future[Certificates]") -> None:
    if not answered.done():
        answered.set_exception(TimeoutError())


class Batcher:
    """Collects inputs of many requests; one thread answers them batch by batch.

    A batch starts when `max_batch` inputs wait, or `max_delay` seconds after the thread is free and the first
    input has arrived. While requests come one at a time, it starts at once. If the last of them took less
    than half a millisecond, the next one does not even wait for the thread. A batch holds whole requests in
    order of arrival. A request with more than `max_batch` inputs is computed in parts. At most `queue` inputs
    wait; a request beyond that is refused at once.
    An input that fails the forward pass fails only its own request. `observe` is called in the same thread,
    after the answers are sent; it must not raise.
    """

    def __init__(
        self,
        certify: Certify,
        *,
        max_batch: int,
        max_delay: float,
        queue: int,
        observe: Observe | None = None,
        on_batch: Callable[[int], object] | None = None,
    ) -> None:
        self._certify, self._observe, self._on_batch = certify, observe, on_batch
        self._max_batch, self._max_delay, self._queue = max_batch, max_delay, queue
        self._pending: deque[_Waiting] = deque()
        self._changed = asyncio.Event()
        self._enough: asyncio.Future[None] | None = None
        self._closing = False
        self._last, self._quick = 1, False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rrise-batches")
        self.waiting = 0
        """How many inputs wait for their batch to start."""
        self._loop_task = asyncio.get_running_loop().create_task(self._run())

    async def certify(
        self, inputs: Inputs, timeout: float | None = None, *, observed: bool = True
    ) -> Certificates:
        """Return the certificates of inputs `[n, ...]`, or raise `TimeoutError` after `timeout` seconds.

        With `observed=False`, `observe` is not called for them.
        """
        if self._closing:
            raise ClosedError
        if self.waiting + len(inputs) > self._queue:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        item = _Waiting(inputs, loop.create_future(), observed)
        self._pending.append(item)
        self.waiting += len(inputs)
        self._changed.set()
        if self.waiting >= self._max_batch:
            self._stop_waiting()
        timer = None if timeout is None else loop.call_later(timeout, _give_up, item.answered)
        try:
            return await item.answered
        finally:
            if timer is not None:
                timer.cancel()

    async def close(self) -> None:
        """Accept no more requests, answer those accepted, then stop."""
        self._closing = True
        self._changed.set()
        self._stop_waiting()
        await self._loop_task
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            if not self._pending:
                if self._closing:
                    return
                self._changed.clear()
                continue
            await self._until_enough()
            await self._compute(self._take())

    async def _until_enough(self) -> None:
        """Wait for a full batch, but no longer than the delay.

        If the last batch held one request and only one waits now, no other request is expected.
        """
        alone = self._last == 1 and len(self._pending) == 1
        if alone or self.waiting >= self._max_batch or self._closing or not self._max_delay:
            return
        loop = asyncio.get_running_loop()
        self._enough = loop.create_future()
        timer = loop.call_later(self._max_delay, self._stop_waiting)
        await self._enough
        timer.cancel()

    def _stop_waiting(self) -> None:
        if self._enough is not None and not self._enough.done():
            self._enough.set_result(None)

    def _take(self) -> list[_Waiting]:
        """Take whole requests for a batch, at least one; drop those that were cancelled."""
        taken: list[_Waiting] = []
        size = 0
        while self._pending and (not taken or size + len(self._pending[0].inputs) <= self._max_batch):
            item = self._pending.popleft()
            self.waiting -= len(item.inputs)
            if not item.answered.done():
                taken.append(item)
                size += len(item.inputs)
        return taken

    async def _compute(self, items: list[_Waiting]) -> None:
        if not items:
            return
        self._last = len(items)
        loop = asyncio.get_running_loop()
        try:
            if self._quick and len(items) == 1 and len(items[0].inputs) == 1:
                inputs, certificates = self._certify_all(items)
            else:
                inputs, certificates = await loop.run_in_executor(self._thread, self._certify_all, items)
        except Exception as error:
            if len(items) > 1:
                for item in items:
                    await self._compute([item])
            elif not items[0].answered.done():
                items[0].answered.set_exception(error)
            return
        first = 0
        for item in items:
            end = first + len(item.inputs)
            if not item.answered.done():
                item.answered.set_result(certificates if len(items) == 1 else certificates[first:end])
            first = end
        if self._observe is not None and any(item.observed for item in items):
            seen = np.repeat([item.observed for item in items], [len(item.inputs) for item in items])
            if not seen.all():
                inputs, certificates = inputs[seen], certificates[seen]
            self._thread.submit(self._observe, inputs, certificates)

    def _certify_all(self, items: list[_Waiting]) -> tuple[Inputs, Certificates]:
        start = time.perf_counter()
        inputs = items[0].inputs if len(items) == 1 else np.concatenate([item.inputs for item in items])
        parts = []
        for first in range(0, len(inputs), self._max_batch):
            part = inputs[first : first + self._max_batch]
            if self._on_batch is not None:
                self._on_batch(len(part))
            parts.append(self._certify(part))
        self._quick = len(inputs) == 1 and time.perf_counter() - start < _QUICK
        return inputs, Certificates.joined(parts)
