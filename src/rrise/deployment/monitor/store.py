"""The monitor's database: one SQLite file that stays consistent if the process is killed.

    about        certifier and false-alarm rate; the seed of noise and ties
    tests        the state of both martingales, bit for bit
    counters     what was dropped or missed
    audits       one row per chosen query: waiting, done, failed or lost; a checksum of its input, and the
                 input itself only on request

Related changes are written in one transaction: the row of an audit with the martingale that has bet on it,
and the rows of new audits with the martingale that has seen their queries. After `kill -9`, the file holds
all committed transactions and nothing of the others. It is in WAL mode, and each commit is synced.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.deployment.monitor.database import FORMAT, check_pages, only_one, read_about, readable
from rrise.deployment.monitor.state import ExchangeabilityTest, History
from rrise.errors import FolderError, MismatchError, as_path
from rrise.files import Json
from rrise.statistics import check_level
from rrise.statistics.martingales import ConformalMartingale

WAITING, DONE, FAILED, LOST = "waiting", "done", "failed", "lost"
COUNTERS = ("dropped", "missed")
_MARTINGALE = ("grid", "seed", "calibration", "seen", "largest", "counts", "log_parts")
_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE tests (
    name TEXT PRIMARY KEY, grid TEXT NOT NULL, seed INTEGER NOT NULL, calibration INTEGER NOT NULL,
    seen INTEGER NOT NULL, largest REAL NOT NULL, counts BLOB NOT NULL, log_parts BLOB NOT NULL,
    rate REAL NOT NULL, alarm_time REAL, alarm_after INTEGER, history TEXT NOT NULL
);
CREATE TABLE audits (
    number INTEGER PRIMARY KEY, time REAL NOT NULL, label INTEGER NOT NULL, top_probability REAL NOT NULL,
    lower_bound REAL NOT NULL, issued INTEGER NOT NULL, status TEXT NOT NULL, agreeing INTEGER, score REAL,
    upper_bound REAL, violation INTEGER, digest TEXT NOT NULL, input BLOB
);
CREATE INDEX audits_by_status ON audits (status);
"""


@dataclass(frozen=True, eq=False)
class Audit:
    """A query chosen for an audit, with its certificate."""

    number: int
    time: float
    label: int
    top_probability: float
    lower_bound: float
    issued: bool
    input: NDArray[np.float32]


@dataclass(frozen=True)
class AuditOutcome:
    """The result of an audit; see `auditing.Verdict`."""

    number: int
    agreeing: int
    score: float
    upper_bound: float
    violation: bool


