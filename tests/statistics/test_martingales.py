"""The martingale against exhaustive orders, integrals, a slow literal form, and simulated streams."""

import itertools
import json
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from rrise.statistics import martingales
from rrise.statistics.martingales import ConformalMartingale, conformal_p_values, grid_places, log_bets

ROW = st.lists(st.floats(0, 1), max_size=600)


def literal_p_values(calibration: list[int], stream: list[int], theta: np.ndarray) -> list[float]:
    """The formula, score by score."""
    seen, values = np.array(calibration), []
    for place, share in zip(stream, theta, strict=True):
        seen = np.append(seen, place)
        greater, equal = (seen > place).sum(), (seen == place).sum()
        values.append((greater + share * equal) / len(seen))
    return values


def literal_log_capital(p: list[float]) -> list[float]:
    """Every part on its own: started at s with weight w_s, staked on one Beta density, and added up."""
    a, b = martingales._BETS.T

    def g(t: int) -> float:
        return 1 + math.log(1 + t)

    capitals = []
    for t in range(1, len(p) + 1):
        total = 1 / g(t)
        for s in range(1, t + 1):
            grown = np.prod([stats.beta.pdf(x, a, b) for x in p[s - 1 : t]], axis=0)
            total += (1 / g(s - 1) - 1 / g(s)) * grown.mean()
        capitals.append(math.log(total))
    return capitals


