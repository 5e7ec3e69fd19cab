"""Saving a classifier to a folder, and loading base classifiers from folders, files and Python."""

from pathlib import Path
from typing import Any

from torch import nn

from rrise.errors import FolderError, SettingError
from rrise.files import Json, as_written, read_signed_json, write_signed_json
from rrise.models.catalogue import TIMM, build_model
from rrise.models.fingerprint import fingerprint
from rrise.models.weights import load_tensors, load_weights, save_tensors

CONFIG = "model.json"
WEIGHTS = "weights.safetensors"
RANDOM = "random"


def save_model(folder: str | Path, architecture: str, module: nn.Module, **options: Any) -> None:
    """Write weights and architecture to a folder; `options` are those it was built with."""
    folder = Path(folder)
    save_tensors(folder / WEIGHTS, module.state_dict())
    config = {"architecture": architecture, "options": options, "fingerprint": fingerprint(module)}
    write_signed_json(folder / CONFIG, config)


def load_model(folder: str | Path) -> nn.Module:
    """Read what `save_model` wrote; refuse weights that are not the saved ones."""
    folder = Path(folder)
    config = read_signed_json(folder / CONFIG)
    with as_written(folder / CONFIG):
        module, saved = (
            build_model(config["architecture"], seed=0, **config["options"]),
            config["fingerprint"],
        )
    load_weights(module, load_tensors(folder / WEIGHTS), str(folder))
    if fingerprint(module) != saved:
        raise FolderError(f"{folder} is damaged: its weights are not the saved ones")
    return module


def load_base(source: str | Path, weights: str | None = None, options: Json | None = None) -> nn.Module:
    """Return the base classifier at `source`.

    `source` is a folder of `save_model`; an architecture of the catalogue or `timm:NAME`, with a safetensors
    file of `weights` (or "random"); or `package.module:name` of a module, or of a function or class that
    builds one from the `options`.
    """
    source = str(source)
    if Path(source).is_dir():
        if weights or options:
            raise SettingError(f"the folder {source} has its own weights and options: do not pass others")
        return load_model(Path(source))
    if "seed" in (options or {}):
        raise SettingError("seed is not an option here: the weights are loaded, not drawn")
    imported = ":" in source and not source.startswith(TIMM)
    if "/" in source and ":" not in source:
        raise FolderError(f"expected a model folder {source}, but there is none")
    module = build_model(source, seed=0, **(options or {}))
    if weights is None and not imported:
        raise SettingError(
            f"expected weights for {source}: pass a safetensors file, or {RANDOM!r} for a trial"
        )
    if weights is not None and weights != RANDOM:
        load_weights(module, load_tensors(Path(weights)), weights)
    return module
