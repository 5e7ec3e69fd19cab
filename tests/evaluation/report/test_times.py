"""What the report says about time: a number with its spread, or why there is none."""

from rrise.evaluation.measure.pass_time import PassTime
from rrise.evaluation.report.times import time_rows, untimed
from rrise.files import Json
from tests.evaluation.example_results import run

from .example_page import page, words_of

STEADY = PassTime.of_turns([0.001, 0.001, 0.001, 0.0012, 0.0012], waited=0.01)
BUSY = PassTime.of_turns([0.001] * 5, waited=0.62)


def measured(time: PassTime) -> Json:
    seconds = {} if not time.problem else {"seconds": None}
    return {**run(methods=("RRISE", "Baseline 1"), **seconds), "pass_times": {"": time.to_json()}}


def test_a_steady_time_stands_with_its_spread_and_as_a_product() -> None:
    first, _ = time_rows(measured(STEADY))
    assert first[1:] == ["1", "1 (1 to 1.2)", "1"]
    assert untimed(measured(STEADY)) == []
    words = words_of(page(results=measured(STEADY)))
    assert "Passes × time per pass" in words
    assert "the median of repeated turns" in words


def test_a_time_that_is_not_steady_is_not_stated() -> None:
    rows = time_rows(measured(BUSY))
    assert [row[2:] for row in rows] == [["not steady", "–"]] * 2
    (sentence,) = untimed(measured(BUSY))
    assert "the pass waited for a core for 62 % of the time" in sentence
    assert sentence in words_of(page(results=measured(BUSY)))


def test_earlier_results_have_their_one_number() -> None:
    earlier = run(methods=("RRISE",))
    assert [row[1:] for row in time_rows(earlier)] == [["1", "1", "1"]]
    assert "the median of repeated turns" not in words_of(page(results=earlier))


def test_without_times_the_page_says_nothing_of_them() -> None:
    assert time_rows(run(methods=("RRISE",), seconds=None)) == []
    assert "No certificate was timed" not in words_of(page(results=run(seconds=None)))
