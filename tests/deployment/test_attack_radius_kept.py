"""An attack radius, from the certifier through export, service, page, monitor and recalibration."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.loading import load_deployed
from rrise.deployment.monitor.recalibration import recalibrate
from rrise.deployment.service.app import create_app
from rrise.deployment.service.client_limit import ClientLimit
from rrise.deployment.service.refusals import RefusedError
from rrise.deployment.service.settings import ServiceSettings
from rrise.errors import SettingError
from tests.deployment.audited import audited_calibration_inputs
from tests.deployment.service.serving import NPY, ask, npy, served, side_classifier, some_images

Made = tuple[SurrogateCertifier, nn.Module]
NAMES = ("left", "middle", "right")
IMAGES = some_images(400)


@pytest.fixture(scope="module")
def made() -> Made:
    base, surrogate = side_classifier(6.0), side_classifier(30.0)
    votes = rrise.collect_votes(base, IMAGES, sigma=0.25, n=300, seed=1)
    how: dict[str, Any] = {"failure": 0.1, "attack_radius": 0.05, "query_noise": 0.1, "class_names": NAMES}
    return rrise.calibrate(surrogate, IMAGES, votes, base=base, **how), base


@pytest.fixture(scope="module")
def exported(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("exported") / "fp32"
    votes = rrise.collect_votes(made[1], IMAGES, sigma=0.25, n=300, seed=1)
    rrise.export_certifier(made[0], IMAGES, votes, folder)
    return folder


def test_an_export_is_calibrated_with_noise_of_its_own(made: Made, exported: Path) -> None:
    loaded = load_deployed(exported)
    assert loaded.calibration.threat == made[0].calibration.threat
    assert loaded.guarantee.failure_text == "0.1"
    assert "by up to 0.05 before it was certified" in loaded.guarantee.words.promise
    assert not np.array_equal(loaded.evidence.top_probability, made[0].evidence.top_probability)
    images = some_images(2_000, seed=3)  # with 200, the noise of queries alone exceeds the tolerance at times
    once, again = loaded.certify(images), loaded.certify(images)
    assert np.any(once.radius != again.radius)
    assert once.issued.any()
    assert abs(once.issued.mean() - made[0].certify(images).issued.mean()) < 0.1


def test_the_exported_graph_takes_no_plain_images_by_mistake(exported: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(exported / "certifier.onnx", providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["noisy_images"]
    with pytest.raises(ValueError, match="noisy_images"):
        session.run(None, {"images": IMAGES[:1]})


def test_the_card_of_an_export_shows_how_to_add_the_noise(exported: Path) -> None:
    text = (exported / "README.md").read_text()
    assert "| `noisy_images` | float32 [batch x 1 x 8 x 8] | inputs with fresh, secret noise" in text
    code = (
        text.split("```python\n")[1]
        .split("```")[0]
        .replace('"certifier.onnx"', f'"{exported}/certifier.onnx"')
    )
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["answers"]["label"].shape == (1,)
    assert not np.array_equal(names["noisy_images"], names["images"])


def test_an_int8_export_keeps_it(made: Made, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    votes = rrise.collect_votes(made[1], IMAGES, sigma=0.25, n=300, seed=1)
    small = rrise.export_certifier(
        made[0], IMAGES, votes, tmp_path / "int8", int8=True, range_inputs=some_images(64, seed=11)
    )
    assert small.calibration.threat == made[0].calibration.threat
    assert small.certify(some_images(50, seed=3)).issued.any()


def test_another_attack_radius_is_chosen_when_it_is_loaded(
    made: Made, exported: Path, tmp_path: Path
) -> None:
    made[0].save(tmp_path / "certifier")
    nearer = load_deployed(tmp_path / "certifier", attack_radius=0.02)
    assert nearer.calibration.threat is not None
    assert nearer.calibration.threat.radius == 0.02
    assert float(nearer.guarantee.failure or 1) < 0.1
    assert load_deployed(exported, attack_radius=0.05).guarantee.failure_text == "0.1"
    with pytest.raises(SettingError, match=r"exported for the attack radius 0\.05, got 0\.02: export"):
        load_deployed(exported, attack_radius=0.02)


def test_a_certifier_without_query_noise_has_no_attack_radius_in_any_form(made: Made, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    votes = rrise.collect_votes(made[1], IMAGES, sigma=0.25, n=300, seed=1)
    plain = rrise.calibrate(made[0].network, IMAGES, votes, base=made[1], failure=0.1)
    plain.save(tmp_path / "torch")
    rrise.export_certifier(plain, IMAGES, votes, tmp_path / "exported")
    for form in ("torch", "exported"):
        with pytest.raises(SettingError, match="adds no noise to queries"):
            load_deployed(tmp_path / form, attack_radius=0.0)


def test_the_service_answers_the_same_input_with_new_noise_and_reveals_none(
    made: Made, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certifier, base = made
    drawn: list[torch.Tensor] = []
    answers = SurrogateCertifier.answers

    def noting(self: SurrogateCertifier, batch: torch.Tensor, **how: Any) -> Any:
        drawn.append(batch)
        return answers(self, batch, **how)

    monkeypatch.setattr(SurrogateCertifier, "answers", noting)
    radius = certifier.certify(IMAGES).radius  # a small one: near 1, rounded probabilities look alike
    image = IMAGES[[int(np.where(radius > 0, radius, np.inf).argmin())]]
    drawn.clear()
    database = tmp_path / "monitor.sqlite"
    with (
        caplog.at_level(logging.DEBUG, "rrise"),
        rrise.Monitor(certifier, database, base=base, fraction=1.0, keep_inputs=True) as monitor,
        TestClient(create_app(certifier, base=base, monitor=monitor)) as client,
    ):
        found = [ask(client, npy(image), NPY, "/v1/certify?probabilities=true") for _ in range(6)]
        monitor.flush(audits=True)
        shown = [client.get(path).text for path in ("/metrics", "/v1/certifier", "/v1/monitor")]
    assert len({tuple(answer.json()["certificates"][0]["probabilities"]) for answer in found}) == 6
    assert len(drawn) >= 6
    texts = "".join([*shown, *(answer.text for answer in found), caplog.text])
    for batch in drawn:
        noise = (batch.numpy() - image).ravel()
        for value in noise[:8]:
            assert f"{value:.8f}"[:-1] not in texts
        assert batch.numpy().tobytes() not in database.read_bytes()
        assert noise.astype(np.float32).tobytes() not in database.read_bytes()
    wal = database.with_name("monitor.sqlite-wal")
    assert not wal.exists() or drawn[0].numpy().tobytes() not in wal.read_bytes()
    assert image.tobytes() in database.read_bytes(), "the input itself is kept, as asked"


def test_votes_are_refused_and_a_wanted_radius_is_not(made: Made) -> None:
    certifier, base = made
    with TestClient(create_app(certifier, base=base)) as client:
        refused = ask(client, npy(IMAGES[:1]), NPY, "/v1/certify?votes=16")
        assert refused.status_code == 422
        assert "takes no votes at query time" in refused.json()["error"]
        cascade = ask(client, npy(IMAGES[:4]), NPY, "/v1/certify?radius=0.2").json()
        assert "somebody moved the input by up to 0.05" in cascade["guarantee"]["promise"]


def test_a_client_gets_so_many_certificates_in_a_period(made: Made) -> None:
    settings = ServiceSettings(client_tries=5, client_period=3600)
    with TestClient(create_app(made[0], settings=settings)) as client:
        limits = client.get("/v1/certifier").json()["limits"]
        assert (limits["certificates_per_client"], limits["client_period"]) == (5, 3600)
        assert [ask(client, npy(IMAGES[:2]), NPY).status_code for _ in range(3)] == [200, 200, 429]
        refused = ask(client, npy(IMAGES[:2]), NPY, "/v1/certify?trial=true")
        assert refused.status_code == 429, "trials are tries too"
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        assert "may ask for 5 in 3600 seconds" in refused.json()["error"]
        assert ask(client, npy(IMAGES[:1]), NPY).status_code == 200


def test_a_verification_is_a_try_too(made: Made) -> None:
    certifier, base = made
    settings = ServiceSettings(client_tries=1, client_period=3600)
    with TestClient(create_app(certifier, base=base, settings=settings)) as client:
        asked = [ask(client, npy(IMAGES[:1]), NPY, "/v1/verify?votes=500").status_code for _ in range(2)]
        assert asked == [200, 429]


def test_the_limit_knows_clients_by_their_network_and_forgets_after_the_period() -> None:
    now = [0.0]
    limit = ClientLimit(3, 10.0, clock=lambda: now[0])
    limit.take("203.0.113.7", 3)
    limit.take("203.0.113.8", 3)
    limit.take("2001:db8:0:1::1", 2)
    for host, count in (("203.0.113.7", 1), ("2001:db8:0:1::ffff", 2), ("::ffff:203.0.113.8", 1), (None, 4)):
        with pytest.raises(RefusedError):
            limit.take(host, count)
    limit.take("2001:db8:0:2::1", 3)
    limit.take(None, 3)
    now[0] = 9.99
    with pytest.raises(RefusedError, match="try again in 1 seconds"):
        limit.take("203.0.113.7", 1)
    now[0] = 10.0
    limit.take("203.0.113.7", 3)
    ClientLimit(None, 1.0).take("203.0.113.7", 10**9)


def test_a_monitor_watches_what_the_surrogate_saw(made: Made, tmp_path: Path) -> None:
    """Its tests compare noisy queries with noisy calibration inputs: like queries raise no alarm."""
    certifier, base = made
    with rrise.Monitor(
        certifier, tmp_path / "monitor.sqlite", base=base, fraction=1.0, max_waiting=300
    ) as monitor:
        images = some_images(300, seed=21)
        monitor.observe(images, certifier.certify(images))
        assert monitor.flush(audits=True)
        state = monitor.state()
    assert (state.queries, state.audited, state.alarm) == (300, 300, False)
    assert state.violations <= 0.1 * 300


def test_recalibration_needs_queries_that_nobody_moved(made: Made) -> None:
    audited = audited_calibration_inputs(made[0])
    with pytest.raises(SettingError, match="on inputs that nobody moved"):
        recalibrate(made[0], audited)
    with pytest.raises(SettingError, match="on inputs that nobody moved"):
        recalibrate(made[0].against(0.0), audited_calibration_inputs(made[0].against(0.0)))
    new = recalibrate(made[0], audited, unattacked=True)
    assert new.calibration.threat == made[0].calibration.threat
    assert new.calibration.offset == made[0].calibration.offset


def test_the_page_says_who_is_covered(browser: Any, made: Made) -> None:
    with served(create_app(made[0])) as address:
        page = browser.new_context().new_page()
        page.goto(address)
        page.locator("#facts dd").first.wait_for()
        facts = page.locator("#facts").inner_text()
        assert "attack radius" in facts.lower()
        assert "0.05" in facts
        moved = page.locator("#moved").inner_text()
        assert "moves such inputs by up to 0.05" in moved
        assert "at most 10 in 100" in moved
        assert "moved further, or chose freely" in page.locator("#chosen").inner_text()
        assert "new, secret noise" in moved
        page.context.close()


def test_the_page_of_a_plain_certifier_promises_nothing_for_attacks(
    browser: Any, images_certifier: SurrogateCertifier
) -> None:
    with served(create_app(images_certifier)) as address:
        page = browser.new_context().new_page()
        page.goto(address)
        page.locator("#facts dd").first.wait_for()
        assert page.locator("#moved").is_hidden()
        assert "someone chose" in page.locator("#chosen").inner_text()
        page.context.close()
