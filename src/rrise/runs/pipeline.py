"""The pipeline: from a recipe to a certifier and its evaluation, one method per step."""

import warnings
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from torch import nn

from rrise.certifiers.advice import advice_on
from rrise.certifiers.calibrating import calibrate
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.augmentation import Augmentation
from rrise.errors import LittleIssuedWarning, SettingError, did_you_mean
from rrise.evaluation.measure.results import Evaluation
from rrise.files import Json, write_json, write_text
from rrise.models.fingerprint import fingerprint
from rrise.models.folder import load_model
from rrise.runs.auditing import attacked
from rrise.runs.device import choose_device
from rrise.runs.evaluation import Candidate, evaluate
from rrise.runs.networks import Network, check_classes, given_base, weights_checksum
from rrise.runs.objectives import base_objective, unusual
from rrise.runs.recipe import Recipe
from rrise.runs.reported import collect_reported
from rrise.runs.run import Run, identity_of, what_matters
from rrise.runs.steps import RECIPE, open_run
from rrise.runs.surrogate_choices import SurrogateChoice
from rrise.runs.tensorboard import check_tensorboard
from rrise.runs.training_settings import SurrogateSettings
from rrise.seeds import derive_seed
from rrise.training.base import train_base
from rrise.training.checkpoint import Checkpoint
from rrise.training.settings import TrainingHistory
from rrise.training.surrogate import Surrogate
from rrise.training.surrogate_training import train_surrogate
from rrise.training.team import join_team, started_by_torchrun
from rrise.training.views import Views
from rrise.votes.array import Votes
from rrise.votes.noise import gaussian
from rrise.votes.reading import read_sequence, read_votes

UNTIL = ("base", "votes", "surrogate")


def run_recipe(
    folder: str | Path,
    recipe: Recipe,
    console: Console,
    *,
    until: str | None = None,
    fresh: bool = False,
    device: str | None = None,
    data_root: str | Path | None = None,
    tensorboard: bool = False,
) -> Evaluation | None:
    """Run or resume a recipe in a folder, and return what the report shows.

    `until` stops after the base classifier, all votes or the surrogate; then it returns None. Steps that are
    up to date are skipped; a killed step resumes. Under `torchrun`, the first process does everything, and
    the others train with it.
    """
    if until is not None and until not in UNTIL:
        raise SettingError(
            f"expected until out of {', '.join(UNTIL)}; got {until!r}{did_you_mean(until, UNTIL)}"
        )
    if tensorboard:
        check_tensorboard()
    if until in (None, "votes") and started_by_torchrun():
        raise SettingError("torchrun works only with rrise train-base and rrise train-surrogate")
    folder = Path(folder)
    team, chosen = join_team(choose_device(device))
    pipeline = Pipeline(
        folder,
        recipe,
        console if team.leads else Console(quiet=True),
        device=chosen,
        data_root=None if data_root is None else Path(data_root),
        tensorboard=tensorboard,
        team=team,
    )
    with open_run(folder, fresh=fresh) if team.leads else nullcontext():
        return pipeline.run(until)


