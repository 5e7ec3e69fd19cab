"""A starter recipe for a user's own data and model, with what was read from them and comments."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rrise.data.catalogue import NPZ, Dataset, load_dataset
from rrise.errors import InputError, RriseError, SettingError
from rrise.models.catalogue import TIMM, build_model
from rrise.models.evaluating import evaluating
from rrise.models.logits import logits_of
from rrise.runs.toml_tables import toml_value
from rrise.statistics import Terms

_LARGE = 64
"""The side of an image from which on the small network is too small."""
_MOST_CALIBRATION = 1_000
_QUICK_STEPS = 150
_FAILURES = ("0.01", "0.02", "0.05", "0.1", "0.2")
_TO_FILL_IN = "   # yours: x_train, y_train, x_test, y_test; or a folder of images"
_OPTIONS: tuple[str | None, ...] = (None, "classes", "num_classes", "n_classes")
"""How a model may be told its number of classes; None: it is not told."""


@dataclass(frozen=True)
class Starter:
    """What a starter recipe says: the data and the model, and what was read from them."""

    source: str
    data: Dataset | None
    architecture: str = "small-convnet"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name for the recipe: that of the data, or of the module of the model."""
        if self.data is not None:
            return self.data.name
        return self.architecture.partition(":")[0].rpartition(".")[2]

    @classmethod
    def read(cls, sources: list[str]) -> "Starter":
        """Read data and model; a source of the form `package.module:Model` is a model.

        Without data, the recipe names a file to be filled; without a model, one that fits the data.
        """
        models = [one for one in sources if _is_model(one)]
        others = [one for one in sources if not _is_model(one)]
        if len(models) > 1 or len(others) > 1:
            raise SettingError(
                f"expected one dataset, one model (package.module:Model), or one of each; got {sources}"
            )
        if not others:
            return cls("npz:data.npz", None, models[0]) if models else cls("digits", load_dataset("digits"))
        source = _source(others[0])
        data = load_dataset(source)
        _check_range(data, source)
        if models:
            return cls(source, data, models[0], _options(models[0], data))
        return cls(source, data, *_fitting(data))

    def to_toml(self) -> str:
        """Return the recipe."""
        data = self.data
        train, test = (len(data.train), len(data.test)) if data else (0, 0)
        calibration, failure = _calibration(test) if data else (374, "0.01")
        batch = 16 if train <= 1_000 else 64 if train <= 10_000 else 256
        epochs = max(5, min(60, round(60 * 2_000 / train))) if train else 60
        quick = min(train, 500) if train else 500
        few = max(5, min(40, round(_QUICK_STEPS * batch / quick)))
        return f"""{_described(data)}
# Run it with `rrise run FILE.toml --profile quick` first, then without the profile.
# `rrise recipes --settings` lists every setting with its meaning.

[data]
source = {toml_value(self.source)}{"" if data else _TO_FILL_IN}
validation = 0.1            # of the training inputs: they select the base classifier's epoch
calibration = {calibration:<14}# of the test inputs: they calibrate, and results are reported on the others

[base]
architecture = {toml_value(self.architecture)}{_remark(self.architecture)}
options = {toml_value(self.options)}
# weights = "model.safetensors"   # trained already, with noise on its inputs? Then nothing is trained
sigma = 0.25                # noise of its training: that of the votes, or a little more
epochs = {epochs}
learning_rate = 1e-3
batch_size = {batch}
warmup_epochs = 1
label_smoothing = 0.0
augmentations = []          # such as ["flip", "crop-2"] for images

[votes]
sigma = 0.25                # the noise that certifies: more gives larger radii for fewer inputs
train = 100                 # only for surrogates that learn from stored votes, such as "head"
calibration = 1_000         # 10_000 allow larger radii; votes take most of the time
test = 1_000

[surrogate]
strategy = "distill"        # new inputs and fresh votes at every step; "head" is quicker and certifies less
epochs = {epochs}
learning_rate = 1e-3
batch_size = {batch}
warmup_epochs = 1
averaging = 0.99
augmentations = []          # as above

[calibration]
failure = {failure:<18}# the largest probability that a radius is issued and wrong{_why(failure)}

[evaluation]
budgets = [100, 1_000]      # votes per input of the methods that RRISE is compared with

# A first look: the results are poor, but everything works.
[profile.quick.data]
train = {quick}
[profile.quick.base]
epochs = {few}
[profile.quick.votes]
calibration = 200
test = 200
[profile.quick.surrogate]
epochs = {few}
"""


