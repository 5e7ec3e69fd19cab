"""The service: certificates over HTTP, in batches, within limits."""

import json
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from torch import nn

from rrise._version import __version__
from rrise.certifiers.certifier import Certifier
from rrise.deployment.service.alarm import Alarm, QueryMonitor
from rrise.deployment.service.checks import check_parts
from rrise.deployment.service.documents import (
    CertifyResponse,
    card,
    input_body,
    problems,
    project_url,
)
from rrise.deployment.service.guard import Guard
from rrise.deployment.service.metrics import CONTENT_TYPE
from rrise.deployment.service.page_files import PAGE, add_page
from rrise.deployment.service.refusals import RefusedError
from rrise.deployment.service.requests import TYPES
from rrise.deployment.service.samples import Sample
from rrise.deployment.service.service import Service
from rrise.deployment.service.settings import ServiceSettings
from rrise.deployment.service.verification import DEFAULT_FAILURE, DEFAULT_VOTES
from rrise.errors import did_you_mean
from rrise.files import Json

HEALTH = ("/healthz", "/readyz")
COMMON = (400, 401, 408, 413, 415, 422, 503)

PROBABILITIES = {
    "name": "probabilities",
    "in": "query",
    "description": "Add the surrogate's class distribution.",
    "schema": {"type": "boolean", "default": False},
}
TRIAL = {
    "name": "trial",
    "in": "query",
    "description": "Hide this request from the monitor: for probes and trials, which are not real queries.",
    "schema": {"type": "boolean", "default": False},
}
VOTES = {
    "name": "votes",
    "in": "query",
    "description": "Add so many votes of the base classifier to each input, for larger radii.",
    "schema": {"type": "integer", "minimum": 1},
}
RADIUS = {
    "name": "radius",
    "in": "query",
    "description": "A wanted radius: inputs that do not reach it are certified by Monte Carlo.",
    "schema": {"type": "number", "exclusiveMinimum": 0},
}
Votes = Annotated[int, Query(description="The most votes to draw; stop earlier by closing the connection.")]
Failure = Annotated[float, Query(description="Allowed probability of a wrong certificate.")]


def create_app(
    certifier: Certifier,
    *,
    settings: ServiceSettings | None = None,
    base: nn.Module | None = None,
    monitor: QueryMonitor | None = None,
    samples: Mapping[str, Sample] | None = None,
) -> FastAPI:
    """Return the application that certifies inputs over HTTP.

    Args:
        certifier: any certifier, such as `load_deployed` returns.
        settings: limits of the service.
        base: the certifier's base classifier; it allows users to verify inputs by Monte Carlo.
        monitor: a monitor that observes every answer.
        samples: samples for the page, by name.

    Returns:
        An ASGI application, for any ASGI server.

    Raises:
        InputError: `certifier` is no certifier, such as the name of its folder.
        MismatchError: `base` is not the certifier's base classifier.
        SettingError: the monitor's policy needs a base classifier, but `base` is None.

    Example:
        app = rrise.create_app(rrise.load_deployed("runs/digits/certifier"))
    """
    check_parts(certifier, settings, monitor, samples)
    settings = settings or ServiceSettings()
    service = Service(certifier, settings, base, Alarm(monitor))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="RRISE",
        version=__version__,
        description="Certified robustness radii from one forward pass.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_answers(app, service)
    _add_card(app, service, samples or {})
    _add_health(app, service)
    add_page(app)
    _add_refusals(app)
    app.add_middleware(
        Guard,
        token=settings.token,
        metrics=service.metrics,
        paths=[path for path in (getattr(route, "path", "") for route in app.routes) if "{" not in path],
        public=[*PAGE, *HEALTH],
    )
    return app


def _add_answers(app: FastAPI, service: Service) -> None:
    certifier = service.certifier

    async def certify(request: Request) -> Response:
        """Send an image, the bytes of a .npy file, a JSON array, or a form with one or more files."""
        query = _query(request, "probabilities", "trial", "votes", "radius")
        answer = await service.certify(
            request,
            with_probabilities=_asked(query, "probabilities"),
            observed=not _asked(query, "trial"),
            votes=_number(query, "votes", int),
            radius=_number(query, "radius", float),
        )
        return _Answer(answer)

    app.router.add_api_route(
        "/v1/certify",
        certify,
        methods=["POST"],
        route_class_override=_Direct,
        response_model=CertifyResponse,
        responses=problems(*COMMON, 404, 429, 504),
        openapi_extra={
            **input_body(certifier, many=True),
            "parameters": [PROBABILITIES, TRIAL, VOTES, RADIUS],
        },
        summary="Certify one or many inputs.",
    )

    @app.post(
        "/v1/verify",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."},
            **problems(*COMMON, 404),
        },
        openapi_extra=input_body(certifier, many=False),
        summary="Verify one input with Monte Carlo.",
    )
    async def verify(
        request: Request, votes: Votes = DEFAULT_VOTES, failure: Failure = DEFAULT_FAILURE
    ) -> Response:
        """Votes of the base classifier with an anytime-valid bound.

        Events: `start`, then a `look` after each step with what is certified so far, then `certificate`.
        """
        _query(request, "votes", "failure")
        events = await service.verification(request, votes, failure)
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


