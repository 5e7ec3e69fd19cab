"""Requests that ask for votes at query time, or for a wanted radius."""

from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient
from torch import nn

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.settings import ServiceSettings
from rrise.votes.live import LiveVotes

from .serving import NPY, ask, npy, side_classifier, some_images

Made = tuple[SurrogateCertifier, nn.Module]


@pytest.fixture(scope="module")
def made() -> Made:
    base, surrogate, images = side_classifier(6.0), side_classifier(20.0), some_images(200)
    votes = LiveVotes(base, images, rrise.VotePlan(0.25, n=300, seed=1))
    names = ("left", "middle", "right")
    return rrise.calibrate(surrogate, images, votes, failure=0.1, base=base, class_names=names), base


@pytest.fixture(scope="module")
def client(made: Made) -> Iterator[TestClient]:
    certifier, base = made
    settings = ServiceSettings(max_votes=1_000, timeout=300)  # so that a busy machine ends no request
    with TestClient(create_app(certifier, base=base, settings=settings)) as running:
        yield running


def test_votes_are_added_and_the_guarantee_says_so(client: TestClient, made: Made) -> None:
    images = some_images(8, seed=3)
    answer = ask(client, npy(images), NPY, "/v1/certify?votes=64").json()
    assert answer["passes"] == [65] * 8
    facts = answer["guarantee"]["facts"]
    assert (facts["method"], facts["kind"], facts["settings"]["votes"]) == (
        "surrogate-with-votes",
        "marginal",
        64,
    )
    assert {one["guarantee"] for one in answer["certificates"]} == {answer["guarantee"]["id"]}
    assert answer["guarantee"]["id"] != made[0].guarantee.id
    plain = ask(client, npy(images), NPY).json()
    assert "guarantee" not in plain
    assert [one["label"] for one in plain["certificates"]] == [one["label"] for one in answer["certificates"]]


def test_a_wanted_radius_leads_to_monte_carlo_where_it_is_not_reached(client: TestClient, made: Made) -> None:
    images = some_images(12, seed=4)
    first = made[0].certify(images)
    wanted = float(np.median(first.radius[first.issued]))
    answer = ask(client, npy(images), NPY, f"/v1/certify?radius={wanted}").json()
    methods = np.array([one["method"] for one in answer["certificates"]])
    np.testing.assert_array_equal(methods == "surrogate", first.issued & (first.radius >= wanted))
    assert answer["guarantee"]["failure"] == "0.11"
    assert min(np.array(answer["passes"])[methods == "monte-carlo"]) > 1_000


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("votes=50", 422, "expected votes out of 4, 16, 64, as calibrated; got 50"),
        ("votes=0", 422, "expected votes to be a positive number, got '0'"),
        ("votes=many", 422, "expected votes to be a positive number, got 'many'"),
        ("radius=nan", 422, "expected radius to be a positive number, got 'nan'"),
        ("radius=-1", 422, "expected radius to be a positive number"),
        ("votes=5000", 422, "expected at most 1000 votes, got 5000"),
        ("vote=64", 422, "did you mean votes"),
    ],
)
def test_what_cannot_be_had_is_a_sentence(client: TestClient, query: str, status: int, sentence: str) -> None:
    answer = ask(client, npy(some_images(1)), NPY, f"/v1/certify?{query}")
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_without_a_base_classifier_there_are_no_votes(made: Made) -> None:
    with TestClient(create_app(made[0])) as client:
        answer = ask(client, npy(some_images(1)), NPY, "/v1/certify?votes=64")
    assert answer.status_code == 404
    assert "has no base classifier" in answer.json()["error"]


def test_only_so_many_at_a_time(client: TestClient) -> None:
    service = client.app.state.service  # type: ignore[attr-defined]
    service.more_votes.running = service.more_votes.places
    try:
        answer = ask(client, npy(some_images(1)), NPY, "/v1/certify?votes=4")
    finally:
        service.more_votes.running = 0
    assert answer.status_code == 503
    assert ask(client, npy(some_images(1)), NPY, "/v1/certify?votes=4").status_code == 200
    assert service.more_votes.running == 0
