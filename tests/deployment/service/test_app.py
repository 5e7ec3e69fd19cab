"""The service answers what the library answers, and refuses with the sentence the library gives."""

import json
import logging
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn
from typer.testing import CliRunner

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.cli.app import app as command
from rrise.deployment.service import documents
from rrise.deployment.service.app import create_app
from rrise.deployment.service.settings import ServiceSettings
from rrise.errors import InputError, MismatchError, SettingError

from .serving import JPEG, JSON, NPY, PNG, Altered, ask, npy, png, some_images

TOKEN = "a-token-of-some-length"
IMAGES = some_images(6, seed=5)


@pytest.mark.parametrize(
    ("content", "kind", "count"),
    [
        (png(IMAGES[0]), PNG, 1),
        (npy(IMAGES[0]), NPY, 1),
        (npy(IMAGES), NPY, 6),
        (npy(IMAGES.astype(np.float64)), NPY, 6),
        (npy(np.asfortranarray(IMAGES)), NPY, 6),
        (json.dumps(IMAGES[0].tolist()).encode(), JSON, 1),
        (json.dumps(IMAGES.tolist()).encode(), "Application/JSON; charset=utf-8", 6),
    ],
)
def test_every_form_of_an_input_gets_the_librarys_certificate(
    client: TestClient, images_certifier: SurrogateCertifier, content: bytes, kind: str, count: int
) -> None:
    answer = ask(client, content, kind)
    assert answer.status_code == 200
    records = images_certifier(IMAGES[:count]).records(images_certifier.class_names)
    named = [{**record, "guarantee": images_certifier.guarantee.id} for record in records]
    assert answer.json() == {"certificates": named, "warning": None}


def test_a_form_holds_files_of_any_kind_in_their_order(
    client: TestClient, images_certifier: SurrogateCertifier
) -> None:
    files = [
        ("file", ("a.png", png(IMAGES[2]), PNG)),
        ("file", ("b.npy", npy(IMAGES[3:5]), NPY)),
        ("other", ("c.json", json.dumps(IMAGES[0].tolist()).encode(), JSON)),
    ]
    answer = client.post("/v1/certify", files=files).json()["certificates"]
    expected = images_certifier(IMAGES[[2, 3, 4, 0]])
    assert [found["label"] for found in answer] == expected.label.tolist()
    assert [found["radius"] for found in answer] == pytest.approx(expected.radius, abs=1e-6)


def test_a_jpeg_gets_the_certificate_that_rrise_certify_prints(
    client: TestClient, images_certifier: SurrogateCertifier, tmp_path: Path
) -> None:
    images_certifier.save(tmp_path / "certifier")
    for name, kind in (("a.png", PNG), ("b.jpg", JPEG)):
        content = png(IMAGES[1], "PNG" if kind == PNG else "JPEG")
        (tmp_path / name).write_bytes(content)
        printed = CliRunner().invoke(
            command, ["certify", str(tmp_path / "certifier"), str(tmp_path / name), "--json"]
        )
        (record,) = json.loads(printed.output)["certificates"]
        (served,) = ask(client, content, kind).json()["certificates"]
        assert served.pop("guarantee") == images_certifier.guarantee.id
        assert {"file": record["file"], "index": 0, **served} == record


def test_radii_are_rounded_down_and_probabilities_come_when_asked_for(
    client: TestClient, images_certifier: SurrogateCertifier
) -> None:
    many = some_images(100, seed=7)
    answer = ask(client, npy(many), NPY, "/v1/certify?probabilities=true").json()["certificates"]
    exact = images_certifier(many)
    radii, bounds = ([found[name] for found in answer] for name in ("radius", "lower_bound"))
    assert np.all(np.array(radii) <= exact.radius)
    assert np.all(np.array(radii) > exact.radius - 1.01e-6)
    assert np.all(np.array(bounds) <= exact.lower_bound)
    assert {found["issued"] for found in answer} == {True, False}
    assert [int(np.argmax(found["probabilities"])) for found in answer] == exact.label.tolist()
    assert all(sum(found["probabilities"]) == pytest.approx(1, abs=1e-5) for found in answer)


