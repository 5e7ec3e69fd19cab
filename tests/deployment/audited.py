"""Audited queries made up for tests: the calibration inputs of a certifier, in another order."""

import numpy as np

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.monitor.recalibration import AuditedQueries
from rrise.deployment.monitor.subject import about


def audited_calibration_inputs(certifier: SurrogateCertifier) -> AuditedQueries:
    evidence, size = certifier.evidence, certifier.calibration.size
    rows = np.random.default_rng(0).permutation(size)
    assert evidence.label is not None
    return AuditedQueries(
        about(certifier, 0.01),
        np.arange(size, dtype=float),
        evidence.top_probability[rows],
        evidence.agreeing[rows],
        evidence.label[rows],
        evidence.score[rows],
        size,
        None,
    )