class _Direct(APIRoute):
    """A route whose function takes the request alone: FastAPI has nothing to look up for it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function itself."""
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


class _Answer(JSONResponse):
    """JSON by one encoder: to make an encoder takes longer than to write a few certificates."""

    _encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def render(self, content: Any) -> bytes:
        """Return the JSON, as FastAPI would write it."""
        return self._encoder.encode(content).encode()


def _query(request: Request, *known: str) -> Mapping[str, str]:
    """Return the query parameters; refuse unknown ones: a misspelt name would silently be the default."""
    if not request.scope.get("query_string"):
        return {}
    for name in request.query_params:
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {' and '.join(known)}"
            raise RefusedError(422, f"expected no query parameter {name[:40]!r}{hint}")
    return request.query_params


def _asked(query: Mapping[str, str], name: str) -> bool:
    wanted = query.get(name, "false")
    if wanted not in ("true", "false"):
        raise RefusedError(422, f"expected {name} to be true or false, got {wanted[:20]!r}")
    return wanted == "true"


def _number(query: Mapping[str, str], name: str, kind: type[int] | type[float]) -> Any:
    """Return a positive number among the query parameters, or None."""
    text = query.get(name)
    if text is None:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = kind(0)
    if not 0 < value < math.inf:
        raise RefusedError(422, f"expected {name} to be a positive number, got {text[:20]!r}")
    return value


def _add_card(app: FastAPI, service: Service, samples: Mapping[str, Sample]) -> None:
    settings, verifier, after = service.settings, service.verifier, service.fallback_guarantee
    answer = card(
        service.certifier,
        content_types=list(TYPES),
        limits={
            "inputs": settings.max_inputs,
            "bytes": settings.max_body,
            "seconds": settings.timeout,
            "certificates_per_client": settings.client_tries,
            "client_period": settings.client_period,
        },
        verification=None if verifier is None else {"votes": DEFAULT_VOTES, "max_votes": verifier.max_votes},
        monitor=service.alarm.monitor is not None,
        on_alarm=service.alarm.policy,
        guarantee_after_alarm=None if after is None else after.to_json(),
        samples=list(samples),
        version=__version__,
        project=project_url(),
    )

    @app.get("/v1/certifier", responses=problems(401), summary="What is promised, and for what inputs.")
    async def certifier() -> Json:
        """Guarantee, classes, input shape and range, limits."""
        return answer

    @app.get(
        "/v1/samples/{name}", response_class=Response, responses=problems(401, 404), summary="A sample input."
    )
    async def sample(name: str) -> Response:
        """Return a sample listed in GET /v1/certifier."""
        found = samples.get(name)
        if found is None:
            raise RefusedError(404, "there is no such sample: GET /v1/certifier lists all samples")
        return Response(found.content, media_type=found.content_type)

    @app.get("/v1/monitor", responses=problems(401, 404), summary="What the monitor has seen.")
    async def monitor() -> Json:
        """Return the state of the monitor, if there is one."""
        if service.alarm.monitor is None:
            raise RefusedError(404, "this service has no monitor")
        return service.alarm.state()


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Json:
        """Answer as soon as the process does."""
        return {"status": "ok"}

    @app.get("/readyz", responses=problems(503), summary="Does it answer, and as promised?")
    async def readyz() -> Json:
        """Return `ready`; `degraded` and the reason if the monitor has raised an alarm or cannot write.

        503 while starting or stopping.
        """
        if not service.ready:
            raise RefusedError(503, "the service is starting or stopping", 1)
        trouble = service.alarm.trouble
        return {"status": "ready"} if trouble is None else {"status": "degraded", "reason": trouble}

    @app.get("/metrics", response_class=Response, responses=problems(401), summary="Numbers for Prometheus.")
    async def metrics() -> Response:
        """Return counters, times and gauges in the format of Prometheus."""
        return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})


def _add_refusals(app: FastAPI) -> None:
    def say(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"error": sentence}, status, headers=dict(headers or {}))

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        retry = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        return say(error.status, error.sentence, retry)

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        return say(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"][1:])
        return say(422, f"the parameter {where} is invalid: {problem['msg']}")
