"""The networks of a run: architecture, options and initial weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rrise.errors import SettingError
from rrise.files import read_signed_json, sha256_of_file
from rrise.models.catalogue import TIMM, build_model, takes_normalisation
from rrise.models.evaluating import evaluating
from rrise.models.folder import CONFIG, WEIGHTS, load_model, save_model
from rrise.models.logits import logits_of
from rrise.models.weights import load_tensors, load_weights
from rrise.runs.data import RunData
from rrise.runs.training_settings import BaseSettings


@dataclass(frozen=True)
class Network:
    """An architecture by name, and its options."""

    architecture: str
    options: dict[str, Any]

    @classmethod
    def normalised(cls, architecture: str, options: dict[str, Any], data: RunData) -> "Network":
        """Return the network with the training inputs' normalisation, if it takes one and has none."""
        has_own = "mean" in options or "std" in options
        more = data.normalisation if takes_normalisation(architecture) and not has_own else {}
        return cls(architecture, {**options, **more})

    @classmethod
    def saved(cls, folder: Path) -> "Network":
        """Return the network that a model folder holds."""
        config = read_signed_json(folder / CONFIG)
        return cls(config["architecture"], config["options"])

    @property
    def is_imported(self) -> bool:
        """Whether it is the user's own, by import path; its initial weights need not be random."""
        return ":" in self.architecture and not self.architecture.startswith(TIMM)

    def build(self, seed: int, data: RunData, device: torch.device, table: str) -> nn.Module:
        """Build it with random weights; refuse one that does not fit the data."""
        module = build_model(self.architecture, seed=seed, **self.options).to(device)
        check_classes(module, data, f"set {table}.options, such as {{ classes = {len(data.class_names)} }}")
        return module

    def save(self, folder: Path, module: nn.Module) -> None:
        """Write a module of this architecture as a model folder."""
        save_model(folder, self.architecture, module, **self.options)


def check_classes(module: nn.Module, data: RunData, advice: str) -> None:
    """Refuse a classifier that does not accept the data, or has another number of classes."""
    with evaluating(module):
        classes = logits_of(module, data.inputs("validation").shard(0)[:2], "network").shape[1]
    if classes != len(data.class_names):
        raise SettingError(
            f"{data.dataset.name} has {len(data.class_names)} classes, the network has {classes}: {advice}"
        )


def given_base(settings: BaseSettings) -> tuple[Network, nn.Module]:
    """Return the trained base classifier of `base.weights`."""
    weights = Path(str(settings.weights))
    if weights.is_dir():
        network = Network.saved(weights)
        if settings.options or settings.architecture not in (None, network.architecture):
            raise SettingError(
                f"the folder {weights} already sets the architecture {network.architecture} and its "
                f"options: remove base.architecture and base.options"
            )
        return network, load_model(weights)
    if settings.architecture is None:
        raise SettingError(f"the weights {weights} are not a model folder: set base.architecture")
    network = Network(settings.architecture, settings.options)
    module = build_model(network.architecture, seed=0, **network.options)
    load_weights(module, load_tensors(weights), str(weights))
    return network, module


def weights_checksum(weights: str) -> str:
    """Return the SHA-256 of the weights that a recipe names."""
    path = Path(weights)
    file = path / WEIGHTS if path.is_dir() else path
    if not file.is_file():
        raise SettingError(
            f"expected base.weights to be a model folder or a safetensors file, got {weights!r}"
        )
    return sha256_of_file(file)
