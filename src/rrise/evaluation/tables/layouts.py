"""The tables of the paper's Appendix B, and two that it does not have: what each shows, and in which order.

Two columns and several rows are added to the paper's: plain accuracy beside CertAcc@0, violations in the
calibration tables, and rows of scores and methods that the paper does not have, after its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rrise.evaluation.measure.outcomes import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    METHODS,
    MONTE_CARLO,
    RRISE,
    SEQUENTIAL,
    SURROGATES,
    TWO_STAGE,
)
from rrise.evaluation.tables.columns import (
    BEST_EPOCH,
    BOUNDARY,
    FURTHER,
    OFFSET,
    SAMPLE_REDUCTION,
    TEST_COST,
    VIOLATIONS,
    Metric,
    at_thresholds,
    costs,
    representative,
    representative_crd,
)
from rrise.evaluation.tables.comparison import Comparison

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Layout:
    """What a table shows.

    `labels` are headings and the fields under them. `varied` is what its rows tell apart, out of `variant`,
    `budget` and `failure`; everything else is as in the main comparison. With `each_dataset` there is
    one table per dataset, grouped by method; otherwise one table, grouped by dataset.
    """

    name: str
    title: str
    labels: Labels
    metrics: Callable[[Sequence[Comparison]], tuple[Metric, ...]]
    methods: tuple[str, ...] = METHODS
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
            metrics=lambda _: BOUNDARY,
        ),
        layout(
            "main_compute",
            "Cost in forward passes, a backward pass counting as two: Test Cost per input, Train Cost once, "
            f"and the queries after which RRISE has paid off (BE). {counted} Equal MC is the cheapest "
            "two-stage Monte Carlo with at least the same CertAcc@0 and average certified radius.",
            metrics=partial(costs, paper_counting=paper_counting),
        ),
        layout(
            "main_crd_representative",
            f"Boundary CRD at three thresholds: the share of all test inputs in {_IN_BOUNDARY} with a radius "
            "above t. CRD is a fraction, Boundary Mass is in percent.",
            metrics=representative_crd,
            more=_thresholds,
        ),
        layout(
            "main_further",
            "Further metrics of the main comparison, which the paper defines or implies and does not print. "
            "ACR is the mean radius with 0 where wrong or abstained; ratio and drop are of mean radii "
            "against Baseline 1; a violation is a lower bound above the share of high-budget votes.",
            metrics=lambda _: FURTHER,
        ),
    )


def _by_dataset() -> tuple[Layout, ...]:
    return (
        Layout(
            "budget_ablation",
            "Budgets on {dataset}: votes per test input of methods that vote, votes per training input of "
            f"the targets of surrogates. OCA and Avg. Radius are over {_IN_BOUNDARY}.",
            (_METHOD, _BUDGET),
            lambda _: (*BOUNDARY, TEST_COST),
            methods=(RRISE, MONTE_CARLO, JENSEN_SHANNON, TWO_STAGE, SEQUENTIAL),
            varied=frozenset({"budget"}),
            each_dataset=True,
        ),
        Layout(
            "calibration_ablation",
            "Levels of calibration on {dataset}. Violations are lower bounds above the share of high-budget "
            "votes, in percent of all test inputs (what Total Failure limits); then those with a certificate "
            "alone, in percent of all test inputs, and of issued certificates (what it does not limit).",
            (_METHOD, _FAILURE),
            lambda _: (OFFSET, *BOUNDARY, *VIOLATIONS),
            methods=SURROGATES,
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
            metrics=lambda _: (*BOUNDARY, OFFSET, BEST_EPOCH),
            methods=(RRISE,),
            main_first=False,
        ),
        layout(
            "baseline2_ablation",
            "Baseline 2 by decline level. Sample Red. is the full budget divided by Test Cost.",
            metrics=lambda _: (*BOUNDARY, TEST_COST, SAMPLE_REDUCTION),
            methods=(INPUT_SPECIFIC,),
        ),
        layout(
            "baseline3_ablation",
            "Early stopping by tolerance: Baseline 3 and, valid whenever it stops, the sequential method. "
            "Sample Red. is the full budget divided by Test Cost.",
            metrics=lambda _: (*BOUNDARY, TEST_COST, SAMPLE_REDUCTION),
            methods=(EARLY_STOPPING, SEQUENTIAL),
        ),
        layout(
            "baseline4_init_ablation",
            "Baseline 4 by initialisation: init0 is random, init1 is the base classifier.",
            metrics=lambda _: (*BOUNDARY, OFFSET, BEST_EPOCH),
            methods=(JENSEN_SHANNON,),
        ),
    )


def _by_threshold() -> tuple[Layout, ...]:
    def columns(
        key: str, *, paper: bool, scale: float = 1
    ) -> Callable[[Sequence[Comparison]], tuple[Metric, ...]]:
        return lambda shown: at_thresholds(shown[0].thresholds, key, paper=paper, scale=scale)

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
            metrics=columns("boundary_crd", paper=True),
        ),
        layout(
            "crd_certified_full",
            "Certified-input CRD on {dataset}: the share of issued certificates with a radius above t. "
            "Fractions: 1.00 means all of them.",
            metrics=columns("certified_crd", paper=True),
        ),
        layout(
            "certified_accuracy_full",
            "Certified accuracy on {dataset}: the percentage of all test inputs that are correct and "
            "certified with a radius of at least t.",
            metrics=columns("certified_accuracy_at", paper=False, scale=100),
        ),
    )


def _thresholds(shown: Sequence[Comparison]) -> str:
    """Say which thresholds the representative CRD has for each dataset."""
    parts = []
    for comparison in shown:
        own = [f"{comparison.thresholds[place]:g}" for place in representative(comparison.thresholds)]
        parts.append(f"{comparison.dataset} {', '.join(own)}")
    return f"Thresholds t_1, t_2, …: {'; '.join(parts)}."
