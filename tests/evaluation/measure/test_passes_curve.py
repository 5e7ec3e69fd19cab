"""What more passes per query bring: points that agree with the methods they show."""

import json
from pathlib import Path

import numpy as np
import pytest

from rrise.evaluation.figures import passes_figure
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.evaluation.measure.passes_curve import passes_curve, surrogate_with_votes
from rrise.statistics import blended, fit_calibration
from rrise.votes.array import votes_for


def test_the_first_point_is_the_surrogate_alone(quick_demo: Path) -> None:
    results = json.loads((quick_demo / "evaluation" / "results.json").read_text())
    curve = results["passes_curve"]
    alone = next(point for point in curve if point["method"] == "RRISE")
    main = next(one["metrics"] for one in results["results"] if one["main"] and one["method"] == "RRISE")
    assert alone["passes"] == 1
    for name in ("certified_accuracy", "average_certified_radius"):
        assert alone[name] == pytest.approx(main[name])
    assert {point["method"] for point in curve} == {
        "RRISE",
        "Monte Carlo, two-stage",
        "Sequential, anytime-valid",
    }
    assert [p["passes"] for p in curve if p["method"] == "RRISE"] == [1, 5, 17, 65]


def test_evidence_gives_the_same_curve_and_the_figure_shows_it(quick_demo: Path) -> None:
    results = json.loads((quick_demo / "evaluation" / "results.json").read_text())
    evidence = read_evidence(quick_demo / "evaluation" / "evidence")
    assert passes_curve(evidence) == results["passes_curve"]
    assert "65 passes" in passes_figure(results).svg()


def test_query_votes_are_taken_out_of_the_reference_votes(quick_demo: Path) -> None:
    evidence = read_evidence(quick_demo / "evaluation" / "evidence")
    (one,) = evidence.surrogates
    found = surrogate_with_votes(evidence, one, 64, score="probit")
    first, held = (np.asarray(votes) for votes in evidence.query[64])
    assert (first.sum(axis=1) == 64).all()
    of_held = votes_for(held, one.calibration.label)
    reference = votes_for(np.asarray(evidence.calibration_votes), one.calibration.label) - of_held
    fitted, _ = fit_calibration(
        blended(one.calibration.top_probability, of_held, 64, 200.0),
        reference,
        500 - 64,
        failure=0.01,
        score="probit",
    )
    tops = blended(one.test.top_probability, votes_for(first, one.test.label), 64, 200.0)
    np.testing.assert_array_equal(found.lower_bound, fitted.lower_bound(tops))


def test_monte_carlo_only_gains_by_passes(quick_demo: Path) -> None:
    results = json.loads((quick_demo / "evaluation" / "results.json").read_text())
    points = [one for one in results["passes_curve"] if one["method"] == "Monte Carlo, two-stage"]
    radii = [point["average_certified_radius"] for point in points]
    assert len(radii) > 3
    assert radii == sorted(radii)
