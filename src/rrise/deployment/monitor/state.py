"""The state of a monitor: its two tests with their history, and its public snapshot."""

import math
from dataclasses import dataclass, field, replace

from numpy.typing import ArrayLike

from rrise.statistics.martingales import ConformalMartingale

Point = tuple[int, float, float]
"""Number of scores, time (seconds since 1970), and the largest log-capital since the previous point."""

MOST_POINTS = 400


@dataclass(frozen=True)
class History:
    """The course of a log-capital in at most `MOST_POINTS` points, each the largest of its stretch.

    A capital that was ever above a line is therefore drawn above it. If there are too many points, pairs are
    merged, and stretches become twice as long.
    """

    stride: int = 1
    points: tuple[Point, ...] = ()

    def with_point(self, count: int, time: float, log_capital: float) -> "History":
        """Return the history after a stretch of scores that ended at number `count`."""
        points, stride = [*self.points, (count, time, log_capital)], self.stride
        if len(points) > 2 and points[-1][0] - points[-3][0] <= stride:
            points[-2:] = [_joined(points[-2], points[-1])]
        if len(points) > MOST_POINTS:
            stride *= 2
            kept = [_joined(*points[i : i + 2]) for i in range(0, len(points) - 1, 2)]
            points = kept + points[len(points) - len(points) % 2 :]
        return History(stride, tuple(points))


def _joined(first: Point, second: Point) -> Point:
    return second[0], second[1], max(first[2], second[2])


@dataclass(frozen=True, eq=False)
class ExchangeabilityTest:
    """A martingale that raises an alarm at a false-alarm rate; an alarm is permanent.

    Guarantee: while scores and calibration scores are exchangeable, the probability that it ever raises an
    alarm is at most `rate`.
    """

    martingale: ConformalMartingale
    rate: float
    alarm_time: float | None = None
    alarm_after: int | None = None
    """The number of scores at the alarm."""
    history: History = field(default_factory=History)

    def after(self, scores: ArrayLike, time: float) -> "ExchangeabilityTest":
        """Return the test after further scores that arrived at this time."""
        martingale, path = self.martingale.bet(scores)
        if len(path) == 0:
            return self
        changed = replace(
            self,
            martingale=martingale,
            history=self.history.with_point(martingale.seen, time, float(path.max())),
        )
        above = path >= math.log(1 / self.rate)
        if self.alarm_time is None and above.any():
            first = self.martingale.seen + int(above.argmax()) + 1
            changed = replace(changed, alarm_time=time, alarm_after=first)
        return changed

    @property
    def alarm(self) -> bool:
        """Whether the capital ever reached `1 / rate`."""
        return self.alarm_time is not None


@dataclass(frozen=True)
class TestState:
    """One test as the service shows it; logarithms are natural, times seconds since 1970."""

    __test__ = False  # not for pytest to collect

    scores: int
    calibration_scores: int
    log_capital: float
    largest_log_capital: float
    alarm_at_log_capital: float
    false_alarm_rate: float
    alarm: bool
    alarm_time: float | None
    alarm_after: int | None
    history: tuple[Point, ...]

    @classmethod
    def of(cls, test: ExchangeabilityTest) -> "TestState":
        """Take the numbers of a test."""
        martingale = test.martingale
        return cls(
            scores=martingale.seen,
            calibration_scores=martingale.calibration,
            log_capital=martingale.log_capital,
            largest_log_capital=martingale.largest,
            alarm_at_log_capital=math.log(1 / test.rate),
            false_alarm_rate=test.rate,
            alarm=test.alarm,
            alarm_time=test.alarm_time,
            alarm_after=test.alarm_after,
            history=test.history.points,
        )


@dataclass(frozen=True)
class MonitorState:
    """What a monitor has committed to its database.

    Attributes:
        alarm: whether either test has raised an alarm.
        alarm_time: the time of the first alarm.
        policy: what the service does after an alarm: `warn`, `abstain` or `monte-carlo`.
        queries: queries seen by the label-free test.
        audited: completed audits, seen by the audited test.
        waiting: queries that wait for their votes.
        dropped: queries chosen for an audit while too many waited.
        lost: audits that waited when the process ended, without stored inputs.
        failed: audits that ended in an error.
        missed: queries not seen by the label-free test, because they came too fast or were broken.
        violations: audits whose votes prove the bound of an issued certificate wrong.
        errors: errors since the process started; they are in the log.
        writes: whether the last write to the database succeeded; a full disk makes it False.
        label_free: the test on the surrogate's top probability.
        audits: the test on the calibration score; None without a base classifier.
    """

    alarm: bool
    alarm_time: float | None
    policy: str
    queries: int
    audited: int
    waiting: int
    dropped: int
    lost: int
    failed: int
    missed: int
    violations: int
    label_free: TestState
    audits: TestState | None
    errors: int = 0
    writes: bool = True
