"""A classifier as a folder, and base classifiers from wherever users keep them."""

from pathlib import Path
from typing import Any

from torch import nn

from rrise.errors import FolderError, SettingError
from rrise.files import Json, read_signed_json, write_signed_json
from rrise.models.catalogue import TIMM, build_model
from rrise.models.fingerprint import fingerprint
from rrise.models.weights import load_tensors, load_weights, save_tensors

CONFIG = "model.json"
WEIGHTS = "weights.safetensors"
RANDOM = "random"


def save_model(folder: Path, architecture: str, module: nn.Module, **options: Any) -> None:
    """Write weights and architecture to a folder; `options` are what it was built with."""
    save_tensors(folder / WEIGHTS, module.state_dict())
    config = {"architecture": architecture, "options": options, "fingerprint": fingerprint(module)}
    write_signed_json(folder / CONFIG, config)


def load_model(folder: Path) -> nn.Module:
    """Read what `save_model` wrote; weights that are not the saved ones are refused."""
    config = read_signed_json(folder / CONFIG)
    module = build_model(config["architecture"], seed=0, **config["options"])
    load_weights(module, load_tensors(folder / WEIGHTS), str(folder))
    if fingerprint(module) != config["fingerprint"]:
        raise FolderError(f"{folder} is damaged: its weights are not those that were saved")
    return module


def load_base(source: str, weights: str | None = None, options: Json | None = None) -> nn.Module:
    """Return the base classifier a user names.

    `source` is a folder of `save_model`; an architecture of the catalogue, or `timm:NAME`, with a
    safetensors file of `weights` (or "random"); or `package.module:name` of a module, or of a function or
    class that makes one from the `options`.
    """
    if Path(source).is_dir():
        if weights or options:
            raise SettingError(f"the folder {source} holds weights and options: do not give others")
        return load_model(Path(source))
    if "seed" in (options or {}):
        raise SettingError("seed is no option of an architecture: its weights are loaded")
    imported = ":" in source and not source.startswith(TIMM)
    if "/" in source and ":" not in source:
        raise FolderError(f"expected a model folder {source}, but there is none")
    module = build_model(source, seed=0, **(options or {}))
    if weights is None and not imported:
        raise SettingError(
            f"expected weights for {source}: a safetensors file, or {RANDOM!r} to try things out"
        )
    if weights is not None and weights != RANDOM:
        load_weights(module, load_tensors(Path(weights)), weights)
    return module
