"""Architectures by name."""

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from rrise.errors import InputError, MismatchError, RriseError, SettingError, did_you_mean
from rrise.models.fingerprint import mark_as_built
from rrise.torchvision_import import import_torchvision


class SmallConvNet(nn.Module):
    """Three 3x3 convolutions and a hidden layer for small images: 42,000 weights for 8x8 digits.

    `image_size` is a side, or height and width; `channels` is 1 for grey images and 3 for coloured ones.
    Inputs are in [0, 1]; the normalisation to [-1, 1] is part of the model.
    """

    def __init__(
        self, image_size: int | Sequence[int] = 8, classes: int = 10, width: int = 16, channels: int = 1
    ) -> None:
        super().__init__()
        height, breadth = (image_size, image_size) if isinstance(image_size, int) else image_size
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * ((height + 1) // 2) * ((breadth + 1) // 2), 4 * width),
            nn.ReLU(),
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits `[inputs, classes]`."""
        logits: torch.Tensor = self.head(self.features(2 * images - 1))
        return logits


class SmallMLP(nn.Module):
    """Two hidden layers for vectors and other small inputs, with values in [0, 1].

    `inputs` is how many numbers an input has. The normalisation to [-1, 1] is part of the model.
    """

    def __init__(self, inputs: int, classes: int = 10, width: int = 128) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return logits `[inputs, classes]`."""
        logits: torch.Tensor = self.head(self.features(2 * inputs - 1))
        return logits


class Normalised(nn.Module):
    """A network whose inputs are normalised to `(x - mean) / std`, channel by channel.

    Both are buffers, so they belong to the weights and to the fingerprint. The defaults map [0, 1] to
    [-1, 1].
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self, network: nn.Module, mean: Sequence[float] = (0.5,), std: Sequence[float] = (0.5,)
    ) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(number > 0 for number in std):
            raise SettingError(
                f"expected as many means as positive standard deviations, got {mean} and {std}"
            )
        self.network = network
        for name, numbers in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float32).view(-1, 1, 1))

    def get_classifier(self) -> nn.Module | None:
        """Return the head of a timm network, or None if the network has no `get_classifier`."""
        found = getattr(self.network, "get_classifier", lambda: None)()
        return found if isinstance(found, nn.Module) else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits `[inputs, classes]`."""
        logits: torch.Tensor = self.network((images - self.mean) / self.std)
        return logits


def resnet_18(classes: int = 10, width: int = 64, last: int = 8, **normalisation: Any) -> nn.Module:
    """ResNet-18 for 32x32 colour images: a 3x3 stem of stride 1 and no pooling after it.

    Its four stages have `width`, 2, 4 and `last` times `width` channels. With width 32 and `last` 3 it has a
    tenth of the weights, and a pass has 0.22 of the operations.
    """
    channels = tuple(width * factor for factor in (1, 2, 4, last))
    network = _timm().create_model("resnet18", num_classes=classes, channels=channels)
    network.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return Normalised(network, **normalisation)


def mlp_mixer_tiny(
    image_size: int = 32, classes: int = 10, width: int = 192, **normalisation: Any
) -> nn.Module:
    """MLP-Mixer with patches of 4, 8 blocks of width 192 and ratios (0.5, 4): 2.5 million weights."""
    mixer = _timm().models.mlp_mixer.MlpMixer
    sizes = {"img_size": image_size, "patch_size": 4, "num_blocks": 8, "embed_dim": width}
    return Normalised(mixer(**sizes, mlp_ratio=(0.5, 4.0), num_classes=classes), **normalisation)


def efficientnet_b0(classes: int = 100, **normalisation: Any) -> nn.Module:
    """EfficientNet-B0 as in timm, with its stem of stride 2."""
    return Normalised(_timm().create_model("efficientnet_b0", num_classes=classes), **normalisation)


def vit_tiny(image_size: int = 64, classes: int = 200, **normalisation: Any) -> nn.Module:
    """ViT-Tiny with patches of 8, width 192, 9 blocks of 12 heads and an MLP ratio of 2."""
    transformer = _timm().models.vision_transformer.VisionTransformer
    sizes = {"img_size": image_size, "patch_size": 8, "embed_dim": 192, "depth": 9, "num_heads": 12}
    return Normalised(transformer(**sizes, mlp_ratio=2.0, num_classes=classes), **normalisation)


_ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "small-convnet": SmallConvNet,
    "small-mlp": SmallMLP,
    "resnet-18": resnet_18,
    "mlp-mixer-tiny": mlp_mixer_tiny,
    "efficientnet-b0": efficientnet_b0,
    "vit-tiny": vit_tiny,
}


TIMM = "timm:"


def takes_normalisation(name: str) -> bool:
    """Tell whether an architecture is built with the options `mean` and `std`."""
    return name.startswith(TIMM) or (name in _ARCHITECTURES and not name.startswith("small-"))


def build_model(name: str, *, seed: int, **options: Any) -> nn.Module:
    """Build an architecture with seeded random weights; the global random state is unchanged.

    `name` is a name of the catalogue; `timm:NAME` for any timm architecture with our normalisation; or
    `package.module:name` of a module, or of a function or class that builds one from the options.
    """
    if name.startswith(TIMM):
        module = _seeded(partial(_of_timm, name.removeprefix(TIMM)), name, seed, options)
        return mark_as_built(module, name, options)
    if ":" in name:
        return _seeded(partial(_imported, name), name, seed, options)
    if name not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise SettingError(
            f"expected an architecture out of {known}, timm:NAME or package.module:name; got {name!r}"
            f"{did_you_mean(name, _ARCHITECTURES)}"
        )
    return mark_as_built(_seeded(_ARCHITECTURES[name], name, seed, options), name, options)


def _of_timm(
    name: str, mean: Sequence[float] = (0.5,), std: Sequence[float] = (0.5,), **options: Any
) -> nn.Module:
    timm = _timm()
    if not timm.is_model(name):
        raise SettingError(f"timm knows no architecture {name!r}{did_you_mean(name, timm.list_models())}")
    if "classes" in options:
        options["num_classes"] = options.pop("classes")
    return Normalised(timm.create_model(name, **options), mean, std)


def _imported(source: str, **options: Any) -> nn.Module:
    """Return the module at an import path; the working directory is on the path."""
    place, _, name = source.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(place), name)
        module = found if isinstance(found, nn.Module) else found(**options)
    except RriseError:
        raise
    except Exception as error:  # a user's code may raise anything
        reason = str(error) or type(error).__name__
        raise InputError(f"{source} cannot be imported and built: {reason}") from error
    if not isinstance(module, nn.Module):
        raise MismatchError(f"expected {source} to give a torch.nn.Module, got a {type(module).__name__}")
    return module


def _seeded(build: Callable[..., nn.Module], name: str, seed: int, options: dict[str, Any]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            return build(**options)
        except TypeError as error:
            raise SettingError(f"{name} cannot be built with {options}: {error}") from None


def _timm() -> Any:
    try:
        import_torchvision()
        import timm
    except ImportError:
        raise SettingError("this architecture needs timm: pip install 'rrise[vision]'") from None
    return timm
