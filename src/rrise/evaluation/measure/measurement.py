"""From the outcomes of one run to its numbers, as `results.json` holds them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.certifiers.methods import RRISE, Method
from rrise.errors import InputError, SettingError
from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.context import Context
from rrise.evaluation.measure.equal_monte_carlo import Rivals
from rrise.evaluation.measure.known import is_surrogate, paper_score, surrogates, voting_methods
from rrise.evaluation.measure.outcomes import MethodSetting, Outcome
from rrise.files import Json
from rrise.statistics import exact_level
from rrise.votes.array import check_votes
from rrise.votes.noise import Noise


def measure(
    outcomes: Sequence[Outcome],
    labels: ArrayLike,
    reference: Any,
    thresholds: Sequence[float],
    *,
    main_budget: int,
    main_failure: str,
    main_surrogate: tuple[str, str, str] | None = None,
    paper_counting: bool = False,
    calibrated_on: NDArray[np.bool_] | None = None,
    noise: Noise | None = None,
) -> list[Json]:
    """Return one result per outcome, in their order: its setting, `main`, and `metrics` as JSON.

    `labels` are the true classes of the test inputs and `reference` their votes `[inputs, K]` at a high
    budget, against which agreement and violations are measured. `main` marks the main comparison of the
    paper, at `main_budget` and `main_failure`; `main_surrogate` is method, variant and score of the
    run's own surrogate; without one it is the paper's, `trainhead_initbase` with the additive score.

    The methods that vote certify from those very votes, so that their agreement and violations are undefined.
    Those of surrogates leave out the inputs `calibrated_on`, for which nothing is promised.

    Break-evens of a surrogate are against every method that votes with the same failure, at the passes it
    really took, and count honestly unless `paper_counting` (see `costs`). Given `noise`, there is one more:
    the cheapest Monte Carlo that certifies as much (see `equal_monte_carlo`). A metric is None where it is
    undefined, or infinite: a surrogate taken at face value may claim a probability of exactly 1.
    """
    truth, radii = np.asarray(labels), _thresholds(thresholds)
    counts, _ = check_votes(reference, len(truth))
    _check(outcomes, len(truth), counts.shape[1])
    new = np.ones(len(truth), dtype=np.bool_) if calibrated_on is None else ~calibrated_on
    main = _main_settings(
        [outcome.setting for outcome in outcomes], main_budget, main_failure, main_surrogate
    )
    voting = [outcome for outcome in outcomes if not is_surrogate(outcome.setting.method)]
    rivals = None if noise is None else Rivals(reference, truth, noise)
    results = []
    for outcome in outcomes:
        found = Context(outcome, truth, counts, radii, new, voting, main_budget, paper_counting, rivals)
        numbers = {key: metric.compute(found) for key, metric in METRICS.items()}
        results.append({**asdict(outcome.setting), "main": outcome.setting in main, "metrics": numbers})
    return results


def _main_settings(
    settings: Sequence[MethodSetting], budget: int, failure: str, surrogate: tuple[str, str, str] | None
) -> set[MethodSetting]:
    """Return the settings of the main comparison: one of each method.

    Other surrogates than the run's own have its budget and score, and the paper's variant.
    """
    level = {
        (setting.method, setting.variant, setting.score): setting
        for setting in settings
        if setting.failure == failure
    }
    ours = surrogate or (RRISE.name, f"{RRISE.paper_variant}_n{budget}", paper_score().name)
    targets = level[ours].budget if ours in level else budget
    others = [method for method in surrogates() if method.name != ours[0]]
    wanted = {
        ours,
        *((method.name, f"{method.paper_variant}_n{targets}", ours[2]) for method in others),
        *((method.name, _main_variant(method, budget, failure), "") for method in voting_methods()),
    }
    return {setting for name, setting in level.items() if name in wanted}


def _main_variant(method: Method, budget: int, failure: str) -> str:
    """Return the variant of a method in the main comparison: the first where it names none."""
    if method.main_variant or method.variants is None:
        return method.main_variant.format(n=budget)
    names = (name for name, _ in method.variants(budget, exact_level(failure, "failure")))
    return next(iter(names), "")


def _check(outcomes: Sequence[Outcome], inputs: int, classes: int) -> None:
    seen = set()
    for outcome in outcomes:
        setting, label = outcome.setting, outcome.certificates.label
        name = f"{setting.method} {setting.variant} at failure {setting.failure} {setting.score}".rstrip()
        if len(label) != inputs:
            raise InputError(
                f"expected certificates of {name} for each of the {inputs} test inputs, got {len(label)}"
            )
        if label.min() < 0 or label.max() >= classes:
            raise InputError(
                f"expected labels of {name} to be among the {classes} classes of the reference votes, got "
                f"{label.min()} to {label.max()}"
            )
        if name in seen:
            raise InputError(f"expected every setting once, got {name} twice: leave one of them out")
        seen.add(name)


def _thresholds(thresholds: Sequence[float]) -> NDArray[np.float64]:
    radii = np.asarray(thresholds, dtype=np.float64)
    if radii.ndim != 1 or not np.isfinite(radii).all() or (radii < 0).any():
        raise SettingError(f"expected thresholds as a list of radii of at least 0, got {thresholds}")
    return radii
