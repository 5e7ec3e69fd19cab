"""Monte Carlo certificates on demand: the base classifier votes on one input, and the bound tightens."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier
from rrise.certifiers.sequential import Sequential, SequentialLook
from rrise.certifiers.voting import VotingCertifier
from rrise.deployment.priority import VERIFYING, step_back
from rrise.deployment.service.refusals import RefusedError
from rrise.errors import RriseError, SettingError

DEFAULT_VOTES = 10_000
DEFAULT_FAILURE = 0.001
BATCH_SIZE = 256

T = TypeVar("T")


def fallback_certifier(base: nn.Module, certifier: Certifier, votes: int) -> VotingCertifier:
    """Return the Monte Carlo certifier used after an alarm, at the certifier's own failure."""
    failure = certifier.guarantee.failure
    if failure is None:
        raise SettingError(
            "this certifier promises nothing: it has no failure for the fallback; choose another policy"
        )
    return Sequential(votes, failure=failure).bind_like(base, certifier, batch_size=BATCH_SIZE)


class Verifier:
    """Verifies up to `places` inputs at a time, each in a low-priority thread.

    Guarantee: that of `Sequential`. For each input, whatever it is, the probability over the noise of a wrong
    certificate is at most `failure`. The noise is fresh for each verification: nobody can choose an input to
    suit it.
    """

    def __init__(self, base: nn.Module, certifier: Certifier, places: int, max_votes: int) -> None:
        self._voting = Sequential(DEFAULT_VOTES).bind_like(base, certifier, batch_size=BATCH_SIZE)
        self.places, self.max_votes, self.running = places, max_votes, 0
        self._threads = ThreadPoolExecutor(
            places, "rrise-verifies", initializer=partial(step_back, VERIFYING)
        )
        self._stopping = False

    def method(self, votes: int, failure: float) -> Sequential:
        """Return the method for a budget and a failure, or refuse the request."""
        if votes > self.max_votes:
            raise RefusedError(422, f"expected at most {self.max_votes} votes, got {votes}")
        try:
            return Sequential(votes, failure=failure)
        except RriseError as error:
            raise RefusedError(422, str(error)) from None

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place, or refuse if all are taken."""
        if self.running >= self.places or self._stopping:
            raise RefusedError(503, "other inputs are being verified: try again in a moment", 5)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def looks(
        self, inputs: NDArray[np.float32], method: Sequential
    ) -> AsyncIterator[SequentialLook | Certificates]:
        """Yield what is certified at each look, then the final certificate, unless stopped.

        Stopping is valid at any look: each look is a certificate by itself.
        """
        votes = await self._in_thread(partial(self._voting.using(method).live, inputs))
        looks = method.look_by_look(votes)
        last: SequentialLook | None = None
        while (look := await self._in_thread(partial(next, looks, None))) is not None:
            last = look
            yield look
            if self._stopping:
                return
        if last is not None:
            yield method.certificates_at(last, votes.smoothing)

    def stop(self) -> None:
        """Stop every verification after its next look."""
        self._stopping = True

    def close(self) -> None:
        """Wait for the threads to end."""
        self._threads.shutdown(cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