def _is_model(source: str) -> bool:
    return ":" in source and not source.startswith(NPZ) and not Path(source).exists()


def _source(given: str) -> str:
    """Return data as a recipe names it: a `.npz` file gets its prefix."""
    return f"{NPZ}{given}" if given.endswith(".npz") and not given.startswith(NPZ) else given


def _check_range(data: Dataset, source: str) -> None:
    for name, part in (("train", data.train), ("test", data.test)):
        if part.images.dtype != np.uint8:
            lowest, highest = float(part.images.min()), float(part.images.max())
            if lowest < 0 or highest > 1:
                raise InputError(
                    f"a run takes inputs in [0, 1], and x_{name} of {source} goes from {lowest:g} to "
                    f"{highest:g}: scale train and test alike, by what the training inputs show, and clip "
                    f"them; or call rrise.fit(…, input_range=None)"
                )


def _fitting(data: Dataset) -> tuple[str, dict[str, Any]]:
    """Return a small architecture that fits the data, and its options."""
    shape, classes = data.train.images.shape[1:], len(data.class_names)
    if len(shape) != 3 or shape[0] not in (1, 3):
        return "small-mlp", {"inputs": math.prod(shape), "classes": classes}
    channels, height, width = shape
    if max(height, width) > _LARGE:
        return f"{TIMM}resnet18", {"classes": classes, "in_chans": channels}
    side = height if height == width else [height, width]
    return "small-convnet", {"image_size": side, "channels": channels, "classes": classes}


def _options(model: str, data: Dataset) -> dict[str, Any]:
    """Return the options with which a model fits the data; it is built and called to find them."""
    classes, inputs = len(data.class_names), data.train.inputs(np.arange(min(2, len(data.train))))
    reason = ""
    for name in _OPTIONS:
        options = {} if name is None else {name: classes}
        try:
            module = build_model(model, seed=0, **options)
            with evaluating(module), torch.no_grad():
                got = logits_of(module, inputs, "model").shape[1]
        except RriseError as error:
            reason = reason or str(error)
            continue
        if got == classes:
            return options
        reason = f"it has {got} classes, the data has {classes}"
    raise SettingError(
        f"{model} does not fit {data.name}: {reason}. Leave the model out, and write it with its options "
        f"into [base] of the recipe"
    )


def _calibration(test: int) -> tuple[int, str]:
    """Return how many test inputs calibrate, about half, and the smallest usual failure they allow."""
    for failure in _FAILURES:
        step = math.ceil(1 / Terms(failure).gamma)
        size = min(_MOST_CALIBRATION, test // 2 + 1) // step * step - 1
        if size > 0:
            return size, failure
    raise SettingError(
        f"{test} test inputs are too few: a part of them calibrates, and a failure of {_FAILURES[-1]} needs "
        f"{2 * step - 2}"
    )


def _described(data: Dataset | None) -> str:
    if data is None:
        return "# A starter recipe for your own model. Fill in the data."
    shape = " x ".join(map(str, data.train.images.shape[1:]))
    kind = "8-bit images" if data.train.images.dtype == np.uint8 else "inputs"
    names = ", ".join(data.class_names[:10]) + (", ..." if len(data.class_names) > 10 else "")
    return (
        f"# A starter recipe for {json.dumps(data.name, ensure_ascii=False)}: {len(data.train):,} {kind} of "
        f"shape {shape} to train, {len(data.test):,} to calibrate and test,\n"
        f"# {len(data.class_names)} classes: {names!r}. Values are in [0, 1]."
    )


def _remark(architecture: str) -> str:
    return "   # needs pip install 'rrise[vision]'" if architecture.startswith(TIMM) else ""


def _why(failure: str) -> str:
    return "" if failure == "0.01" else "; 0.01 needs 248 test inputs"
