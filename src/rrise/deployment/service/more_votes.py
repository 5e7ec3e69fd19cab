"""Certificates with votes: requests that ask for query votes, or for a wanted radius."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier
from rrise.deployment.loading import with_base
from rrise.deployment.priority import VERIFYING, step_back
from rrise.deployment.service.refusals import RefusedError
from rrise.errors import RriseError

_KEPT = 16
"""Certifiers that are kept, one for each number of votes and radius."""


class MoreVotes:
    """Answers requests that want votes of the base classifier, a few at a time, at low priority.

    The promise is that of `SurrogateWithVotes` or `Cascade`; the noise is fresh for each request.
    """

    def __init__(self, base: nn.Module, certifier: Certifier, places: int) -> None:
        self.places, self.running = places, 0
        self._certifier = lru_cache(_KEPT)(partial(_certifier, certifier, base))
        self._threads = ThreadPoolExecutor(places, "rrise-votes", initializer=partial(step_back, VERIFYING))

    async def certify(
        self, inputs: NDArray[np.float32], votes: int | None, radius: float | None, timeout: float
    ) -> Certificates:
        """Certify inputs with query votes, and with Monte Carlo below a wanted radius."""
        if self.running >= self.places:
            raise RefusedError(503, "other inputs are being voted on: try again in a moment", 5)
        self.running += 1
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self._certifier(votes, radius).certify(inputs)
        )
        work.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(work), timeout)
        except TimeoutError:
            raise RefusedError(504, f"no answer within {timeout:g} seconds: ask for fewer votes") from None
        except RriseError as error:
            raise RefusedError(422, str(error)) from None

    def _done(self, work: "asyncio.Future[Certificates]") -> None:
        self.running -= 1
        if not work.cancelled():
            work.exception()  # noted: a late error has nobody to go to

    def close(self) -> None:
        """Wait for the threads to end."""
        self._threads.shutdown(cancel_futures=True)


def _certifier(certifier: Certifier, base: nn.Module, votes: int | None, radius: float | None) -> Certifier:
    return with_base(certifier, base, votes=votes, radius=radius)
