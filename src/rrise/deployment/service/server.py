"""Runs a service until it is told to stop."""

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

from rrise.deployment.service.process import prepare_process
from rrise.errors import SettingError
from rrise.interrupts import sigterm_interrupts

GRACE = 30
"""Seconds to answer accepted requests after the service is told to stop."""
BACKLOG = 4096
KEEP_ALIVE = 30


class _Server(uvicorn.Server):
    """Tells the application at once to stop, to cut long answers short."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], object]) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stop()
        super().handle_exit(sig, frame)


def run_service(app: FastAPI, *, host: str, port: int, on_start: Callable[[str], object]) -> None:
    """Serve an application of `create_app` until SIGINT or SIGTERM; then answer accepted requests.

    `on_start` is called with the address when connections are accepted. Port 0 chooses a free port.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    prepare_process()
    with _listening(host, port) as listening:
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
            backlog=BACKLOG,
        )
        name = f"[{host}]" if ":" in host else host
        on_start(f"http://{name}:{listening.getsockname()[1]}")
        # uvicorn raises the signal again at its end, but the rest must still close
        with suppress(KeyboardInterrupt), sigterm_interrupts():
            _Server(config, app.state.service.stop).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise an error with the reason.

    It names its protocol: only then does asyncio send small answers at once.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise SettingError(
            f"cannot listen on {host}, port {port} ({reason}): choose another --port or --host"
        ) from None
    return listening
