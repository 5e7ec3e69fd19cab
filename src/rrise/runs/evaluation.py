"""The last step of a run: every method on the test inputs, measured, tabulated, drawn and reported."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torch import nn

from rrise.certifiers.folder import MANIFEST as CERTIFIER
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import STOPS
from rrise.evaluation.measure.evidence import Evidence, rounded_down
from rrise.evaluation.measure.evidence_files import write_evidence
from rrise.evaluation.measure.known import voting_methods
from rrise.evaluation.measure.methods import SurrogateEvidence, voting_outcomes
from rrise.evaluation.measure.outcomes import Offline, Outcome
from rrise.evaluation.measure.pass_time import PassTime
from rrise.evaluation.measure.results import RESULTS, Evaluation
from rrise.evaluation.report.evaluation_folder import write_evaluation
from rrise.evaluation.report.shown import Attacked, Shown
from rrise.files import Json, read_json, sha256_of_file
from rrise.models.fingerprint import fingerprint
from rrise.models.head import find_head
from rrise.models.precision import at_precision
from rrise.runs.predictions import stored_predictions
from rrise.runs.reported import Reported, collect_reported
from rrise.runs.run import Run, identity_of
from rrise.runs.surrogate_choices import SurrogateChoice
from rrise.runs.timing import time_passes
from rrise.statistics import SCORES, exact_level, level_text
from rrise.training.surrogate import Surrogate
from rrise.votes.array import Votes
from rrise.votes.reading import read_sequence, read_votes
from rrise.votes.sequence import StoredVotes

_NAMES = {
    "fashion-mnist": "FashionMNIST",
    "cifar-10": "CIFAR-10",
    "cifar-100": "CIFAR-100",
    "tiny-imagenet": "Tiny ImageNet",
}
"""Names of the paper's datasets in its tables."""
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
        """Add up the cost of the surrogate: votes of its inputs, training and calibration."""
        inputs = sum(len(run.data.inputs(split)) for split in run.data.for_surrogate)
        calibration = len(run.data.splits.calibration) * (run.recipe.votes.calibration + 1)
        offline = Offline(
            targets=trained.vote_passes if choice.is_distilled else inputs * choice.budget,
            training=trained.training_passes - trained.vote_passes,
            calibration=calibration,
            training_inputs=inputs,
            batch_size=run.recipe.surrogate.batch_size,
            epoch=trained.history.selected_epoch,
        )
        return cls(choice, network, offline)


def evaluate(
    run: Run,
    base: nn.Module,
    certifier: SurrogateCertifier,
    candidates: Sequence[Candidate],
    votes: Mapping[str, Votes],
    *,
    attacked: Attacked | None = None,
) -> Evaluation:
    """Evaluate every method on the test inputs of a run, unless the evaluation is up to date.

    The first candidate is the certifier's own surrogate. `votes` holds the votes of the calibration and the
    test inputs, by the names of their stores. `attacked` is what an audit found.
    """

    def make(folder: Path) -> Json:
        evaluator = _Evaluator(run, base, certifier, candidates, votes["calibration"])
        evidence = evaluator.evidence()
        outcomes = evidence.outcomes()
        shown = replace(evaluator.shown(evidence, outcomes), attacked=attacked)
        write_evaluation(folder, evidence.results(outcomes), shown)
        (folder / "evidence").mkdir()
        write_evidence(folder / "evidence", evidence)
        return {}

    inputs = {
        "certifier": sha256_of_file(run.folder / "certifier" / CERTIFIER),
        "votes": {name: identity_of(collected) for name, collected in votes.items()},
        "surrogates": {c.choice.variant: fingerprint(c.network) for c in candidates},
        "settings": run.recipe.tables(),
        "audit": None if attacked is None else asdict(attacked),
    }
    run.step("evaluation", {**inputs, **run.made_from("calibration", "test")}, make)
    return Evaluation(read_json(run.folder / "evaluation" / RESULTS))


