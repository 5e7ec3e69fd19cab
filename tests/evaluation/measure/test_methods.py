"""Every method from stored votes and predictions, end to end: outcomes, numbers, tables and figures."""

from pathlib import Path

import numpy as np
import pytest

from rrise.certifiers.methods import JENSEN_SHANNON, METHODS, RRISE, TWO_STAGE
from rrise.certifiers.predictions import Predictions, calibrated_certificates, face_value_certificates
from rrise.evaluation.figures import result_figures, write_figures
from rrise.evaluation.measure.measurement import measure
from rrise.evaluation.measure.methods import SurrogateEvidence, surrogate_outcomes, voting_outcomes
from rrise.evaluation.measure.outcomes import Offline, Outcome
from rrise.evaluation.measure.over_seeds import over_seeds
from rrise.evaluation.tables.tables import build_tables, write_tables
from rrise.files import Json
from rrise.statistics import clopper_pearson_lower
from rrise.votes.array import Votes
from rrise.votes.sequence import StoredVotes
from rrise.votes.smoothing import Smoothing

SMOOTHING = Smoothing("base", 0.25, (0.0, 1.0), "float32")
INPUTS, CALIBRATION, N = 60, 80, 600
FAILURES = (0.25, 0.1, 0.05, 0.01)
THRESHOLDS = [0.025 * step for step in range(8)]


def stored(share: np.ndarray, classes: int, seed: int, n: int = N) -> StoredVotes:
    """Votes of which a share is for class 0 and the rest for any class."""
    random = np.random.default_rng(seed)
    answers = random.integers(0, classes, (len(share), n)).astype(np.int64)
    answers[random.random((len(share), n)) < share[:, None]] = 0
    return StoredVotes(answers, classes, SMOOTHING, (seed, "test"))


def outcomes(share: np.ndarray, classes: int) -> tuple[list[Outcome], StoredVotes]:
    votes = stored(share, classes, 1)
    calibration = stored(np.resize(share, CALIBRATION), classes, 3)
    found: list[Outcome] = []
    for method, variant in ((RRISE.name, f"trainhead_initbase_n{N}"), (JENSEN_SHANNON.name, f"init0_n{N}")):
        predictions = [
            Predictions(np.zeros(len(part), dtype=np.int64), part.counts(0, N)[:, 0] / N)
            for part in (votes, calibration)
        ]
        offline = Offline(1000 * N, 3000, CALIBRATION * (N + 1), 1000, 512, 5)
        evidence = SurrogateEvidence(method, variant, N, *predictions, offline)
        found += surrogate_outcomes(
            evidence, calibration.votes(N), FAILURES, how={"rule": "paper", "beta": 0.001}
        )
    found += voting_outcomes(votes, stored(share, classes, 2, 100), (100, N), FAILURES)
    return found, votes


def results(share: np.ndarray, classes: int) -> Json:
    found, votes = outcomes(share, classes)
    labels = np.zeros(len(share), dtype=np.int64)
    return {
        "format": 1,
        "dataset": "made up",
        "run": "run",
        "seed": 100,
        "protocol": "held-out",
        "sigma": 0.25,
        "classes": classes,
        "test_inputs": len(share),
        "reference_votes": N,
        "main_budget": N,
        "main_failure": "0.25",
        "thresholds": THRESHOLDS,
        "results": measure(found, labels, votes.votes(N), THRESHOLDS, main_budget=N, main_failure="0.25"),
    }


