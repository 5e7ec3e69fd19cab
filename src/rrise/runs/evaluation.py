"""The last step of a run: every method on the test inputs, measured, tabulated, drawn and reported."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from rrise.certifiers.folder import MANIFEST as CERTIFIER
from rrise.certifiers.surrogate import Certifier
from rrise.evaluation.measuring import measure
from rrise.evaluation.methods import SurrogateEvidence, surrogate_outcomes, voting_outcomes
from rrise.evaluation.outcomes import Offline, Outcome
from rrise.evaluation.results import RESULTS, Evaluation, Shown
from rrise.evaluation.writing import write_evaluation
from rrise.files import Json, read_json, sha256_of_file
from rrise.models.fingerprint import fingerprint
from rrise.models.precision import at_precision
from rrise.runs.choices import SurrogateChoice
from rrise.runs.evidence import Reported, seconds_per_pass, stored_predictions
from rrise.runs.run import Run, identity_of
from rrise.statistics import exact_level, level_text
from rrise.training.surrogate import Surrogate
from rrise.votes.reading import read_sequence, read_votes
from rrise.votes.sequence import StoredVotes

_NAMES = {
    "fashion-mnist": "FashionMNIST",
    "cifar-10": "CIFAR-10",
    "cifar-100": "CIFAR-100",
    "tiny-imagenet": "Tiny ImageNet",
}
"""Datasets of the paper as its tables call them."""
_STEPS_OF_SIGMA = 8
_TIMED_INPUTS = 64


@dataclass(frozen=True, eq=False)
class Candidate:
    """A trained surrogate that takes part in an evaluation."""

    choice: SurrogateChoice
    network: nn.Module
    offline: Offline

    @classmethod
    def of_run(cls, run: Run, choice: SurrogateChoice, network: nn.Module, trained: Surrogate) -> "Candidate":
        """Count what the surrogate cost: votes of its inputs, its training, and the calibration."""
        inputs = sum(len(run.data.inputs(split)) for split in run.data.for_surrogate)
        calibration = len(run.data.splits.calibration) * (run.recipe.votes.calibration + 1)
        offline = Offline(
            targets=inputs * choice.budget,
            training=trained.training_passes,
            calibration=calibration,
            training_inputs=inputs,
            batch_size=run.recipe.surrogate.batch_size,
            epoch=trained.history.selected_epoch,
        )
        return cls(choice, network, offline)


def evaluate(run: Run, base: nn.Module, certifier: Certifier, candidates: Sequence[Candidate]) -> Evaluation:
    """Evaluate every method on the test inputs of a run, unless that is up to date.

    The first of the candidates is the certifier's own surrogate.
    """
    recipe = run.recipe
    protocol = recipe.evaluation.protocol or recipe.data.protocol

    def make(folder: Path) -> Json:
        evaluator = _Evaluator(run, base, certifier, candidates, protocol)
        write_evaluation(folder, evaluator.results(), evaluator.shown())
        return {}

    inputs = {
        "certifier": sha256_of_file(run.folder / "certifier" / CERTIFIER),
        "votes": {
            name: identity_of(read_votes(run.folder / "votes" / name))
            for name in ("test", "test-selection", "calibration")
        },
        "surrogates": {c.choice.variant: fingerprint(c.network) for c in candidates},
        "settings": recipe.tables(),
    }
    run.step("evaluation", {**inputs, **run.made_from("calibration", "test")}, make)
    return Evaluation(read_json(run.folder / "evaluation" / RESULTS))


class _Evaluator:
    def __init__(
        self, run: Run, base: nn.Module, certifier: Certifier, candidates: Sequence[Candidate], protocol: str
    ) -> None:
        self.run, self.recipe, self.certifier = run, run.recipe, certifier
        self.base = at_precision(base, certifier.smoothing.precision)
        self.candidates = candidates
        self.reported = Reported(run, protocol)
        stores = {name: read_sequence(run.folder / "votes" / name) for name in ("test", "calibration")}
        self.calibration_votes = stores["calibration"].votes(stores["calibration"].length)
        self.votes: StoredVotes = self.reported.votes(stores["test"], stores["calibration"])
        self.reference = self.votes.votes(self.votes.length)
        self.labels = self.reported.pick(
            run.data.labels("test").numpy(), run.data.labels("calibration").numpy()
        )
        self.predictions = {
            name: stored_predictions(run, name, candidate.network)
            for name, candidate in self._by_variant().items()
        }
        self.outcomes = self._timed(list(self._outcomes()))

    @property
    def failures(self) -> list[float]:
        """The levels, the certifier's own first."""
        own = self.recipe.calibration.failure
        return [own, *(level for level in self.recipe.evaluation.failures if level != own)]

    @property
    def budgets(self) -> list[int]:
        """The budgets of methods that vote, the largest that was collected last."""
        largest = self.votes.length
        return [*(n for n in sorted(set(self.recipe.evaluation.budgets)) if n < largest), largest]

    @property
    def thresholds(self) -> list[float]:
        """The radii at which certified accuracy and radius distributions are told."""
        steps = [round(0.1 * step * self.recipe.votes.sigma, 10) for step in range(_STEPS_OF_SIGMA)]
        return list(self.recipe.evaluation.thresholds) or steps

    def _outcomes(self) -> Iterator[Outcome]:
        for candidate in self.candidates:
            predictions = self.predictions[candidate.choice.variant]
            evidence = SurrogateEvidence(
                candidate.choice.method,
                candidate.choice.variant,
                candidate.choice.budget,
                self.reported.predictions(predictions),
                predictions["calibration"],
                candidate.offline,
                self.certifier.guarantee.numbers["calibration_inputs_seen_in_training"],
            )
            yield from surrogate_outcomes(
                evidence, self.calibration_votes, self.failures, beta=self.recipe.calibration.beta
            )
        selection = None
        if self.reported.only_test_inputs:
            stored = read_sequence(self.run.folder / "votes" / "test-selection")
            selection = self.reported.votes(stored, stored)
        yield from voting_outcomes(self.votes, selection, self.budgets, self.failures)

    def _timed(self, outcomes: list[Outcome]) -> list[Outcome]:
        sample = self.run.data.inputs("test").shard(0)[:_TIMED_INPUTS]
        passes = {name: seconds_per_pass(c.network, sample) for name, c in self._by_variant().items()}
        voting = seconds_per_pass(self.base, sample)
        return [
            replace(
                outcome,
                seconds=outcome.certificates.mean_passes * passes.get(outcome.setting.variant, voting),
            )
            for outcome in outcomes
        ]

    def _by_variant(self) -> dict[str, Candidate]:
        return {candidate.choice.variant: candidate for candidate in self.candidates}

    def results(self) -> Json:
        """Return what `results.json` holds."""
        recipe, dataset = self.recipe, self.run.data.dataset.name
        main = self.candidates[0].choice
        own = (main.method, main.variant, recipe.calibration.score)
        failure = level_text(exact_level(recipe.calibration.failure, "failure"))
        return {
            "format": 1,
            "dataset": _NAMES.get(dataset, dataset),
            "run": self.run.folder.resolve().name,
            "seed": recipe.votes.seed,
            "protocol": self.reported.protocol,
            "sigma": recipe.votes.sigma,
            "classes": self.votes.classes,
            "test_inputs": len(self.labels),
            "reference_votes": self.votes.length,
            "main_budget": self.votes.length,
            "main_failure": failure,
            "certifier": own,
            "promise": self.certifier.guarantee.promise,
            "thresholds": self.thresholds,
            "device": str(self.run.device),
            "evaluated": time.strftime("%Y-%m-%d", time.gmtime()),
            "results": measure(
                self.outcomes,
                self.labels,
                self.reference,
                self.thresholds,
                main_budget=self.votes.length,
                main_failure=failure,
                main_surrogate=own,
                paper_counting=self.reported.protocol == "paper",
            ),
        }

    def shown(self) -> Shown:
        """Return what the report shows beyond the numbers."""
        data = self.run.data
        return Shown(
            indices=self.reported.indices,
            images=self.reported.pick(data.pictures("test"), data.pictures("calibration")),
            labels=self.labels,
            class_names=data.class_names,
            outcomes=tuple(self.outcomes),
            reference=self.reference,
            top_probability={
                name: self.reported.predictions(of).top_probability for name, of in self.predictions.items()
            },
            settings=self.recipe.settings(),
            paper=self.recipe.evaluation.paper,
        )
