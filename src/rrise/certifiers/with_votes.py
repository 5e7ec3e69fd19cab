"""A surrogate with votes at query time: a few votes of the input itself sharpen the one-pass certificate."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Extending, check_base
from rrise.certifiers.guarantee import Assumption, Guarantee, surrogate_guarantee
from rrise.certifiers.guarantee_words import register_words
from rrise.errors import MismatchError, SettingError
from rrise.models.checks import check_module
from rrise.progress import OnProgress
from rrise.statistics import (
    Calibration,
    CalibrationEvidence,
    blended,
    check_strength,
    refit_calibration,
    spread_in_sigma,
)
from rrise.votes.array import Votes, check_same_inputs, check_votes, votes_for
from rrise.votes.live import LiveVotes
from rrise.votes.plan import VotePlan
from rrise.votes.sequence import VoteSequence

if TYPE_CHECKING:
    from rrise.certifiers.surrogate import SurrogateCertifier

METHOD = "surrogate-with-votes"
STOPS = (4, 16, 64, 256, 1_024, 4_096)
"""The numbers of query votes that calibration prepares."""


@dataclass(frozen=True, eq=False)
class QueryEvidence:
    """Votes of the calibration inputs, divided into query votes and reference votes.

    For each number `m` of query votes: how many of `m` query votes are for the surrogate's class, and how
    many of `n` reference votes. The two never share a vote.

    Attributes:
        agreeing: by `m`, the agreeing query votes of each calibration input.
        reference: by `m`, the agreeing reference votes.
        n: by `m`, the number of reference votes.
    """

    agreeing: Mapping[int, NDArray[np.int64]]
    reference: Mapping[int, NDArray[np.int64]]
    n: Mapping[int, int]

    @property
    def stops(self) -> tuple[int, ...]:
        """The numbers of query votes, ascending."""
        return tuple(sorted(self.agreeing))

    @classmethod
    def from_sequence(cls, votes: VoteSequence, counts: Any, label: NDArray[np.int64]) -> "QueryEvidence":
        """Take the first votes of each input as query votes, the others of `counts` as reference votes."""
        stops = [m for m in STOPS if 2 * m <= votes.length]
        agreeing = {m: votes.agreeing(label, 0, m) for m in stops}
        everything = votes_for(counts, label)
        return cls(
            agreeing, {m: everything - agreeing[m] for m in stops}, {m: votes.length - m for m in stops}
        )

    @classmethod
    def from_votes(cls, reference: Any, query: Any, label: NDArray[np.int64]) -> "QueryEvidence":
        """Take separately collected votes; refuse query votes that share their noise with the others."""
        if isinstance(reference, Votes) and isinstance(query, Votes):
            if reference.smoothing is not None and query.smoothing is not None:
                reference.smoothing.check_same(query.smoothing, "the votes", "the query votes")
            if reference.stream is not None and reference.stream == query.stream:
                raise MismatchError(
                    f"the query votes and the votes share their noise (seed and split {query.stream}): "
                    f"collect the query votes with another seed or split"
                )
            if reference.digests is not None:
                check_same_inputs(query, reference.digests)
        (counts, n), (first, m) = check_votes(reference, len(label)), check_votes(query, len(label))
        return cls({m: votes_for(first, label)}, {m: votes_for(counts, label)}, {m: n})


class SurrogateWithVotes(Extending):
    """A calibrated surrogate that adds votes of the base classifier to each query.

    It blends the surrogate's top probability with the votes of the input for the same class, and bounds the
    result by a calibration of its own. The label stays the surrogate's.

    Guarantee: that of the surrogate's calibration, at the same failure, for inputs exchangeable with the
    calibration inputs. It is no per-input promise: only Monte Carlo makes one.

    Made by `SurrogateCertifier.with_votes`.

    Args:
        surrogate: the certifier that it extends.
        votes: the most votes per query.
        base: the base classifier.
        tolerance: None: every query gets all votes. Else a query gets no more votes once the radius is known
            up to this standard deviation, in units of sigma. This looks at surrogate and votes, never at the
            calibrated bound.
        strength: how many votes the surrogate counts as; None: see `usual_strength`.
        seed: makes the noise reproducible; None: fresh noise at every call.
        batch_size: noisy inputs per forward pass; None: chosen automatically.

    Attributes:
        calibration: the numbers of the calibration.
        evidence: the data that the offset was computed from.
        guarantee: what every certificate promises.

    Example:
        certifier = rrise.load_certifier("runs/digits/certifier")
        certificates = certifier.with_votes(64, base).certify(images)
    """

    def __init__(
        self,
        surrogate: "SurrogateCertifier",
        votes: int,
        base: nn.Module,
        *,
        tolerance: float | None = None,
        strength: float | None = None,
        seed: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        check_module(base, "base classifier")
        check_base(base, surrogate.smoothing, surrogate.probe.inputs)
        if surrogate.calibration.threat is not None:
            raise SettingError(
                "a certifier with query noise takes no votes at query time: they would void its promise for "
                "attacked inputs. Use rrise.Cascade, whose votes have a promise of their own"
            )
        if tolerance is not None and not tolerance > 0:
            raise SettingError(f"expected tolerance to be positive, in units of sigma; got {tolerance}")
        self.surrogate = self._extended = surrogate
        self.base, self.votes = base.eval(), votes
        self.tolerance = tolerance
        self.strength = check_strength(usual_strength(votes) if strength is None else strength)
        self._seed, self._batch_size = seed, batch_size
        self._stops = self._checked_stops()
        self.calibration, self.evidence = self._fitted()
        self.guarantee = self._guarantee()

    def __repr__(self) -> str:
        return f"SurrogateWithVotes({self.votes} votes, {self.surrogate!r})"

    @property
    def most_passes(self) -> int:
        """The most passes per input."""
        return 1 + self.votes

    def certify(self, inputs: Any, *, on_progress: OnProgress | None = None) -> Certificates:
        """Certify inputs with one pass of the surrogate and up to `votes` passes of the base classifier.

        Args:
            inputs: a batch `[inputs, *input_shape]` of floating-point numbers in the input range.
            on_progress: called with the number of passes of the base classifier since the last call.

        Returns:
            One certificate per input, with its number of passes. The certifier abstains where the surrogate
            returns NaN.

        Raises:
            InputError: an input is invalid, or the base classifier returns NaN under noise.
        """
        first = self.surrogate.certify(inputs)
        if len(first) == 0:
            return first
        probabilities = first.probabilities
        assert probabilities is not None
        known = np.asarray(np.isfinite(probabilities).all(axis=1))
        top = np.where(known, probabilities.max(axis=1).astype(np.float64), 0.0)
        live = self._live(inputs, on_progress)
        agreeing, counts = {}, np.zeros(len(first), dtype=np.int64)
        rows, before = np.flatnonzero(known), 0
        for stop in self._stops:
            counts[rows] += live.agreeing(first.label[rows], before, stop, rows)
            agreeing[stop] = counts.copy()
            going = self._goes_on(blended(top[rows], counts[rows], stop, self.strength), stop)
            rows, before = rows[going], stop
        blend, used = self._blend(np.minimum(top, 1.0), agreeing)
        bound = np.where(known, self.calibration.lower_bound(blend, first.label), 0.0)
        return Certificates.from_bound(
            first.label,
            bound,
            guarantee=self.guarantee,
            passes=1 + np.where(known, used, 0),
            probabilities=probabilities,
        )

    def _live(self, inputs: Any, on_progress: OnProgress | None = None) -> LiveVotes:
        smoothing = self.smoothing
        seed = secrets.randbits(63) if self._seed is None else self._seed
        plan = VotePlan(
            smoothing.noise, self.votes, seed, "query", smoothing.input_range, smoothing.precision
        )
        return LiveVotes(self.base, inputs, plan, batch_size=self._batch_size, on_progress=on_progress)

    def _goes_on(self, blend: NDArray[np.float64], votes: int) -> NDArray[np.bool_]:
        """Tell which queries need more votes; a function of the surrogate and the votes so far alone."""
        if self.tolerance is None:
            return np.ones(len(blend), dtype=np.bool_)
        return np.asarray(spread_in_sigma(blend, self.strength + votes) > self.tolerance)

    def _blend(
        self, top: NDArray[np.float64], agreeing: Mapping[int, NDArray[np.int64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the blended probability of each input at the votes where it stops, and their number."""
        blend, used = top.copy(), np.zeros(len(top), dtype=np.int64)
        going = np.ones(len(top), dtype=np.bool_)
        for stop in self._stops:
            at_stop = blended(top, agreeing[stop], stop, self.strength)
            blend, used = np.where(going, at_stop, blend), np.where(going, stop, used)
            going &= self._goes_on(at_stop, stop)
        return np.clip(blend, 0.0, 1.0), used

    def _checked_stops(self) -> tuple[int, ...]:
        """Return the numbers of votes after which a query may stop; the last is `votes`."""
        query = self.surrogate.query
        if query is None:
            raise SettingError(
                "this certifier was calibrated without query votes: calibrate it with votes in their order "
                "(read_sequence), or pass query_votes= to calibrate"
            )
        if self.votes not in query.stops:
            known = ", ".join(map(str, query.stops))
            raise SettingError(f"expected votes out of {known}, as calibrated; got {self.votes}")
        return tuple(m for m in query.stops if m <= self.votes) if self.tolerance else (self.votes,)

    def _fitted(self) -> tuple[Calibration, CalibrationEvidence]:
        query, former = self.surrogate.query, self.surrogate
        assert query is not None
        blend, _ = self._blend(former.evidence.top_probability, query.agreeing)
        return refit_calibration(
            former.calibration,
            blend,
            query.reference[self.votes],
            former.evidence.label,
            n=query.n[self.votes],
        )

    def _guarantee(self) -> Guarantee:
        former = self.surrogate.guarantee
        facts = former.calibration
        assert facts is not None
        elsewhere = tuple(one for one in former.assumptions if one is Assumption.OTHER_DEVICE)
        found = surrogate_guarantee(
            self.calibration,
            self.evidence,
            self.smoothing,
            facts.seen_in_training,
            source=facts.source,
            method=METHOD,
            more=(Assumption.FRESH_NOISE, *elsewhere),
            settings={"votes": self.votes, "tolerance": self.tolerance, "strength": self.strength},
        )
        return replace(found, form=former.form)


def usual_strength(votes: int) -> float:
    """Return how many votes the surrogate counts as, unless another number is given.

    Measured on images that nothing is reported on: `benchmarks/results/query-votes.md`.
    """
    return max(100.0, 25.0 * math.sqrt(votes))


def query_evidence(ordered: Any, votes: Any, query: Any, label: NDArray[np.int64]) -> QueryEvidence | None:
    """Return the query votes of calibration inputs, if there are any.

    `ordered` are their votes as they were given, perhaps in their order; `votes` are their counts.
    """
    if query is not None:
        return QueryEvidence.from_votes(votes, query, label)
    return QueryEvidence.from_sequence(ordered, votes, label) if isinstance(ordered, VoteSequence) else None


register_words(
    METHOD,
    why="Votes of the input itself sharpen the bound. The promise is still not one for each input.",
)
