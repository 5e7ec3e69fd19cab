"""The demo: the whole pipeline of the paper on scikit-learn's handwritten digits."""

import io
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.console import Console
from torch import nn

from rrise._version import __version__
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.monte_carlo import monte_carlo_certificates
from rrise.certifiers.surrogate import Certifier, calibrate
from rrise.data.catalogue import Dataset, load_digits
from rrise.data.inputs import input_digests
from rrise.data.splits import Indices, split_indices
from rrise.errors import MismatchError
from rrise.evaluation.costs import Costs
from rrise.evaluation.figures import summary_png
from rrise.evaluation.metrics import vote_share_of_label
from rrise.evaluation.report import Evaluation, percent, png_bytes, render_report
from rrise.files import Json, sha256_of_json, write_bytes, write_json, write_text
from rrise.models.catalogue import build_model
from rrise.models.fingerprint import fingerprint
from rrise.models.weights import load_tensors, load_weights, save_tensors
from rrise.progress import progress_bar
from rrise.runs.steps import RECIPE, open_run, run_step
from rrise.seeds import derive_seed
from rrise.training.base import train_base
from rrise.training.loop import TrainingHistory, TrainingSettings
from rrise.training.surrogate import Surrogate, train_surrogate
from rrise.votes.array import Votes
from rrise.votes.engine import VotePlan
from rrise.votes.store import VoteStore

_WEIGHTS = "weights.safetensors"
_SAMPLES = 12


