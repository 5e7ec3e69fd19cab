"""What `benchmarks/attacked.py` attacks: a base classifier, its votes, and certifiers made from them."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import rrise
from distillation import saved_base
from last_layer import with_last_layer
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.methods import TWO_STAGE
from rrise.certifiers.predictions import Predictions, calibrated_certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import SettingError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.models.weights import load_tensors, load_weights
from rrise.runs.data import RunData
from rrise.runs.networks import given_base
from rrise.runs.recipe import Recipe, read_recipe
from rrise.training.surrogate_training import train_surrogate
from rrise.votes.array import Votes

RADII, FAILURES = (0.125, 0.25), (0.05, 0.01)
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A base classifier, with the votes of inputs that calibrate and of inputs that are judged."""

    recipe: Recipe
    data: RunData
    base: nn.Module
    evidence: Evidence
    held: NDArray[np.float32]
    held_votes: Votes
    judged: NDArray[np.float32]
    judged_from: int
    learned: NDArray[np.float32]

    @classmethod
    def read(cls, folder: Path, root: Path | None, size: int, last: int, device: torch.device) -> "Subject":
        """Read a run or published evidence.

        `size` inputs calibrate, beginning with those of the run. The `last` test inputs train a last layer.
        """
        recipe = read_recipe(folder / "recipe.toml")
        is_run = (folder / "base").is_dir()
        base = saved_base(folder, recipe)[1]
        evidence = read_evidence(folder / "evaluation" / "evidence" if is_run else folder).held_out()
        data = RunData(recipe.data, root)
        own = len(data.indices("calibration"))
        more = max(0, size - own)
        images, votes = (
            (data.values(split)[:] for split in ("calibration", "test")),
            evidence.calibration_votes,
        )
        held, test = images
        counts = np.concatenate([np.asarray(votes), np.asarray(evidence.reference)[:more]])
        return cls(
            recipe,
            data,
            base.to(device).eval(),
            evidence,
            np.concatenate([held, test[:more]]),
            Votes(counts, evidence.reference.smoothing),
            test[more : len(test) - last],
            more,
            test[len(test) - last :],
        )

    @property
    def reported(self) -> slice:
        """The judged inputs among the test inputs."""
        return slice(self.judged_from, self.judged_from + len(self.judged))

    @property
    def labels(self) -> NDArray[np.int64]:
        """True classes of the judged inputs."""
        return self.evidence.labels[self.reported]

    def monte_carlo(self, failure: float) -> Certificates:
        """Return the certificates of two-stage Monte Carlo, with all votes, for the judged inputs."""
        found = next(
            one.certificates
            for one in self.evidence.voting
            if one.setting.method == TWO_STAGE.name
            and one.setting.failure == str(failure)
            and one.setting.budget == self.evidence.about["main_budget"]
        )
        return found[self.reported]

    def published(self, failure: float) -> Certificates:
        """Return the certificates of the judged inputs by the surrogate that the evidence has."""
        own = self.evidence.surrogates[0]
        smoothing = self.held_votes.smoothing
        assert smoothing is not None
        held = Predictions(
            *(
                np.concatenate([getattr(own.calibration, name), getattr(own.test, name)[: self.judged_from]])
                for name in ("label", "top_probability")
            )
        )
        return calibrated_certificates(
            own.test[self.reported], held, self.held_votes, smoothing=smoothing, failure=failure
        )[0]

    def surrogate(self, weights: Path | None, noise: float) -> nn.Module:
        """Return a surrogate with these weights, or train one as the recipe does."""
        device = next(self.base.parameters()).device
        if weights is None and len(self.learned):
            votes = np.asarray(self.evidence.reference)[-len(self.learned) :]
            return with_last_layer(self.base, self.learned, votes, noise)
        if weights is None:
            settings = self.recipe.surrogate.training.changed(query_noise=noise)
            return train_surrogate(
                self.base,
                self.data.training_values(),
                settings=settings,
                sigma=self.recipe.votes.sigma,
                precision=self.recipe.votes.precision,
            )
        module = given_base(self.recipe.base)[1].float()
        load_weights(module, load_tensors(weights), str(weights))
        return module.to(device).eval()

    def certifiers(
        self, surrogate: nn.Module, noise: float | None
    ) -> dict[tuple[float, float], SurrogateCertifier]:
        """Return certifiers by attack radius and failure, all that the calibration inputs allow."""
        how: Row = {"base": self.base, "noise_seed": 1, "allow_seen": True, "query_noise": noise}
        device = next(self.base.parameters()).device
        found: dict[tuple[float, float], SurrogateCertifier] = {}
        if noise is None:
            for failure in FAILURES:
                made = rrise.calibrate(surrogate, self.held, self.held_votes, failure=failure, **how)
                found[0.0, failure] = made.to(device)
            return found
        first = rrise.calibrate(surrogate, self.held, self.held_votes, failure=0.05, **how).to(device)
        for radius, failure in product(RADII, FAILURES):
            try:
                found[radius, failure] = first.against(radius, failure=failure)
            except SettingError as error:
                print(f"radius {radius:g}, failure {failure:g}: {error}", flush=True)
        return found
