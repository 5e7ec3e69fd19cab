"""The monitor: what it counts, what it finds, and that it is never in the way."""

import dataclasses
import json
import logging
import math
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import rrise
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.monitor import monitor as monitor_module
from rrise.deployment.monitor.auditing import Auditor, verdict
from rrise.deployment.monitor.monitor import Monitor
from rrise.deployment.monitor.state import MOST_POINTS, History
from rrise.deployment.monitor.store import Audit
from rrise.statistics import fit_calibration
from rrise.votes.smoothing import Smoothing
from tests.closed_forms import HalfSpace
from tests.deployment.monitor.watched_certifier import queries, watched_half_space
from tests.made_certificates import made_certificates


@pytest.fixture(scope="module")
def made() -> tuple[SurrogateCertifier, HalfSpace]:
    return watched_half_space()


@pytest.fixture
def watched(made: tuple[SurrogateCertifier, HalfSpace]) -> SurrogateCertifier:
    return made[0]


@pytest.fixture
def base(made: tuple[SurrogateCertifier, HalfSpace]) -> HalfSpace:
    return made[1]


def answers_with(top: np.ndarray) -> Certificates:
    """Certificates of a surrogate that says `top` and is certain of nothing else."""
    probabilities = np.stack([1 - top, top], axis=1).astype(np.float32)
    ones, none = np.ones(len(top), dtype=np.int64), np.zeros(len(top))
    return made_certificates(ones, none, none, np.zeros(len(top), dtype=np.bool_), probabilities)


def rows(database: Path) -> list[dict[str, object]]:
    with sqlite3.connect(database) as connection:
        found = connection.execute("SELECT * FROM audits ORDER BY number")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]


def test_queries_like_the_calibration_inputs_are_counted_and_raise_no_alarm(
    watched: SurrogateCertifier, tmp_path: Path
) -> None:
    inputs = queries(3000)
    with Monitor(watched, tmp_path / "monitor.db") as monitor:
        for batch in np.split(inputs, 60):
            monitor.observe(batch, watched.certify(batch))
        assert monitor.flush()
        state = monitor.state()
    assert (state.queries, state.audited, state.waiting, state.missed, state.errors) == (3000, 0, 0, 0, 0)
    assert not state.alarm
    assert state.audits is None
    assert state.label_free.false_alarm_rate == 0.005
    assert state.label_free.alarm_at_log_capital == pytest.approx(math.log(200))
    assert json.loads(json.dumps(dataclasses.asdict(state), allow_nan=False))["policy"] == "warn"


