"""Recalibration from audited queries: what it computes, what it then promises, and what it refuses."""

import dataclasses
import shutil
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rrise
from rrise.certifiers import guarantee_words
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.cli.app import app
from rrise.deployment.export.exported import ExportedCertifier
from rrise.deployment.export.exporting import export_certifier
from rrise.deployment.monitor.monitor import Monitor
from rrise.deployment.monitor.recalibration import (
    CHANGING,
    read_audited,
    recalibrate,
    recalibrate_folder,
)
from rrise.deployment.monitor.subject import certifier_identity
from rrise.statistics import fit_calibration
from tests.closed_forms import HalfSpace
from tests.deployment.audited import audited_calibration_inputs


def shifted(number: int, seed: int) -> np.ndarray:
    """Inputs that the calibration inputs are not like: close to the middle."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(0.45, 0.08, (number, 4)), 0, 1).astype(np.float32)


@pytest.fixture(scope="module")
def flattering(certifier: rrise.Certifier) -> rrise.Certifier:
    """A surrogate that is far too sure of itself, calibrated as if it were right."""

    class TooSure(torch.nn.Module):
        def __init__(self, network: torch.nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return 4 * self.network(inputs)

    return dataclasses.replace(certifier, network=TooSure(certifier.network), program=None)


@pytest.fixture(scope="module")
def audited(
    flattering: rrise.Certifier, half_space: HalfSpace, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The database of a monitor that audited 300 shifted queries."""
    database = tmp_path_factory.mktemp("monitor") / "monitor.db"
    watched, inputs = flattering, shifted(300, 1)
    with Monitor(watched, database, base=half_space, fraction=1.0, max_waiting=300) as monitor:
        monitor.observe(inputs, watched.certify(inputs))
        assert monitor.flush(audits=True, timeout=120)
        assert monitor.state().audited == 300
        assert monitor.state().alarm
    return database


def wrong_share(certifier: rrise.Certifier, base: HalfSpace, seed: int) -> float:
    inputs = shifted(2000, seed)
    certificates = certifier(inputs)
    distance = base.distances(inputs)
    wrong = (certificates.label != (distance > 0)) | (certificates.radius > np.abs(distance))
    return float((certificates.issued & wrong).mean())


def test_what_was_wrong_after_the_shift_holds_again(
    flattering: rrise.Certifier, half_space: HalfSpace, audited: Path
) -> None:
    new = recalibrate(flattering, read_audited(audited))
    assert wrong_share(flattering, half_space, 2) > 0.2
    assert wrong_share(new, half_space, 2) <= 0.1 + 0.05
    assert new.network is flattering.network
    assert certifier_identity(new) != certifier_identity(flattering)


def test_the_offset_is_that_of_the_stored_rows(flattering: rrise.Certifier, audited: Path) -> None:
    with sqlite3.connect(audited) as connection:
        rows = np.array(connection.execute("SELECT top_probability, agreeing FROM audits").fetchall())
    connection.close()
    former = flattering.calibration
    expected, _ = fit_calibration(rows[:, 0], rows[:, 1], former.n, failure=former.failure, beta=former.beta)
    assert recalibrate(flattering, read_audited(audited)).calibration == expected


