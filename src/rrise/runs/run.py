"""A run: a recipe, its data, its folder, and what all steps share."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import nn

from rrise._version import __version__
from rrise.data.augmentation import Augmentation
from rrise.errors import FolderError, RriseError, SettingError
from rrise.files import Json, read_signed_json
from rrise.models.inspection import device_of
from rrise.models.precision import at_precision
from rrise.progress import OnProgress, both, progress_bar
from rrise.runs.data import RunData
from rrise.runs.journal import Journal
from rrise.runs.networks import weights_checksum
from rrise.runs.objectives import base_objective
from rrise.runs.recipe import Recipe
from rrise.runs.steps import MANIFEST, remove, run_step
from rrise.runs.tensorboard import epoch_log
from rrise.seeds import derive_seed
from rrise.training.checkpoint import Checkpoint
from rrise.training.features import Features
from rrise.training.settings import TrainingHistory
from rrise.training.team import Team
from rrise.votes.array import Votes
from rrise.votes.noise import gaussian
from rrise.votes.plan import VotePlan
from rrise.votes.store import VoteStore

_HOW = ("compile", "votes", "objective_options")
"""Settings of how a step computes, not what: changing them does not repeat the step.

The votes themselves identify which votes train a surrogate, and the base classifier's manifest has all
options of its objective.
"""


class Run:
    """A recipe in a folder, on a device. Creating one loads the data and refuses what a later step would.

    `team` holds the processes that train together; None: this process alone.
    """

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        console: Console,
        *,
        device: torch.device,
        data_root: Path | None = None,
        tensorboard: bool = False,
        team: Team | None = None,
    ) -> None:
        self.folder, self.recipe, self.console, self.device = folder, recipe, console, device
        self.team = team or Team()
        self.journal = Journal(folder, device)
        self.features = Features(lambda size: progress_bar(console, "features for heads", size, "inputs"))
        self.tensorboard = folder / "tensorboard" if tensorboard else None
        self._check_names()
        self.data = RunData(recipe.data, data_root)
        console.print(
            f"data: {self.data.dataset.name}, {self.data.dataset.source}", style="dim", markup=False
        )
        recipe.terms(len(self.data.class_names)).check(
            len(self.data.splits.calibration), recipe.votes.calibration
        )

    def _check_names(self) -> None:
        """Refuse unknown names now, before anything is loaded."""
        recipe = self.recipe
        for names in (
            recipe.base.augmentations,
            recipe.data.copies_augmentations,
            recipe.surrogate.augmentations,
        ):
            Augmentation(names)
        at_precision(nn.Linear(1, 1).to(self.device), self.plan("train", recipe.votes.train).precision)
        base_objective(recipe.base)
        if recipe.base.weights is not None:
            weights_checksum(recipe.base.weights)

    def noise_seed(self, split: str) -> int:
        """Return the seed of the query noise of a split, for calibration and evaluation."""
        return derive_seed(self.recipe.votes.seed, "query noise", split)

    def plan(self, name: str, n: int) -> VotePlan:
        """Return the plan of one collection of votes."""
        votes = self.recipe.votes
        noise = gaussian(votes.sigma, clip=votes.clip)
        return VotePlan(noise, n, votes.seed, name, precision=votes.precision)

    def votes(self, split: str, base: nn.Module, n: int, purpose: str = "votes") -> Votes:
        """Collect the votes of a split, or read the first `n` if at least `n` are stored.

        Complete votes of another device are used as they are. Votes of two devices are never mixed.
        """
        name = split if purpose == "votes" else f"{split}-{purpose}"
        store = self._vote_store(name, split, base, n)
        if self.team.size > 1:
            return _of_one_process(store, name)
        there, here = store.manifest["device"], device_of(base).type
        if there == here:
            self._remove_others(store, name)
        stored = store.found().get("n", n)
        if stored > n:
            self.console.print(f"[dim]votes/{name}: the first {n} of {stored} stored votes")
        missing = store.passes_missing()
        if not missing:
            where = "" if there == here else f", collected on {there}"
            self.console.print(f"[dim]votes/{name}: up to date{where}")
            return store.collect()
        if there != here:
            raise FolderError(
                f"the votes in {store.storage} are unfinished and were begun on {there}; {here} rounds "
                f"differently: resume on {there}, or delete this folder (--fresh deletes all)"
            )
        total = n * len(store.inputs)
        with (
            self.journal.entry(f"votes/{name}", "passes") as count,
            progress_bar(self.console, f"votes of {name}", total, "passes") as advance,
        ):
            count(missing - total)  # progress starts with the stored votes
            return store.collect(on_progress=both(advance, count))

    def _vote_store(self, name: str, split: str, base: nn.Module, n: int) -> VoteStore:
        """Return the store of a collection, for the device on which stored votes were begun."""
        location = self.folder / "votes" / name
        store = VoteStore(location, base, self.data.inputs(split), self.plan(name, n), part=True)
        with suppress(FolderError):  # a damaged manifest names no device
            found = store.found()
            if "device" in found and found.keys() <= {"device", "n"}:
                return VoteStore(location, base, store.inputs, store.plan, found["device"], part=True)
        return store

    def _remove_others(self, store: VoteStore, name: str) -> None:
        """Remove a collection of other votes, or one with a damaged manifest."""
        try:
            store.check()
        except RriseError as difference:
            self.console.print(f"votes/{name}: collecting again, because {difference}", markup=False)
            remove(self.folder / "votes" / name)

    @contextmanager
    def training(self, step: str, epochs: int) -> Iterator[dict[str, Any]]:
        """Yield the callbacks of a training: a progress bar, and a log for TensorBoard.

        The bar appears when epochs begin. Features may be computed before that, with their own bar.
        """
        name = step.partition("/")[2] or f"the {step}"
        advance: OnProgress | None = None
        with (
            self.journal.entry(step, "epochs") as count,
            ExitStack() as bar,
            epoch_log(self.tensorboard, step) as log,
        ):

            def on_progress(amount: int) -> None:
                nonlocal advance
                if advance is None:
                    shown = progress_bar(self.console, f"training {name}", epochs, "epochs")
                    advance = bar.enter_context(shown)
                advance(amount)

            def on_epoch(epoch: int, measured: dict[str, float]) -> None:
                count(1)
                if log is not None:
                    log(epoch, measured)

            yield {"on_progress": on_progress, "on_epoch": on_epoch}

    def made_from(self, *splits: str) -> Json:
        """Return the inputs of a step for its manifest."""
        return {split: self.data.fingerprint(split) for split in splits}

    def settings(self, table: str) -> Json:
        """Return the settings of a step for its manifest."""
        return what_matters(self.recipe.tables()[table])

    def step(self, name: str, inputs: Json, make: Callable[[Path], Json]) -> Json:
        """Run a step unless it is up to date, print which, and return its result."""
        result, ran = run_step(
            self.folder / name,
            {"rrise": __version__, **inputs},
            make,
            lambda reason: self.console.print(f"{name}: once again, because {reason}", markup=False),
        )
        self.console.print(f"[dim]{name}: {'written' if ran else 'up to date'}")
        return result

    def trained(self, name: str, inputs: Json, make: Callable[[Path, Checkpoint], Json]) -> Json:
        """Run a training step, resuming from its checkpoint; print the selected epoch."""
        checkpoint = Checkpoint(self.folder / "checkpoints" / name.replace("/", "-"), inputs)
        if not self.team.leads:
            return self._follow(self.folder / name, lambda folder: make(folder, checkpoint))
        trains = False

        def make_together(folder: Path) -> Json:
            nonlocal trains
            trains = self.team.agreed(True)
            return make(folder, checkpoint)

        result = self.step(name, inputs, make_together)
        if not trains:
            self.team.agreed(False)
        self.team.agreed(True)
        checkpoint.clear()
        with suppress(OSError):  # another step's checkpoint may be there
            (self.folder / "checkpoints").rmdir()
        history = TrainingHistory(**result["history"])
        measured = ", ".join(
            f"{key.replace('_', ' ')} {value:.4g}" for key, value in history.selected.items()
        )
        kept = f"epoch {history.selected_epoch} of {len(history.epochs)}"
        self.console.print(
            f"{name}: {kept}: {measured}", style="dim", markup=False, highlight=False, soft_wrap=True
        )
        return result

    def _follow(self, folder: Path, make: Callable[[Path], Json]) -> Json:
        """Join the leader's training, if it trains, and wait until its results are written."""
        if self.team.agreed(False):
            with tempfile.TemporaryDirectory() as nowhere:
                make(Path(nowhere))
        self.team.agreed(True)
        result: Json = read_signed_json(folder / MANIFEST)["result"]
        return result


def _of_one_process(store: VoteStore, name: str) -> Votes:
    """Read votes; processes that train together do not collect them."""
    if not store.finished():
        raise SettingError(
            f"the votes of {name} are not collected yet: collect them with rrise run, without torchrun"
        )
    return store.collect()


def what_matters(settings: Json) -> Json:
    """Return the settings that determine the result, for a manifest."""
    return {"settings": {name: value for name, value in settings.items() if name not in _HOW}}


def identity_of(votes: Votes) -> Json:
    """Return the identity of votes, with a checksum of the counts."""
    smoothing = votes.smoothing.to_json() if votes.smoothing else {}
    return {**smoothing, "sha256": hashlib.sha256(np.ascontiguousarray(votes).tobytes()).hexdigest()}
