"""The demo: the whole pipeline of the paper on scikit-learn's handwritten digits."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import nn

from rrise._version import __version__
from rrise.certifiers.folder import MANIFEST as CERTIFIER
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.monte_carlo import monte_carlo_certificates
from rrise.certifiers.surrogate import Certifier, calibrate
from rrise.data.catalogue import Dataset, load_digits
from rrise.data.inputs import input_digests, inputs_fingerprint
from rrise.data.splits import Indices, split_indices
from rrise.errors import RriseError
from rrise.evaluation.costs import Costs
from rrise.evaluation.results import Evaluation
from rrise.evaluation.writing import write_evaluation
from rrise.files import Json, sha256_of_file, sha256_of_json, write_json, write_text
from rrise.models.catalogue import build_model
from rrise.models.fingerprint import fingerprint
from rrise.models.folder import load_model, save_model
from rrise.models.weights import load_tensors, load_weights, save_tensors
from rrise.progress import progress_bar
from rrise.runs.settings import DemoSettings
from rrise.runs.steps import RECIPE, open_run, remove, run_step
from rrise.seeds import derive_seed
from rrise.training.base import train_base
from rrise.training.loop import TrainingHistory, TrainingSettings
from rrise.training.surrogate import Surrogate, train_surrogate
from rrise.votes.array import Votes
from rrise.votes.plan import VotePlan
from rrise.votes.store import VoteStore

_WEIGHTS = "weights.safetensors"


def run_demo(folder: Path, settings: DemoSettings, console: Console, *, fresh: bool = False) -> Evaluation:
    """Run the demo in a folder, or continue it there, and return what the report shows."""
    with open_run(folder, fresh=fresh):
        return _Demo(folder, settings, console).run()


class _Demo:
    """One run: its settings, its data, and a method a step."""

    def __init__(self, folder: Path, settings: DemoSettings, console: Console) -> None:
        self.folder, self.settings, self.console = folder, settings, console
        self.data: Dataset = load_digits()
        sizes = {name: getattr(settings, name) for name in ("train", "validation", "calibration", "test")}
        self.splits: dict[str, Indices] = split_indices(len(self.data.labels), sizes, settings.seed)

    def run(self) -> Evaluation:
        write_text(self.folder / RECIPE, self.settings.to_toml())
        write_json(self.folder / "splits.json", {name: part.tolist() for name, part in self.splits.items()})
        base = self.base()
        train_votes = self.votes("train", base, self.settings.target_votes)
        calibration_votes = self.votes("calibration", base, self.settings.calibration_votes)
        surrogate = self.surrogate(base, train_votes)
        certifier = self.certifier(base, surrogate, calibration_votes)
        selection = self.votes("test", base, self.settings.selection_votes, purpose="selection")
        test_votes = self.votes("test", base, self.settings.test_votes)
        return self.evaluation(certifier, surrogate, test_votes, selection)

    def inputs(self, split: str) -> torch.Tensor:
        return self.data.inputs(self.splits[split])

    def labels(self, split: str) -> torch.Tensor:
        return torch.from_numpy(self.data.labels[self.splits[split]])

    def base(self) -> nn.Module:
        s = self.settings
        module = build_model("small-convnet", seed=derive_seed(s.seed, "base"))

        def make(folder: Path) -> Json:
            training = TrainingSettings(s.base_epochs, s.base_learning_rate, s.batch_size, seed=s.seed)
            bar = progress_bar(self.console, "training the base", s.base_epochs, "epochs")
            with bar as advance:
                history = train_base(
                    module,
                    self.inputs("train"),
                    self.labels("train"),
                    self.inputs("validation"),
                    self.labels("validation"),
                    sigma=s.sigma_base,
                    settings=training,
                    on_progress=advance,
                )
            save_model(folder, "small-convnet", module)
            return {"fingerprint": fingerprint(module), **asdict(history)}

        wanted = ("seed", "sigma_base", "base_epochs", "base_learning_rate", "batch_size")
        self.step("base", self.made_from("train", "validation", settings=wanted), make)
        return load_model(self.folder / "base")

    def votes(self, split: str, base: nn.Module, n: int, purpose: str = "votes") -> Votes:
        name = split if purpose == "votes" else f"{split}-{purpose}"
        plan = VotePlan(self.settings.sigma, n, self.settings.seed, name)
        folder = self.folder / "votes" / name
        store = VoteStore(folder, base, self.inputs(split), plan)
        try:
            store.prepare()
        except RriseError as difference:
            self.console.print(f"votes/{name}: collecting again, since {difference}", markup=False)
            remove(folder)
        if store.finished():
            self.console.print(f"[dim]votes/{name}: up to date")
            return store.collect()
        total = n * len(self.splits[split])
        with progress_bar(self.console, f"votes of {name}", total, "passes") as advance:
            return store.collect(on_progress=advance)

    def surrogate(self, base: nn.Module, votes: Votes) -> Surrogate:
        s = self.settings

        def make(folder: Path) -> Json:
            bar = progress_bar(self.console, "training the surrogate", s.surrogate_epochs, "epochs")
            with bar as advance:
                trained = train_surrogate(
                    base,
                    self.inputs("train"),
                    votes,
                    strategy=s.strategy,
                    epochs=s.surrogate_epochs,
                    learning_rate=s.surrogate_learning_rate,
                    batch_size=s.batch_size,
                    seed=s.seed,
                    on_progress=advance,
                )
            save_tensors(folder / _WEIGHTS, trained.network.state_dict())
            return {"training_passes": trained.training_passes, "history": asdict(trained.history)}

        wanted = ("strategy", "surrogate_epochs", "surrogate_learning_rate", "batch_size", "seed")
        inputs = {"base": fingerprint(base), "votes": _identity(votes)}
        result = self.step("surrogate", {**inputs, **self.made_from("train", settings=wanted)}, make)
        network = build_model("small-convnet", seed=0)
        load_weights(network, load_tensors(self.folder / "surrogate" / _WEIGHTS), "surrogate")
        return Surrogate(
            network,
            fingerprint(base),
            smoothing=votes.smoothing,
            seen=frozenset(input_digests(self.inputs("train"))),
            history=TrainingHistory(**result["history"]),
            training_passes=result["training_passes"],
        )

    def certifier(self, base: nn.Module, surrogate: Surrogate, votes: Votes) -> Certifier:
        s = self.settings

        def make(folder: Path) -> Json:
            certifier = calibrate(
                surrogate,
                self.inputs("calibration"),
                votes,
                sigma=s.sigma,
                failure=s.failure,
                beta=s.beta,
                score=s.score,
                base=base,
                class_names=self.data.class_names,
            )
            certifier.save(folder)
            return {"guarantee": certifier.guarantee.id, "offset": certifier.calibration.offset}

        inputs = {"surrogate": fingerprint(surrogate.network), "votes": _identity(votes)}
        wanted = ("failure", "beta", "score")
        self.step("certifier", {**inputs, **self.made_from("calibration", settings=wanted)}, make)
        certifier = load_certifier(self.folder / "certifier")
        certifier.check_base(base)
        return certifier

    def evaluation(
        self, certifier: Certifier, surrogate: Surrogate, votes: Votes, selection: Votes
    ) -> Evaluation:
        s = self.settings
        certificates = certifier(self.inputs("test"))
        monte_carlo = monte_carlo_certificates(votes, selection, alpha=s.failure)
        evaluation = Evaluation(
            indices=self.splits["test"],
            images=self.data.images[self.splits["test"]],
            labels=self.data.labels[self.splits["test"]],
            class_names=self.data.class_names,
            surrogate=certificates,
            monte_carlo=monte_carlo,
            votes=votes,
            costs=Costs(
                target_votes=s.train * s.target_votes,
                surrogate_training=surrogate.training_passes,
                calibration=s.calibration * (s.calibration_votes + 1),
                per_query=certificates.passes,
                monte_carlo_per_query=monte_carlo.passes,
            ),
        )

        def make(folder: Path) -> Json:
            title = "RRISE demo: certified radii for handwritten digits"
            write_evaluation(folder, evaluation, title, {"dataset": self.data.name, **asdict(s)})
            return {}

        inputs = {
            "certifier": sha256_of_file(self.folder / "certifier" / CERTIFIER),
            "votes": _identity(votes),
            "selection": _identity(selection),
        }
        self.step("evaluation", {**inputs, **self.made_from("test", settings=asdict(s))}, make)
        return evaluation

    def made_from(self, *splits: str, settings: Iterable[str]) -> Json:
        """Return what a step's manifest says of the inputs and the settings it uses."""
        chosen = {name: getattr(self.settings, name) for name in settings}
        return {**{split: inputs_fingerprint(self.inputs(split)) for split in splits}, "settings": chosen}

    def step(self, name: str, inputs: Json, make: Callable[[Path], Json]) -> Json:
        result, ran = run_step(self.folder / name, {"rrise": __version__, **inputs}, make)
        self.console.print(f"[dim]{name}: {'written' if ran else 'up to date'}")
        return result


def _identity(votes: Votes) -> Json:
    """Return what votes are of, and a checksum of the counts."""
    smoothing = votes.smoothing.to_json() if votes.smoothing else {}
    return {**smoothing, "sha256": sha256_of_json({"counts": np.asarray(votes).tolist()})}
