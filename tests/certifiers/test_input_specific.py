import numpy as np
import pytest

from rrise.certifiers.input_specific import InputSpecificBudget, budget_mapping
from rrise.statistics import certified_radius, clopper_pearson_interval, clopper_pearson_lower
from rrise.votes.sequence import StoredVotes
from tests.certifiers.drawn_votes import SMOOTHING, DrawnVotes, stored_votes


def radius(k: int, n: int, alpha: float) -> float:
    return float(certified_radius(clopper_pearson_lower(k, n, alpha), 1.0))


def test_mapping_is_the_smallest_budget_of_a_naive_search() -> None:
    for k, decline, alpha in [(300, 0.01, 0.25), (300, 0.05, 0.001), (300, 0.5, 0.1)]:
        proportion, mapped = budget_mapping(k, decline, alpha)
        for i in range(495, 1001, 5):
            wanted = (1 - decline) * radius(round(k * i / 1000), k, alpha)
            enough = (n for n in range(1, k + 1) if radius(round(n * i / 1000), n, alpha) >= wanted)
            assert proportion[i] == i / 1000
            assert mapped[i] == (next(enough) if wanted > 0 else 0)


@pytest.mark.parametrize(("k", "decline", "alpha"), [(2000, 0.01, 0.25), (2000, 0.05, 0.001)])
def test_mapping_is_the_smallest_budget_of_a_whole_table(k: int, decline: float, alpha: float) -> None:
    n, steps = np.arange(1, k + 1), np.arange(0, 1001, 3)[:, None]
    table = certified_radius(clopper_pearson_lower(np.rint(n * steps / 1000), n, alpha), 1.0)
    enough = table >= (1 - decline) * table[:, -1:]
    expected = np.where(table[:, -1] > 0, n[enough.argmax(axis=1)], 0)
    np.testing.assert_array_equal(budget_mapping(k, decline, alpha)[1][::3], expected)


def test_mapping_falls_with_the_decline_and_is_zero_without_a_radius() -> None:
    proportion, tight = budget_mapping(10_000, 0.01, 0.001)
    _, loose = budget_mapping(10_000, 0.05, 0.001)
    assert np.all(loose <= tight)
    assert np.all((tight == 0) == (clopper_pearson_lower(np.rint(proportion * 10_000), 10_000, 0.001) <= 0.5))
    assert tight.max() <= 10_000
    with pytest.raises(ValueError, match="read-only"):
        tight[0] = 1


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("probabilities", [(0.5, 0.5), (0.55, 0.45), (0.9, 0.06, 0.04)])
def test_error_rate_stays_below_alpha(probabilities: tuple[float, ...], alpha: float) -> None:
    """200,000 inputs each."""
    inputs = 200_000
    votes = DrawnVotes(probabilities, inputs, 1000)
    certificates = InputSpecificBudget(1000, 0.05, alpha).certify_votes(votes)
    wrong = certificates.issued & (certificates.lower_bound > np.array(probabilities)[certificates.label])
    assert wrong.mean() <= alpha + 4 * (alpha / inputs) ** 0.5
    np.testing.assert_array_equal(votes.drawn, certificates.passes)


