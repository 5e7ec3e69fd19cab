"""An audit: the votes of one query, and their verdict on its certificate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.certifier import CalibratedCertifier, check_fingerprint, typical_inputs
from rrise.data.inputs import input_digests
from rrise.defaults import DOUBT
from rrise.deployment.monitor.store import Audit, AuditOutcome
from rrise.models.checks import check_module
from rrise.statistics import Calibration, clopper_pearson_upper
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardInputs
from rrise.votes.plan import VotePlan

BATCH_SIZE = 256


@dataclass(frozen=True)
class Verdict:
    """What votes prove about one certificate.

    Attributes:
        score: the calibration score, computed as for the calibration inputs.
        upper_bound: Clopper–Pearson upper bound at `DOUBT` on the smoothed probability of the label.
        violation: whether a radius was issued with a lower bound above `upper_bound`. That lower bound is
            then wrong, except with probability `DOUBT` over the noise.
    """

    score: float
    upper_bound: float
    violation: bool


def verdict(
    calibration: Calibration, top_probability: float, agreeing: int, lower_bound: float, issued: bool
) -> Verdict:
    """Judge a certificate by `agreeing` out of `calibration.n` votes for its label."""
    upper = float(clopper_pearson_upper(agreeing, calibration.n, DOUBT))
    score = calibration.scores(np.array([top_probability]), np.array([agreeing]))
    return Verdict(float(score[0]), upper, bool(issued and upper < lower_bound))


class Auditor:
    """Draws the votes of one query after another, as many as a calibration input has.

    The base classifier stays in evaluation mode, because other threads may use it at the same time. The
    noise of an audit is a function of the seed, the audit's number and the input. It is fresh for each
    audit, and the same if an audit is repeated after a crash.
    """

    def __init__(self, base: nn.Module, certifier: CalibratedCertifier, seed: int) -> None:
        check_module(base, "base classifier")
        self.calibration, smoothing = certifier.calibration, certifier.smoothing
        plan = VotePlan(
            smoothing.noise, self.calibration.n, seed, "audit", smoothing.input_range, smoothing.precision
        )
        sample = typical_inputs(certifier.input_shape, smoothing.input_range)
        execution = Execution(min(BATCH_SIZE, self.calibration.n))
        self._engine = VoteEngine(base.eval(), plan, sample, execution)
        check_fingerprint(self._engine.smoothing.base, smoothing)

    def audit(self, audit: Audit, go_on: Callable[[], bool] = lambda: True) -> AuditOutcome | None:
        """Return the outcome of an audit; None if `go_on` returned False before all votes were drawn."""
        agreeing = self._agreeing(audit, go_on)
        if agreeing is None:
            return None
        found = verdict(self.calibration, audit.top_probability, agreeing, audit.lower_bound, audit.issued)
        return AuditOutcome(audit.number, agreeing, found.score, found.upper_bound, found.violation)

    def _agreeing(self, audit: Audit, go_on: Callable[[], bool]) -> int | None:
        inputs = torch.from_numpy(np.array(audit.input, dtype=np.float32)[None])
        shard = ShardInputs(audit.number, inputs, input_digests(inputs)[0].hex())
        agreeing, n, step = 0, self.calibration.n, self._engine.execution.batch_size
        for first in range(0, n, step):
            if not go_on():
                return None
            draw = np.arange(first, min(first + step, n))
            answers: NDArray[np.int64] = self._engine.chosen_answers(shard, draw, np.zeros_like(draw))
            agreeing += int(np.count_nonzero(answers == audit.label))
        return agreeing
