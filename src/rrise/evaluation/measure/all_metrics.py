"""Every metric that comes with the package, registered by importing it from here."""

from rrise.evaluation.measure.bound_metrics import BOUND
from rrise.evaluation.measure.cost_metrics import COST
from rrise.evaluation.measure.metric import (
    METRICS,
    InTables,
    Metric,
    metrics_as_bars,
    metrics_in,
    register_metric,
)
from rrise.evaluation.measure.quality_metrics import QUALITY

__all__ = ["METRICS", "InTables", "Metric", "metrics_as_bars", "metrics_in", "register_metric"]

for _metric in (*QUALITY, *BOUND, *COST):
    register_metric(_metric)
