"""What is no input is refused with a sentence, before it costs anything."""

import io
import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.settings import ServiceSettings

from .serving import JPEG, JSON, NPY, PNG, ask, npy, png, some_images

IMAGES = some_images(6, seed=5)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that would fill the memory."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def coloured() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (10, 20, 30)).save(stream, "PNG")
    return stream.getvalue()


def lying_npy() -> bytes:
    return npy(IMAGES[0]).replace(b"(1, 8, 8)", b"(1, 8, 9)")


def bad(values: Any) -> bytes:
    changed = IMAGES[:3].tolist()
    changed[1][0][0][0] = values
    return json.dumps(changed).encode()


@pytest.mark.parametrize(
    ("content", "kind", "status", "words"),
    [
        (
            png(np.zeros((1, 9, 8))),
            PNG,
            422,
            "expected an image of 8 x 8 pixels, got 8 x 9: images are not resized",
        ),
        (bomb(60_000, 60_000), PNG, 422, "cannot be read|got 60000 x 60000"),
        (bomb(9_000, 9_000), PNG, 422, "got 9000 x 9000"),
        (bomb(8, 8), PNG, 422, "the image cannot be read"),
        (coloured(), PNG, 422, "expected a grey image, got a coloured one"),
        (png(IMAGES[0])[:60], PNG, 422, "the image cannot be read"),
        (png(IMAGES[0]), JPEG, 422, "expected a JPEG file"),
        (b"", PNG, 422, "the image cannot be read"),
        (bad(1.5), JSON, 422, r"expected inputs in \[0, 1\], got values from 0 to 1.5"),
        (bad(float("nan")), JSON, 422, "expected finite inputs, got NaN or infinity in input 1"),
        (b"[1e999]", JSON, 422, "expected inputs of shape"),
        (bad("0.5"), JSON, 422, "expected a JSON array of numbers"),
        (bad(True), JSON, 422, "expected a JSON array of numbers"),
        (bad(None), JSON, 422, "expected a JSON array of numbers"),
        (b"[[0.1], [0.1, 0.2]]", JSON, 422, "ragged"),
        (b'{"inputs": []}', JSON, 422, "expected a JSON array of numbers, got dict"),
        (b"[" * 50_000, JSON, 422, "not JSON: too deep"),
        (b"\xff", JSON, 422, "not JSON"),
        (b"[]", JSON, 422, "expected inputs of shape"),
        (b"[" + b"9" * 400 + b"]", JSON, 422, "expected a JSON array of numbers"),
        (npy(np.zeros((2, 1, 8, 7), np.float32)), NPY, 422, r"\(inputs, 1, 8, 8\), got \(2, 1, 8, 7\)"),
        (npy(np.zeros((0, 1, 8, 8), np.float32)), NPY, 422, "expected at least one input"),
        (npy(np.zeros((1, 8, 8), np.uint8)), NPY, 422, "got uint8: divide 8-bit images by 255"),
        (npy(np.float32(0.5)), NPY, 422, r"got \(\)"),
        (npy(np.full((1, 8, 8), np.inf, np.float32)), NPY, 422, "expected finite inputs"),
        (lying_npy(), NPY, 422, "a header that does not match its content"),
        (npy(IMAGES[0])[:-1], NPY, 422, "a header that does not match its content"),
        (b"PK\x03\x04", NPY, 422, "expected a .npy file"),
        (b"x", "text/plain", 415, "expected a Content-Type out of image/png.*got text/plain"),
        (b"x", "", 415, "got none"),
        (b"", "multipart/form-data", 422, "expected a form with a boundary"),
        (b"--a--\r\n", "multipart/form-data; boundary=a", 422, "at least one file"),
        (b"--a\r\nrubbish", "multipart/form-data; boundary=a", 422, "the form cannot be read|at least one"),
        (npy(np.zeros((257, 1, 8, 8), np.float32)), NPY, 413, "at most 256 inputs in one request, got 257"),
    ],
)
def test_what_is_no_input_is_refused_with_a_sentence(
    client: TestClient, content: bytes, kind: str, status: int, words: str
) -> None:
    answer = ask(client, content, kind)
    assert answer.status_code == status
    assert re.search(words, answer.json()["error"]), answer.json()["error"]


def test_a_pickled_array_is_never_unpickled(client: TestClient, tmp_path: Path) -> None:
    touched = tmp_path / "touched"

    class Hostile:
        def __reduce__(self) -> Any:
            return Path.touch, (touched,)

    stream = io.BytesIO()
    np.save(stream, np.array([Hostile()], dtype=object), allow_pickle=True)
    answer = ask(client, stream.getvalue(), NPY)
    assert answer.status_code == 422
    assert not touched.exists()


def test_the_body_limit_holds_while_a_body_streams_in(images_certifier: SurrogateCertifier) -> None:
    app = create_app(images_certifier, settings=ServiceSettings(max_body=1000, max_held=1500))
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 10**6:
            sent += 100
            yield b"x" * 100

    with TestClient(app) as client:
        told = client.post("/v1/certify", content=b"x" * 1001, headers={"content-type": NPY})
        streamed = client.post("/v1/certify", content=endless(), headers={"content-type": NPY})
        assert (
            client.post("/v1/certify", content=b"x" * 999, headers={"content-type": NPY}).status_code == 422
        )
    for answer in (told, streamed):
        assert answer.status_code == 413
        assert answer.json()["error"].startswith("expected a body of at most 1000 bytes")
    assert app.state.service.bodies.held == 0


@pytest.mark.parametrize("shape", ["(True, 8, 8)", "(-1, -8, 8)", "(1, 8.0, 8)", f"({2**62}, 8, 8)"])
def test_a_npy_header_with_a_strange_shape_is_no_error_of_the_server(client: TestClient, shape: str) -> None:
    body = npy(IMAGES[0]).replace(b"(1, 8, 8), }" + b" " * (len(shape) - 9), f"{shape}, }}".encode())
    assert shape.encode() in body
    answer = ask(client, body, NPY)
    assert answer.status_code == 422
    assert "expected a .npy file" in answer.json()["error"]


def test_a_png_in_which_one_byte_changed_gets_no_certificate(client: TestClient) -> None:
    whole = png(IMAGES[0])
    assert ask(client, whole, PNG).status_code == 200
    for place in range(len(whole)):
        changed = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        assert ask(client, changed, PNG).status_code == 422, place
