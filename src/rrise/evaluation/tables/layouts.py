"""The tables of the paper's Appendix B, and two that it does not have: what each shows, and in which order.

Two columns and several rows are added to the paper's: plain accuracy beside CertAcc@0, violations in the
calibration tables, and rows of scores and methods that the paper does not have, after its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rrise.certifiers.methods import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    RRISE,
    SEQUENTIAL,
    methods,
)
from rrise.evaluation.measure.bound_metrics import VIOLATIONS
from rrise.evaluation.measure.cost_metrics import CALIBRATION, PASSES, REDUCTION, TRAINING
from rrise.evaluation.measure.known import surrogates
from rrise.evaluation.measure.metric import FURTHER
from rrise.evaluation.measure.quality_metrics import BOUNDARY
from rrise.evaluation.tables.columns import (
    Reading,
    at_thresholds,
    columns,
    costs,
    representative,
    representative_crd,
)
from rrise.evaluation.tables.comparison import Comparison

Labels = tuple[tuple[str, str], ...]
Columns = Callable[[Sequence[Comparison]], tuple[Reading, ...]]


@dataclass(frozen=True)
class Layout:
    """What a table shows.

    `labels` are headings and the fields under them. `methods` are those it shows; None is all of them.
    `varied` is what its rows tell apart, out of `variant`, `budget` and `failure`; everything else is as in
    the main comparison. With `each_dataset` there is one table per dataset, grouped by method; otherwise one
    table, grouped by dataset.
    """

    name: str
    title: str
    labels: Labels
    columns: Columns
    methods: tuple[str, ...] | None = None
    varied: frozenset[str] = frozenset()
    each_dataset: bool = False
    main_first: bool = True
    label_once: bool = False
    more: Callable[[Sequence[Comparison]], str] | None = None
    """What else the title says, by the results that are shown."""


_DATASET, _METHOD, _VARIANT = ("Dataset", "dataset"), ("Method", "method"), ("Variant", "variant")
_BUDGET, _FAILURE = ("Budget", "budget"), ("Total Failure", "failure")
_IN_BOUNDARY = "the boundary set (lower bound strictly between 0.5 and 0.75)"


def layouts(*, paper_counting: bool) -> tuple[Layout, ...]:
    """Return the layouts of all tables; `paper_counting` is about costs, see `costs`."""
    return (*_main(paper_counting), *_by_dataset(), *_ablations(), *_by_threshold())


def _of(*groups: str) -> Columns:
    """Return the columns of these groups of metrics, whatever the results."""
    return lambda _: columns(*groups)


def _main(paper_counting: bool) -> tuple[Layout, ...]:
    counted = (
        "Train Cost counts as the paper does: votes of the targets and, for training, three passes per "
        "minibatch (not per example); votes of the calibration are left out. Break-evens against Baselines 2 "
        "and 3 rest on their 5 % variants, whose test costs are in the ablation tables, not in this one."
        if paper_counting
        else "Train Cost counts every pass per example: votes of the targets, training to the selected "
        "epoch, votes of the calibration. Break-evens are against the test costs shown."
    )
    layout = partial(Layout, labels=(_DATASET, _METHOD), label_once=True)
    return (
        layout(
            "main_cert_boundary",
            "Certified accuracy and behaviour near the boundary. Accuracy, CertAcc@0 and Boundary Mass are "
            f"in percent of all test inputs; OCA and Avg. Radius are over {_IN_BOUNDARY}.",
            columns=_of(BOUNDARY),
        ),
        layout(
            "main_compute",
            "Cost in forward passes, a backward pass counting as two: Test Cost per input, Train Cost once, "
            f"and the queries after which RRISE has paid off (BE). {counted} Equal MC is the cheapest "
            "two-stage Monte Carlo with at least the same CertAcc@0 and average certified radius.",
            columns=partial(costs, paper_counting=paper_counting),
        ),
        layout(
            "main_crd_representative",
            f"Boundary CRD at three thresholds: the share of all test inputs in {_IN_BOUNDARY} with a radius "
            "above t. CRD is a fraction, Boundary Mass is in percent.",
            columns=representative_crd,
            more=_thresholds,
        ),
        layout(
            "main_further",
            "Further metrics of the main comparison, which the paper defines or implies and does not print. "
            "ACR is the mean radius with 0 where wrong or abstained; ratio and drop are of mean radii "
            "against Baseline 1; a violation is a lower bound above the share of high-budget votes.",
            columns=_of(FURTHER, VIOLATIONS),
        ),
    )


def _by_dataset() -> tuple[Layout, ...]:
    return (
        Layout(
            "budget_ablation",
            "Budgets on {dataset}: votes per test input of methods that vote, votes per training input of "
            f"the targets of surrogates. OCA and Avg. Radius are over {_IN_BOUNDARY}.",
            (_METHOD, _BUDGET),
            _of(BOUNDARY, PASSES),
            methods=tuple(
                method.name for method in methods() if method not in (INPUT_SPECIFIC, EARLY_STOPPING)
            ),
            varied=frozenset({"budget"}),
            each_dataset=True,
        ),
        Layout(
            "calibration_ablation",
            "Calibration at several total failures on {dataset}. Violations are lower bounds above the share "
            "of high-budget votes, in percent of all test inputs (what Total Failure limits); then those "
            "with a certificate alone, in percent of all test inputs, and of issued certificates (what it "
            "does not limit).",
            (_METHOD, _FAILURE),
            _of(CALIBRATION, BOUNDARY, VIOLATIONS),
            methods=tuple(method.name for method in surrogates()),
            varied=frozenset({"failure"}),
            each_dataset=True,
        ),
    )


def _ablations() -> tuple[Layout, ...]:
    layout = partial(Layout, labels=(_DATASET, _VARIANT), varied=frozenset({"variant"}))
    return (
        layout(
            "rrise_training_ablation",
            "How RRISE is trained: which weights, and from which start.",
            labels=(_DATASET, ("Training Strategy", "variant")),
            columns=_of(BOUNDARY, CALIBRATION, TRAINING),
            methods=(RRISE.name,),
            main_first=False,
        ),
        layout(
            "baseline2_ablation",
            "Baseline 2 by accepted decline of radius. Sample Red. is the full budget divided by Test Cost.",
            columns=_of(BOUNDARY, PASSES, REDUCTION),
            methods=(INPUT_SPECIFIC.name,),
        ),
        layout(
            "baseline3_ablation",
            "Early stopping by tolerance: Baseline 3 and, valid whenever it stops, the sequential method. "
            "Sample Red. is the full budget divided by Test Cost.",
            columns=_of(BOUNDARY, PASSES, REDUCTION),
            methods=(EARLY_STOPPING.name, SEQUENTIAL.name),
        ),
        layout(
            "baseline4_init_ablation",
            "Baseline 4 by initialisation: init0 is random, init1 is the base classifier.",
            columns=_of(BOUNDARY, CALIBRATION, TRAINING),
            methods=(JENSEN_SHANNON.name,),
        ),
    )


def _by_threshold() -> tuple[Layout, ...]:
    def spread(key: str) -> Columns:
        return lambda shown: at_thresholds(shown[0].thresholds, key)

    layout = partial(
        Layout,
        labels=(_METHOD, _VARIANT, _BUDGET),
        varied=frozenset({"variant", "budget"}),
        each_dataset=True,
    )
    return (
        layout(
            "crd_boundary_full",
            f"Boundary CRD on {{dataset}}: the share of all test inputs in {_IN_BOUNDARY} with a radius "
            "above t. Fractions, as the paper prints them.",
            columns=spread("boundary_crd"),
        ),
        layout(
            "crd_certified_full",
            "Certified-input CRD on {dataset}: the share of issued certificates with a radius above t. "
            "Fractions: 1.00 means all of them.",
            columns=spread("certified_crd"),
        ),
        layout(
            "certified_accuracy_full",
            "Certified accuracy on {dataset}: the percentage of all test inputs that are correct and "
            "certified with a radius of at least t.",
            columns=spread("certified_accuracy_at"),
        ),
    )


def _thresholds(shown: Sequence[Comparison]) -> str:
    """Say which thresholds the representative CRD has for each dataset."""
    parts = []
    for comparison in shown:
        own = [f"{comparison.thresholds[place]:g}" for place in representative(comparison.thresholds)]
        parts.append(f"{comparison.dataset} {', '.join(own)}")
    return f"Thresholds t_1, t_2, …: {'; '.join(parts)}."
