"""Architectures by name."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rrise.errors import SettingError
from rrise.models.torchvision_import import import_torchvision


class SmallConvNet(nn.Module):
    """Three 3x3 convolutions and a hidden layer for small grey images: 42,000 weights at width 16.

    Inputs are in [0, 1]; the normalisation to [-1, 1] is part of the model.
    """

    def __init__(self, image_size: int = 8, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * ((image_size + 1) // 2) ** 2, 4 * width),
            nn.ReLU(),
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits `[inputs, classes]`."""
        logits: torch.Tensor = self.head(self.features(2 * images - 1))
        return logits


class Normalised(nn.Module):
    """A network behind the normalisation of its inputs from [0, 1] to [-1, 1]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits `[inputs, classes]`."""
        logits: torch.Tensor = self.network(2 * images - 1)
        return logits


def resnet_18(classes: int = 10) -> nn.Module:
    """ResNet-18 for 32x32 colour images: a 3x3 stem of stride 1 and no pooling after it."""
    network = _timm().create_model("resnet18", num_classes=classes)
    network.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return Normalised(network)


def mlp_mixer_tiny(image_size: int = 32, classes: int = 10) -> nn.Module:
    """MLP-Mixer with patches of 4, 8 blocks of width 192 and ratios (0.5, 4): 2.5 million weights."""
    mixer = _timm().models.mlp_mixer.MlpMixer
    sizes = {"img_size": image_size, "patch_size": 4, "num_blocks": 8, "embed_dim": 192}
    return Normalised(mixer(**sizes, mlp_ratio=(0.5, 4.0), num_classes=classes))


def efficientnet_b0(classes: int = 100) -> nn.Module:
    """EfficientNet-B0 as in timm, with its stem of stride 2."""
    return Normalised(_timm().create_model("efficientnet_b0", num_classes=classes))


def vit_tiny(image_size: int = 64, classes: int = 200) -> nn.Module:
    """ViT-Tiny with patches of 8, width 192, 9 blocks of 12 heads and an MLP ratio of 2."""
    transformer = _timm().models.vision_transformer.VisionTransformer
    sizes = {"img_size": image_size, "patch_size": 8, "embed_dim": 192, "depth": 9, "num_heads": 12}
    return Normalised(transformer(**sizes, mlp_ratio=2.0, num_classes=classes))


_ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "small-convnet": SmallConvNet,
    "resnet-18": resnet_18,
    "mlp-mixer-tiny": mlp_mixer_tiny,
    "efficientnet-b0": efficientnet_b0,
    "vit-tiny": vit_tiny,
}


def build_model(name: str, *, seed: int, **options: Any) -> nn.Module:
    """Build an architecture by name with seeded random weights; the global seed is left alone."""
    if name not in _ARCHITECTURES:
        raise SettingError(f"expected an architecture out of {', '.join(_ARCHITECTURES)}; got {name!r}")
    return _seeded(_ARCHITECTURES[name], name, seed, options)


def build_timm(name: str, *, seed: int, **options: Any) -> nn.Module:
    """Build one of timm's architectures, behind our normalisation, with seeded random weights."""
    timm = _timm()
    if not timm.is_model(name):
        raise SettingError(f"timm knows no architecture {name!r}")
    return Normalised(_seeded(lambda **given: timm.create_model(name, **given), name, seed, options))


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