def test_the_guarantee_names_the_audited_queries_and_survives_the_folder(
    certifier: rrise.Certifier, half_space: HalfSpace, tmp_path: Path
) -> None:
    database, folder = tmp_path / "monitor.db", tmp_path / "certifier"
    certifier.save(folder)
    watched, inputs = certifier, shifted(60, 3)
    with Monitor(watched, database, base=half_space, fraction=1.0) as monitor:
        monitor.observe(inputs, watched.certify(inputs))
        assert monitor.flush(audits=True, timeout=120)
        assert monitor.state().alarm
        with pytest.raises(rrise.RriseError, match=r"raised an alarm at .* Pass --since"):
            recalibrate_folder(folder, database, tmp_path / "new")
        new = recalibrate_folder(folder, database, tmp_path / "new", since="2020-01-01")
    loaded = rrise.load_certifier(tmp_path / "new")
    assert loaded.calibration == new.calibration
    assert loaded.guarantee == new.guarantee
    year = datetime.now(UTC).year
    assert f"The calibration inputs are queries audited from {year}" in str(loaded.guarantee)
    assert loaded.guarantee.calibration is not None
    assert loaded.guarantee.calibration.inputs == 60
    assert "UTC, 60 of them different." in str(loaded.guarantee)
    assert "nobody looked at scores or votes to decide which calibration inputs to take" in str(
        loaded.guarantee
    )
    assert "Whether some of them equal training inputs is not known" in str(loaded.guarantee)
    assert "queries audited" in (tmp_path / "new" / "README.md").read_text()
    arguments = [
        "recalibrate",
        str(folder),
        "--from-monitor",
        str(database),
        "--out",
        str(tmp_path / "again"),
    ]
    arguments += ["--since", "2020-01-01"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "calibrated on 60 audited queries" in result.output
    assert rrise.load_certifier(tmp_path / "again").calibration == new.calibration


def test_dropped_audits_are_named(flattering: rrise.Certifier, audited: Path, tmp_path: Path) -> None:
    database = tmp_path / "copy.db"
    shutil.copy(audited, database)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE counters SET value = 7 WHERE name = 'dropped'")
    connection.close()
    words = "7 audits were dropped at busy times"
    assert words in str(recalibrate(flattering, read_audited(database)).guarantee)
    assert words not in str(recalibrate(flattering, read_audited(audited)).guarantee)


def test_only_queries_since_a_time_are_taken(flattering: rrise.Certifier, audited: Path) -> None:
    assert len(read_audited(audited, time.time() - 3600).time) == 300
    later = read_audited(audited, time.time() + 1)
    assert len(later.time) == 0
    with pytest.raises(rrise.RriseError, match=r"at least 12 different .* got 0 among 0: wait for more"):
        recalibrate(flattering, later)


def test_refuses_what_does_not_belong_together(
    flattering: rrise.Certifier, audited: Path, tmp_path: Path
) -> None:
    found = read_audited(audited)
    for key, value, sentence in (
        (
            "base_classifier",
            "0123456789abcdef",
            "base classifier .* of the certifier, 0123456789ab in the database",
        ),
        ("votes", 500, "number of votes 400 of the certifier, 500 in the database"),
        ("certifier", "feed", "calibrated surrogate .* of the certifier, feed in the database"),
    ):
        other = dataclasses.replace(found, about={**found.about, key: value})
        with pytest.raises(rrise.RriseError, match=sentence):
            recalibrate(flattering, other)
    with pytest.raises(rrise.RriseError, match="expected the database of a monitor at"):
        read_audited(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(rrise.RriseError, match=r"text\.db cannot be read"):
        read_audited(tmp_path / "text.db")


def test_refuses_a_time_that_is_none_and_a_certifier_of_another_monitor(
    certifier: rrise.Certifier, audited: Path, tmp_path: Path
) -> None:
    certifier.save(tmp_path / "certifier")
    with pytest.raises(rrise.RriseError, match="expected a time such as 2026-11-15"):
        recalibrate_folder(tmp_path / "certifier", audited, tmp_path / "new", since="yesterday")
    with pytest.raises(rrise.RriseError, match="at least 12 different audited queries"):
        recalibrate_folder(tmp_path / "certifier", audited, tmp_path / "new", since="2999-01-01")
    assert not (tmp_path / "new").exists()


def test_repeats_of_a_few_inputs_are_not_many_calibration_inputs(
    certifier: rrise.Certifier, half_space: HalfSpace, tmp_path: Path
) -> None:
    """A probe that sends one image all day must not calibrate anything."""
    watched, inputs = certifier, np.repeat(shifted(9, 5), 10, axis=0)
    with Monitor(watched, tmp_path / "monitor.db", base=half_space, fraction=1.0) as monitor:
        monitor.observe(inputs, watched.certify(inputs))
        assert monitor.flush(audits=True, timeout=120)
    audited = read_audited(tmp_path / "monitor.db")
    assert (len(audited.time), audited.distinct) == (90, 9)
    with pytest.raises(rrise.RriseError, match=r"at least 12 different .* got 9 among 90"):
        recalibrate(certifier, audited)


def test_queries_that_changed_on_the_way_are_refused(flattering: rrise.Certifier, audited: Path) -> None:
    found = read_audited(audited)
    score = np.concatenate([found.score[:150] - 5, found.score[150:]])
    with pytest.raises(rrise.RriseError, match="the audited queries changed over time"):
        recalibrate(flattering, dataclasses.replace(found, score=score))


def test_alike_queries_are_refused_at_most_as_often_as_stated(
    flattering: rrise.Certifier, audited: Path
) -> None:
    found, random = read_audited(audited), np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        order = random.permutation(len(found.time))
        try:
            recalibrate(flattering, dataclasses.replace(found, score=found.score[order]))
        except rrise.RriseError:
            refused += 1
    assert refused <= 200 * CHANGING + 3


def test_an_exported_certifier_is_recalibrated_in_its_own_form(
    certifier: rrise.Certifier, half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    held_out = uniform[300:500]
    votes = rrise.collect_votes(half_space, held_out, sigma=0.25, n=400, seed=1, split="calibration")
    exported = export_certifier(certifier, held_out, votes, tmp_path / "exported")
    certifier.save(tmp_path / "torch")
    database, inputs = tmp_path / "monitor.db", shifted(100, 6)
    with Monitor(exported, database, base=half_space, fraction=1.0) as monitor:
        monitor.observe(inputs, exported.certify(inputs))
        assert monitor.flush(audits=True, timeout=120)
    new = recalibrate_folder(tmp_path / "exported", database, tmp_path / "new", since="2020-01-01")
    assert isinstance(new, ExportedCertifier)
    before, after = exported.certify(uniform[500:]), new.certify(uniform[500:])
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    exact = new.calibration.lower_bound(after.probabilities.max(axis=1))
    assert (after.lower_bound <= exact).all()
    np.testing.assert_allclose(after.lower_bound, exact, atol=2e-4)
    assert new.calibration.offset != exported.calibration.offset
    assert new.calibration.size == 100
    assert "the exported surrogate runs in onnxruntime" in str(new.guarantee)
    assert "queries audited from" in (tmp_path / "new" / "README.md").read_text()
    assert "with the calibration before" in (tmp_path / "new" / "README.md").read_text()
    with pytest.raises(rrise.RriseError, match="in the form that the monitor watched, exported or not"):
        recalibrate_folder(tmp_path / "torch", database, tmp_path / "other", since="2020-01-01")
    assert not (tmp_path / "other").exists()


def test_other_words_of_the_same_promise_are_the_same_certifier(
    certifier: SurrogateCertifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade that says it better must not make a monitor forget its alarm."""
    identity, words = certifier_identity(certifier), certifier.guarantee.words
    monkeypatch.setattr(guarantee_words, "WRONG", "the same in other words, {norm}")
    assert certifier.guarantee.words != words
    assert certifier_identity(certifier) == identity


def test_a_recalibrated_certifier_is_not_exported_with_the_inputs_of_its_run(
    quick_demo: Path, tmp_path: Path
) -> None:
    """Its offset was fitted to queries; the run's calibration inputs are not those."""
    pytest.importorskip("onnxruntime")
    run = tmp_path / "run"
    shutil.copytree(quick_demo, run)
    certifier = rrise.load_certifier(run / "certifier")
    recalibrate(certifier, audited_calibration_inputs(certifier)).save(run / "certifier")
    arguments = ["export", str(run / "certifier"), "--out", str(tmp_path / "exported")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert "expected the inputs and votes that the certifier was calibrated on" in str(
        result.exception or result.output
    )
    assert not (tmp_path / "exported").exists()


def test_the_watched_certifier_is_not_overwritten(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    certifier.save(tmp_path / "certifier")
    with pytest.raises(rrise.RriseError, match=r"expected another folder than .* to write to"):
        recalibrate_folder(tmp_path / "certifier", tmp_path / "m.db", tmp_path / "certifier")
