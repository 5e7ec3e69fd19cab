"""Requests that nobody meant: never an error of the server, never a crash."""

from collections.abc import Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from torch import nn

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.requests import TYPES
from rrise.deployment.service.settings import ServiceSettings

from .serving import JSON, NPY, PNG, npy, png, served, some_images

IMAGE = some_images(1, seed=5)[0]
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    + png(IMAGE)
    + b"\r\n--b--\r\n"
)
VALID = {
    PNG: png(IMAGE),
    "image/jpeg": png(IMAGE, "JPEG"),
    NPY: npy(IMAGE),
    JSON: str(IMAGE.tolist()).encode(),
    "multipart/form-data; boundary=b": FORM,
}


@pytest.fixture
def app(image_certifier: tuple[SurrogateCertifier, nn.Module]) -> FastAPI:
    certifier, base = image_certifier
    return create_app(certifier, base=base, settings=ServiceSettings(max_votes=200))


@pytest.fixture
def opened(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """Change, cut out, double or append some bytes."""
    changed = bytearray(content)
    for _ in range(random.integers(1, 6)):
        place = int(random.integers(0, len(changed) + 1))
        match random.integers(0, 4):
            case 0 if place < len(changed):
                changed[place] = random.integers(0, 256)
            case 1:
                del changed[place : place + int(random.integers(1, 20))]
            case 2:
                changed[place:place] = changed[place : place + int(random.integers(1, 20))]
            case _:
                changed[place:place] = random.bytes(int(random.integers(1, 8)))
    return bytes(changed)


def send_malformed(client: TestClient, count: int, seed: int) -> dict[int, int]:
    """Send random bytes and damaged files of every kind, and count the answers by status."""
    random = np.random.default_rng(seed)
    statuses: dict[int, int] = {}
    kinds = [*VALID, *TYPES, "text/html", "", "multipart/form-data; boundary=", "image/png; q=\x7f"]
    for _ in range(count):
        kind = kinds[random.integers(0, len(kinds))]
        known = VALID.get(kind)
        content = random.bytes(int(random.integers(0, 300)))
        if known is not None and random.random() < 0.8:
            content = damaged(known, random)
        path = ("/v1/certify", "/v1/certify", "/v1/verify?votes=150")[random.integers(0, 3)]
        answer = client.post(path, content=content, headers={"content-type": kind})
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        if answer.status_code != 200:
            assert answer.json()["error"]
    return statuses


def check_statuses(statuses: dict[int, int]) -> None:
    assert all(status < 500 for status in statuses), statuses
    assert set(statuses) <= {200, 400, 413, 415, 422}
    assert statuses[422] > statuses.get(200, 0)


def test_random_bytes_never_break_it(opened: TestClient) -> None:
    check_statuses(send_malformed(opened, 300, seed=1))
    assert opened.post("/v1/certify", json=IMAGE.tolist()).status_code == 200


@pytest.mark.slow
def test_eight_thousand_damaged_requests_never_break_it(opened: TestClient) -> None:
    check_statuses(send_malformed(opened, 8_000, seed=2))
    assert opened.post("/v1/certify", json=IMAGE.tolist()).status_code == 200


@pytest.mark.slow
def test_the_openapi_document_can_be_called_two_thousand_times(app: FastAPI) -> None:
    assert call_the_document(app, 550) >= 2_000


def call_the_document(app: Any, examples: int) -> int:
    """Call every operation of the OpenAPI document with schemathesis' cases, good and bad ones."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    with served(app) as address:
        document = schemathesis.openapi.from_url(f"{address}/openapi.json")
        operations = [result.ok() for result in document.get_all_operations()]
        modes = schemathesis.GenerationMode
        strategies = [
            *(operation.as_strategy(generation_mode=modes.POSITIVE) for operation in operations),
            *(
                operation.as_strategy(generation_mode=modes.NEGATIVE)
                for operation in operations
                if operation.method == "post"
            ),
        ]
        return sum(call(cases, examples) for cases in strategies)


def call(cases: Any, examples: int) -> int:
    called = 0

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=cases)
    def check(case: Any) -> None:
        nonlocal called
        called += 1
        answer = case.call()
        assert answer.status_code < 500, answer.text

    check()
    return called


def test_the_openapi_document_can_be_called_at_random(app: FastAPI) -> None:
    assert call_the_document(app, 60) > 200
