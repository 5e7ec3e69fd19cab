"""The monitor: notices when queries no longer look like the calibration inputs."""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import CalibratedCertifier
from rrise.deployment.monitor.errors import MonitorErrors
from rrise.deployment.monitor.settings import MONTE_CARLO, MonitorSettings
from rrise.deployment.monitor.state import MonitorState, TestState
from rrise.deployment.monitor.store import DONE, FAILED, LOST, WAITING, Audit, MonitorStore
from rrise.deployment.monitor.subject import AUDITS, LABEL_FREE, about, check_watchable, first_tests
from rrise.deployment.monitor.work import Work, audit_of, probabilities_of
from rrise.deployment.priority import AUDITING, step_back
from rrise.errors import SettingError

if TYPE_CHECKING:
    from torch import nn

    from rrise.deployment.monitor.auditing import Auditor

MOST_PENDING = 200_000
"""The most queries that may wait for the label-free test."""
PAUSE = 0.1
"""Seconds between two commits; observations in between are collected."""
RETRY = 1.0
"""Seconds before another attempt to write to the database."""

_log = logging.getLogger("rrise.monitor")


class Monitor:
    """Observes every answer, and tests continuously whether the guarantee's assumption holds.

    Two tests compare queries with the calibration inputs. The label-free test uses the surrogate's top
    probability of every query. The other, which needs `base`, uses the calibration score of audited queries.
    Each query is audited with probability `fraction`, whatever it is: a low-priority thread draws as many
    votes of it as each calibration input has.

    Guarantee: while queries and calibration inputs are exchangeable, the probability of *ever* raising an
    alarm is at most `rate`; each test has half of it. An alarm stays.

    `observe` only queues. One thread bets and writes to the `database`, with related changes in one
    transaction; `state` shows what was committed. Errors are logged and counted, never raised.

    Args:
        certifier: the certifier to watch.
        database: the SQLite file of this monitor; created if it does not exist.
        base: the base classifier, for audits.
        fraction: the probability of auditing a query.
        rate: the allowed probability of ever raising a false alarm.
        policy: what the service does after an alarm: `warn`, `abstain` or `monte-carlo`.
        keep_inputs: store the inputs of audited queries. Only then do waiting audits survive a restart.
        max_waiting: the most queries that wait for an audit; more are dropped and counted.

    Raises:
        FolderError: the database cannot be opened, or another process has it open.
        MismatchError: the database or `base` belongs to another certifier.
        SettingError: a setting is invalid, `monte-carlo` lacks a base classifier, or the certifier is not a
            calibrated surrogate alone.

    Example:
        with rrise.Monitor(certifier, "monitor.sqlite", base=base) as monitor:
            app = rrise.create_app(certifier, base=base, monitor=monitor)
    """

    def __init__(
        self,
        certifier: CalibratedCertifier,
        database: str | Path,
        *,
        base: "nn.Module | None" = None,
        fraction: float = MonitorSettings.fraction,
        rate: float = MonitorSettings.rate,
        policy: str = MonitorSettings.policy,
        keep_inputs: bool = MonitorSettings.keep_inputs,
        max_waiting: int = MonitorSettings.max_waiting,
    ) -> None:
        _check_settings(fraction, policy, max_waiting, base is not None)
        check_watchable(certifier)
        self._policy, self._fraction, self._max_waiting = policy, fraction, max_waiting
        self._store = MonitorStore(
            database, about(certifier, rate), first_tests(certifier, rate), keep_inputs=keep_inputs
        )
        try:
            self._auditor = None if base is None else _auditor(base, certifier, self._store.seed)
            self._tests, self._counts = self._store.tests(), self._store.counts()
            resumed = self._store.waiting(certifier.input_shape) if self._auditor else []
        except BaseException:
            self._store.close()
            raise
        self._random = np.random.default_rng()
        self._condition = threading.Condition()
        self._work, self._pending, self._held, self._busy = Work(), 0, len(resumed), False
        self._ending, self._closing, self._hurry = False, False, threading.Event()
        self._errors, self._last = MonitorErrors(self._store.path), self._counts["last"]
        self._to_audit: queue.SimpleQueue[Audit | None] = queue.SimpleQueue()
        for audit in resumed:
            self._to_audit.put(audit)
        self._state = self._snapshot()
        self._threads = [self._thread(self._write, "rrise-monitor")]
        if self._auditor is not None:
            self._threads.append(self._thread(self._audit, "rrise-audits"))

    def observe(self, inputs: NDArray[np.float32], certificates: Certificates) -> None:
        """Record inputs `[n, ...]` and their certificates; returns at once and never fails."""
        try:
            self._hand_over(inputs, certificates, time.time())
        except Exception as error:  # requests must be answered in any case
            self._errors.failed("could not take note of a batch", error)

    def state(self) -> MonitorState:
        """Return the last committed state, an immutable snapshot, with errors until now."""
        return replace(self._state, errors=self._errors.count, writes=self._errors.writes)

    def flush(self, *, audits: bool = False, timeout: float = 60.0) -> bool:
        """Wait until all observations are committed; with `audits`, also until no audit waits for votes."""

        def settled() -> bool:
            return not (self._work or self._busy or (audits and self._auditor and self._held))

        self._hurry.set()
        with self._condition:
            return self._condition.wait_for(settled, timeout)

    def close(self) -> None:
        """Commit all observations and stop; an audit in progress is abandoned."""
        with self._condition:
            if self._ending:
                return
            self._ending = True
        self._to_audit.put(None)
        for thread in self._threads[1:]:
            thread.join()
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._hurry.set()
        self._threads[0].join()
        self._store.close()

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _hand_over(self, inputs: NDArray[np.float32], certificates: Certificates, now: float) -> None:
        """Add a batch to the next transaction: all of it, or nothing on an error."""
        tops = probabilities_of(certificates).max(axis=1)
        sound = np.isfinite(tops) & (tops >= 0) & (tops <= 1)
        with self._condition:
            if self._ending:
                return
            full = self._pending + len(tops) > MOST_PENDING
            seen = tops[sound & (not full)]
            picked = self._picked(sound & (not full))
            room = max(0, self._max_waiting - self._held)
            begun = [
                audit_of(inputs, certificates, row, self._last + 1 + place, now)
                for place, row in enumerate(picked[:room])
            ]
            self._work.tops.append(seen)
            self._work.begun += begun
            self._work.missed += len(tops) - len(seen)
            self._work.dropped += len(picked) - len(begun)
            self._pending += len(seen)
            self._held += len(begun)
            self._last += len(begun)
            self._condition.notify_all()

    def _picked(self, among: NDArray[np.bool_]) -> list[int]:
        """Return the queries of a batch to audit, each chosen with the same probability."""
        if self._auditor is None:
            return []
        rows: list[int] = np.flatnonzero(among & (self._random.random(len(among)) < self._fraction)).tolist()
        return rows

    def _write(self) -> None:
        """Commit observations until the monitor is closed and nothing is left."""
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._work or self._closing)
                work, self._work, self._busy = self._work, Work(), True
            while work and not self._settled(work) and not self._closing:
                self._hurry.wait(RETRY)
            with self._condition:
                self._pending -= sum(map(len, work.tops))
                self._busy = False
                self._condition.notify_all()
                if self._closing and not self._work:
                    return
            self._hurry.wait(PAUSE)
            self._hurry.clear()

    def _settled(self, work: Work) -> bool:
        """Bet on and store some work; False if the database failed and a retry makes sense."""
        try:
            self._commit(work)
            self._errors.wrote()
        except sqlite3.OperationalError as error:  # such as a full disk; observe drops excess work
            self._errors.could_not_write(error)
            return False
        except Exception as error:  # a retry would not help
            self._errors.failed("gave up some observations", error)
            with self._condition:
                self._held -= len(work.begun)
                self._work.missed += sum(map(len, work.tops))
        return True

    def _commit(self, work: Work) -> None:
        now, changed = time.time(), {}
        if work.tops:
            changed[LABEL_FREE] = self._tests[LABEL_FREE].after(np.concatenate(work.tops), now)
        if work.outcomes:
            changed[AUDITS] = self._tests[AUDITS].after([outcome.score for outcome in work.outcomes], now)
        self._store.commit(
            changed,
            begun=work.begun,
            outcomes=work.outcomes,
            failed=work.failed,
            counted={"dropped": work.dropped, "missed": work.missed},
        )
        raised = [name for name, test in changed.items() if test.alarm and not self._tests[name].alarm]
        self._tests = {**self._tests, **changed}
        for name, amount in (
            ("dropped", work.dropped),
            ("missed", work.missed),
            (WAITING, len(work.begun) - len(work.outcomes) - len(work.failed)),
            (DONE, len(work.outcomes)),
            (FAILED, len(work.failed)),
            ("violations", sum(outcome.violation for outcome in work.outcomes)),
        ):
            self._counts[name] += amount
        self._state = self._snapshot()
        for audit in work.begun:
            self._to_audit.put(audit)
        for name in raised:
            _log.warning("alarm of the %s test: queries no longer look like the calibration inputs", name)
        for outcome in work.outcomes:
            if outcome.violation:
                _log.warning("audit %d proves the bound of an issued certificate wrong", outcome.number)

    def _audit(self) -> None:
        """Draw the votes of one query after another, in the background."""
        step_back(AUDITING)
        while (audit := self._to_audit.get()) is not None and self._auditor is not None:
            outcome = None
            try:
                outcome = self._auditor.audit(audit, lambda: not self._ending)
            except Exception as error:  # the base classifier may raise anything
                self._errors.failed(f"could not audit query {audit.number}", error)
                with self._condition:
                    self._work.failed.append(audit.number)
            with self._condition:
                if outcome is not None:
                    self._work.outcomes.append(outcome)
                self._held -= 1
                self._condition.notify_all()

    def _snapshot(self) -> MonitorState:
        tests, counts = self._tests, self._counts
        times = [test.alarm_time for test in tests.values() if test.alarm_time is not None]
        return MonitorState(
            alarm=bool(times),
            alarm_time=min(times, default=None),
            policy=self._policy,
            queries=tests[LABEL_FREE].martingale.seen,
            audited=counts[DONE],
            label_free=TestState.of(tests[LABEL_FREE]),
            audits=None if self._auditor is None else TestState.of(tests[AUDITS]),
            waiting=counts[WAITING],
            dropped=counts["dropped"],
            lost=counts[LOST],
            failed=counts[FAILED],
            missed=counts["missed"],
            violations=counts["violations"],
        )

    def _thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread


def _check_settings(fraction: float, policy: str, max_waiting: int, has_base: bool) -> None:
    """Refuse invalid settings of a monitor."""
    MonitorSettings(fraction=fraction, policy=policy, max_waiting=max_waiting)
    if policy == MONTE_CARLO and not has_base:
        raise SettingError("the policy monte-carlo needs the base classifier: pass it, or choose abstain")


def _auditor(base: "nn.Module", certifier: CalibratedCertifier, seed: int) -> "Auditor":
    from rrise.deployment.monitor.auditing import Auditor

    return Auditor(base, certifier, seed)
