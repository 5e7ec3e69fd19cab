import numpy as np
import pytest
import torch
from torch import nn

from rrise.data.augmentation import Augmentation
from rrise.data.sources import Pixels
from rrise.models.catalogue import build_model
from rrise.models.fingerprint import fingerprint
from rrise.training.base import train_base
from rrise.training.checkpoint import Checkpoint
from rrise.training.recording import RecordedStep, is_recordable
from rrise.training.settings import TrainingHistory, TrainingSettings
from rrise.training.surrogate_training import train_surrogate
from tests.training.networks import TwoLayers, WithDropoutAndNorm

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="records steps on a CUDA GPU only")


def test_networks_of_known_layers_are_recordable() -> None:
    assert is_recordable(build_model("resnet-18", seed=0))
    assert is_recordable(nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5)))


def test_code_of_ones_own_is_not_recordable() -> None:
    assert not is_recordable(TwoLayers())
    assert not is_recordable(nn.Sequential(nn.Linear(4, 2), WithDropoutAndNorm()))
    hooked = nn.Linear(4, 2)
    hooked.register_forward_hook(lambda *_: None)
    assert not is_recordable(nn.Sequential(hooked))


class Counted(RecordedStep):
    """Counts how often a recorded step was made."""

    made = 0

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        Counted.made += 1


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    Counted.made = 0
    monkeypatch.setattr("rrise.training.loop.RecordedStep", Counted)
    return Counted


def base_training(
    checkpoint: Checkpoint | None = None, stop_after: int = 0
) -> tuple[TrainingHistory, dict[str, torch.Tensor]]:
    """Train a network with dropout on augmented images; the last batch of an epoch is a small one."""
    random = np.random.default_rng(0)
    images = Pixels(random.integers(0, 256, (1_100, 3, 32, 32), dtype=np.uint8))
    labels = random.integers(0, 10, 1_100)
    network = build_model("timm:test_vit", seed=0, classes=10, img_size=32, drop_rate=0.2, drop_path_rate=0.2)

    def on_epoch(epoch: int, _: dict[str, float]) -> None:
        if epoch == stop_after:
            raise KeyboardInterrupt

    history = train_base(
        network.cuda(),
        images,
        labels,
        Pixels(images.images[:100]),
        labels[:100],
        sigma=0.25,
        settings=TrainingSettings(6, 1e-3, 128),
        augmentation=Augmentation(["crop-2", "flip"]),
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    return history, {name: value.cpu() for name, value in network.state_dict().items()}


@needs_cuda
def test_a_recorded_training_takes_the_steps_of_an_unrecorded_one(
    counted: type[Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, weights = base_training()
    assert counted.made == 1
    monkeypatch.setattr("rrise.training.trainee.is_recordable", lambda _: False)
    plain, expected = base_training()
    assert counted.made == 1
    for now, before in zip(recorded.epochs, plain.epochs, strict=True):
        assert now == pytest.approx(before, rel=1e-4)
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=1e-3, atol=1e-4)


@needs_cuda
def test_a_recorded_training_goes_on_from_a_checkpoint(tmp_path) -> None:
    whole, expected = base_training()
    with pytest.raises(KeyboardInterrupt):
        base_training(Checkpoint(tmp_path, {}, seconds=0), stop_after=3)
    resumed, weights = base_training(Checkpoint(tmp_path, {}, seconds=0))
    for now, before in zip(resumed.epochs, whole.epochs, strict=True):
        assert now == pytest.approx(before, rel=1e-4)
    for name, value in expected.items():
        torch.testing.assert_close(weights[name], value, rtol=1e-3, atol=1e-4)


@needs_cuda
def test_head_only_training_is_recorded(counted: type[Counted], monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    images = Pixels(random.integers(0, 256, (1_100, 3, 32, 32), dtype=np.uint8))
    votes = random.multinomial(100, np.full(10, 0.1), size=1_100)
    base = build_model("mlp-mixer-tiny", seed=0, classes=10).cuda()
    before = fingerprint(base)
    recorded = train_surrogate(base, images, votes, epochs=5)
    assert counted.made == 1
    assert fingerprint(base) == before
    monkeypatch.setattr("rrise.training.trainee.is_recordable", lambda _: False)
    plain = train_surrogate(base, images, votes, epochs=5)
    for now, then in zip(recorded.history.epochs, plain.history.epochs, strict=True):
        assert now == pytest.approx(then, rel=1e-4)


@needs_cuda
def test_distillation_is_recorded_with_its_votes(
    counted: type[Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = Pixels(np.random.default_rng(0).integers(0, 256, (1_100, 3, 32, 32), dtype=np.uint8))
    base = build_model("mlp-mixer-tiny", seed=0, classes=10).cuda()

    def trained() -> TrainingHistory:
        return train_surrogate(
            base,
            images,
            strategy="distill",
            sigma=0.25,
            precision="bfloat16",
            augmentations=("crop-4", "flip", "randaugment"),
            averaging=0.99,
            epochs=5,
            batch_size=128,
        ).history

    recorded = trained()
    assert counted.made == 1
    monkeypatch.setattr("rrise.training.distillation.is_recordable", lambda _: False)
    plain = trained()
    assert counted.made == 1
    for now, then in zip(recorded.epochs, plain.epochs, strict=True):
        assert now == pytest.approx(then, rel=1e-2)
