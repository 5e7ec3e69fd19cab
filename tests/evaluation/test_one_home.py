"""A method, a score and a metric are registered in one place each, and show up wherever results are shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest
import torch

import rrise
from rrise.certifiers.card import model_card
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, no_guarantee
from rrise.certifiers.methods import METHODS, RRISE, Method, register_method
from rrise.certifiers.predictions import Predictions
from rrise.certifiers.voting import VoteMethod
from rrise.errors import SettingError
from rrise.evaluation.figures import Scatter, boundary_figure, calibration_figure, result_figures
from rrise.evaluation.measure.all_metrics import METRICS, InTables, Metric, register_metric
from rrise.evaluation.measure.measurement import measure
from rrise.evaluation.measure.methods import SurrogateEvidence, surrogate_outcomes, voting_outcomes
from rrise.evaluation.measure.outcomes import Offline
from rrise.evaluation.measure.over_seeds import over_seeds
from rrise.evaluation.report.comparison import comparison_headings, comparison_rows
from rrise.evaluation.report.page import render_report
from rrise.evaluation.tables.tables import build_tables
from rrise.evaluation.tables.text import as_markdown
from rrise.evaluation.tables.values import Table
from rrise.files import Json
from rrise.looks import Look
from rrise.statistics import SCORES, Score, register_score
from rrise.votes.sequence import StoredVotes, VoteSequence
from rrise.votes.smoothing import Smoothing
from tests.evaluation.report.example_page import words_of

N, INPUTS, CLASSES = 200, 40, 3
COLOUR, SCORE_COLOUR = "#12ab34", "#ab1234"
SMOOTHING = Smoothing("base", 0.25, (0.0, 1.0), "float32")


@dataclass(frozen=True)
class Coin(VoteMethod):
    """Certifies what all votes agree on, and promises nothing."""

    n: int

    @property
    def name(self) -> str:
        return "coin"

    def guarantee(self, smoothing: Smoothing, selection_votes: int = 0) -> Guarantee:  # noqa: ARG002
        return no_guarantee("surrogate-at-face-value", smoothing)

    def certify_votes(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:  # noqa: ARG002
        counts = votes.counts(0, self.n)
        bound = counts.max(axis=1) / (self.n + 1)
        guarantee = self.guarantee(votes.smoothing)
        return Certificates.from_bound(counts.argmax(axis=1), bound, guarantee=guarantee, passes=self.n)


TOY_METHOD = Method(
    "Toy method",
    label="Toy method: a coin",
    look=Look(COLOUR, (9, 1), "h", "//"),
    variants=lambda n, _: [(f"n{n}_toss{tosses}", partial(Coin, n)) for tosses in (1, 2)],
    main_variant="n{n}_toss1",
    abbreviation="toy",
    caution="A coin proves nothing.",
)
TOY_SCORE = Score(
    "toy",
    lambda q, lower, _: (q - lower) * 1000,
    lambda q, offset, ceiling: np.clip(q - offset / 1000, 0.0, ceiling),
    unit="in thousandths",
    formula="q - d / 1000",
    note="the offset is counted in thousandths.",
    look=Look(SCORE_COLOUR, (2, 2), "p"),
)
TOY_METRIC = Metric(
    "toy_bits",
    lambda found: 3.25 * float(found.certificates.issued.any()) + len(found.labels),
    "toy information",
    "bits",
    "three bits and a quarter for any certificate, and one for each input",
    scale=2,
    write=lambda value: "no bits" if value is None else f"{value:.2f} bits",
    table=InTables(digits=1),
    bars=9,
    compared="information",
    tile="of information",
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Register the three, and take them out again."""
    register_method(TOY_METHOD)
    register_score(TOY_SCORE)
    register_metric(TOY_METRIC)
    yield
    del METHODS[TOY_METHOD.name], SCORES[TOY_SCORE.name], METRICS[TOY_METRIC.key]


def votes_of(seed: int, n: int = N) -> StoredVotes:
    random, share = np.random.default_rng(seed), np.linspace(0.3, 0.99, INPUTS)[:, None]
    votes = np.where(random.random((INPUTS, n)) < share, 0, random.integers(0, CLASSES, (INPUTS, n)))
    return StoredVotes(votes, CLASSES, SMOOTHING, (seed, "test"))


@cache
def results() -> Json:
    """Evaluate RRISE and every method that votes, the toy among them."""
    votes, calibration = votes_of(1), votes_of(3)
    said = Predictions(np.zeros(INPUTS, dtype=np.int64), votes.counts(0, N)[:, 0] / N)
    surrogate = SurrogateEvidence(
        RRISE.name, f"{RRISE.paper_variant}_n{N}", N, said, said, Offline(1000, 300, 200, 100, 10, 3)
    )
    outcomes = [
        *surrogate_outcomes(
            surrogate, calibration.votes(N), (0.25, 0.1), how={"rule": "paper", "beta": 0.001}
        ),
        *voting_outcomes(votes, votes_of(2, 50), (100, N), (0.25, 0.1)),
    ]
    labels, thresholds = np.zeros(INPUTS, dtype=np.int64), [0.0, 0.1, 0.2]
    return {
        "dataset": "made up",
        "run": "run",
        "seed": 1,
        "protocol": "held-out",
        "sigma": 0.25,
        "classes": CLASSES,
        "test_inputs": INPUTS,
        "reference_votes": N,
        "main_budget": N,
        "main_failure": "0.25",
        "thresholds": thresholds,
        "results": measure(
            outcomes,
            labels,
            votes.votes(N),
            thresholds,
            main_budget=N,
            main_failure="0.25",
            noise=rrise.Gaussian(0.25),
        ),
    }


