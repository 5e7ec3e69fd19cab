"""Monte Carlo on demand: valid at every look, for one at a time, and over when nobody listens."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn

from rrise.certifiers.sequential import Sequential
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.settings import ServiceSettings
from rrise.errors import SettingError
from rrise.statistics import anytime_lower, certified_radius
from tests.closed_forms import HalfSpace

from .serving import NPY, PNG, ask, npy, png, served, some_images, until

IMAGES = some_images(6, seed=5)
UNSURE = np.full((1, 8, 8), 0.5, np.float32)
UNSURE[:, :, :2] = 0.6
Made = tuple[SurrogateCertifier, nn.Module]


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def verified(client: TestClient, content: bytes, kind: str = PNG, query: str = "") -> list[tuple[str, Any]]:
    answer = ask(client, content, kind, f"/v1/verify{query}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events(answer.text)


@pytest.fixture(scope="module")
def asked(image_certifier: Made) -> list[tuple[str, Any]]:
    certifier, base = image_certifier
    with TestClient(create_app(certifier, base=base)) as client:
        return verified(client, npy(UNSURE), NPY, "?votes=2000&failure=0.01")


def test_the_bound_of_each_look_is_the_anytime_valid_one_of_its_votes(asked: list[tuple[str, Any]]) -> None:
    assert [name for name, _ in asked] == ["start", *["look"] * 95, "certificate"]
    looks = [data for name, data in asked if name == "look"]
    assert [look["votes"] for look in looks] == list(range(120, 2001, 20))
    bound = 0.0
    for look in looks:
        assert look["counted"] == look["votes"] - 100
        bound = max(bound, float(anytime_lower(look["agreeing"], look["counted"], 0.01)))
        assert bound - 1e-6 < look["lower_bound"] <= bound
        assert look["radius"] <= float(certified_radius(np.asarray(bound), 0.25))
        assert look["issued"] == (bound > 0.5)


def test_the_certificate_at_the_end_is_that_of_the_last_look(asked: list[tuple[str, Any]]) -> None:
    (_, last), (_, certificate) = asked[-2:]
    for name in ("label", "class_name", "radius", "lower_bound", "issued", "votes"):
        assert certificate[name] == last[name]
    assert certificate["guarantee"]["facts"]["method"] == "sequential"
    assert certificate["guarantee"]["failure"] == "0.01"


@pytest.fixture
def known_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every run of the tests."""
    seeds = itertools.count()
    monkeypatch.setattr("rrise.certifiers.voting.secrets.randbits", lambda _: next(seeds))


@pytest.mark.usefixtures("known_noise")
def test_bounds_stay_below_the_true_probability(certifier: SurrogateCertifier, half_space: HalfSpace) -> None:
    inputs = np.random.default_rng(3).random((20, 4), dtype=np.float32)
    with TestClient(create_app(certifier, base=half_space)) as client:
        for row in inputs:
            noise = 0.25 * torch.randn(20_000, 4)
            answers = half_space((torch.from_numpy(row) + noise).clamp(0, 1)).argmax(dim=1)
            (_, found) = verified(client, npy(row), NPY, "?votes=500")[-1]
            share = float((answers == found["label"]).float().mean())
            assert found["lower_bound"] <= share + 0.015
            assert found["lower_bound"] > share - 0.2


def test_the_noise_is_fresh_each_time(image_certifier: Made) -> None:
    certifier, base = image_certifier
    voting = Sequential(1000).bind_like(base, certifier)
    once, again = (voting.live(UNSURE[None], n=100) for _ in range(2))
    assert once.stream != again.stream
    votes = [[int(each.counts(i, i + 1).argmax()) for i in range(100)] for each in (once, again)]
    assert votes[0] != votes[1]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?votes=100001", "expected at most 100000 votes"),
        ("?votes=101", "can never certify"),
        ("?votes=-5", "expected n to be at least 1 vote"),
        ("?failure=0", "expected"),
        ("?failure=nan", "expected"),
        ("?failure=0.499", "expected failure below 0.493"),
        ("?votes=many", "the parameter votes"),
    ],
)
def test_impossible_budgets_and_levels_are_refused(image_certifier: Made, query: str, words: str) -> None:
    certifier, base = image_certifier
    with TestClient(create_app(certifier, base=base)) as client:
        answer = ask(client, png(IMAGES[0]), PNG, f"/v1/verify{query}")
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_one_input_is_verified_at_a_time_and_not_two_in_a_request(image_certifier: Made) -> None:
    certifier, base = image_certifier
    app = create_app(certifier, base=base)
    with served(app) as address, httpx.Client(base_url=address) as client:
        two = client.post("/v1/verify", content=npy(IMAGES[:2]), headers={"content-type": NPY})
        assert two.status_code == 422
        assert "expected one input to verify, got 2" in two.text
        body: Any = {"content": npy(IMAGES[0]), "headers": {"content-type": NPY}}
        with client.stream("POST", "/v1/verify?votes=100000", **body) as first:
            assert first.status_code == 200
            refused = httpx.post(f"{address}/v1/verify", **body)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "5"
            assert httpx.post(f"{address}/v1/certify", **body).status_code == 200
        until(lambda: app.state.service.verifying == 0)
        assert httpx.post(f"{address}/v1/verify?votes=200", **body).status_code == 200