def test_a_change_raises_an_alarm_that_stays(
    watched: SurrogateCertifier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = time.time()
    far = np.clip(queries(1500) * 0.1 + 0.85, 0, 1)
    with Monitor(watched, tmp_path / "monitor.db", policy="abstain") as monitor:
        monitor.observe(queries(200), watched.certify(queries(200)))
        monitor.flush()
        assert not monitor.state().alarm
        monitor.observe(far, watched.certify(far))
        monitor.flush()
        state = monitor.state()
        assert state.alarm
        assert state.policy == "abstain"
        assert before <= (state.alarm_time or 0) <= time.time()
        assert 200 < (state.label_free.alarm_after or 0) < 400
        assert max(point[2] for point in state.label_free.history) == state.label_free.largest_log_capital
    assert "alarm of the label-free test" in caplog.text
    with Monitor(watched, tmp_path / "monitor.db") as again:
        assert again.state().alarm
        assert again.state().alarm_time == state.alarm_time
        assert again.state().label_free == state.label_free


def test_audits_have_the_votes_score_and_bound_of_the_definition(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path
) -> None:
    inputs = queries(60)
    answers = watched.certify(inputs)
    with Monitor(watched, tmp_path / "monitor.db", base=base, fraction=1.0) as monitor:
        monitor.observe(inputs, answers)
        assert monitor.flush(audits=True)
        state = monitor.state()
    assert (state.audited, state.waiting, state.dropped, state.failed, state.errors) == (60, 0, 0, 0, 0)
    assert state.audits is not None
    assert state.audits.scores == 60
    found = rows(tmp_path / "monitor.db")
    agreeing = np.array([row["agreeing"] for row in found])
    calibration, n = watched.calibration, watched.calibration.n
    _, evidence = fit_calibration(
        [row["top_probability"] for row in found], agreeing, n, failure=0.1, beta=calibration.beta
    )
    np.testing.assert_allclose([row["score"] for row in found], evidence.score)
    np.testing.assert_array_equal([row["lower_bound"] for row in found], answers.lower_bound)
    share = base.probabilities(inputs, 0.25)[np.arange(60), answers.label]
    assert np.all(np.abs(agreeing / n - share) < 5 * np.sqrt(0.25 / n))
    assert all(row["input"] is None for row in found)
    assert state.violations == sum(bool(row["violation"]) for row in found) == 0


def test_each_audit_has_fresh_noise(watched: SurrogateCertifier, base: HalfSpace) -> None:
    auditor = Auditor(base, watched, seed=3)
    middle = np.full(4, 0.4, dtype=np.float32)
    audits = [Audit(number, 0.0, 1, 0.6, 0.0, False, middle) for number in (*range(1, 40), 1)]
    agreeing = [auditor.audit(audit).agreeing for audit in audits]  # type: ignore[union-attr]
    assert agreeing[0] == agreeing[-1]
    p = base.probabilities(middle[None], 0.25)[0, 1]
    assert np.std(agreeing[:-1]) == pytest.approx(math.sqrt(watched.calibration.n * p * (1 - p)), rel=0.4)


def test_a_violation_is_proven_by_the_votes_or_not_claimed(watched: SurrogateCertifier) -> None:
    calibration = watched.calibration
    assert verdict(calibration, 0.95, 40, 0.9, True).violation
    assert not verdict(calibration, 0.95, 40, 0.9, False).violation
    assert not verdict(calibration, 0.95, 85, 0.9, True).violation
    assert verdict(calibration, 0.95, 40, 0.9, True).score > verdict(calibration, 0.95, 85, 0.9, True).score


def test_wrong_bounds_are_found_by_audits_although_top_probabilities_do_not_move(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Top probabilities as in calibration, on inputs where the base classifier is undecided."""
    rng = np.random.default_rng(0)
    inputs = np.full((80, 4), 0.4, dtype=np.float32)
    answers = answers_with(rng.choice(watched.evidence.top_probability, 80))
    claimed = dataclasses.replace(answers, lower_bound=np.full(80, 0.95), issued=np.ones(80, dtype=np.bool_))
    with Monitor(watched, tmp_path / "monitor.db", base=base, fraction=1.0) as monitor:
        monitor.observe(inputs, claimed)
        monitor.flush(audits=True)
        state = monitor.state()
    assert state.audits is not None
    assert state.audits.alarm
    assert not state.label_free.alarm
    assert state.violations == 80
    assert "proves the bound of an issued certificate wrong" in caplog.text


def test_the_fraction_of_audits_does_not_depend_on_the_content(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path
) -> None:
    with Monitor(watched, tmp_path / "m.db", base=base, fraction=0.01, max_waiting=10**6) as monitor:
        monitor._auditor.audit = lambda *_: None  # type: ignore[union-attr,method-assign,assignment]
        for _ in range(100):
            monitor.observe(np.zeros((200, 4), np.float32), answers_with(np.full(200, 0.9)))
        monitor.flush()
        assert abs(monitor.state().waiting - 200) < 5 * math.sqrt(200)


def test_too_many_audits_are_dropped_and_counted(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path
) -> None:
    go = threading.Event()
    with Monitor(watched, tmp_path / "m.db", base=base, fraction=1.0, max_waiting=5) as monitor:
        auditor = monitor._auditor
        assert auditor is not None
        draw = auditor._agreeing
        auditor._agreeing = lambda *arguments: go.wait(20) and draw(*arguments)  # type: ignore[method-assign,assignment,return-value]
        monitor.observe(queries(50), watched.certify(queries(50)))
        monitor.flush()
        assert (monitor.state().waiting, monitor.state().dropped) == (5, 45)
        go.set()
        assert monitor.flush(audits=True)
        assert (monitor.state().audited, monitor.state().waiting, monitor.state().queries) == (5, 0, 50)


def test_errors_are_counted_and_reach_nobody(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Monitor(watched, tmp_path / "m.db", base=base, fraction=1.0) as monitor:
        good = answers_with(np.full(3, 0.9))
        monitor.observe(np.zeros((3, 4), np.float32), None)  # type: ignore[arg-type]
        monitor.observe(np.zeros((3, 4), np.float32), answers_with(np.array([0.9, math.nan, 0.8])))
        monitor.observe(np.zeros((1, 4), np.float32), good)
        assert monitor.flush(audits=True, timeout=10)
        state = monitor.state()
        assert state.queries == state.audited == 2
        assert state.errors == 2
        assert state.missed == 1

        def fail(*_: object) -> None:
            raise RuntimeError("a broken base classifier")

        monkeypatch.setattr(monitor._auditor, "_agreeing", fail)
        monitor.observe(np.zeros((3, 4), np.float32), good)
        assert monitor.flush(audits=True)
        assert monitor.state().failed == 3
        assert monitor.state().waiting == 0


def test_a_database_that_fails_for_a_while_loses_nothing(
    watched: SurrogateCertifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "RETRY", 0.01)
    with Monitor(watched, tmp_path / "m.db") as monitor:
        commit, tries = monitor._store.commit, []

        def full(*arguments: object, **settings: object) -> None:
            tries.append(1)
            if len(tries) <= 3:
                raise sqlite3.OperationalError("database or disk is full")
            commit(*arguments, **settings)  # type: ignore[arg-type]

        monkeypatch.setattr(monitor._store, "commit", full)
        monitor.observe(queries(10), watched.certify(queries(10)))
        assert monitor.flush()
        assert (monitor.state().queries, monitor.state().errors) == (10, 3)


def test_more_than_may_wait_is_missed_and_counted(
    watched: SurrogateCertifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "MOST_PENDING", 100)
    monkeypatch.setattr(monitor_module, "PAUSE", 5.0)
    with Monitor(watched, tmp_path / "m.db") as monitor:
        for _ in range(40):
            monitor.observe(np.zeros((10, 4), np.float32), answers_with(np.full(10, 0.9)))
        monitor.flush()
        state = monitor.state()
        assert state.queries + state.missed == 400
        assert 0 < state.missed <= 300


def test_observing_is_cheap(watched: SurrogateCertifier, tmp_path: Path) -> None:
    answers, inputs = answers_with(np.full(64, 0.9)), np.zeros((64, 4), np.float32)
    with Monitor(watched, tmp_path / "m.db") as monitor:
        start = time.perf_counter()
        for _ in range(500):
            monitor.observe(inputs, answers)
        assert time.perf_counter() - start < 0.5
        assert monitor.flush()
        assert monitor.state().queries == 32_000


def test_kept_inputs_are_audited_after_a_restart_and_others_are_lost(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path
) -> None:
    inputs = queries(8)
    for keep in (True, False):
        path = tmp_path / f"{keep}.db"
        with Monitor(watched, path, base=base, fraction=1.0, keep_inputs=keep) as monitor:
            monitor._auditor.audit = lambda *_: None  # type: ignore[union-attr,method-assign,assignment]
            monitor.observe(inputs, watched.certify(inputs))
            monitor.flush()
            assert monitor.state().waiting == 8
        with Monitor(watched, path, base=base, fraction=1.0) as monitor:
            assert monitor.flush(audits=True)
            state = monitor.state()
        assert (state.audited, state.lost, state.waiting) == ((8, 0, 0) if keep else (0, 8, 0))
        assert {row["status"] for row in rows(path)} == {"done" if keep else "lost"}
    stored = np.frombuffer(rows(tmp_path / "True.db")[0]["input"], "<f4")  # type: ignore[call-overload]
    assert stored.tolist() in inputs.tolist()


def test_logs_and_database_never_hold_inputs(
    watched: SurrogateCertifier, base: HalfSpace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    inputs = np.full((4, 4), 0.123456, dtype=np.float32)
    with Monitor(watched, tmp_path / "m.db", base=base, fraction=1.0) as monitor:
        monitor.observe(inputs, watched.certify(inputs))
        monitor.flush(audits=True)
    assert "0.1234" not in caplog.text
    for path in tmp_path.iterdir():
        assert inputs[0].tobytes() not in path.read_bytes()


def test_refuses_a_database_of_another_certifier_rate_or_kind(
    watched: SurrogateCertifier, certifier: rrise.Certifier, tmp_path: Path
) -> None:
    path = tmp_path / "m.db"
    Monitor(watched, path).close()
    with pytest.raises(rrise.RriseError, match=r"database of another monitor: expected votes .*, got 100"):
        Monitor(certifier, path)
    with pytest.raises(rrise.RriseError, match=r"expected false_alarm_rate 0\.05, got 0\.01"):
        Monitor(watched, path, rate=0.05)
    (tmp_path / "text.db").write_text("this is text, and rather a lot of it " * 50)
    with pytest.raises(
        rrise.RriseError, match=r"text\.db cannot be read or written \(file is not a database"
    ):
        Monitor(watched, tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE things (name TEXT)")
    other.close()
    with pytest.raises(rrise.RriseError, match="not the database of a monitor"):
        Monitor(watched, tmp_path / "other.db")
    with Monitor(watched, path), pytest.raises(rrise.RriseError, match="another process has"):
        Monitor(watched, path)


def test_refuses_another_surrogate_with_the_same_guarantee(
    watched: SurrogateCertifier, tmp_path: Path
) -> None:
    Monitor(watched, tmp_path / "m.db").close()
    top = watched.evidence.top_probability.copy()
    top[0] = np.nextafter(top[0], 0)
    evidence = dataclasses.replace(watched.evidence, top_probability=top)
    other = dataclasses.replace(watched, evidence=evidence)
    with pytest.raises(rrise.RriseError, match="expected certifier"):
        Monitor(other, tmp_path / "m.db")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fraction": 1.5}, "fraction to be at least 0 and at most 1, got 1.5"),
        ({"policy": "panic"}, "policy out of warn, abstain, monte-carlo; got 'panic'"),
        ({"policy": "monte-carlo"}, "monte-carlo needs the base classifier"),
        ({"rate": 0.0}, "rate strictly between 0 and 1"),
        ({"max_waiting": 0}, "max_waiting to be at least 1, got 0"),
        ({"base": nn.Linear(4, 2)}, "pass the base classifier it was made for"),
    ],
)
def test_refuses_settings_that_cannot_work(
    watched: SurrogateCertifier, tmp_path: Path, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(rrise.RriseError, match=sentence):
        Monitor(watched, tmp_path / "m.db", **settings)  # type: ignore[arg-type]


def test_a_database_in_no_folder_is_refused(watched: SurrogateCertifier, tmp_path: Path) -> None:
    with pytest.raises(rrise.RriseError, match="does not exist"):
        Monitor(watched, tmp_path / "nowhere" / "m.db")


def test_the_smoothed_classifier_comes_with_the_guarantee(
    watched: SurrogateCertifier, base: HalfSpace
) -> None:
    votes = rrise.collect_votes(base, queries(1), sigma=0.25, n=10)
    assert watched.smoothing == votes.smoothing
    assert isinstance(votes.smoothing, Smoothing)


def test_a_history_stays_short_and_keeps_every_peak() -> None:
    rng = np.random.default_rng(0)
    history, count, peaks = History(), 0, []
    for step in range(5000):
        count += int(rng.integers(1, 50))
        peaks.append(float(rng.normal()))
        history = history.with_point(count, float(step), peaks[-1])
        assert len(history.points) <= MOST_POINTS
    counts, times, values = zip(*history.points, strict=True)
    assert (counts[-1], times[-1], max(values)) == (count, 4999.0, max(peaks))
    assert list(counts) == sorted(set(counts))
    assert len(counts) > MOST_POINTS / 4