@pytest.mark.parametrize("k", [500, 10_000, 20_000])
def test_plans_the_larger_budget_of_the_two_ends(k: int) -> None:
    certifier = InputSpecificBudget(k, 0.05, 0.01)
    assert certifier.pilot == max(100, k // 100)
    _, mapped = budget_mapping(k, 0.05, 0.01)
    for agreeing in range(certifier.pilot + 1):
        low, high = clopper_pearson_interval(agreeing, certifier.pilot, 0.01)
        at_ends = max(mapped[int(low * 1000)], mapped[-int(-high * 1000 // 1)])
        expected = min(max(at_ends, 100), k - certifier.pilot) if at_ends else 0
        assert certifier.planned(np.array([agreeing])).tolist() == [expected]


def test_certificates_come_from_fresh_votes_alone() -> None:
    p = np.linspace(0.3, 1.0, 60)
    votes = stored_votes(p, 1000, classes=3)
    certifier = InputSpecificBudget(1000, 0.01, 0.05)
    certificates = certifier.certify_votes(votes)
    for i, answers in enumerate(votes.answers):
        label = int(np.bincount(answers[:100]).argmax())
        fresh = int(certifier.planned(np.array([(answers[:100] == label).sum()]))[0])
        assert certificates.label[i] == label
        assert certificates.passes[i] == 100 + fresh <= 1000
        if fresh:
            agreeing = (answers[100 : 100 + fresh] == label).sum()
            assert certificates.lower_bound[i] == clopper_pearson_lower(agreeing, fresh, 0.05)
        else:
            assert not certificates.issued[i]
    assert 100 == certificates.passes.min() < certificates.mean_passes < certificates.passes.max()


def test_a_lucky_pilot_certifies_nothing() -> None:
    answers = np.concatenate([np.zeros((1, 100), int), np.ones((1, 900), int)], axis=1)
    certificates = InputSpecificBudget(1000, 0.01, 0.05).certify_votes(StoredVotes(answers, 2, SMOOTHING))
    assert certificates.label.tolist() == [0]
    assert certificates.lower_bound.tolist() == [0.0]


@pytest.mark.parametrize("k", [500, 1000, 5000, 10_000])
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1, 0.25, 0.49])
def test_where_no_vote_is_planned_the_pilot_proves_nothing_either(k: int, alpha: float) -> None:
    certifier = InputSpecificBudget(k, 0.01, alpha)
    agreeing = np.arange(certifier.pilot + 1)
    none = certifier.planned(agreeing) == 0
    assert none.any()
    assert np.all(clopper_pearson_lower(agreeing, certifier.pilot, alpha)[none] < 0.5)
    certificates = certifier.certify_votes(DrawnVotes((0.2,) * 5, 300, k))
    assert not certificates.issued.any()


def test_saves_votes_and_loses_little_radius() -> None:
    votes = DrawnVotes((0.9, 0.1), 1000, 10_000)
    certificates = InputSpecificBudget(10_000, 0.05, 0.001).certify_votes(votes)
    full = certified_radius(clopper_pearson_lower(9000, 10_000, 0.001), SMOOTHING.sigma)
    assert certificates.mean_passes < 6000
    assert 0.94 * full < certificates.radius.mean() < full


def test_one_unanimous_input_of_two_classes() -> None:
    votes = StoredVotes(np.ones((1, 500), dtype=np.uint8), 2, SMOOTHING)
    certificates = InputSpecificBudget(500, 0.05, 0.001).certify_votes(votes)
    fresh = int(certificates.passes[0]) - 100
    assert certificates.label.tolist() == [1]
    assert certificates.lower_bound[0] == pytest.approx(0.001 ** (1 / fresh), rel=1e-12)


def test_no_input_gives_no_certificate() -> None:
    nothing = StoredVotes(np.zeros((0, 500), dtype=np.uint8), 10, SMOOTHING)
    assert len(InputSpecificBudget(500, 0.05, 0.01).certify_votes(nothing)) == 0


def test_says_what_it_is_and_promises() -> None:
    certifier = InputSpecificBudget(1000, 0.05, 0.01)
    assert certifier.name == "input-specific budget, n=1000, decline=0.05, failure=0.01"
    assert certifier.n == 1000
    guarantee = certifier.certify_votes(DrawnVotes((1.0, 0.0), 3, 1000)).guarantee
    assert guarantee.failure_text == "0.01"
    assert "had no part in the bound" in guarantee.words.promise
    assert guarantee.settings["pilot_votes"] == 100


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"n": 100},
            "leaves 0 votes after a pilot of 100, but failure=0.001 needs 10",
        ),
        ({"n": 109}, "use n=110 or more"),
        ({"n": 50}, "n=50 leaves 0 votes"),
        ({"n": 1000.5}, "expected a whole number for n, got 1000.5"),
        ({"decline": 0}, "expected decline strictly between 0 and 1, got 0"),
        ({"decline": 1.5}, "expected decline strictly between 0 and 1, got 1.5"),
        ({"failure": 0.5}, "expected failure below 1/2, got 0.5"),
        ({"failure": 0}, "expected failure strictly between 0 and 1, got 0"),
    ],
)
def test_refuses_settings_that_make_no_sense(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        InputSpecificBudget(**{"n": 1000, "decline": 0.01, "failure": 0.001} | settings)


def test_refuses_too_few_votes() -> None:
    with pytest.raises(ValueError, match="expected at least 1000 votes of each input, got 500"):
        InputSpecificBudget(1000, 0.01, 0.01).certify_votes(DrawnVotes((0.9, 0.1), 5, 500))