class Pipeline(Run):
    """A run, with one method per step."""

    def run(self, until: str | None = None) -> Evaluation | None:
        """Run every step that is not up to date."""
        self.check(until)
        if self.team.leads:
            write_text(self.folder / RECIPE, self.recipe.to_toml())
            write_json(self.folder / "splits.json", self.data.splits.to_json())
        base = self.base()
        if until == "base":
            return None
        targets = self.targets(base)
        if until == "votes":
            self.votes_to_certify(base)
            collect_reported(self, base)
            return None
        surrogate = self.surrogate(base, targets, self.recipe.surrogate)
        if until == "surrogate":
            return None
        votes = self.votes_to_certify(base)
        certifier = self.certifier(base, surrogate, votes["calibration"])
        return self.evaluation(base, certifier, surrogate, votes)

    def check(self, until: str | None) -> None:
        """Refuse what is invalid before anything is written: the folder may hold a finished run."""
        base, surrogate = self.recipe.base, self.recipe.surrogate
        if base.weights is not None:
            weights_checksum(base.weights)
        else:
            self._untrained_base()
        if until != "base":
            self.data.check_held_out()
            if surrogate.architecture is not None:
                self.start_of_surrogate(surrogate)
            if any(choice.is_distilled for choice in self.recipe.choices()):
                Views(surrogate.training, self.data.inputs("train").shape, self.plan("train", 1).input_range)

    def _untrained_base(self) -> tuple[Network, nn.Module]:
        s = self.recipe.base
        network = Network.normalised(str(s.architecture), s.options, self.data)
        return network, network.build(derive_seed(s.seed, "base"), self.data, self.device, "base")

    def base(self) -> nn.Module:
        """Train the base classifier, or load the weights that the recipe names."""
        s = self.recipe.base
        if s.weights is not None:
            self.step("base", {"weights": weights_checksum(s.weights), **self.settings("base")}, self._given)
            return load_model(self.folder / "base").to(self.device)
        data, objective, clip = self.data, base_objective(s), self.recipe.votes.clip

        def make(folder: Path, checkpoint: Checkpoint) -> Json:
            network, module = self._untrained_base()
            with self.training("base", s.epochs) as hooks:
                history = train_base(
                    module,
                    data.values("train"),
                    data.labels("train"),
                    data.values("validation"),
                    data.labels("validation"),
                    sigma=gaussian(s.sigma, clip=clip) if s.sigma else 0.0,
                    settings=s.training,
                    augmentation=Augmentation(s.augmentations) if s.augmentations else None,
                    objective=objective,
                    label_smoothing=s.label_smoothing,
                    checkpoint=checkpoint,
                    team=self.team,
                    **hooks,
                )
            network.save(folder, module)
            return {"fingerprint": fingerprint(module), "history": asdict(history)}

        inputs = {**self.made_from("train", "validation"), **self.settings("base")}
        self.trained("base", {**inputs, **unusual(objective, clip=clip)}, make)
        return load_model(self.folder / "base").to(self.device)

    def _given(self, folder: Path) -> Json:
        network, module = given_base(self.recipe.base)
        check_classes(module, self.data, "set base.weights of a classifier for this data")
        network.save(folder, module)
        return {"fingerprint": fingerprint(module)}

    def targets(self, base: nn.Module) -> Votes | None:
        """Collect the votes of all inputs that train surrogates, and return those of the run's own.

        A distilled surrogate uses none, so nothing is collected if all are distilled.
        """
        if all(choice.is_distilled for choice in self.recipe.choices()):
            return None
        collected = [self.votes(split, base, self.recipe.votes.train) for split in self.data.for_surrogate]
        if self.recipe.choices()[0].is_distilled:
            return None
        if self.recipe.targets == self.recipe.votes.train:
            return Votes.joined(collected)
        return self.stored_targets(self.recipe.targets)

    def stored_targets(self, n: int) -> Votes:
        """Return the first `n` votes of all inputs that train surrogates."""
        splits = self.data.for_surrogate
        return Votes.joined([read_votes(self.folder / "votes" / split, n) for split in splits])

    def votes_to_certify(self, base: nn.Module) -> dict[str, Votes]:
        """Return the votes of the calibration and the test inputs, by the names of their stores."""
        budgets = self.recipe.votes
        return {
            "calibration": self.votes("calibration", base, budgets.calibration),
            "test-selection": self.votes("test", base, budgets.selection, purpose="selection"),
            "test": self.votes("test", base, budgets.test),
        }

    def start_of_surrogate(self, s: SurrogateSettings) -> tuple[Network, nn.Module | None]:
        """Return the surrogate's architecture, with a random network if training starts from one."""
        if s.architecture is not None:
            network = Network.normalised(s.architecture, s.options, self.data)
        else:
            network = Network.saved(self.folder / "base")
            if s.strategy != "all-random" or network.is_imported:
                return network, None
        return network, network.build(derive_seed(s.seed, "surrogate"), self.data, self.device, "surrogate")

    def surrogate(
        self, base: nn.Module, votes: Votes | None, s: SurrogateSettings, step: str = "surrogate"
    ) -> Surrogate:
        """Train a surrogate on the votes of its inputs, or distill it without them."""
        plan = self.plan("train", 1)
        smoothing = votes.smoothing if votes is not None else None
        smoothing = smoothing or plan.smoothing(base, self.data.inputs("train").shard(0))

        def make(folder: Path, checkpoint: Checkpoint) -> Json:
            network, module = self.start_of_surrogate(s)
            with self.training(step, s.epochs) as hooks:
                trained = train_surrogate(
                    base,
                    self.data.training_values(),
                    votes,
                    settings=s.training,
                    network=module,
                    labels=self.data.training_labels(),
                    sigma=plan.noise if votes is None else None,
                    precision=plan.precision if votes is None else None,
                    checkpoint=checkpoint,
                    team=self.team,
                    features=self.features,
                    **hooks,
                )
            network.save(folder, trained.network)
            write_json(folder / "target_validation.json", {"held_out": trained.held_out.tolist()})
            passes = {name: getattr(trained, name) for name in ("training_passes", "vote_passes")}
            return {**passes, "history": asdict(trained.history)}

        taught = {"votes": identity_of(votes)} if votes is not None else {"smoothing": smoothing.to_json()}
        inputs = {"base": fingerprint(base), **taught}
        inputs |= {**self.made_from(*self.data.for_surrogate), **what_matters(s.used)}
        result = self.trained(step, inputs, make)
        return Surrogate(
            load_model(self.folder / step),
            smoothing.base,
            smoothing=smoothing,
            seen=self.data.training_digests(),
            history=TrainingHistory(**result["history"]),
            training_passes=result["training_passes"],
            vote_passes=result.get("vote_passes", 0),
            query_noise=s.query_noise if s.strategy == "distill" else 0.0,
        )

    def certifier(self, base: nn.Module, surrogate: Surrogate, votes: Votes) -> SurrogateCertifier:
        """Calibrate the surrogate."""
        s, threat = self.recipe.calibration, self.recipe.threat

        def make(folder: Path) -> Json:
            certifier = calibrate(
                surrogate,
                self.data.values("calibration")[:],
                read_sequence(self.folder / "votes" / "calibration", self.recipe.votes.calibration),
                failure=s.failure,
                promise=s.promise,
                confidence=s.confidence,
                per=s.per,
                beta=s.beta,
                score=s.score,
                rule=s.rule,
                attack_radius=s.attack_radius,
                query_noise=None if threat is None else threat.query_noise,
                tries=s.tries,
                noise_seed=self.noise_seed("calibration"),
                base=base,
                class_names=self.data.class_names,
                allow_seen=True,  # the splits are disjoint, and check_held_out has checked equal inputs
            )
            certifier.save(folder, inputs=False)  # the run has them
            return {"guarantee": certifier.guarantee.id, "offset": certifier.calibration.offset}

        inputs = {"surrogate": fingerprint(surrogate.network), "votes": identity_of(votes)}
        inputs |= {"class_names": list(self.data.class_names), **self.made_from("calibration")}
        if threat is not None:
            inputs["threat"] = dict(vars(threat))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LittleIssuedWarning)  # shown below, after a resumption too
            self.step("certifier", {**inputs, **self.settings("calibration")}, make)
        certifier = load_certifier(self.folder / "certifier")
        certifier.check_base(base)
        if (advice := advice_on(certifier)) is not None:
            self.console.print(f"warning: {advice}", style="yellow", markup=False, soft_wrap=True)
        return certifier

    def evaluation(
        self, base: nn.Module, certifier: SurrogateCertifier, surrogate: Surrogate, votes: dict[str, Votes]
    ) -> Evaluation:
        """Compare the certifier with every other method on the test inputs, and write the report."""
        main, *more = self.recipe.choices()
        candidates = [self.candidate(base, choice) for choice in more]
        first = Candidate.of_run(self, main, certifier.network, surrogate)
        return evaluate(
            self, base, certifier, [first, *candidates], votes, attacked=attacked(self, base, certifier)
        )

    def candidate(self, base: nn.Module, choice: SurrogateChoice) -> Candidate:
        """Train another surrogate with the base classifier's architecture."""
        settings = replace(
            self.recipe.surrogate,
            strategy=choice.strategy,
            objective=choice.objective,
            architecture=None,
            options={},
            head=self.recipe.surrogate.head if choice.strategy == "head" else None,
        )
        votes = None if choice.is_distilled else self.stored_targets(choice.budget)
        trained = self.surrogate(base, votes, settings, f"surrogates/{choice.variant}")
        return Candidate.of_run(self, choice, trained.network.to(self.device).eval(), trained)
