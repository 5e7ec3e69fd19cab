"""Conformal test martingales: they test whether a stream of scores still looks like the calibration scores.

**p-values.** Let `z_1, ..., z_M` be the calibration scores and `z_(M+1), z_(M+2), ...` those of the stream.
With `theta_n` uniform on (0, 1), independent of everything else,

    p_n = (#{i <= n: z_i > z_n} + theta_n #{i <= n: z_i = z_n}) / n.

*If the scores are exchangeable, `p_(M+1), p_(M+2), ...` are independent and uniform on (0, 1).*

Proof. Condition on the bag of the first n scores. Each order of it is equally likely, so z_n is each of its
n members with probability 1/n. Lay the members side by side from the largest down, each 1/n wide. Then p_n
is a uniform point on the stretch of those equal to z_n. Hence p_n is uniform on (0, 1), whatever the bag.
Given also z_n and theta_n, the order of the others is still uniform. This is the same problem with n - 1
scores, and `p_(n-1), ..., p_(M+1)` depend only on it and on their own thetas. By induction all are
independent.

The reference must therefore be all *earlier* scores, including those of the stream. P-values against a fixed
reference are each uniform, but not independent.

**Capital.** A bet is a density on (0, 1): it multiplies the capital staked on it by its value at `p_n`, whose
mean is 1. The capital starts at 1 and is divided before the first score: one part `w_s / K` for each time s
= 1, 2, ... and each of K bets. A part waits until its time. From then on it is staked on its bet at every
score, and never moved. Each part is a martingale. So is their sum, since the weights add up to 1:

    C_t = sum_k R_k(t) / K + 1 / g(t),    R_k(t) = (R_k(t - 1) + w_t) b_k(p_t),    R_k(0) = 0,

with `w_s = 1/g(s - 1) - 1/g(s)` and `g(t) = 1 + log(1 + t)`; `1 / g(t)` is the capital that still waits. A
change at time s costs only `log(1/w_s)`, about `log s + 2 log log s`, and not everything lost on earlier
bets. `C` is nonnegative with mean 1. By Ville's inequality, *the probability that C ever reaches 1/rate, at
any time, is at most `rate`.*

The bets are Beta densities. Decreasing ones detect scores that grew, increasing ones scores that shrank.
Those high at both ends detect scores that spread, those high in the middle scores that moved together.

**Bounded memory.** Each score is first mapped to one of 2049 places of a grid that is fixed beforehand. A
fixed function of each score keeps them exchangeable, and equal places are ties, which theta breaks. So
everything above still holds. All earlier scores, however many, are then one histogram.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.errors import FolderError, InputError, SettingError
from rrise.statistics.rounding import exactly

Array = NDArray[np.float64]
Places = NDArray[np.int64]

STEPS = 2048
_LOGIT_LIMIT = 12.0
"""Top probabilities within 6e-6 of 0 or 1 count as equal: float32 hardly distinguishes them."""
_CHUNK = 256
"""How many scores are compared with each other at once."""
_ONE_SIDED = (0.1, 0.25, 0.5, 0.7, 0.85, 0.95, 1.2, 1.5, 2.0, 4.0)
_SYMMETRIC = (0.5, 0.75, 0.9, 1.15, 1.5, 3.0)
_BETS = np.array(
    [*((a, 1.0) for a in _ONE_SIDED), *((1.0, b) for b in _ONE_SIDED), *((c, c) for c in _SYMMETRIC)]
)
_LOG_NORM = special.betaln(_BETS[:, 0], _BETS[:, 1])
_BEFORE = np.tri(_CHUNK, k=-1, dtype=np.bool_)


def _logit_share(values: Array) -> Array:
    """Map probabilities to a logit scale; they are rounded to float32 first, as runtimes return them."""
    logit = special.logit(values.astype(np.float32).astype(np.float64))
    return np.asarray(0.5 + 0.5 * np.clip(logit / _LOGIT_LIMIT, -1, 1))


def _real_share(values: Array) -> Array:
    """Map real numbers to a scale that is finest around 0."""
    return np.asarray(0.5 + 0.5 * values / (1 + np.abs(values)))


GRIDS: dict[str, Callable[[Array], Array]] = {"probability": _logit_share, "real": _real_share}
"""`probability` for numbers in [0, 1], `real` for any finite ones."""


def grid_places(scores: ArrayLike, grid: str) -> Places:
    """Return the place of each score, 0 to 2048, on a grid that no data can change; larger is higher.

    >>> grid_places([0.0, 0.5, 0.9, 1.0], "probability").tolist()
    [0, 1024, 1211, 2048]
    """
    if grid not in GRIDS:
        raise SettingError(f"expected a grid out of {', '.join(GRIDS)}; got {grid!r}")
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.all(np.isfinite(values)):
        raise InputError(
            f"expected a 1-D array of finite scores, got shape {values.shape}, or NaN or infinity in it"
        )
    if grid == "probability" and np.any((values < 0) | (values > 1)):
        raise InputError(
            f"expected scores in [0, 1], got from {exactly(values.min())} to {exactly(values.max())}"
        )
    return np.rint(GRIDS[grid](values) * STEPS).astype(np.int64)


def conformal_p_values(counts: Places, places: Places, theta: Array) -> tuple[Array, Array]:
    """Return p-values of a stream against all earlier scores, and 1 minus them without cancellation.

    `counts` says how many earlier scores each place of the grid holds. `places` are the places of the new
    scores. Each new score is compared with `counts`, with the new scores before it, and with itself.
    """
    p, rest = np.empty(len(places)), np.empty(len(places))
    held = counts.copy()
    earlier = int(held.sum())
    for first in range(0, len(places), _CHUNK):
        part = slice(first, first + _CHUNK)
        here, share = places[part], theta[part]
        before = _BEFORE[: len(here), : len(here)]
        below, equal = np.cumsum(held)[here] - held[here], held[here] + 1
        below += np.count_nonzero((here < here[:, None]) & before, axis=1)
        equal += np.count_nonzero((here == here[:, None]) & before, axis=1)
        total = earlier + first + 1 + np.arange(len(here))
        p[part] = (total - below - equal + share * equal) / total
        rest[part] = (below + (1 - share) * equal) / total
        held += np.bincount(here, minlength=len(held))
    return p, rest


def log_bets(p: Array, rest: Array) -> Array:
    """Return the log-density of each bet at the p-values, `[bets, p-values]`; `rest` is `1 - p`."""
    a, b = (_BETS[:, column, None] - 1 for column in (0, 1))
    return np.asarray(a * np.log(p) + b * np.log(rest) - _LOG_NORM[:, None])


def _log_waiting(t: ArrayLike) -> Any:
    """Return `log(1 / g(t))`, the log-capital that still waits after t scores."""
    return -np.log1p(np.log1p(t))


def _log_weight(t: NDArray[np.int64]) -> Array:
    """Return `log w_t`; `1/g(t-1) - 1/g(t) = log(1 + 1/t) / (g(t-1) g(t))`."""
    return np.asarray(np.log(np.log1p(1 / t)) + _log_waiting(t - 1) + _log_waiting(t))


@dataclass(frozen=True, eq=False)
class ConformalMartingale:
    """The capital of one test of exchangeability, and all the state needed to continue; it is immutable.

    Guarantee: if calibration scores and stream are exchangeable, `largest` ever reaches `log(1 / rate)` with
    probability at most `rate`, however often you look. A capital that stays low proves nothing.

    Attributes:
        grid: the name of the grid to which scores are mapped.
        seed: the seed of the thetas; theta number t depends only on it and on t.
        calibration: the number of calibration scores.
        seen: the number of scores of the stream so far.
        counts: how many of both are in each place of the grid.
        log_parts: the logarithm of `R_k`.
        largest: the largest log-capital so far.
    """

    grid: str
    seed: int
    calibration: int
    seen: int
    counts: Places
    log_parts: Array
    largest: float

    @classmethod
    def start(cls, calibration_scores: ArrayLike, grid: str, seed: int) -> "ConformalMartingale":
        """Start with a capital of 1 and the calibration scores to compare with.

        >>> martingale = ConformalMartingale.start(np.linspace(-1, 1, 100), "real", seed=0)
        >>> after, path = martingale.bet([5.0] * 40)
        >>> martingale.log_capital, bool(path[-1] > 2), after.seen
        (0.0, True, 40)
        """
        places = grid_places(calibration_scores, grid)
        if len(places) == 0:
            raise SettingError("expected calibration scores to compare a stream with, got none")
        counts = np.bincount(places, minlength=STEPS + 1)
        return cls(grid, int(seed), len(places), 0, counts, np.full(len(_BETS), -np.inf), 0.0)

    @property
    def log_capital(self) -> float:
        """The natural logarithm of the capital now."""
        mixed = special.logsumexp(self.log_parts) - np.log(len(_BETS))
        return float(np.logaddexp(mixed, _log_waiting(self.seen)))

    def bet(self, scores: ArrayLike) -> tuple["ConformalMartingale", Array]:
        """Return the martingale after more scores of the stream, and the log-capital after each of them."""
        places = grid_places(scores, self.grid)
        p, rest = conformal_p_values(self.counts, places, self._theta(len(places)))
        log_parts, path = self.log_parts, np.empty(len(places))
        for first in range(0, len(places), _CHUNK):
            part = slice(first, first + _CHUNK)
            t = self.seen + first + 1 + np.arange(len(p[part]))
            log_parts, path[part] = _staked(log_parts, log_bets(p[part], rest[part]), t)
        after = replace(
            self,
            seen=self.seen + len(places),
            counts=self.counts + np.bincount(places, minlength=STEPS + 1),
            log_parts=log_parts,
            largest=float(max(self.largest, path.max(initial=-np.inf))),
        )
        return after, path

    def _theta(self, number: int) -> Array:
        """Return the next thetas. They are never 0 or 1, hence every bet is finite."""
        generator = np.random.PCG64(self.seed)
        generator.advance(self.seen)
        return np.maximum(np.random.Generator(generator).random(number), 2.0**-54)

    def to_record(self) -> dict[str, Any]:
        """Return the state as numbers, text and bytes; `from_record` reads it back bit for bit."""
        return {
            **{name: getattr(self, name) for name in ("grid", "seed", "calibration", "seen", "largest")},
            "counts": self.counts.astype("<i8").tobytes(),
            "log_parts": self.log_parts.astype("<f8").tobytes(),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "ConformalMartingale":
        """Read a state back; refuse an inconsistent one."""
        try:
            read = cls(
                **{
                    **record,
                    "counts": np.frombuffer(record["counts"], "<i8").astype(np.int64),
                    "log_parts": np.frombuffer(record["log_parts"], "<f8").astype(np.float64),
                }
            )
            whole = read.counts.shape == (STEPS + 1,) and read.log_parts.shape == (len(_BETS),)
            whole = whole and read.grid in GRIDS and not np.isnan(read.log_parts).any()
            whole = whole and read.counts.min() >= 0
            whole = whole and int(read.counts.sum()) == read.calibration + read.seen
            whole = whole and read.largest >= read.log_capital - 1e-9
        except (KeyError, TypeError, ValueError):
            whole = False
        if not whole:
            raise FolderError(
                "the stored state of a martingale is damaged, or was written by another version of rrise"
            )
        return read


def _staked(log_parts: Array, log_bet: Array, t: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return the parts after some bets `[bets, scores]` at the times `t`, and the log-capital after each.

    Divided by the product `exp(S)` of the bets so far, `R_k` is a sum: the former `R_k`, plus each weight
    divided by the product before its time.
    """
    product = np.cumsum(log_bet, axis=1)
    joined = _log_weight(t) - (product - log_bet)
    joined[:, 0] = np.logaddexp(joined[:, 0], log_parts)
    parts = np.logaddexp.accumulate(joined, axis=1) + product
    mixed = special.logsumexp(parts, axis=0) - np.log(len(_BETS))
    return parts[:, -1], np.asarray(np.logaddexp(mixed, _log_waiting(t)))
