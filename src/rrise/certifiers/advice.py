"""Advice where a calibrated certifier issues almost nothing."""

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.statistics import format_down, level_text

LITTLE = 0.05
"""The share of issued calibration inputs below which advice is due."""
_MANY = 0.5


def advice_on(certifier: SurrogateCertifier) -> str | None:
    """Say why a certifier abstains on nearly all calibration inputs, and what to do; None if it does not.

    The votes tell the reasons apart: if they themselves prove few labels, the base classifier and the noise
    do not fit; otherwise the surrogate or the failure is the limit.
    """
    evidence, calibration = certifier.evidence, certifier.calibration
    issued = float((calibration.lower_bound(evidence.top_probability, evidence.label) > 0.5).mean())
    if issued >= LITTLE:
        return None
    proven = float((evidence.lower > 0.5).mean())
    sigma, failure = certifier.smoothing.sigma, level_text(calibration.failure)
    found = (
        f"the certifier issues a radius for {format_down(100 * issued, 1)} % of its calibration inputs; the "
        f"votes alone prove the surrogate's answer for {format_down(100 * proven, 1)} %. "
    )
    if proven < _MANY:
        return found + (
            f"The base classifier answers too few noisy inputs alike: it was perhaps not trained with noise, "
            f"sigma={sigma:g} is too large, {calibration.n:,} votes are too few, or the surrogate is poor. "
            f"Train the base classifier with Gaussian noise on its inputs, or take a smaller sigma"
        )
    return found + (
        f"The surrogate is too far from the votes for the failure {failure}: train it longer or with "
        f"strategy='distill', calibrate on more than {calibration.size:,} inputs, or allow a larger failure"
    )
