"""The middleware of every request: token, security headers, metrics, and unexpected errors."""

import hmac
import json
import logging
import time
import traceback
from collections.abc import Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rrise.deployment.service.metrics import ServiceMetrics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]

_log = logging.getLogger("rrise.service")


class Guard:
    """Passes authorised requests to the application, and counts every request.

    If a token is set, every path except those in `public` needs it. It is compared in constant time. A
    request with two lengths is refused: parsers disagree on where it ends, so that a proxy in front and this
    service could see different requests. Some parsers of HTTP refuse it themselves, others do not. An
    unexpected error is answered with 500. Its location is logged, but not its text, which might contain parts
    of an input.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        metrics: ServiceMetrics,
        paths: Collection[str],
        public: Collection[str],
    ) -> None:
        self.app, self._metrics = app, metrics
        self._paths, self._public = frozenset(paths), frozenset(public)
        self._wanted = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            if _has_two_lengths(scope):
                sentence = "expected Content-Length or Transfer-Encoding, got both: send one of them"
                await _say(send_guarded, 400, sentence, (b"connection", b"close"))
            elif self._may_pass(scope):
                await self.app(scope, receive, send_guarded)
            else:
                await _say(send_guarded, 401, "expected the token of this service as a bearer token")
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("%s while answering %s\n%s", type(error).__name__, self._path(scope), where)
            if status == 0:
                await _say(send_guarded, 500, "internal error: see the log of the service")
        finally:
            self._metrics.count_request(self._path(scope), status, time.perf_counter() - start)

    def _may_pass(self, scope: Scope) -> bool:
        if self._wanted is None or scope["path"] in self._public:
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(given, self._wanted)

    def _path(self, scope: Scope) -> str:
        path: str = scope["path"]
        return path if path in self._paths else "other"


def _has_two_lengths(scope: Scope) -> bool:
    names = [name for name, _ in scope["headers"]]
    return b"content-length" in names and b"transfer-encoding" in names


async def _say(send: Send, status: int, sentence: str, *more: tuple[bytes, bytes]) -> None:
    headers: list[tuple[bytes, Any]] = [(b"content-type", b"application/json"), *more]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": sentence}).encode()})