@given(st.integers(1, 40), st.integers(0, 700), st.integers(1, 10), st.integers(0, 1000))
def test_p_values_are_those_of_the_formula(calibration: int, length: int, places: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, stream, theta = (
        rng.integers(0, places, calibration),
        rng.integers(0, places, length),
        rng.random(length),
    )
    counts = np.bincount(before, minlength=10)
    p, rest = conformal_p_values(counts, stream, theta)
    np.testing.assert_allclose(p, literal_p_values(before.tolist(), stream.tolist(), theta), rtol=1e-12)
    np.testing.assert_allclose(p + rest, 1, rtol=1e-12)
    assert np.all(rest > 0)
    assert counts.sum() == calibration


@pytest.mark.parametrize("bag", [(0, 1, 2, 3, 4), (0, 0, 1, 2, 2), (7, 7, 7, 7, 7), (1, 1, 1, 1, 9)])
def test_over_all_orders_the_last_two_p_values_are_exactly_independent_and_uniform(
    bag: tuple[int, ...],
) -> None:
    """Each p-value is uniform on a stretch; over all orders, pairs of stretches tile the square."""
    cells = 60  # a multiple of 4 and of 5, so that stretches end where cells do
    square = np.zeros((cells, cells))
    orders = list(itertools.permutations(bag))
    for order in orders:
        stretch = []
        for theta in (1e-12, 1 - 1e-12):
            p, _ = conformal_p_values(
                np.bincount(order[:3], minlength=10), np.array(order[3:]), np.full(2, theta)
            )
            stretch.append(np.rint(p * cells).astype(int))
        (low_x, low_y), (high_x, high_y) = stretch
        square[low_x:high_x, low_y:high_y] += 1 / ((high_x - low_x) * (high_y - low_y))
    np.testing.assert_allclose(square, len(orders) / cells**2)


def test_a_fixed_reference_would_not_do() -> None:
    """With two calibration scores, p-values against them alone repeat each other; ours do not."""
    rng = np.random.default_rng(0)
    ours, fixed = [], []
    for _ in range(4000):
        calibration, stream = rng.integers(0, 1000, 2), rng.integers(0, 1000, 2)
        counts = np.bincount(calibration, minlength=1000)
        theta = rng.random(2)
        ours.append(conformal_p_values(counts, stream, theta)[0])
        fixed.append([conformal_p_values(counts, stream[i : i + 1], theta[i : i + 1])[0][0] for i in (0, 1)])
    assert abs(np.corrcoef(np.array(ours).T)[0, 1]) < 0.06
    assert np.corrcoef(np.array(fixed).T)[0, 1] > 0.2


def test_every_bet_is_a_density() -> None:
    p = np.concatenate([10.0 ** -np.arange(1, 15), np.linspace(0.01, 0.99, 99)])
    expected = [stats.beta.logpdf(p, a, b) for a, b in martingales._BETS]
    np.testing.assert_allclose(log_bets(p, 1 - p), expected, rtol=1e-9, atol=1e-12)


def test_under_a_uniform_p_value_the_capital_stays_on_average() -> None:
    """One step from a capital that has won and one that has lost, by the quadrature rule of each Beta."""
    rng = np.random.default_rng(1)
    for shift in (0.0, 1.5):
        before, _ = ConformalMartingale.start(rng.normal(size=50), "real", 0).bet(rng.normal(shift, 1, 30))
        t = np.array([before.seen + 1])

        def after(p: float, parts: np.ndarray = before.log_parts, t: np.ndarray = t) -> float:
            bets = log_bets(np.array([p]), np.array([1 - p]))
            return float(np.exp(martingales._staked(parts, bets, t)[1][0]))

        ends = [1e-14, 1e-8, 1e-4, 0.01, 0.5, 0.99, 1 - 1e-4, 1 - 1e-8]
        mean = sum(integrate.quad(after, *pair, limit=500)[0] for pair in itertools.pairwise(ends))
        assert mean == pytest.approx(math.exp(before.log_capital), rel=0.03)
        assert mean < math.exp(before.log_capital) * (1 + 1e-6)


@given(st.integers(0, 10**6))
def test_the_capital_is_the_sum_of_its_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    martingale = ConformalMartingale.start(rng.random(30), "probability", seed)
    scores = rng.random(12) ** rng.choice([0.2, 1, 4])
    _, path = martingale.bet(scores)
    theta = martingale._theta(12)
    p, _ = conformal_p_values(martingale.counts, grid_places(scores, "probability"), theta)
    np.testing.assert_allclose(path, literal_log_capital(p.tolist()), rtol=1e-9, atol=1e-9)


def test_weights_and_what_waits_add_up_to_one() -> None:
    t = np.arange(1, 10_001)
    total = np.exp(martingales._log_weight(t)).sum() + np.exp(martingales._log_waiting(10_000))
    assert total == pytest.approx(1, abs=1e-12)


def test_over_a_thousand_streams_false_alarms_stay_below_the_rate() -> None:
    """Streams of 1,200 scores with many ties, looked at after each score."""
    rng = np.random.default_rng(2)
    largest = []
    for stream in range(1000):
        scores = np.round(rng.normal(size=1400), 1)
        martingale, _ = ConformalMartingale.start(scores[:200], "real", stream).bet(scores[200:])
        largest.append(martingale.largest)
    for rate in (0.2, 0.1, 0.02):
        alarms = np.mean(np.array(largest) >= math.log(1 / rate))
        assert rate / 20 < alarms <= rate


@pytest.mark.parametrize(
    ("name", "mean", "spread", "within"),
    [("larger", 1, 1, 60), ("smaller", -1, 1, 60), ("wider", 0, 2, 150), ("narrower", 0, 0.5, 150)],
)
@pytest.mark.parametrize("start", [0, 3000])
def test_finds_scores_that_change(name: str, mean: float, spread: float, within: int, start: int) -> None:
    delays = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        stream = np.concatenate([rng.normal(size=start), rng.normal(mean, spread, 600)])
        _, path = ConformalMartingale.start(rng.normal(size=1000), "real", seed).bet(stream)
        assert path[:start].max(initial=0) < math.log(100)
        delays.append(int(np.argmax(path >= math.log(100))) - start if path.max() >= math.log(100) else 600)
    assert np.median(delays) <= within, name


@given(ROW, ROW)
def test_a_stored_state_goes_on_as_if_nothing_had_happened(first: list[float], second: list[float]) -> None:
    martingale, _ = ConformalMartingale.start(np.linspace(0, 1, 50), "probability", 5).bet(first)
    read = ConformalMartingale.from_record(martingale.to_record())
    here, path = martingale.bet(second)
    there, same = read.bet(second)
    np.testing.assert_array_equal(path, same)
    assert here.to_record() == there.to_record()


@given(ROW, st.integers(0, 600))
def test_how_a_stream_is_cut_into_batches_changes_nothing_but_rounding(row: list[float], cut: int) -> None:
    start = ConformalMartingale.start([0.3, 0.5, 0.9], "probability", 7)
    whole, path = start.bet(row)
    first, before = start.bet(row[:cut])
    second, after = first.bet(row[cut:])
    np.testing.assert_allclose(np.concatenate([before, after]), path, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(second.counts, whole.counts)
    assert (second.seen, second.largest) == (len(row), pytest.approx(whole.largest))
    assert start.seen == 0
    assert start.counts.sum() == 3


def test_nothing_overflows() -> None:
    """A change that never ends: the capital passes every float, its logarithm does not."""
    martingale = ConformalMartingale.start(np.linspace(-3, 3, 100_000), "real", 0)
    for _ in range(20):
        martingale, path = martingale.bet(np.full(1000, 8.0))
        assert np.all(np.isfinite(path))
    assert martingale.largest > 1000
    martingale, path = martingale.bet(np.linspace(-3, 3, 10_000))
    assert np.all(np.isfinite(path))


def test_probabilities_that_single_precision_cannot_tell_apart_are_equal() -> None:
    close = np.array([1.0, 1 - 1e-9, 1 - 1e-6, np.float32(1 - 1e-7)])
    assert len(set(grid_places(close, "probability").tolist())) == 1
    assert grid_places([0.999], "probability") < grid_places([0.9995], "probability")
    assert grid_places([-1e-17], "real") == grid_places([1e-17], "real")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=30))