class _Evaluator:
    """Gathers the evidence of a run: votes, predictions, costs and times."""

    def __init__(
        self,
        run: Run,
        base: nn.Module,
        certifier: SurrogateCertifier,
        candidates: Sequence[Candidate],
        calibration_votes: Votes,
    ) -> None:
        self.run, self.recipe, self.certifier = run, run.recipe, certifier
        self.calibration_votes = calibration_votes
        self.base = at_precision(base, certifier.smoothing.precision)
        self.candidates = candidates
        self.reported = Reported(run)
        stores = collect_reported(run, base)
        self.votes = self._votes_of("test", stores["votes"], self.recipe.votes.test)
        self.selection = self._votes_of("test-selection", stores["selection"], self.recipe.votes.selection)

    @property
    def failure(self) -> str:
        """The certifier's failure, as text."""
        return level_text(self.certifier.calibration.failure)

    @property
    def failures(self) -> list[float]:
        """The failures, the certifier's own first."""
        wanted = (self.recipe.calibration.failure, *self.recipe.evaluation.failures)
        return list({exact_level(failure, "failure"): failure for failure in wanted}.values())

    @property
    def budgets(self) -> list[int]:
        """The budgets of methods that vote; the last is the number of collected votes."""
        largest = self.votes.length
        return [*(n for n in sorted(set(self.recipe.evaluation.budgets)) if n < largest), largest]

    @property
    def thresholds(self) -> list[float]:
        """The radii at which certified accuracy and radius distributions are reported."""
        steps = [round(0.1 * step * self.recipe.votes.sigma, 10) for step in range(_STEPS_OF_SIGMA)]
        return list(self.recipe.evaluation.thresholds) or steps

    def _votes_of(self, tests: str, others: str, n: int) -> StoredVotes:
        """Return the votes of the reported inputs, including reported calibration inputs."""
        names = dict.fromkeys((tests, others))
        found = {name: read_sequence(self.run.folder / "votes" / name, n) for name in names}
        return self.reported.votes(found[tests], found[others])

    def evidence(self) -> Evidence:
        """Return everything that the evaluation is computed from."""
        data = self.run.data
        voting = voting_outcomes(self.votes, self.selection, self.budgets, self.failures)
        found = Evidence(
            about=self._about(),
            indices=self.reported.indices,
            labels=self.reported.pick(data.labels("test").numpy(), data.labels("calibration").numpy()),
            calibrated_on=self.reported.calibrated_on,
            reference=self.votes.votes(self.votes.length),
            voting=tuple(map(rounded_down, voting)),
            surrogates=tuple(map(self._surrogate, self.candidates)),
            calibration_votes=self.calibration_votes,
            fewer_votes=self._fewer_votes(),
            pass_times=self._pass_times(),
            query=self._query_votes(),
        )
        return replace(found, about={**found.about, "left_out": self._left_out(found.outcomes())})

    def _surrogate(self, candidate: Candidate) -> SurrogateEvidence:
        choice = candidate.choice
        own = candidate is self.candidates[0]  # a program, which has no head
        alone = choice.strategy == "head" and not choice.network and not own
        head = find_head(candidate.network, self.votes.classes, self.recipe.surrogate.head) if alone else None
        predictions = stored_predictions(self.run, choice.variant, candidate.network, head)
        return SurrogateEvidence(
            choice.method,
            choice.variant,
            choice.budget,
            self.reported.predictions(predictions),
            predictions["calibration"],
            candidate.offline,
            _seen_in_training(self.certifier),
        )

    def _fewer_votes(self) -> dict[int, Votes]:
        folder, all_n = self.run.folder / "votes" / "calibration", self.recipe.votes.calibration
        return {n: read_votes(folder, n) for n in sorted(set(self.recipe.evaluation.budgets)) if n < all_n}

    def _query_votes(self) -> dict[int, tuple[Votes, Votes]]:
        """Return the first votes of reported and calibration inputs, for votes at query time."""
        n = self.recipe.votes.calibration
        held = read_sequence(self.run.folder / "votes" / "calibration", n)
        most = min(n, self.votes.length) // 2
        return {m: (self.votes.votes(m), held.votes(m)) for m in STOPS if m <= most}

    def _pass_times(self) -> dict[str, PassTime]:
        sample = self.run.data.inputs("test").shard(0)[:_TIMED_INPUTS]
        networks = {candidate.choice.variant: candidate.network for candidate in self.candidates}
        return time_passes({"": self.base, **networks}, sample)

    def _about(self) -> Json:
        recipe, dataset = self.recipe, self.run.data.dataset.name
        main = self.candidates[0].choice
        return {
            "format": 1,
            "dataset": _NAMES.get(dataset, dataset),
            "run": self.run.folder.resolve().name,
            "seed": recipe.votes.seed,
            "seeds": {name: value for name, value in recipe.settings().items() if name.endswith(".seed")},
            "settings": {
                name: value
                for name, value in recipe.settings().items()
                if not name.endswith(".seed") and not name.startswith(("evaluation.", "audit."))
            },
            "base": self.certifier.smoothing.base,
            "protocol": self.reported.protocol,
            "sigma": recipe.votes.sigma,
            "classes": self.votes.classes,
            "reference_votes": self.votes.length,
            "main_budget": self.votes.length,
            "main_failure": self.failure,
            "certifier": [main.method, main.variant, recipe.calibration.score],
            "promise": self.certifier.guarantee.words.promise,
            "thresholds": self.thresholds,
            "failures": self.failures,
            "scores": list(SCORES),
            "calibration": self._terms(),
            "device": str(self.run.device),
            "evaluated": time.strftime("%Y-%m-%d", time.gmtime()),
        }

    def _terms(self) -> Json:
        """Return how surrogates are calibrated, as the evidence stores it."""
        calibration = self.certifier.calibration
        sure, groups = calibration.confidence, calibration.groups
        return {
            "rule": calibration.rule.name,
            "beta": level_text(calibration.beta),
            "promise": calibration.promise.value,
            **({} if sure is None else {"confidence": level_text(sure)}),
            **({} if groups is None else {"groups": list(groups)}),
            **({} if calibration.threat is None else {"threat": dict(vars(calibration.threat))}),
        }

    def _left_out(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Return sentences on the requested budgets and failures that were not possible."""
        sentences = []
        if larger := [n for n in self.recipe.evaluation.budgets if n > self.votes.length]:
            sentences.append(f"budgets {', '.join(map(str, larger))}: {self.votes.length} votes are stored")
        done = {(outcome.setting.method, outcome.setting.failure) for outcome in outcomes}
        main = self.candidates[0].choice.method
        for failure in self.failures:
            if (main, level := level_text(exact_level(failure, "failure"))) not in done:
                terms = replace(self.recipe.terms(), failure=failure)
                least, have = terms.smallest_size, len(self.run.data.splits.calibration)
                sentences.append(
                    f"{main} at failure {level}: it takes {least} calibration inputs, not {have}"
                )
        voting = (method.name for method in voting_methods())
        if missing := [method for method in voting if (method, self.failure) not in done]:
            sentences.append(f"{', '.join(missing)}: {self.votes.length} votes per input are too few")
        return sentences

    def shown(self, evidence: Evidence, outcomes: Sequence[Outcome]) -> Shown:
        """Return what the report shows beyond the numbers."""
        data = self.run.data
        return Shown.of(
            evidence,
            outcomes,
            images=self.reported.pick(data.pictures("test"), data.pictures("calibration")),
            class_names=data.class_names,
            recipe=self.recipe.to_toml(),
            paper=self.recipe.evaluation.paper,
        )


def _seen_in_training(certifier: SurrogateCertifier) -> int | None:
    facts = certifier.guarantee.calibration
    return None if facts is None else facts.seen_in_training
