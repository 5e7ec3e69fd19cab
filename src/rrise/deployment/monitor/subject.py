"""What a monitor watches: the identity of a certifier, and the initial state of the tests."""

import hashlib
import secrets

from rrise.certifiers.certifier import CalibratedCertifier, check_certifier
from rrise.deployment.monitor.state import ExchangeabilityTest
from rrise.errors import SettingError
from rrise.files import Json, sha256_of_json
from rrise.statistics import check_level
from rrise.statistics.martingales import ConformalMartingale

LABEL_FREE, AUDITS = "label-free", "audits"
"""The two tests: on the top probability of every query, and on the calibration score of audited ones."""


def certifier_identity(certifier: CalibratedCertifier) -> str:
    """Return an identifier of this calibrated surrogate: its promise and its numbers on every input.

    It does not depend on the words of the promise, which may change between versions of this library.
    """
    evidence = certifier.evidence
    content = evidence.top_probability.astype("<f8").tobytes() + evidence.agreeing.astype("<i8").tobytes()
    return sha256_of_json(
        {"guarantee": certifier.guarantee.facts(), "evidence": hashlib.sha256(content).hexdigest()}
    )


def check_watchable(certifier: CalibratedCertifier) -> None:
    """Refuse a certifier whose certificates do not show the number that was calibrated."""
    check_certifier(certifier)
    if (method := certifier.guarantee.method) != "surrogate":
        raise SettingError(
            f"a monitor watches a calibrated surrogate, in torch or exported; got {method}: watch its "
            f"surrogate instead"
        )


def about(certifier: CalibratedCertifier, rate: float) -> Json:
    """Return what identifies the database of a monitor, with a new seed for its noise."""
    return {
        "base_classifier": certifier.smoothing.base,
        "votes": certifier.calibration.n,
        "certifier": certifier_identity(certifier),
        "false_alarm_rate": rate,
        "seed": secrets.randbits(62),
    }


def first_tests(certifier: CalibratedCertifier, rate: float) -> dict[str, ExchangeabilityTest]:
    """Return the two tests before the first query; each has half of the false-alarm rate."""
    evidence = certifier.evidence
    scores = {LABEL_FREE: (evidence.top_probability, "probability"), AUDITS: (evidence.score, "real")}
    return {
        name: ExchangeabilityTest(
            ConformalMartingale.start(values, grid, secrets.randbits(62)), check_level(rate, "rate") / 2
        )
        for name, (values, grid) in scores.items()
    }
