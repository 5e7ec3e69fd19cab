"""Binomial bounds, conformal ranks, calibration scores and radii: NumPy and SciPy only, float64.

No torch, no files, no devices: arrays in, arrays out.
"""

from rrise.statistics.anytime import anytime_lower
from rrise.statistics.binomial import (
    check_budget,
    check_level,
    clopper_pearson_interval,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from rrise.statistics.blending import blended, check_strength, spread_in_sigma
from rrise.statistics.calibration import (
    Calibration,
    CalibrationEvidence,
    fit_calibration,
    refit_calibration,
    refit_for,
    terms_of,
)
from rrise.statistics.conformal import (
    Level,
    conformal_rank,
    conformal_share,
    exact_level,
    level_text,
    smallest_calibration_size,
)
from rrise.statistics.promises import Promise, as_promise, smallest_size
from rrise.statistics.radius import certified_radius, check_sigma
from rrise.statistics.rounding import exactly, float32_below, format_down, format_up, round_down
from rrise.statistics.rules import FLOORED, PAPER, RULES, Rule, as_rule
from rrise.statistics.scores import (
    SCORES,
    Score,
    all_over,
    as_score,
    register_score,
    score_by_name,
    tapered_by,
)
from rrise.statistics.sequential import SequentialTest, fewest_trials, sequential_test
from rrise.statistics.terms import Terms
from rrise.statistics.threat import Threat, threat_of

__all__ = [
    "FLOORED",
    "PAPER",
    "RULES",
    "SCORES",
    "Calibration",
    "CalibrationEvidence",
    "Level",
    "Promise",
    "Rule",
    "Score",
    "SequentialTest",
    "Terms",
    "Threat",
    "all_over",
    "anytime_lower",
    "as_promise",
    "as_rule",
    "as_score",
    "blended",
    "certified_radius",
    "check_budget",
    "check_level",
    "check_sigma",
    "check_strength",
    "clopper_pearson_interval",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "conformal_rank",
    "conformal_share",
    "exact_level",
    "exactly",
    "fewest_trials",
    "fit_calibration",
    "float32_below",
    "format_down",
    "format_up",
    "level_text",
    "refit_calibration",
    "refit_for",
    "register_score",
    "round_down",
    "score_by_name",
    "sequential_test",
    "smallest_calibration_size",
    "smallest_size",
    "spread_in_sigma",
    "tapered_by",
    "terms_of",
    "threat_of",
]