@dataclass(frozen=True)
class DemoSettings:
    """Everything that determines a demo run; noise levels and failure split follow the paper."""

    train: int = 897
    validation: int = 150
    calibration: int = 350
    test: int = 400
    sigma_base: float = 0.5
    sigma: float = 0.25
    base_epochs: int = 60
    base_learning_rate: float = 2e-3
    batch_size: int = 64
    target_votes: int = 1_000
    calibration_votes: int = 10_000
    test_votes: int = 10_000
    selection_votes: int = 100
    strategy: str = "head"
    surrogate_epochs: int = 200
    surrogate_learning_rate: float = 5e-3
    failure: float = 0.05
    beta: float = 0.001
    score: str = "probit"
    seed: int = 100

    @classmethod
    def quick(cls, **changes: Any) -> "DemoSettings":
        """Return a smaller demo, for tests: seconds instead of a minute or two."""
        small: dict[str, Any] = {
            "train": 300,
            "validation": 50,
            "calibration": 100,
            "test": 100,
            "base_epochs": 15,
            "surrogate_epochs": 40,
            "target_votes": 200,
            "calibration_votes": 500,
            "test_votes": 500,
        }
        return cls(**{**small, **changes})

    def to_toml(self) -> str:
        """Write the settings as the run's recipe."""
        lines = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
            for name, value in asdict(self).items()
        ]
        return "\n".join([f"# rrise demo {__version__}", 'dataset = "digits"', *lines, ""])


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
            with progress_bar(self.console, "training the base", s.base_epochs, "epochs") as advance:
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
            save_tensors(folder / _WEIGHTS, module.state_dict())
            return {"fingerprint": fingerprint(module), **asdict(history)}

        wanted = (
            "seed",
            "train",
            "validation",
            "sigma_base",
            "base_epochs",
            "base_learning_rate",
            "batch_size",
        )
        self.step("base", {name: getattr(s, name) for name in wanted}, make)
        load_weights(module, load_tensors(self.folder / "base" / _WEIGHTS), "base")
        return module

    def votes(self, split: str, base: nn.Module, n: int, purpose: str = "votes") -> Votes:
        name = split if purpose == "votes" else f"{split}-{purpose}"
        plan = VotePlan(self.settings.sigma, n, self.settings.seed, name)
        store = VoteStore(self.folder / "votes" / name, base, self.inputs(split), plan)
        try:
            store.prepare()
        except MismatchError as difference:
            self.console.print(f"votes/{name}: collecting again, since {difference}", markup=False)
            shutil.rmtree(store.folder)
        if store.finished():
            self.console.print(f"[dim]votes/{name}: up to date")
            return store.collect()
        total = n * len(self.splits[split])
        with progress_bar(self.console, f"votes of {name}", total, "passes") as advance:
            return store.collect(on_progress=advance)

    def surrogate(self, base: nn.Module, votes: Votes) -> Surrogate:
        s = self.settings

        def make(folder: Path) -> Json:
            with progress_bar(
                self.console, "training the surrogate", s.surrogate_epochs, "epochs"
            ) as advance:
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
        inputs = {
            "base": fingerprint(base),
            "votes": _votes_sha256(votes),
            **{name: getattr(s, name) for name in wanted},
        }
        result = self.step("surrogate", inputs, make)
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

        inputs = {
            "surrogate": fingerprint(surrogate.network),
            "votes": _votes_sha256(votes),
            **{name: getattr(s, name) for name in ("failure", "beta", "score")},
        }
        self.step("certifier", inputs, make)
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
            images=self.data.images[self.splits["test"]],
            labels=self.data.labels[self.splits["test"]],
            class_names=self.data.class_names,
            surrogate=certificates,
            monte_carlo=monte_carlo,
            votes=votes,
            costs=Costs(
                target_votes=s.train * s.target_votes,
                surrogate_training=surrogate.training_passes,
                calibration_votes=s.calibration * s.calibration_votes,
                per_query=certificates.passes,
                monte_carlo_per_query=monte_carlo.passes,
            ),
        )

        def make(folder: Path) -> Json:
            title = "RRISE demo: certified radii for handwritten digits"
            write_text(folder / "report.html", render_report(evaluation, title, _shown(self.settings)))
            write_bytes(folder / "summary.png", _summary(evaluation, s))
            write_bytes(folder / "certificates.parquet", _certificate_table(evaluation, self.splits["test"]))
            write_json(folder / "metrics.json", evaluation.metrics())
            (folder / "samples").mkdir()
            for position in range(min(_SAMPLES, s.test)):
                name = f"test-{position:02d}-digit-{evaluation.labels[position]}.png"
                write_bytes(folder / "samples" / name, png_bytes(evaluation.images[position]))
            return {}

        inputs = {
            "version": __version__,
            "settings": asdict(s),
            "guarantee": certifier.guarantee.id,
            "offset": certifier.calibration.offset,
            "votes": [_votes_sha256(votes), _votes_sha256(selection)],
        }
        self.step("evaluation", inputs, make)
        return evaluation

    def step(self, name: str, inputs: Json, make: Any) -> Json:
        result, ran = run_step(self.folder / name, inputs, make)
        self.console.print(f"[dim]{name}: {'written' if ran else 'up to date'}")
        return result


def _votes_sha256(votes: Votes) -> str:
    return sha256_of_json({"votes": np.asarray(votes).tolist()})


def _shown(settings: DemoSettings) -> Json:
    return {"rrise": __version__, "torch": torch.__version__, "dataset": "digits", **asdict(settings)}


def _summary(evaluation: Evaluation, settings: DemoSettings) -> bytes:
    estimate = vote_share_of_label(evaluation.surrogate, evaluation.votes)
    shares = evaluation.metrics()["surrogate"]
    title = (
        f"{settings.test} handwritten digits, noise {settings.sigma:g}, total failure {settings.failure:g}: "
        f"{percent(shares['certified_accuracy'])} correct and certified"
    )
    return summary_png(evaluation.surrogate, evaluation.monte_carlo, evaluation.labels, estimate, title)


def _certificate_table(evaluation: Evaluation, indices: Indices) -> bytes:
    def columns(prefix: str, certificates: Certificates) -> dict[str, Any]:
        return {
            f"{prefix}_{name}": getattr(certificates, name)
            for name in ("label", "radius", "lower_bound", "issued")
        }

    table = pa.table(
        {
            "index": indices,
            "true_label": evaluation.labels,
            **columns("surrogate", evaluation.surrogate),
            **columns("monte_carlo", evaluation.monte_carlo),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
