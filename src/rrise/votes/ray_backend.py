"""Votes computed by the workers of a Ray cluster (extra `rrise[ray]`); each holds the base classifier.

Workers compute and the calling process writes the store, so workers need no access to it. Ray restarts a
worker that dies, and its shard is computed again. Noise depends on the shard, not on the worker.
"""

import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from rrise.errors import MismatchError, RriseError, WorkerError
from rrise.models.precision import own_copy
from rrise.progress import OnProgress
from rrise.votes.cluster import Cluster, connected, workers_in
from rrise.votes.engine import Answers, Execution, VoteEngine
from rrise.votes.inputs import ShardInputs
from rrise.votes.plan import VotePlan
from rrise.votes.store import VoteStore
from rrise.votes.tuning import choose_execution

_AHEAD = 2
"""Shards in flight to each worker, so it never waits for the next one."""
_RETRIES = 3
"""How often a shard is retried after its worker died."""


@contextmanager
def ray_backend(store: VoteStore, cluster: Cluster, **wishes: Any) -> Iterator["RayBackend"]:
    """Connect to the cluster and yield the back end for `store.collect(backend=…)`.

    `wishes` (batch_size, compiled, freezing) set how to compute, as in `store.execution`.
    """
    if cluster.device != store.manifest["device"]:
        raise MismatchError(
            f"the store expects votes from {store.manifest['device']}, but these workers compute on "
            f"{cluster.device}: create the store with device={cluster.device!r}"
        )
    store.prepare()
    with connected(cluster) as ray:
        yield RayBackend(store, cluster, wishes, ray)


class RayBackend:
    """Ray actors that vote on shards; created by `ray_backend`."""

    def __init__(self, store: VoteStore, cluster: Cluster, wishes: dict[str, Any], ray: Any) -> None:
        self.smoothing = store.plan.smoothing(store.base, store.sample)
        self._ray = ray
        workers = workers_in(ray, cluster)
        resources = {"num_cpus": cluster.cpus_per_worker, "num_gpus": cluster.gpus_per_worker}
        base = ray.put(own_copy(store.base).cpu())
        setting = (base, store.plan, ray.put(store.sample), cluster.device)
        choose = ray.remote(max_retries=_RETRIES, **resources)(_choose)

        def find(wishes: dict[str, Any]) -> Execution:
            found: Execution = self._get(choose.remote(*setting, inputs=len(store.inputs), **wishes))
            return found

        execution = store.execution(find, **wishes)
        actor = ray.remote(max_restarts=_RETRIES, max_task_retries=_RETRIES, **resources)(_Worker)
        self._actors = [actor.remote(*setting, execution) for _ in range(workers)]
        self.plan, self.device_type = store.plan, cluster.device
        if execution.compiled and not self._get(self._actors[0].state.remote())["compiled"]:
            warnings.warn(
                "the base classifier does not compile on the workers: votes are collected in eager mode",
                RuntimeWarning,
                stacklevel=5,
            )

    def answers(
        self, shards: Iterable[ShardInputs], on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Answers]]:
        """Yield the answers of shards as workers finish them."""
        waiting = iter(shards)
        free = deque(self._actors * _AHEAD)
        busy: dict[Any, Any] = {}
        while True:
            while free and (shard := next(waiting, None)) is not None:
                actor = free.popleft()
                busy[actor.vote.remote(shard)] = actor
            if not busy:
                return
            for done in self._ray.wait(list(busy))[0]:
                free.append(busy.pop(done))
                index, answers = self._get(done)
                if on_progress is not None:
                    on_progress(answers.size)
                yield index, answers

    def _get(self, reference: Any) -> Any:
        """Return a result; re-raise a worker's error here."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, RriseError):
                raise error.cause from None
            raise WorkerError(f"a worker failed: {type(error.cause).__name__}: {error.cause}") from error
        except self._ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())
            raise WorkerError(
                f"workers died more than {_RETRIES} times ({reason}); finished shards are kept: run the same "
                f"command again to resume"
            ) from error


class _Worker:
    """The engine in its own process."""

    def __init__(
        self, base: nn.Module, plan: VotePlan, sample: torch.Tensor, device: str, execution: Execution
    ) -> None:
        self.engine = VoteEngine(base.to(device), plan, sample, execution)

    def state(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "compiled": self.engine.compiled}

    def vote(self, shard: ShardInputs) -> tuple[int, Answers]:
        return next(self.engine.answers([shard]))


def _choose(base: nn.Module, plan: VotePlan, sample: torch.Tensor, device: str, **wishes: Any) -> Execution:
    return choose_execution(base.to(device), plan, sample, **wishes)
