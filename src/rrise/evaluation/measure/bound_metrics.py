"""Metrics of whether the bound holds, judged by many votes of inputs that calibrated no surrogate."""

from operator import attrgetter

from rrise.evaluation.measure import metrics
from rrise.evaluation.measure.context import Context
from rrise.evaluation.measure.metric import InTables, Metric
from rrise.evaluation.measure.number_text import percent, percent_up
from rrise.evaluation.measure.quality_metrics import INPUTS

VIOLATIONS = "violations"
"""The group of columns of shares of wrong bounds."""


def _agreement(found: Context) -> float | None:
    return None if found.judged is None else metrics.agreement(found.judged, found.smoothed)


def _violations(
    key: str, name: str, unit: str, meaning: str, *, heading: str = "", compared: str = ""
) -> Metric:
    """Return a metric of bounds above the estimate; `name` is a field of `Violations`."""
    share = attrgetter(name)
    return Metric(
        key,
        lambda found: None if found.violations is None else share(found.violations),
        f"bounds above the estimate, {unit.removeprefix('% ')}",
        unit,
        meaning,
        scale=100,
        write=percent_up,
        table=InTables(VIOLATIONS, heading) if heading else None,
        compared=compared,
    )


BOUND = (
    Metric(
        "agreement",
        _agreement,
        "agreement with the smoothed classifier",
        INPUTS,
        "the label of a surrogate is the class with most of all stored votes of the input",
        scale=100,
        write=percent,
        table=InTables(heading="Agreement (%)"),
    ),
    _violations(
        "violation_rate",
        "rate",
        INPUTS,
        "the bound of a surrogate is above the share of votes it bounds, with a certificate or not; what the "
        "total failure limits",
        heading="Violations (%)",
        compared="bound above the estimate",
    ),
    _violations(
        "issued_violation_rate",
        "issued",
        "% of test inputs, with a certificate",
        "the same, counting the inputs with a certificate alone",
        heading="Issued Violations (%)",
    ),
    _violations(
        "violation_rate_among_issued",
        "among_issued",
        "% of issued certificates",
        "the same, as a share of the inputs with a certificate; no total failure limits it",
        heading="Violations among Issued (%)",
        compared="the same, of issued",
    ),
    _violations(
        "boundary_violation_rate",
        "in_boundary",
        "% of boundary set",
        "the same, among the inputs of the boundary set",
    ),
)
