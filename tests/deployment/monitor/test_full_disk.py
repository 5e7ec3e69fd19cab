"""A monitor whose disk is full says so everywhere, and loses nothing."""

import logging
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.monitor import monitor as monitor_module
from rrise.deployment.monitor.monitor import Monitor
from rrise.deployment.service.app import create_app
from tests.deployment.monitor.watched_certifier import queries, watched_half_space
from tests.deployment.service.serving import until
from tests.small_disk import fill, small_disk


@pytest.fixture(scope="module")
def watched() -> SurrogateCertifier:
    return watched_half_space()[0]


def test_a_full_disk_is_a_metric_a_degraded_service_and_a_sentence(
    watched: SurrogateCertifier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(monitor_module, "RETRY", 0.01)
    with (
        small_disk(tmp_path / "disk", "256k") as disk,
        caplog.at_level(logging.WARNING, "rrise.monitor"),
        Monitor(watched, disk / "m.db") as monitor,
        TestClient(create_app(watched, monitor=monitor)) as client,
    ):
        assert client.get("/readyz").json() == {"status": "ready"}
        assert "rrise_monitor_errors 0.0" in client.get("/metrics").text
        filler = fill(disk)
        inputs = queries(50)
        for batch in (inputs[:25], inputs[25:]):
            assert client.post("/v1/certify", json=batch.tolist()).status_code == 200
        until(lambda: monitor.state().errors > 2)
        assert client.get("/readyz").status_code == 200
        assert client.get("/readyz").json() == {
            "status": "degraded",
            "reason": "the monitor cannot write to its database: see the log of the service",
        }
        assert client.get("/v1/monitor").json()["writes"] is False
        (gauge,) = [
            line
            for line in client.get("/metrics").text.splitlines()
            if line.startswith("rrise_monitor_errors ")
        ]
        assert float(gauge.split()[1]) > 2
        assert f"cannot write to {disk / 'm.db'} (database or disk is full)" in caplog.text
        assert caplog.text.count("cannot write") == 1
        filler.unlink()
        until(lambda: monitor.state().queries == 50)
        assert client.get("/readyz").json() == {"status": "ready"}
        assert f"writes to {disk / 'm.db'} again" in caplog.text


def test_a_new_database_on_a_full_disk_is_refused_by_name(
    watched: SurrogateCertifier, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        fill(disk)
        with pytest.raises(rrise.RriseError, match=r"m\.db.*(full|No space|I/O)"):
            Monitor(watched, disk / "m.db")
