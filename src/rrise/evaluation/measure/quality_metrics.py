"""Metrics of what is certified: accuracy, radii, the boundary set, and radii against Baseline 1."""

import math
from typing import Any

from numpy.typing import NDArray

from rrise.evaluation.measure import metrics
from rrise.evaluation.measure.context import Context
from rrise.evaluation.measure.metric import InTables, Metric
from rrise.evaluation.measure.number_text import percent, percent_up, radius_text, ratio_text

BOUNDARY, DISTRIBUTIONS = "boundary", "distributions"
"""Groups of columns: those of the paper's main table, and those with a column for each threshold."""
INPUTS, RADIUS = "% of test inputs", "L2 radius"
"""Units of most metrics."""


def finite(value: float | None) -> float | None:
    """Return a number, or None for an infinite one."""
    return value if value is not None and math.isfinite(value) else None


def _radius_ratio(found: Context) -> float | None:
    if found.baseline is None:
        return None
    return finite(metrics.radius_ratio(found.certificates, found.baseline))


def _radius_drop(found: Context) -> float | None:
    ratio = _radius_ratio(found)
    return None if ratio is None else 1 - ratio


def _listed(values: NDArray[Any] | None) -> list[float] | None:
    return None if values is None else values.tolist()


QUALITY = (
    Metric(
        "accuracy",
        lambda found: metrics.accuracy(found.certificates, found.labels),
        "accuracy",
        INPUTS,
        "the label is the true class, certified or not",
        scale=100,
        write=percent,
        table=InTables(BOUNDARY, "Accuracy (%)", paper="CertAcc@0 (%)", surrogates_only=True),
        compared="accuracy",
    ),
    Metric(
        "issued",
        lambda found: float(found.certificates.issued.mean()),
        "certificates issued",
        INPUTS,
        "the lower bound is above 1/2, so that there is a certificate; the others abstained",
        scale=100,
        write=percent,
        table=InTables(heading="Issued (%)"),
        compared="issued",
    ),
    Metric(
        "certified_accuracy",
        lambda found: float(metrics.certified_accuracy(found.certificates, found.labels, 0.0)),
        "certified accuracy",
        INPUTS,
        "the label is the true class and the lower bound is above 1/2; the paper's CertAcc(0)",
        scale=100,
        write=percent,
        table=InTables(BOUNDARY, "CertAcc@0 (%)", paper=""),
        bars=1,
        compared="certified accuracy",
        tile="correct and certified",
    ),
    Metric(
        "certified_accuracy_at",
        lambda found: _listed(metrics.certified_accuracy(found.certificates, found.labels, found.thresholds)),
        "certified accuracy against radius",
        "% correct and certified",
        "the label is the true class and its certified radius is at least r, for each threshold r; the "
        "paper's CertAcc(r)",
        scale=100,
        write=percent,
        table=InTables(DISTRIBUTIONS, "Certified accuracy"),
    ),
    Metric(
        "average_certified_radius",
        lambda found: finite(metrics.average_certified_radius(found.certificates, found.labels)),
        "average certified radius",
        RADIUS,
        "mean of the radius over all inputs, 0 where the label is wrong or there is no certificate (ACR)",
        write=radius_text,
        table=InTables(heading="ACR", digits=3),
        compared="average certified radius",
        tile="average certified radius",
    ),
    Metric(
        "mean_issued_radius",
        lambda found: finite(metrics.mean_issued_radius(found.certificates)),
        "mean radius of issued certificates",
        RADIUS,
        "mean of the radius over the inputs with a certificate, right or wrong",
        write=radius_text,
        table=InTables(heading="Mean Issued Radius", digits=3),
    ),
    Metric(
        "boundary_mass",
        lambda found: metrics.boundary_mass(found.certificates),
        "boundary mass",
        INPUTS,
        "the input is in the boundary set: its lower bound lies strictly between 1/2 and 3/4",
        scale=100,
        write=percent,
        table=InTables(BOUNDARY, "Boundary Mass", paper="", last=True),
        bars=3,
    ),
    Metric(
        "boundary_accuracy",
        lambda found: metrics.boundary_accuracy(found.certificates, found.labels),
        "boundary accuracy",
        "% of boundary set",
        "the label is the true class, among the inputs of the boundary set (OCA)",
        scale=100,
        write=percent,
        table=InTables(BOUNDARY, "OCA (%)", paper=""),
        bars=2,
    ),
    Metric(
        "boundary_radius",
        lambda found: metrics.boundary_radius(found.certificates),
        "boundary radius, average",
        RADIUS,
        "mean of the radius over the boundary set, of right and wrong labels",
        write=radius_text,
        table=InTables(BOUNDARY, "Avg. Radius", paper=""),
        bars=4,
    ),
    Metric(
        "boundary_crd",
        lambda found: _listed(metrics.boundary_crd(found.certificates, found.thresholds)),
        "radii in the boundary set",
        INPUTS,
        "the input is in the boundary set and its radius is above t, for each threshold t; tables have "
        "fractions, as the paper's CRD(t)",
        scale=100,
        write=percent,
        table=InTables(DISTRIBUTIONS, "CRD", paper="", scale=1),
    ),
    Metric(
        "certified_crd",
        lambda found: _listed(metrics.certified_crd(found.certificates, found.thresholds)),
        "radii of issued certificates",
        "% of issued certificates",
        "the radius is above t, among the inputs with a certificate, for each threshold t; tables have "
        "fractions",
        scale=100,
        write=percent,
        table=InTables(DISTRIBUTIONS, "Certified-input CRD", paper="", scale=1),
    ),
    Metric(
        "radius_ratio",
        _radius_ratio,
        "radius against Baseline 1",
        "times that of Baseline 1",
        "mean radius, 0 where there is no certificate, divided by that of Baseline 1 at the same failure and "
        "budget, or at the main budget where it has none of the same",
        write=ratio_text,
        table=InTables(heading="Radius Ratio", digits=3),
    ),
    Metric(
        "radius_drop",
        _radius_drop,
        "radius lost against Baseline 1",
        "% of that of Baseline 1",
        "1 less the radius ratio; tables have fractions",
        scale=100,
        write=percent_up,
        table=InTables(heading="Radius Drop", digits=3, scale=1),
    ),
)