class MonitorStore:
    """The database of one running monitor; one thread at a time uses it, and no other process writes.

    `about` identifies the monitor; the database of another monitor is refused. `tests` are the initial
    tests of a new database.
    """

    def __init__(
        self, path: str | Path, about: Json, tests: dict[str, ExchangeabilityTest], *, keep_inputs: bool
    ) -> None:
        self.path, self.keep_inputs = as_path(path, "a database file"), keep_inputs
        self._lock = only_one(self.path)
        try:
            with readable(self.path):
                self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
                self._open(about, tests)
        except BaseException:
            self.close()
            raise

    def _open(self, about: Json, tests: dict[str, ExchangeabilityTest]) -> None:
        check_pages(self._connection, self.path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables == 0:
            self._create(about, tests)
        stored = read_about(self._connection, self.path)
        for key, value in about.items():
            if key != "seed" and stored.get(key) != value:
                raise MismatchError(
                    f"{self.path} is the database of another monitor: expected {key} {value}, got "
                    f"{stored.get(key)}; choose another file"
                )
        self.seed = int(stored["seed"])
        with self.transaction() as write:
            write("UPDATE audits SET status = ? WHERE status = ? AND input IS NULL", (LOST, WAITING))

    def _create(self, about: Json, tests: dict[str, ExchangeabilityTest]) -> None:
        with self.transaction() as write:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                write(statement)
            for key, value in {"format": FORMAT, **about}.items():
                write("INSERT INTO about VALUES (?, ?)", (key, json.dumps(value)))
            for name in COUNTERS:
                write("INSERT INTO counters VALUES (?, 0)", (name,))
            for name, test in tests.items():
                _write_test(write, name, test)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a function that executes statements; all are committed, or none on an error."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection.execute
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def commit(
        self,
        tests: dict[str, ExchangeabilityTest],
        *,
        begun: Sequence[Audit] = (),
        outcomes: Sequence[AuditOutcome] = (),
        failed: Sequence[int] = (),
        counted: dict[str, int] | None = None,
    ) -> None:
        """Write changed tests, begun and ended audits, and increments of counters in one transaction."""
        with self.transaction() as write:
            for name, test in tests.items():
                _write_test(write, name, test)
            for audit in begun:
                self._begin(write, audit)
            for outcome in outcomes:
                _end(write, outcome)
            for number in failed:
                write("UPDATE audits SET status = ? WHERE number = ?", (FAILED, number))
            for name, value in (counted or {}).items():
                write("UPDATE counters SET value = value + ? WHERE name = ?", (value, name))

    def _begin(self, write: Any, audit: Audit) -> None:
        content = audit.input.astype("<f4").tobytes()
        write(
            "INSERT INTO audits (number, time, label, top_probability, lower_bound, issued, status, digest, "
            "input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                audit.number,
                audit.time,
                audit.label,
                audit.top_probability,
                audit.lower_bound,
                int(audit.issued),
                WAITING,
                hashlib.sha256(content).hexdigest(),
                content if self.keep_inputs else None,
            ),
        )

    def tests(self) -> dict[str, ExchangeabilityTest]:
        """Return the last committed tests."""
        columns = (*_MARTINGALE, "rate", "alarm_time", "alarm_after", "history", "name")
        with readable(self.path):
            rows = self._connection.execute(f"SELECT {', '.join(columns)} FROM tests")
            records = [dict(zip(columns, row, strict=True)) for row in rows]
            return {str(record["name"]): _read_test(record) for record in records}

    def counts(self) -> dict[str, int]:
        """Return the counters, the number of audits by status, violations, and the last audit's number."""
        query = self._connection.execute
        with readable(self.path):
            by_status = dict(query("SELECT status, count(*) FROM audits GROUP BY status").fetchall())
            audits = "SELECT total(violation), coalesce(max(number), 0) FROM audits"
            violations, last = query(audits).fetchone()
            counters = dict(query("SELECT name, value FROM counters").fetchall())
            return {
                **{name: int(counters[name]) for name in COUNTERS},
                **{status: int(by_status.get(status, 0)) for status in (WAITING, DONE, FAILED, LOST)},
                "violations": int(violations),
                "last": int(last),
            }

    def waiting(self, input_shape: tuple[int, ...]) -> list[Audit]:
        """Return the waiting audits with stored inputs, in order."""
        with readable(self.path):
            rows = self._connection.execute(
                "SELECT number, time, label, top_probability, lower_bound, issued, input FROM audits "
                "WHERE status = ? AND input IS NOT NULL ORDER BY number",
                (WAITING,),
            )
            return [
                Audit(
                    number=int(row[0]),
                    time=float(row[1]),
                    label=int(row[2]),
                    top_probability=float(row[3]),
                    lower_bound=float(row[4]),
                    issued=bool(row[5]),
                    input=np.frombuffer(row[6], "<f4").reshape(input_shape).astype(np.float32),
                )
                for row in rows
            ]

    def close(self) -> None:
        """Close the file; another process may then use it."""
        if hasattr(self, "_connection"):
            self._connection.close()
        self._lock.close()


def _write_test(write: Any, name: str, test: ExchangeabilityTest) -> None:
    record = test.martingale.to_record()
    history = json.dumps({"stride": test.history.stride, "points": test.history.points})
    values = [record[key] for key in _MARTINGALE]
    places = ", ".join("?" * (len(_MARTINGALE) + 5))
    write(
        f"INSERT OR REPLACE INTO tests (name, {', '.join(_MARTINGALE)}, rate, alarm_time, alarm_after, "
        f"history) VALUES ({places})",
        (name, *values, test.rate, test.alarm_time, test.alarm_after, history),
    )


def _read_test(record: dict[str, Any]) -> ExchangeabilityTest:
    time, after, history = record["alarm_time"], record["alarm_after"], json.loads(record["history"])
    return ExchangeabilityTest(
        ConformalMartingale.from_record({name: record[name] for name in _MARTINGALE}),
        check_level(record["rate"], "rate"),
        None if time is None else float(time),
        None if after is None else int(after),
        History(
            int(history["stride"]), tuple((int(p[0]), float(p[1]), float(p[2])) for p in history["points"])
        ),
    )


def _end(write: Any, outcome: AuditOutcome) -> None:
    changed = write(
        "UPDATE audits SET status = ?, agreeing = ?, score = ?, upper_bound = ?, violation = ? "
        "WHERE number = ? AND status = ?",
        (
            DONE,
            outcome.agreeing,
            outcome.score,
            outcome.upper_bound,
            int(outcome.violation),
            outcome.number,
            WAITING,
        ),
    ).rowcount
    if changed != 1:
        raise FolderError(f"audit {outcome.number} is not waiting for votes: it must not be counted twice")