def tables() -> dict[str, Table]:
    found = results()
    made = build_tables(over_seeds([found]), {"made up": found["thresholds"]}, protocol="held-out")
    return {table.name: table for table in made}


@cache
def figures() -> dict[str, str]:
    return {name: drawing.svg() for name, drawing in result_figures([results()]).items()}


@cache
def report() -> str:
    return render_report(
        results(), [*tables().values()], figures=figures(), gallery=[], guarantees=[], settings={}
    )


def test_a_method_is_run_tabulated_drawn_and_reported() -> None:
    settings = {
        (one["variant"], one["budget"], one["failure"])
        for one in results()["results"]
        if one["method"] == TOY_METHOD.name
    }
    assert settings == {
        (f"n{n}_toss{tosses}", n, level) for n in (100, N) for tosses in (1, 2) for level in ("0.25", "0.1")
    }
    main = tables()["main_cert_boundary"]
    assert [row.labels[1] for row in main.rows][-1] == "Toy method†"
    assert f"† Toy method: {TOY_METHOD.caution}" in main.notes
    assert any(note.startswith("† Baseline 3: As in the paper, a bound") for note in main.notes)
    compute = tables()["main_compute"]
    assert "RRISE BE vs toy" in compute.header()
    own = next(row for row in compute.rows if row.setting["method"] == RRISE.name)
    assert own.cells[compute.header().index("RRISE BE vs toy") - 2].ours.mean == 8  # 1,500 / 199
    for name in ("certified_accuracy", "boundary", "boundary_crd", "cost"):
        assert COLOUR in figures()[name], name
        assert "Toy method: a coin" in figures()[name], name
    words = words_of(report())
    assert "Toy method: a coin 100.0 %" in words
    assert "Toy method: a coin 200 8 " in words


def test_a_score_is_calibrated_tabulated_drawn_and_reported() -> None:
    offsets = {one["score"]: one["metrics"]["offset"] for one in results()["results"] if one["score"]}
    assert offsets["toy"] == pytest.approx(1000 * offsets["additive"])
    levels = tables()["calibration_ablation_made_up"]
    assert [row.labels for row in levels.rows if "toy" in row.labels[0]] == [
        ("RRISE (toy)", "0.1"),
        ("RRISE (toy)", "0.25"),
    ]
    assert "(toy): the offset is counted in thousandths." in levels.notes
    coverage = figures()["coverage"]
    assert SCORE_COLOUR in coverage
    assert "toy, all inputs: " in coverage
    assert "toy, issued ones: " in coverage
    assert "toy q - d / 1000 in thousandths" in words_of(report())


def test_no_bound_is_left_out_of_the_scatter_however_many_there_are() -> None:
    q = np.linspace(0.4, 1, 30)
    bounds = {name: q - 0.01 * place for place, name in enumerate(("probit", "additive", "none", "toy"))}
    drawing = calibration_figure(Scatter(q, q, bounds))
    (legend,) = drawing.figure.legends
    assert "bound, toy" in [text.get_text() for text in legend.get_texts()]
    assert SCORE_COLOUR in drawing.svg()


def test_the_card_has_the_score_with_its_unit() -> None:
    torch.manual_seed(0)
    base = torch.nn.Linear(4, 3)
    inputs = torch.rand(60, 4)
    votes = rrise.collect_votes(base, inputs, sigma=0.25, n=50, seed=1)
    certifier = rrise.calibrate(base, inputs, votes, failure=0.2, score="toy")
    card = model_card(certifier)
    assert "| score | toy |" in card
    offset = next(line for line in card.splitlines() if line.startswith("| offset |"))
    assert offset.endswith(" in thousandths |")
    assert float(offset.split()[3]) == pytest.approx(certifier.calibration.offset, abs=1e-5)


def test_a_metric_is_measured_tabulated_drawn_and_reported() -> None:
    rrise_bits = next(one["metrics"]["toy_bits"] for one in results()["results"])
    assert rrise_bits == INPUTS + 3.25
    assert list(results()["results"][0]["metrics"])[-1] == "toy_bits"
    further = tables()["main_further"]
    assert "Toy information (bits)" in further.header()
    assert "| 86.5 |" in as_markdown(further)
    bars = boundary_figure([results()])
    panels = [axes for axes in bars.figure.axes if axes.get_title(loc="left") == "Toy information"]
    assert [axes.get_xlabel() for axes in panels] == ["bits"]
    assert "RRISE: 43.25 bits" in figures()["boundary"]
    assert "toy information in bits" in bars.description
    assert comparison_headings()[-1] == "information"
    assert {row[-1] for row in comparison_rows(results())} == {"43.25 bits"}
    words = words_of(report())
    assert "information bits" in words
    assert "43.25 bits of information Monte Carlo: 43.25 bits" in words
    assert f"toy information Toy information (bits) bits {TOY_METRIC.meaning}" in words


def test_names_are_taken_once() -> None:
    with pytest.raises(SettingError, match="a metric named 'toy_bits' is registered already"):
        register_metric(TOY_METRIC)
    with pytest.raises(SettingError, match="a method named 'Toy method' is registered already"):
        register_method(TOY_METHOD)
    with pytest.raises(SettingError, match="a score named 'toy' is registered already"):
        register_score(TOY_SCORE)
