"""Fixtures for the service: a small certifier of images, and a client of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from torch import nn

from rrise.certifiers.surrogate import SurrogateCertifier

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


@pytest.fixture(scope="session")
def image_certifier() -> tuple[SurrogateCertifier, nn.Module]:
    """A certifier of grey images and its base classifier."""
    from .service.serving import make_image_certifier

    return make_image_certifier()


@pytest.fixture(scope="session")
def images_certifier(image_certifier: tuple[SurrogateCertifier, nn.Module]) -> SurrogateCertifier:
    return image_certifier[0]


@pytest.fixture
def client(images_certifier: SurrogateCertifier) -> "Iterator[TestClient]":
    from fastapi.testclient import TestClient

    from rrise.deployment.service.app import create_app

    with TestClient(create_app(images_certifier)) as opened:
        yield opened
