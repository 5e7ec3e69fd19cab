"""What a monitor watches: a certifier in the form that answers, and what its tests begin with."""

import hashlib
import secrets
from typing import Protocol

from rrise.certifiers.guarantee import Guarantee
from rrise.deployment.monitor.state import ExchangeabilityTest
from rrise.deployment.service.deployed import Deployed
from rrise.files import Json, sha256_of_json
from rrise.statistics import Calibration, CalibrationEvidence, check_level
from rrise.statistics.martingales import ConformalMartingale
from rrise.votes.array import Smoothing

LABEL_FREE, AUDITS = "label-free", "audits"
"""The two tests: on the top probability of every query, and on the calibration score of audited ones."""


class Watched(Deployed, Protocol):
    """A deployed certifier with the calibration of the very form that answers."""

    @property
    def calibration(self) -> Calibration:
        """The numbers of the calibration."""

    @property
    def evidence(self) -> CalibrationEvidence:
        """What the offset was computed from."""


class Certified(Protocol):
    """What the identity of a certifier is made of."""

    @property
    def guarantee(self) -> Guarantee:
        """What it promises."""

    @property
    def evidence(self) -> CalibrationEvidence:
        """What the offset was computed from."""


def certifier_identity(certifier: Certified) -> str:
    """Return a name of exactly this calibrated surrogate: what it promises, and its numbers on every input.

    The words of the promise have no part in it: another version of this library may choose others.
    """
    evidence, guarantee = certifier.evidence, certifier.guarantee
    content = evidence.top_probability.astype("<f8").tobytes() + evidence.agreeing.astype("<i8").tobytes()
    parts = {
        "guarantee": [guarantee.method, guarantee.failure, guarantee.numbers],
        "evidence": hashlib.sha256(content).hexdigest(),
    }
    return sha256_of_json(parts)


def smoothing_of(deployed: Deployed) -> Smoothing:
    """Return the smoothed classifier that a certifier is about."""
    numbers = deployed.guarantee.numbers
    return Smoothing(numbers["base_classifier"], numbers["sigma"], deployed.input_range, numbers["precision"])


def about(deployed: Watched, rate: float) -> Json:
    """Return what the database of a monitor is of, and a new seed for its noise."""
    return {
        "base_classifier": deployed.guarantee.numbers["base_classifier"],
        "votes": deployed.calibration.n,
        "certifier": certifier_identity(deployed),
        "false_alarm_rate": rate,
        "seed": secrets.randbits(62),
    }


def first_tests(deployed: Watched, rate: float) -> dict[str, ExchangeabilityTest]:
    """Return the two tests before the first query; each has half of the false-alarm rate."""
    evidence = deployed.evidence
    scores = {LABEL_FREE: (evidence.top_probability, "probability"), AUDITS: (evidence.score, "real")}
    return {
        name: ExchangeabilityTest(
            ConformalMartingale.start(values, grid, secrets.randbits(62)), check_level(rate, "rate") / 2
        )
        for name, (values, grid) in scores.items()
    }
