"""A request that says its length twice is refused, whichever parser reads it."""

import socket
import threading

import pytest
import uvicorn

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app

from .serving import NPY, npy, some_images, until

BODY = npy(some_images(1))
HEAD = f"POST /v1/certify HTTP/1.1\r\nhost: x\r\ncontent-type: {NPY}\r\n".encode()
CHUNKED = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"
HIDDEN = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


def answer(certifier: SurrogateCertifier, parser: str, request: bytes) -> bytes:
    """Return everything that a server with this parser says to the bytes of a connection."""
    pytest.importorskip(parser)
    app = create_app(certifier)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(app, http=parser, log_config=None, access_log=False)  # type: ignore[arg-type]
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started)
            with socket.create_connection(listening.getsockname(), timeout=20) as client:
                client.sendall(request)
                return b"".join(iter(lambda: client.recv(65536), b""))
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize("parser", ["h11", "httptools"])
@pytest.mark.parametrize("lengths", [b"content-length: 4\r\n", b"content-length: 0\r\n"])
@pytest.mark.parametrize("first", [True, False])
def test_two_lengths_are_refused(
    images_certifier: SurrogateCertifier, parser: str, lengths: bytes, first: bool
) -> None:
    chunked = b"transfer-encoding: chunked\r\n"
    both = lengths + chunked if first else chunked + lengths
    said = answer(images_certifier, parser, HEAD + both + b"\r\n" + CHUNKED + HIDDEN)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1  # the connection ends: nothing behind is taken for a request
    assert b"connection: close" in said.lower()
    assert b"certificates" not in said


@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_one_length_is_enough(images_certifier: SurrogateCertifier, parser: str) -> None:
    for head, body in (
        (f"content-length: {len(BODY)}\r\n".encode(), BODY),
        (b"transfer-encoding: chunked\r\n", CHUNKED),
    ):
        said = answer(images_certifier, parser, HEAD + head + b"connection: close\r\n\r\n" + body)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert b"certificates" in said
