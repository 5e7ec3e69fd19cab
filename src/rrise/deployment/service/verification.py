"""Monte Carlo certificates on demand: the base classifier votes on one input, and the bound closes in."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.sequential import Sequential
from rrise.deployment.priority import VERIFYING, step_back
from rrise.deployment.service.deployed import Answers, Deployed
from rrise.deployment.service.refusals import RefusedError
from rrise.errors import MismatchError, RriseError
from rrise.models.precision import identity_at
from rrise.statistics import anytime_lower, certified_radius, exact_level
from rrise.votes.live import LiveVotes
from rrise.votes.plan import VotePlan

DEFAULT_VOTES = 10_000
DEFAULT_ALPHA = 0.001
BATCH_SIZE = 256

T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """What is certified after so many votes, of which `agreeing` out of `counted` are for the label.

    `lower_bound` is the largest bound seen so far, valid at `alpha` whenever one stops looking.
    """

    votes: int
    counted: int
    agreeing: int
    label: int
    lower_bound: float
    radius: float


def check_base(base: nn.Module, deployed: Deployed) -> nn.Module:
    """Return the base classifier in evaluation mode; refuse one the certifier was not calibrated for."""
    numbers = deployed.guarantee.numbers
    given = identity_at(base, numbers["precision"], _typical(deployed), "base classifier")
    if given != numbers["base_classifier"]:
        raise MismatchError(
            f"this certifier was calibrated for the base classifier {numbers['base_classifier'][:12]}, not "
            f"for {given[:12]}: give the service the one it belongs to, or none"
        )
    return base.eval().requires_grad_(False)


class MonteCarlo:
    """Draws votes of the base classifier with fresh noise: nobody can choose an input to suit it.

    Guarantee: as of `Sequential`, for each input, whatever it is, with probability at most `alpha` over the
    noise.
    """

    def __init__(self, base: nn.Module, deployed: Deployed) -> None:
        self.base, self._deployed = check_base(base, deployed), deployed

    def live(self, inputs: NDArray[np.float32], n: int) -> LiveVotes:
        """Return the next `n` votes of inputs `[m, ...]`, drawn as they are asked for."""
        numbers, seed = self._deployed.guarantee.numbers, secrets.randbits(63)
        plan = VotePlan(
            numbers["sigma"], n, seed, "service", self._deployed.input_range, numbers["precision"]
        )
        return LiveVotes(self.base, inputs, plan, batch_size=min(BATCH_SIZE, n * len(inputs)))


class Fallback:
    """Answers by votes instead of the surrogate, at the certifier's own failure level."""

    def __init__(self, monte_carlo: MonteCarlo, deployed: Deployed, votes: int) -> None:
        self._monte_carlo = monte_carlo
        self._method = Sequential(votes, alpha=exact_level(deployed.guarantee.failure, "failure"))
        self.guarantee = self._certified(_typical(deployed).numpy())[0].guarantee

    def answer(self, inputs: NDArray[np.float32]) -> Answers:
        """Certify inputs by votes; the probabilities are the shares of the votes."""
        certificates, shares = self._certified(inputs)
        return Answers(
            certificates.label, certificates.radius, certificates.lower_bound, certificates.issued, shares
        )

    def _certified(self, inputs: NDArray[np.float32]) -> tuple[Certificates, NDArray[np.float32]]:
        votes = self._monte_carlo.live(inputs, self._method.n)
        certificates = self._method.certify(votes)
        return certificates, (votes.counts(0, self._method.n) / self._method.n).astype(np.float32)


class Verifier:
    """Verifies one input at a time per place; there are `places`, and each has a thread that steps back."""

    def __init__(self, monte_carlo: MonteCarlo, places: int, max_votes: int) -> None:
        self._monte_carlo = monte_carlo
        self.places, self.max_votes, self.running = places, max_votes, 0
        self._threads = ThreadPoolExecutor(
            places, "rrise-verifies", initializer=partial(step_back, VERIFYING)
        )
        self._stopping = False

    def method(self, votes: int, alpha: float) -> Sequential:
        """Return the method for a budget and a level, or refuse them with a sentence."""
        if votes > self.max_votes:
            raise RefusedError(422, f"expected at most {self.max_votes} votes, got {votes}")
        try:
            return Sequential(votes, alpha=alpha)
        except RriseError as error:
            raise RefusedError(422, str(error)) from None

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place, or refuse where all are taken."""
        if self.running >= self.places or self._stopping:
            raise RefusedError(503, "other inputs are being verified: try again in a moment", 5)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def looks(
        self, inputs: NDArray[np.float32], method: Sequential
    ) -> AsyncIterator[Look | Certificates]:
        """Yield what is certified after each step, and at the end the certificate; none when stopped.

        Stop at any look: it is a certificate by itself.
        """
        votes = await self._in_thread(partial(self._monte_carlo.live, inputs, method.n))
        label = (await self._in_thread(partial(votes.counts, 0, method.selection))).argmax(axis=1)
        alpha = float(exact_level(method.alpha, "alpha"))
        agreeing, bound, before = 0, 0.0, method.selection
        for now in method.looks:
            agreeing += int((await self._in_thread(partial(votes.agreeing, label, before, now)))[0])
            counted, before = now - method.selection, now
            bound = max(bound, float(anytime_lower(agreeing, counted, alpha)))
            radius = float(certified_radius(np.asarray(bound), votes.smoothing.sigma))
            yield Look(now, counted, agreeing, int(label[0]), bound, radius)
            if self._stopping:
                return
        yield await self._in_thread(partial(method.certify, votes))

    def stop(self) -> None:
        """Have every verification end after its next look."""
        self._stopping = True

    def close(self) -> None:
        """Wait for the threads to end."""
        self._threads.shutdown(cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _typical(deployed: Deployed) -> torch.Tensor:
    """Return one input in the middle of the range, to call a classifier once."""
    low, high = deployed.input_range or (0.0, 0.0)
    return torch.full((1, *deployed.input_shape), (low + high) / 2, dtype=torch.float32)
