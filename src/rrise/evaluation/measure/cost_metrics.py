"""Metrics of what certificates cost, per query and before the first one."""

from typing import Any

from rrise.evaluation.measure import costs, metrics
from rrise.evaluation.measure.context import Context, exact_mean_passes
from rrise.evaluation.measure.metric import InTables, Metric
from rrise.evaluation.measure.number_text import count_text, milliseconds, ratio_text
from rrise.evaluation.measure.quality_metrics import finite

PASSES, REDUCTION, CALIBRATION, TRAINING, TIME, EQUAL = (
    "passes",
    "reduction",
    "calibration",
    "training",
    "time",
    "equal Monte Carlo",
)
"""Groups of columns."""
_ONCE = "passes, once"


def _break_evens(found: Context) -> dict[str, Any] | None:
    """Return the break-even against every method that votes with the same failure, by its name."""
    if not found.is_surrogate:
        return None
    return {
        f"{other.setting.method} {other.setting.variant}": found.break_even(
            exact_mean_passes(other.certificates)
        )
        for other in found.voting
        if other.setting.failure == found.outcome.setting.failure
    }


def _offset(found: Context) -> float | None:
    return None if found.outcome.offset is None else finite(float(found.outcome.offset))


COST = (
    Metric(
        "mean_passes",
        lambda found: found.certificates.mean_passes,
        "forward passes per certificate, on average",
        "passes per input",
        "mean number of forward passes for one input, pilot and selection votes included",
        write=count_text,
        table=InTables(PASSES, "Test Cost", paper=""),
        compared="passes per input",
        tile="forward pass per certificate",
    ),
    Metric(
        "median_passes",
        lambda found: metrics.median_passes(found.certificates),
        "forward passes per certificate, median",
        "passes per input",
        "median number of forward passes for one input",
    ),
    Metric(
        "sample_reduction",
        lambda found: (
            None
            if found.is_surrogate
            else metrics.sample_reduction(found.certificates, found.outcome.setting.budget)
        ),
        "votes saved by stopping early",
        "times fewer votes",
        "the full budget divided by the mean number of passes; methods that vote alone",
        write=ratio_text,
        table=InTables(REDUCTION, "Sample Red.", paper=""),
    ),
    Metric(
        "offset",
        _offset,
        "calibrated offset",
        "in the unit of the score",
        "by how much calibration lowers what the surrogate says; surrogates alone",
        write=ratio_text,
        table=InTables(CALIBRATION, "δ", paper="delta"),
    ),
    Metric(
        "epoch",
        lambda found: int(found.outcome.offline.epoch) if found.is_surrogate else None,
        "selected epoch",
        "epochs",
        "the epoch of training that was kept; surrogates alone",
        table=InTables(TRAINING, "Best Epoch", paper=""),
    ),
    Metric(
        "targets",
        lambda found: int(found.outcome.offline.targets),
        "votes of the training inputs",
        _ONCE,
        "forward passes for the votes that the surrogate is trained on",
    ),
    Metric(
        "training",
        lambda found: int(found.outcome.offline.training),
        "training",
        _ONCE,
        "passes of training to the selected epoch, counted per example, a backward pass as two",
    ),
    Metric(
        "calibration",
        lambda found: int(found.outcome.offline.calibration),
        "calibration",
        _ONCE,
        "forward passes for the votes of the calibration inputs, and one each of the surrogate",
    ),
    Metric(
        "training_paper",
        lambda found: costs.training_paper(found.outcome.offline),
        "training, as the paper counts it",
        _ONCE,
        "three passes per minibatch to the selected epoch, whatever its size",
    ),
    Metric(
        "break_even",
        _break_evens,
        "break-even",
        "queries",
        "from so many queries on the surrogate costs no more, in all, than a method that votes; one number "
        "for each such method at the same failure",
    ),
    Metric(
        "seconds",
        lambda found: None if found.outcome.seconds is None else float(found.outcome.seconds),
        "passes × time per pass",
        "milliseconds",
        "mean number of passes times the measured time of one; undefined where that time was not steady",
        scale=1000,
        write=milliseconds,
        table=InTables(TIME, "Time (ms)", digits=3),
    ),
    Metric(
        "rival_passes",
        lambda found: None if found.rival is None else found.rival.passes,
        "cheapest equally good Monte Carlo",
        "passes per input",
        "passes per query of the cheapest two-stage Monte Carlo with at least the same certified accuracy "
        "and average certified radius at the same failure; surrogates alone",
        table=InTables(EQUAL, "Equal MC"),
    ),
    Metric(
        "rival_break_even",
        lambda found: None if found.rival is None else found.break_even(found.rival.passes),
        "break-even against the cheapest equally good Monte Carlo",
        "queries",
        "from so many queries on the surrogate costs no more, in all, than that Monte Carlo",
        table=InTables(EQUAL, "BE vs Equal MC"),
    ),
)