def test_without_the_token_nothing_is_answered_but_health_and_page(
    images_certifier: SurrogateCertifier,
) -> None:
    app = create_app(images_certifier, settings=ServiceSettings(token=TOKEN))
    with TestClient(app) as client:
        for header in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": TOKEN},
            {"authorization": "é"},
        ):
            encoded = {name: value.encode("latin-1") for name, value in header.items()}
            for path in ("/v1/certifier", "/metrics", "/openapi.json", "/v1/monitor", "/nothing"):
                answer = client.get(path, headers=encoded)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
            assert client.post("/v1/certify", headers=encoded).status_code == 401
        for path in ("/", "/page.css", "/page.js", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/certifier", headers=right).status_code == 200
        assert client.get("/nothing", headers=right).status_code == 404
    assert TOKEN not in repr(ServiceSettings(token=TOKEN))


@pytest.mark.parametrize(
    "change",
    [
        {"max_batch": 0},
        {"queue": 10},
        {"max_delay": -1.0},
        {"timeout": float("nan")},
        {"max_body": 2**40},
        {"token": "short"},
        {"token": "with spaces in the middle"},
        {"max_inputs": 1.5},
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="expected"):
        ServiceSettings(**change)


def test_every_answer_carries_the_security_headers(client: TestClient) -> None:
    for answer in (client.get("/"), client.get("/nothing"), ask(client, b"", "x"), client.get("/metrics")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_unknown_paths_and_methods_get_a_sentence(client: TestClient) -> None:
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/v1/certify").status_code == 405
    refused = client.post("/v1/certify?probabilities=maybe")
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        "expected probabilities to be true or false, got 'maybe'",
    )


def test_the_card_says_what_is_promised_for_what(
    client: TestClient, images_certifier: SurrogateCertifier
) -> None:
    card = client.get("/v1/certifier").json()
    guarantee = images_certifier.guarantee
    assert card["guarantee"] == {"id": guarantee.id, **guarantee.to_json()}
    assert card["input"] == {"shape": [1, 8, 8], "range": [0.0, 1.0], "image": True}
    assert card["class_names"] == ["left", "middle", "right"]
    assert card["verification"] is None
    assert card["monitor"] is False
    assert ask(client, png(IMAGES[0]), PNG, "/v1/verify").status_code == 404
    assert client.get("/v1/monitor").status_code == 404


def test_the_examples_of_the_openapi_document_work(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    body = document["paths"]["/v1/certify"]["post"]["requestBody"]["content"]
    assert set(body) == {PNG, JPEG, NPY, JSON, "multipart/form-data"}
    answer = client.post("/v1/certify", json=body[JSON]["example"])
    assert answer.status_code == 200
    schema = document["components"]["schemas"]["Certificate"]["properties"]
    assert set(answer.json()["certificates"][0]) <= set(schema)


def test_a_certifier_of_vectors_takes_arrays_and_says_why_it_takes_no_image(
    certifier: SurrogateCertifier,
) -> None:
    with TestClient(create_app(certifier)) as client:
        answer = client.post("/v1/certify", json=[0, 1, 0, 1])
        assert answer.json()["certificates"][0]["label"] == certifier(np.array([[0.0, 1, 0, 1]])).label[0]
        refused = ask(client, png(IMAGES[0]), PNG)
        assert refused.status_code == 422
        assert "pass .npy arrays" in refused.json()["error"]
        assert (
            PNG
            not in client.get("/openapi.json").json()["paths"]["/v1/certify"]["post"]["requestBody"][
                "content"
            ]
        )


def test_metrics_count_requests_inputs_and_batches(images_certifier: SurrogateCertifier) -> None:
    with TestClient(create_app(images_certifier)) as client:
        ask(client, npy(IMAGES), NPY)
        ask(client, b"", NPY)
        client.get("/some/secret/path")
        text = client.get("/metrics").text
    issued = int(images_certifier(IMAGES).issued.sum())
    for line in (
        'rrise_requests_total{path="/v1/certify",status="200"} 1.0',
        'rrise_requests_total{path="/v1/certify",status="422"} 1.0',
        'rrise_requests_total{path="other",status="404"} 1.0',
        f'rrise_certificates_total{{outcome="issued"}} {issued}.0',
        f'rrise_certificates_total{{outcome="abstained"}} {6 - issued}.0',
        "rrise_batch_inputs_sum 6.0",
        "rrise_queue_inputs 0.0",
        "rrise_held_bytes 0.0",
    ):
        assert line in text.splitlines()
    assert "secret" not in text


def test_an_unexpected_error_is_a_500_and_the_log_holds_no_input(
    images_certifier: SurrogateCertifier, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(inputs: Any) -> None:
        raise RuntimeError(f"cannot compute {inputs.ravel()[0]}")

    with TestClient(create_app(Altered(images_certifier, broken))) as client:
        with caplog.at_level(logging.DEBUG):
            answer = ask(client, npy(np.full((1, 8, 8), 0.123456, np.float32)), NPY)
        assert answer.status_code == 500
        assert "log" in answer.json()["error"]
        assert "RuntimeError while answering /v1/certify" in caplog.text
        assert "0.1234" not in caplog.text + answer.text


def test_an_input_error_of_the_surrogate_is_the_clients(images_certifier: SurrogateCertifier) -> None:
    def refuses(inputs: Any) -> None:
        raise InputError("the surrogate returned NaN for input 0")

    with TestClient(create_app(Altered(images_certifier, refuses))) as client:
        answer = ask(client, npy(IMAGES[:1]), NPY)
    assert (answer.status_code, answer.json()["error"]) == (422, "the surrogate returned NaN for input 0")


@pytest.mark.parametrize(
    ("declared", "url"),
    [
        (["Docs, https://example.org/docs", "Homepage, https://example.org"], "https://example.org"),
        (["Docs, https://example.org/docs"], "https://example.org/docs"),
        (["Homepage, javascript:alert(1)"], None),
        (None, None),
    ],
)
def test_the_projects_address_is_that_of_its_metadata(
    declared: list[str] | None, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Message()
    for line in declared or []:
        found["Project-URL"] = line
    monkeypatch.setattr(documents, "metadata", lambda _: found)
    assert documents.project_url() == url


def test_another_base_classifier_is_refused_at_start(
    image_certifier: tuple[SurrogateCertifier, nn.Module],
) -> None:
    certifier, base = image_certifier
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(MismatchError, match="made for the base classifier"):
        create_app(certifier, base=other)
    assert create_app(certifier, base=base).state.service.verifier is not None
    assert not any(part.training for part in base.modules())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/v1/certify?probabilites=true", "'probabilites': did you mean probabilities?"),
        ("/v1/verify?alpha=0.1", "'alpha'; there are votes and failure"),
        ("/v1/verify?failur=0.1", "'failur': did you mean failure?"),
    ],
)
def test_an_unknown_query_parameter_is_refused(
    image_certifier: tuple[SurrogateCertifier, nn.Module], path: str, sentence: str
) -> None:
    certifier, base = image_certifier
    with TestClient(create_app(certifier, base=base)) as client:
        answer = ask(client, npy(some_images(1)), NPY, path)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]
