"""Certificates made up for tests: under a guarantee of some smoothed classifier."""

from fractions import Fraction
from typing import Any

import numpy as np

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import per_input_guarantee
from rrise.votes.smoothing import Smoothing

SMOOTHING = Smoothing("f" * 64, 0.5, None, "float32")
GUARANTEE = per_input_guarantee("made-up", Fraction(1, 10), SMOOTHING)


def made_certificates(label: Any, radius: Any, bound: Any, issued: Any, probabilities: Any) -> Certificates:
    """Return certificates with these arrays, one pass each."""
    passes = np.ones(len(label), dtype=np.int64)
    return Certificates(label, radius, bound, issued, GUARANTEE, passes, probabilities)
