"""Threads that each compute whole batches on one core.

The threads inside an operator wait for each other at every operator, so one busy core slows all of them. The
threads of a crew share nothing but a list of batches, and the batch of one core fits into its cache.
"""

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain

import torch
from torch import nn

from rrise.models.evaluating import evaluating
from rrise.models.inspection import uncompiled
from rrise.progress import OnProgress
from rrise.votes.allocator import keep_memory

Do = Callable[[nn.Module, int], int]
"""Computes a task with a module, and returns the number of forward passes."""


class Crew:
    """A module, and copies of it for further threads: as many threads as torch has (`torch.get_num_threads`).

    The copies share all weights. They exist because the Python code of a module may keep things between two
    lines, and must not meet another thread's. A module that cannot be copied works alone, and its operators
    use all threads; so does one that its owner has compiled.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        alone = device.type != "cpu" or uncompiled(module) is not module
        copies = () if alone else _copies(module, torch.get_num_threads() - 1)
        self._members = [module, *copies]
        if device.type == "cpu":
            keep_memory()

    def __len__(self) -> int:
        return len(self._members)

    def computing(self) -> AbstractContextManager[None]:
        """Let operators use the threads that they have when the crew works: one, unless it is one module."""
        return one_thread() if len(self) > 1 else nullcontext()

    def work(self, tasks: Sequence[int], do: Do, on_progress: OnProgress | None = None) -> None:
        """Do all tasks; call `on_progress` from this thread."""
        shift = _Shift(tasks, do, on_progress)
        with self.computing():
            members = self._members[1 : len(tasks)]
            others = [threading.Thread(target=shift.serve_apart, args=[one]) for one in members]
            for other in others:
                other.start()
            try:
                shift.serve(self._members[0], report=True)
            finally:
                shift.stop()
                for other in others:
                    other.join()
        shift.finish()


def _copies(module: nn.Module, count: int) -> list[nn.Module]:
    """Return copies that share all tensors; none if the module cannot be copied."""
    copies = []
    for _ in range(count):
        shared = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
        try:
            copies.append(copy.deepcopy(module, shared))
        except Exception:  # a user's module may raise anything
            return []
    return copies


class _Shift:
    """Tasks that are being done by several threads."""

    def __init__(self, tasks: Sequence[int], do: Do, on_progress: OnProgress | None) -> None:
        self._todo, self._do, self._on_progress = deque(tasks), do, on_progress
        self._done: deque[int] = deque()
        self._errors: list[BaseException] = []

    def serve(self, module: nn.Module, *, report: bool = False) -> None:
        """Do one task after the other until none is left."""
        while self._todo:
            try:
                task = self._todo.popleft()
            except IndexError:  # another thread was faster
                return
            self._done.append(self._do(module, task))
            if report:
                self._report()

    def serve_apart(self, module: nn.Module) -> None:
        """Serve in another thread: gradients and autocast are switched off for each thread separately."""
        try:
            _use_one()
            with evaluating(module):
                self.serve(module)
        except BaseException as error:  # raised again in `finish`
            self._errors.append(error)
            self.stop()

    def stop(self) -> None:
        """Let every thread stop after its task."""
        self._todo.clear()

    def finish(self) -> None:
        """Raise what a thread raised, or report the last tasks."""
        if self._errors:
            raise self._errors[0]
        self._report()

    def _report(self) -> None:
        passes = 0
        while self._done:
            passes += self._done.popleft()
        if passes and self._on_progress is not None:
            self._on_progress(passes)


class _OneThread:
    """What `one_thread` has changed, and how many use it: several threads may vote at the same time."""

    lock = threading.Lock()
    users = 0
    before = 1


def _use_one() -> None:
    """Use one thread from this thread, whatever others restore: torch settles a number at its first use."""
    torch.set_num_threads(1)
    torch.get_num_threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the operators that this thread and new threads call use one thread each; restore the number."""
    with _OneThread.lock:
        if _OneThread.users == 0:
            _OneThread.before = torch.get_num_threads()
        _OneThread.users += 1
        _use_one()
    try:
        yield
    finally:
        with _OneThread.lock:
            _OneThread.users -= 1
            torch.set_num_threads(_OneThread.before)