CASES = {
    "two classes": (np.linspace(0.1, 0.99, INPUTS), 2),
    "one class": (np.full(INPUTS, 0.5), 1),
    "a thousand classes": (np.linspace(0.1, 0.99, INPUTS), 1000),
    "all abstain": (np.full(INPUTS, 0.2), 10),
    "an empty boundary set": (np.full(INPUTS, 0.999), 10),
    "one input": (np.array([0.9]), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_any_run_gives_sensible_tables_and_figures(case: str, tmp_path: Path) -> None:
    run = results(*CASES[case])
    main = {result["method"]: result["metrics"] for result in run["results"] if result["main"]}
    assert set(main) == set(METHODS)
    issued = {method: metrics["issued"] for method, metrics in main.items()}
    if case == "all abstain":
        assert set(issued.values()) == {0}
    elif case in ("one class", "an empty boundary set"):
        assert set(issued.values()) == {1}
        assert main[RRISE.name]["boundary_accuracy"] is None
    tables = build_tables(over_seeds([run]), {"made up": THRESHOLDS}, protocol="held-out", paper=True)
    assert {"main_cert_boundary", "main_compute", "baseline2_ablation"} <= {table.name for table in tables}
    write_tables(tmp_path, tables)
    text = (tmp_path / "main_cert_boundary.md").read_text()
    assert "nan" not in text
    assert ("–" in text) == (case in ("one class", "all abstain", "an empty boundary set", "one input"))
    assert len(write_figures(tmp_path, result_figures([run]))) == 5


def test_small_budgets_are_left_out_where_they_cannot_certify() -> None:
    found, _ = outcomes(np.linspace(0.5, 1, 20), 3)
    two_stage = {(o.setting.budget, o.setting.failure) for o in found if o.setting.method == TWO_STAGE.name}
    assert two_stage == {(n, level) for n in (100, N) for level in ("0.25", "0.1", "0.05", "0.01")}
    pilots = {o.setting.budget for o in found if o.setting.method == "Baseline 2"}
    assert pilots == {N}  # a pilot of 100 leaves nothing of a budget of 100
    levels = {o.setting.failure for o in found if o.setting.method == RRISE.name}
    assert levels == {"0.25", "0.1", "0.05"}  # 80 calibration inputs are too few for 0.01


def test_without_selection_votes_there_are_no_two_stages() -> None:
    votes = stored(np.linspace(0.5, 1, 20), 3, 1)
    methods = {outcome.setting.method for outcome in voting_outcomes(votes, None, (N,), (0.1,))}
    assert methods == set(METHODS) - {RRISE.name, JENSEN_SHANNON.name, TWO_STAGE.name}


def test_a_surrogate_is_calibrated_on_held_out_predictions_alone() -> None:
    share = np.linspace(0.3, 0.99, 200)
    votes = stored(share, 3, 5).votes(N)
    everything = Predictions(np.zeros(200, dtype=np.int64), (share + 0.05).clip(0, 1))
    test, calibration = everything[::2], everything[1::2]
    certificates, fitted = calibrated_certificates(
        test, calibration, votes[1::2], smoothing=SMOOTHING, failure=0.1, rule="paper", score="additive"
    )
    lower = clopper_pearson_lower(np.asarray(votes)[1::2, 0], N, 0.001)
    residual = np.sort(calibration.top_probability - lower)
    assert fitted.offset == pytest.approx(residual[int(np.ceil(101 * (1 - 0.099))) - 1])
    np.testing.assert_allclose(
        certificates.lower_bound, np.minimum(test.top_probability - fitted.offset, fitted.ceiling), atol=1e-12
    )
    assert (certificates.passes == 1).all()


def test_at_face_value_nothing_is_promised() -> None:
    certificates = face_value_certificates(Predictions(np.array([1]), np.array([0.9])), SMOOTHING)
    assert certificates.guarantee.failure is None
    assert certificates.guarantee.level == 0
    assert certificates.issued.all()


def test_certificates_take_the_votes_of_their_own_inputs() -> None:
    with pytest.raises(ValueError, match="expected votes for each of the 3 inputs, got 2 rows"):
        calibrated_certificates(
            Predictions(np.zeros(1, dtype=np.int64), np.array([0.9])),
            Predictions(np.zeros(3, dtype=np.int64), np.full(3, 0.9)),
            Votes(np.full((2, 2), 5), SMOOTHING),
            smoothing=SMOOTHING,
            failure=0.5,
        )


def test_outcomes_come_in_the_order_that_stored_evidence_has() -> None:
    votes, selection = (stored(np.linspace(0.5, 1, 20), 3, seed) for seed in (1, 2))
    found = [outcome.setting for outcome in voting_outcomes(votes, selection, (N,), (0.1,))]
    assert [(setting.method, setting.variant) for setting in found] == [
        ("Baseline 1", "n600"),
        ("Monte Carlo, two-stage", "n600"),
        ("Baseline 2", "k600_decline0.01"),
        ("Baseline 3", "n600_tol0.01"),
        ("Sequential, anytime-valid", "n600_tol0.01"),
        ("Baseline 2", "k600_decline0.05"),
        ("Baseline 3", "n600_tol0.05"),
        ("Sequential, anytime-valid", "n600_tol0.05"),
    ]