def test_votes_stop_when_the_client_goes_away(image_certifier: Made) -> None:
    certifier, base = image_certifier
    app = create_app(certifier, base=base, settings=ServiceSettings(max_votes=10**8))
    with served(app) as address:
        body: Any = {"content": npy(IMAGES[0]), "headers": {"content-type": NPY}}
        with httpx.stream("POST", f"{address}/v1/verify?votes=1000000", **body) as answer:
            received = answer.iter_text()
            while "look" not in next(received):
                pass
        until(lambda: app.state.service.verifying == 0)


def test_a_service_that_ends_cuts_a_verification_short_at_a_valid_look(image_certifier: Made) -> None:
    certifier, base = image_certifier
    app = create_app(certifier, base=base)
    with served(app) as address:
        body: Any = {"content": npy(IMAGES[0]), "headers": {"content-type": NPY}}
        text = ""
        with httpx.stream("POST", f"{address}/v1/verify?votes=100000", **body) as answer:
            for part in answer.iter_text():
                text += part
                if "look" in part:
                    app.state.service.stop()
    found = events(text)
    assert found[-1][0] == "stopped"
    assert found[-2][0] == "look"
    assert found[-2][1]["votes"] < 100_000


def test_an_error_of_the_base_classifier_ends_the_stream_with_a_sentence(image_certifier: Made) -> None:
    certifier, base = image_certifier
    app = create_app(certifier, base=base)
    with TestClient(app) as client:
        app.state.service.verifier._voting.base = _Failing(base)
        found = verified(client, png(IMAGES[0]), query="?votes=500")
    assert found[-1][0] == "error"
    assert "NaN" in found[-1][1]["error"]


class _Failing(nn.Module):
    """The base classifier, but NaN for every noisy copy."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.base(inputs)
        return logits if len(inputs) == 1 else logits * float("nan")


@dataclass
class State:
    alarm: bool
    policy: str
    label_free: tuple[float, ...] = (0.0, float("-inf"))


class FakeMonitor:
    """Remembers what it saw, and raises an alarm when told to."""

    def __init__(self, policy: str) -> None:
        self.policy, self.alarm = policy, False
        self.seen: list[Any] = []

    def observe(self, inputs: Any, answers: Any) -> None:
        self.seen.append((inputs, answers))

    def state(self) -> State:
        return State(self.alarm, self.policy)


def test_the_monitor_is_told_of_every_answer_but_trials_and_shown(image_certifier: Made) -> None:
    certifier, _ = image_certifier
    monitor = FakeMonitor("warn")
    with TestClient(create_app(certifier, monitor=monitor)) as client:
        ask(client, npy(IMAGES), NPY)
        trial = ask(client, npy(IMAGES), NPY, "/v1/certify?trial=true")
        assert trial.json()["certificates"][0]["label"] == certifier(IMAGES).label[0]
        assert ask(client, npy(IMAGES), NPY, "/v1/certify?trial=perhaps").status_code == 422
        assert client.get("/readyz").json() == {"status": "ready"}
        assert client.get("/v1/monitor").json() == {
            "alarm": False,
            "policy": "warn",
            "label_free": [0.0, None],
        }
    ((inputs, answers),) = monitor.seen
    assert np.array_equal(inputs, IMAGES)
    assert answers.label.tolist() == certifier(IMAGES).label.tolist()


@pytest.mark.usefixtures("known_noise")
@pytest.mark.parametrize("policy", ["warn", "abstain", "monte-carlo"])
def test_after_an_alarm_the_policy_holds(image_certifier: Made, policy: str) -> None:
    certifier, base = image_certifier
    monitor = FakeMonitor(policy)
    app = create_app(certifier, base=base, monitor=monitor)
    with TestClient(app) as client:
        before = ask(client, npy(IMAGES), NPY).json()
        assert before["warning"] is None
        monitor.alarm = True
        after = ask(client, npy(IMAGES), NPY).json()
        assert client.get("/readyz").json() == {
            "status": "degraded",
            "reason": "the monitor has raised an alarm: see /v1/monitor",
        }
        assert "rrise_monitor_alarm 1.0" in client.get("/metrics").text
        card = client.get("/v1/certifier").json()
    promised = card["guarantee"] if policy != "monte-carlo" else card["guarantee_after_alarm"]
    assert {found["guarantee"] for found in after["certificates"]} == {promised["id"]}
    assert "inputs no longer look like the calibration inputs" in after["warning"]
    assert len(monitor.seen) == 2
    if policy == "warn":
        assert after["certificates"] == before["certificates"]
    elif policy == "abstain":
        assert all(
            (found["issued"], found["radius"], found["lower_bound"]) == (False, 0, 0)
            for found in after["certificates"]
        )
    else:
        assert after["certificates"][0]["guarantee"] != certifier.guarantee.id
        drawn = Sequential(1000, failure="0.1").bind_like(base, certifier).certify(IMAGES)
        assert [found["label"] for found in after["certificates"]] == drawn.label.tolist()
        assert [found["radius"] for found in after["certificates"]] == pytest.approx(drawn.radius, abs=0.25)


def test_falling_back_to_monte_carlo_needs_the_base_classifier(image_certifier: Made) -> None:
    with pytest.raises(SettingError, match="the policy monte-carlo needs the base classifier"):
        create_app(image_certifier[0], monitor=FakeMonitor("monte-carlo"))
