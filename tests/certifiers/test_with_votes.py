"""Votes at query time: the promise by simulation, what breaks it, and the certifier itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import rrise
from rrise.certifiers.guarantee import Assumption, FormFacts
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import QueryEvidence
from rrise.errors import FolderError, MismatchError, SettingError
from rrise.statistics import blended, fit_calibration, spread_in_sigma
from rrise.votes.live import LiveVotes
from tests.closed_forms import HalfSpace
from tests.statistics.populations import Inputs, within
from tests.statistics.populations import half_space as population

PLAN = {"sigma": 0.25, "seed": 1}
FAILURE, SIZE, REFERENCE = 0.05, 24, 1_000


def simulated(votes: int, *, reuse: bool = False, undecided: bool = False) -> np.ndarray:
    """Return how often a new input gets a wrong bound, for each of many calibrations.

    With `undecided` the smoothed classifier has hardly a preference anywhere: any issued radius is wrong.
    """
    rng, found = np.random.default_rng(votes), []
    for _ in range(300):
        inputs, fresh = population(rng, SIZE), population(rng, 1_000)
        if undecided:
            inputs, fresh = (Inputs(np.full(size, 0.5), np.full(size, 0.499)) for size in (SIZE, 1_000))
        query = rng.binomial(votes, inputs.true_probability)
        n = votes if reuse else REFERENCE - votes
        reference = query if reuse else rng.binomial(n, inputs.true_probability)
        blend = blended(inputs.top_probability, query, votes, 10.0)
        fitted, _ = fit_calibration(blend, reference, n, failure=FAILURE)
        new = rng.binomial(votes, fresh.true_probability)
        bound = fitted.lower_bound(blended(fresh.top_probability, new, votes, 10.0))
        found.append(np.mean((bound > 0.5) & (bound > fresh.true_probability)))
    return np.array(found)


@pytest.mark.parametrize("votes", [1, 16, 64, 400])
def test_the_promise_holds_for_any_number_of_query_votes(votes: int) -> None:
    assert within(simulated(votes), FAILURE)


def test_query_votes_that_are_also_reference_votes_are_noticed() -> None:
    assert within(simulated(400, undecided=True), FAILURE)
    assert not within(simulated(400, undecided=True, reuse=True), FAILURE)


def stopped_when_issued(times: int = 400) -> np.ndarray:
    """Stop the votes of a query once its calibrated bound is above 1/2: the rule that must not be used."""
    rng, found, votes = np.random.default_rng(3), [], 64
    for _ in range(times):
        p = np.full(SIZE, 0.45)
        query = rng.binomial(votes, p)
        fitted, _ = fit_calibration(
            blended(np.full(SIZE, 0.5), query, votes, 1.0),
            rng.binomial(REFERENCE, p),
            REFERENCE,
            failure=FAILURE,
        )
        paths = np.cumsum(rng.random((500, votes)) < 0.45, axis=1)
        counts = np.arange(1, votes + 1)
        bounds = fitted.lower_bound(blended(0.5, paths, counts, 1.0).ravel()).reshape(paths.shape)
        found.append(np.mean((bounds > 0.5).any(axis=1)))
    return np.array(found)


def test_a_rule_that_stops_once_issued_is_noticed() -> None:
    assert not within(stopped_when_issued(), FAILURE)


@pytest.fixture(scope="module")
def with_query(half_space: HalfSpace) -> SurrogateCertifier:
    """A certifier for vectors in [0, 1]^4 whose votes are known in their order."""
    inputs = np.random.default_rng(7).random((1_000, 4), dtype=np.float32)
    votes = rrise.collect_votes(half_space, inputs[:500], n=100, split="train", **PLAN)
    surrogate = rrise.train_surrogate(half_space, inputs[:500], votes, epochs=20, learning_rate=0.05)
    ordered = LiveVotes(half_space, inputs[500:], rrise.VotePlan(0.25, n=2_000, seed=1, split="calibration"))
    return rrise.calibrate(surrogate, inputs[500:], ordered, failure=0.02)


@pytest.fixture(scope="module")
def fresh() -> np.ndarray:
    return np.random.default_rng(8).random((400, 4), dtype=np.float32)


def test_more_votes_certify_more_and_cost_what_they_say(
    with_query: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    before = with_query.certify(fresh).radius.mean()
    for votes in (64, 256):
        found = with_query.with_votes(votes, half_space, seed=2).certify(fresh)
        assert (found.passes == 1 + votes).all()
        assert found.radius.mean() > before
        before = found.radius.mean()
    assert found.guarantee.method == "surrogate-with-votes"
    assert found.guarantee.kind.value == "marginal"
    assert found.guarantee.failure == with_query.guarantee.failure
    assert "not one for each input" in str(found.guarantee)
    assert "the best of several certificates" in str(found.guarantee)


def test_a_monitor_refuses_it(with_query: SurrogateCertifier, half_space: HalfSpace, tmp_path: Path) -> None:
    """Its certificates do not show the blended number, which was calibrated: alarms would be false."""
    with pytest.raises(SettingError, match=r"watches a calibrated surrogate.*got surrogate-with-votes"):
        rrise.Monitor(with_query.with_votes(64, half_space), tmp_path / "monitor.db")


def test_on_another_device_the_guarantee_still_says_so(
    with_query: SurrogateCertifier, half_space: HalfSpace
) -> None:
    form = FormFacts("torch-cuda", "float32")
    assumptions = (*with_query.guarantee.assumptions, Assumption.OTHER_DEVICE)
    there = replace(with_query, guarantee=replace(with_query.guarantee, form=form, assumptions=assumptions))
    found = there.with_votes(16, half_space).guarantee
    assert Assumption.OTHER_DEVICE in found.assumptions
    assert Assumption.SAME_FORM not in found.assumptions
    assert "calibrated with on a CPU" in str(found)


def test_bounds_hold_as_often_as_promised(with_query: SurrogateCertifier, half_space: HalfSpace) -> None:
    inputs = np.random.default_rng(9).random((3_000, 4), dtype=np.float32)
    found = with_query.with_votes(64, half_space, seed=3).certify(inputs)
    counts = rrise.collect_votes(half_space, inputs, n=4_000, split="judge", **PLAN)
    share = np.asarray(counts)[np.arange(3_000), found.label] / 4_000
    assert np.mean(found.issued & (found.lower_bound > share + 0.03)) <= 0.02


def test_it_equals_its_formula(
    with_query: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    found = with_query.with_votes(64, half_space, seed=4).certify(fresh)
    first = with_query.certify(fresh)
    live = LiveVotes(half_space, fresh, rrise.VotePlan(0.25, n=64, seed=4, split="query"))
    agreeing = live.agreeing(first.label, 0, 64)
    assert first.probabilities is not None
    blend = (200 * first.probabilities.max(axis=1).astype(float) + agreeing) / 264
    query = with_query.query
    assert query is not None
    fitted, _ = fit_calibration(
        blended(with_query.evidence.top_probability, query.agreeing[64], 64, 200.0),
        with_query.evidence.agreeing - query.agreeing[64],
        2_000 - 64,
        failure=0.02,
    )
    np.testing.assert_allclose(found.lower_bound, fitted.lower_bound(blend), rtol=0, atol=1e-12)


def test_query_and_reference_votes_are_apart(with_query: SurrogateCertifier) -> None:
    query = with_query.query
    assert query is not None
    assert query.stops == (4, 16, 64, 256)  # at least half of the votes stay reference votes
    for m in query.stops:
        np.testing.assert_array_equal(query.agreeing[m] + query.reference[m], with_query.evidence.agreeing)
        assert query.n[m] == 2_000 - m


def test_a_tolerance_spends_fewer_votes(
    with_query: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    certifier = with_query.with_votes(256, half_space, tolerance=0.06, seed=5)
    found = certifier.certify(fresh)
    assert set(np.unique(found.passes)) <= {5, 17, 65, 257}
    assert 17 < found.mean_passes < 257
    assert certifier.guarantee.settings["tolerance"] == 0.06
    query = with_query.query
    assert query is not None
    assert certifier.calibration.n == 2_000 - 256  # no reference vote may be a later query vote
    np.testing.assert_array_equal(certifier.evidence.agreeing, query.reference[256])
    assert len(np.unique(found.passes)) > 1


def test_where_votes_stop_does_not_depend_on_the_level(
    with_query: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    """The stopping rule sees surrogate and votes alone: another calibration stops at the same votes."""
    bolder = replace(
        with_query, calibration=replace(with_query.calibration, gamma=with_query.calibration.gamma * 10)
    )
    passes = [
        one.with_votes(256, half_space, tolerance=0.1, seed=5).certify(fresh).passes
        for one in (with_query, bolder)
    ]
    np.testing.assert_array_equal(*passes)


def test_saved_and_loaded_it_is_the_same(
    with_query: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray, tmp_path: Path
) -> None:
    with_query.save(tmp_path / "certifier")
    loaded = rrise.load_certifier(tmp_path / "certifier")
    before, after = (one.with_votes(64, half_space, seed=6).certify(fresh) for one in (with_query, loaded))
    np.testing.assert_array_equal(before.lower_bound, after.lower_bound)
    assert before.guarantee == after.guarantee


def test_edited_query_votes_are_refused(with_query: SurrogateCertifier, tmp_path: Path) -> None:
    from rrise.certifiers.stored_calibration import load_query, save_query

    query = with_query.query
    assert query is not None
    changed = {m: votes + (m == 64) for m, votes in query.agreeing.items()}
    save_query(QueryEvidence(changed, query.reference, query.n), tmp_path / "query.parquet")
    with pytest.raises(FolderError, match=r"more query votes agree than there are|not those of the evidence"):
        load_query(tmp_path / "query.parquet", with_query.calibration, with_query.evidence)
    (tmp_path / "query.parquet").write_bytes(b"nonsense")
    with pytest.raises(FolderError, match="is damaged"):
        load_query(tmp_path / "query.parquet", with_query.calibration, with_query.evidence)


def test_votes_collected_apart_prepare_it_too(half_space: HalfSpace, uniform: np.ndarray) -> None:
    train, held = uniform[:300], uniform[300:]
    votes = rrise.collect_votes(half_space, train, n=100, split="train", **PLAN)
    surrogate = rrise.train_surrogate(half_space, train, votes, epochs=5)
    reference = rrise.collect_votes(half_space, held, n=400, split="calibration", **PLAN)
    query = rrise.collect_votes(half_space, held, n=32, split="query", **PLAN)
    certifier = rrise.calibrate(surrogate, held, reference, failure=0.1, query_votes=query)
    assert (certifier.with_votes(32, half_space).certify(held).passes == 33).all()
    shared = rrise.collect_votes(half_space, held, n=32, split="calibration", **PLAN)
    with pytest.raises(MismatchError, match="share their noise"):
        rrise.calibrate(surrogate, held, reference, failure=0.1, query_votes=shared)


def test_what_cannot_be_voted_on_is_refused(
    certifier: SurrogateCertifier, with_query: SurrogateCertifier, half_space: HalfSpace
) -> None:
    with pytest.raises(SettingError, match="calibrated without query votes"):
        certifier.with_votes(64, half_space)
    with pytest.raises(SettingError, match="expected votes out of 4, 16, 64, 256, as calibrated; got 50"):
        with_query.with_votes(50, half_space)
    with pytest.raises(SettingError, match="tolerance to be positive"):
        with_query.with_votes(64, half_space, tolerance=-1.0)
    with pytest.raises(SettingError, match="positive strength"):
        with_query.with_votes(64, half_space, strength=0.0)
    with pytest.raises(MismatchError, match="made for the base classifier"):
        with_query.with_votes(64, nn.Linear(4, 2))


def test_fresh_noise_differs_and_no_inputs_are_no_problem(
    with_query: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    certifier = with_query.with_votes(16, half_space)
    one, two = certifier.certify(fresh), certifier.certify(fresh)
    assert not np.array_equal(one.lower_bound, two.lower_bound)
    assert len(certifier.certify(fresh[:0])) == 0


def test_the_spread_falls_with_votes() -> None:
    spread = spread_in_sigma([0.9, 0.9, 0.99], [100, 400, 400])
    assert spread[0] == pytest.approx(2 * spread[1], rel=0.01)
    assert spread[2] > spread[1]
