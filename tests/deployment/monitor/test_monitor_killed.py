"""A monitor killed by SIGKILL at any moment has lost nothing it said it had, and counts nothing twice."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rrise.statistics.martingales import ConformalMartingale, grid_places
from tests.deployment.monitor.killed_monitor import inputs_of, top

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("rounds", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_killed_again_and_again_nothing_is_lost_or_counted_twice(tmp_path: Path, rounds: int) -> None:
    database = tmp_path / "monitor.db"
    command = [
        sys.executable,
        "-m",
        "tests.deployment.monitor.killed_monitor",
        str(database),
        str(rounds),
        "1",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    said = [state for states in found["said"] for state in states]
    assert sum(bool(states) for states in found["said"]) > rounds / 3
    assert all(errors == 0 for *_, errors in said)
    queries, audited = (np.array([state[column] for state in said]) for column in (0, 1))
    assert np.all(np.diff(queries) >= 0)
    assert np.all(np.diff(audited) >= 0)
    seen, done_before, waiting, lost = found["before"]
    assert (seen >= queries[-1], done_before >= audited[-1], lost) == (True, True, 0)
    total = done_before + waiting
    assert found["after"] == [seen, total, 0, 0, 0]
    assert 0.1 * seen < total < 0.3 * seen
    with sqlite3.connect(database) as connection:
        stored = dict(connection.execute("SELECT name, counts FROM tests").fetchall())
        parts, seed = connection.execute("SELECT log_parts, seed FROM tests WHERE name = 'audits'").fetchone()
        rows = connection.execute("SELECT input, score, status FROM audits ORDER BY number").fetchall()
    connection.close()
    asked = np.concatenate([found["calibration"], top(np.arange(seen))])
    np.testing.assert_array_equal(
        np.frombuffer(stored["label-free"], "<i8"),
        np.bincount(grid_places(asked, "probability"), minlength=2049),
    )
    numbers = {inputs_of(np.array([number]))[0].tobytes(): number for number in range(seen)}
    assert len({numbers[input_] for input_, *_ in rows}) == len(rows) == total
    replayed, _ = ConformalMartingale.start(found["scores"], "real", seed).bet([row[1] for row in rows])
    np.testing.assert_array_equal(np.frombuffer(stored["audits"], "<i8"), replayed.counts)
    np.testing.assert_allclose(np.frombuffer(parts, "<f8"), replayed.log_parts, rtol=1e-9)