def test_places_keep_the_order(values: list[float]) -> None:
    places = grid_places(sorted(values), "real")
    assert np.all(np.diff(places) >= 0)
    assert 0 <= places[0] <= places[-1] <= martingales.STEPS


def test_fifty_thousand_scores_take_less_than_a_second() -> None:
    martingale = ConformalMartingale.start(np.linspace(0, 1, 1000), "probability", 0)
    scores = np.random.default_rng(0).random((50, 1000))
    start = time.process_time()
    for batch in scores:
        martingale, _ = martingale.bet(batch)
    assert time.process_time() - start < 1
    assert len(json.dumps(str(martingale.to_record()))) < 200_000


@pytest.mark.parametrize(
    ("scores", "grid", "sentence"),
    [
        ([0.5, math.nan], "real", "1-D array of finite scores"),
        ([[0.5]], "real", "shape \\(1, 1\\)"),
        ([1.5], "probability", "scores in \\[0, 1\\], got from 1.5 to 1.5"),
        ([0.5], "logarithmic", "a grid out of probability, real; got 'logarithmic'"),
        ([], "real", "expected calibration scores to compare a stream with, got none"),
    ],
)
def test_refuses_scores_it_cannot_place(scores: list[float], grid: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ConformalMartingale.start(scores, grid, 0)


@pytest.mark.parametrize(
    "change", [{"seen": 6}, {"counts": b"\0" * 8}, {"log_parts": b""}, {"grid": "other"}, {"largest": -9.0}]
)
def test_a_damaged_state_is_refused(change: dict[str, object]) -> None:
    record = ConformalMartingale.start([0.5], "real", 0).bet([0.1] * 5)[0].to_record()
    assert ConformalMartingale.from_record(record).seen == 5
    with pytest.raises(ValueError, match="state of a martingale is damaged"):
        ConformalMartingale.from_record({**record, **change})
    with pytest.raises(ValueError, match="state of a martingale is damaged"):
        ConformalMartingale.from_record({key: value for key, value in record.items() if key != "counts"})
