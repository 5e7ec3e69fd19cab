"""How the service handles a request: decode it, certify its inputs, and write the certificates."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.certificates import DECIMALS, Certificates
from rrise.certifiers.certifier import Certifier
from rrise.certifiers.guarantee import Guarantee
from rrise.certifiers.sequential import Sequential, SequentialLook
from rrise.certifiers.voting import VotingCertifier
from rrise.deployment.monitor.settings import ABSTAIN, MONTE_CARLO, WARN
from rrise.deployment.service.alarm import Alarm
from rrise.deployment.service.batching import Batcher, ClosedError, QueueFullError
from rrise.deployment.service.client_limit import ClientLimit
from rrise.deployment.service.metrics import ServiceMetrics
from rrise.deployment.service.more_votes import MoreVotes
from rrise.deployment.service.refusals import RefusedError
from rrise.deployment.service.requests import BodyReader, Decoder
from rrise.deployment.service.settings import ServiceSettings
from rrise.deployment.service.verification import Verifier, fallback_certifier
from rrise.errors import InputError, RriseError, SettingError
from rrise.files import Json
from rrise.statistics import round_down

_WORDS = {
    WARN: "The certificates may not hold.",
    ABSTAIN: "The service abstains on every input until it is recalibrated.",
    MONTE_CARLO: "These certificates come from Monte Carlo votes instead, which hold for any input.",
}


class Service:
    """A certifier with everything needed to answer over HTTP; it works between `start` and `close`."""

    def __init__(
        self, certifier: Certifier, settings: ServiceSettings, base: nn.Module | None, alarm: Alarm
    ) -> None:
        if base is None and alarm.policy == MONTE_CARLO:
            raise SettingError("the policy monte-carlo needs the base classifier: pass it to the service")
        self.certifier, self.settings, self.alarm = certifier, settings, alarm
        self._guarantee_id = certifier.guarantee.id
        self.metrics = ServiceMetrics()
        self.bodies = BodyReader(settings.max_body, settings.max_held, settings.timeout)
        self.clients = ClientLimit(settings.client_tries, settings.client_period)
        self.decoder = Decoder(certifier.input_shape, certifier.smoothing.input_range, settings.max_inputs)
        self.verifier: Verifier | None = None
        self.more_votes: MoreVotes | None = None
        self._fallback: VotingCertifier | None = None
        if base is not None:
            self.verifier = Verifier(base, certifier, settings.verifications, settings.max_votes)
            self.more_votes = MoreVotes(base, certifier, settings.verifications)
            if alarm.policy == MONTE_CARLO:
                self._fallback = fallback_certifier(base, certifier, settings.fallback_votes)
        self._batcher: Batcher | None = None
        self._voting: Batcher | None = None
        self._add_gauges()

    def _add_gauges(self) -> None:
        gauge = self.metrics.gauge
        gauge("rrise_queue_inputs", "Inputs that wait for a forward pass.", lambda: float(self.waiting))
        gauge("rrise_held_bytes", "Bytes of requests in memory.", lambda: float(self.bodies.held))
        gauge("rrise_verifications", "Inputs being verified.", lambda: float(self.verifying))
        gauge(
            "rrise_monitor_alarm", "1 once the monitor has raised an alarm.", lambda: float(self.alarm.raised)
        )
        gauge(
            "rrise_monitor_errors",
            "Errors of the monitor since the start, such as failed writes.",
            lambda: float(self.alarm.errors),
        )

    @property
    def fallback_guarantee(self) -> Guarantee | None:
        """The guarantee after an alarm, if certificates then come from Monte Carlo."""
        return None if self._fallback is None else self._fallback.guarantee

    @property
    def waiting(self) -> int:
        """How many inputs wait for an answer."""
        return sum(batcher.waiting for batcher in (self._batcher, self._voting) if batcher is not None)

    @property
    def verifying(self) -> int:
        """How many inputs are being verified."""
        return 0 if self.verifier is None else self.verifier.running

    @property
    def ready(self) -> bool:
        """Whether the service answers."""
        return self._batcher is not None

    async def start(self) -> None:
        """Start to answer; needs a running event loop."""
        settings = self.settings
        batcher = partial(
            Batcher, max_batch=settings.max_batch, max_delay=settings.max_delay, queue=settings.queue
        )
        self._batcher = batcher(
            partial(_rounded, self.certifier),
            observe=None if self.alarm.monitor is None else self.alarm.monitor.observe,
            on_batch=self.metrics.batches.observe,
        )
        if self._fallback is not None:
            self._voting = batcher(partial(_rounded, self._fallback))

    def stop(self) -> None:
        """Stop verifications soon; called when the service is asked to stop."""
        if self.verifier is not None:
            self.verifier.stop()

    async def close(self) -> None:
        """Answer accepted requests, then stop."""
        self.stop()
        for batcher in (self._batcher, self._voting):
            if batcher is not None:
                await batcher.close()
        self._batcher = self._voting = None
        for voting in (self.verifier, self.more_votes):
            if voting is not None:
                voting.close()

    async def inputs(self, request: Request) -> NDArray[np.float32]:
        """Return the inputs of a request, or refuse it."""
        body = await self.bodies.read(request)
        try:
            return await self.decoder.decode(request.headers.get("content-type", ""), body)
        finally:
            self.bodies.release(body)

    async def certify(
        self,
        request: Request,
        *,
        with_probabilities: bool,
        observed: bool,
        votes: int | None = None,
        radius: float | None = None,
    ) -> Json:
        """Certify the inputs of a request, with votes if asked; after an alarm, apply the policy."""
        inputs = await self.inputs(request)
        self.clients.take(None if request.client is None else request.client.host, len(inputs))
        alarmed = self.alarm.raised
        found, guarantee = await self._certified(self._batcher, inputs, observed), self._guarantee_id
        own: Json | None = None
        if (votes is not None or radius is not None) and not alarmed:
            found = (await self._with_votes(inputs, votes, radius)).rounded_down()
            guarantee, own = found.guarantee.id, found.guarantee.to_json()
        elif alarmed and self._fallback is not None:
            found = await self._certified(self._voting, inputs)
            guarantee = found.guarantee.id
        elif alarmed and self.alarm.policy == ABSTAIN:
            found = found.abstained()
        issued = int(np.count_nonzero(found.issued))
        self.metrics.count_certificates(issued, len(found) - issued)
        records = found.records(self.certifier.class_names, rounded=False)
        for place, record in enumerate(records):
            record["guarantee"] = guarantee
            if with_probabilities and found.probabilities is not None:
                row = found.probabilities[place]
                known = bool(np.isfinite(row).all())
                record["probabilities"] = np.round(row.astype(float), DECIMALS).tolist() if known else None
        answer = {"certificates": records, "warning": self._warning() if alarmed else None}
        return answer if own is None else {**answer, "guarantee": own, "passes": found.passes.tolist()}

    async def _with_votes(
        self, inputs: NDArray[np.float32], votes: int | None, radius: float | None
    ) -> Certificates:
        if self.more_votes is None:
            raise RefusedError(404, "this service has no base classifier, so it cannot vote on inputs")
        if votes is not None and votes > self.settings.max_votes:
            raise RefusedError(422, f"expected at most {self.settings.max_votes} votes, got {votes}")
        return await self.more_votes.certify(inputs, votes, radius, self.settings.timeout)

    async def _certified(
        self, batcher: Batcher | None, inputs: NDArray[np.float32], observed: bool = True
    ) -> Certificates:
        try:
            if batcher is None:
                raise ClosedError
            return await batcher.certify(inputs, self.settings.timeout, observed=observed)
        except QueueFullError:
            raise RefusedError(503, "too many inputs are waiting: try again in a moment", 1) from None
        except ClosedError:
            raise RefusedError(503, "the service is shutting down: try another one", 1) from None
        except TimeoutError:
            raise RefusedError(
                504, f"no answer within {self.settings.timeout:g} seconds: try again"
            ) from None
        except InputError as error:
            raise RefusedError(422, str(error)) from None

    def _warning(self) -> str:
        return (
            "The monitor has raised an alarm: inputs no longer look like the calibration inputs. The "
            f"guarantee assumes that they do. {_WORDS[self.alarm.policy]}"
        )

    async def verification(self, request: Request, votes: int, failure: float) -> AsyncIterator[str]:
        """Return the events of a Monte Carlo verification of the one input of a request."""
        if self.verifier is None:
            raise RefusedError(
                404, "this service has no base classifier, so it cannot verify with Monte Carlo"
            )
        method = self.verifier.method(votes, failure)
        inputs = await self.inputs(request)
        if len(inputs) != 1:
            raise RefusedError(422, f"expected one input to verify, got {len(inputs)}")
        self.clients.take(None if request.client is None else request.client.host, 1)
        events = self._events(self.verifier, inputs, method)
        return _from_first(await anext(events), events)

    async def _events(
        self, verifier: Verifier, inputs: NDArray[np.float32], method: Sequential
    ) -> AsyncGenerator[str, None]:
        with verifier.place():
            yield _event(
                "start", {"budget": method.n, "selection": method.selection, "failure": str(method.failure)}
            )
            try:
                async for found in verifier.looks(inputs, method):
                    if isinstance(found, SequentialLook):
                        yield _event("look", self._look(found))
                    else:
                        yield _event("certificate", self._certificate(found))
                        return
                yield _event("stopped", {"error": "the service is shutting down; the last look is certified"})
            except RriseError as error:
                yield _event("error", {"error": str(error)})

    def _look(self, look: SequentialLook) -> Json:
        """Return the certificate of one input at a look, with numbers rounded down."""
        label, bound = int(look.label[0]), look.lower_bound[0]
        return {
            "votes": look.votes,
            "counted": look.counted,
            "agreeing": int(look.agreeing[0]),
            "label": label,
            "class_name": self.certifier.class_names[label],
            "lower_bound": float(round_down(bound, DECIMALS)),
            "radius": float(round_down(self.certifier.smoothing.noise.radius(bound), DECIMALS)),
            "issued": bool(bound > 0.5),
        }

    def _certificate(self, certificates: Certificates) -> Json:
        (record,) = certificates.records(self.certifier.class_names)
        return {
            **record,
            "votes": int(certificates.passes[0]),
            "guarantee": certificates.guarantee.to_json(),
        }


def _rounded(certifier: Certifier, inputs: NDArray[np.float32]) -> Certificates:
    """Certify a batch, with radii and bounds rounded down to the written digits."""
    return certifier.certify(inputs).rounded_down()


def _event(name: str, data: Json) -> str:
    """Write a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


async def _from_first(first: str, events: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    """Yield an event that was already taken, then the others; always close them."""
    async with aclosing(events):
        yield first
        async for event in events:
            yield event
