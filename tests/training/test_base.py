import copy
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.data.augmentation import Augmentation
from rrise.data.sources import Pixels
from rrise.training.base import Labelled, train_base
from rrise.training.settings import TrainingSettings
from tests.training.networks import TwoLayers, Watches, seeded

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.rand(400, 4, generator=torch.Generator().manual_seed(0))
    return inputs, (inputs.sum(dim=1) > 2).long()


def test_learns_under_noise_and_keeps_its_best_epoch() -> None:
    inputs, labels = vectors()
    net = seeded(TwoLayers)
    untrained = copy.deepcopy(net)
    settings = TrainingSettings(30, 0.02, 64)
    history = train_base(
        net, inputs[:300], labels[:300], inputs[300:], labels[300:], sigma=0.1, settings=settings
    )
    errors = [epoch["noisy_validation_error"] for epoch in history.epochs]
    assert history.selected["noisy_validation_error"] == min(errors) < 0.2

    def accuracy(module: nn.Module) -> float:
        return float((module(inputs).argmax(dim=1) == labels).double().mean())

    assert accuracy(net) > max(0.9, accuracy(untrained))
    assert not net.training


def test_noise_is_added_and_clipped_in_input_space() -> None:
    inputs = torch.full((200, 4), 0.5)
    labels = torch.zeros(200, dtype=torch.int64)
    for limits in ((0.0, 1.0), None):
        net, settings = Watches(), TrainingSettings(4, 1e-3, 100)
        train_base(
            net,
            inputs,
            labels,
            inputs[:10],
            labels[:10],
            sigma=0.4,
            settings=settings,
            input_range=limits,
        )
        values = torch.cat(net.seen)
        assert len(values.unique(dim=0)) == len(values)
        if limits is None:
            assert values.std().item() == pytest.approx(0.4, rel=0.05)
        else:
            assert values.min() == 0
            assert values.max() == 1
            assert (values == 0).double().mean().item() == pytest.approx(0.1056, abs=0.02)  # Phi(-1.25)


def test_images_are_augmented_each_by_itself_and_before_the_noise() -> None:
    seen: list[torch.Tensor] = []

    class Watches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.top = nn.Linear(64, 2)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if self.training:
                seen.append(inputs.detach().clone())
            return self.top(inputs.flatten(1))

    images = np.tile(np.arange(1, 65, dtype=np.uint8).reshape(1, 1, 8, 8), (64, 1, 1, 1))
    labels = np.zeros(64, dtype=np.int64)
    train_base(
        Watches(),
        Pixels(images),
        labels,
        Pixels(images[:4]),
        labels[:4],
        sigma=0.0,
        settings=TrainingSettings(1, 1e-3, 64),
        augmentation=Augmentation(["crop-2", "flip"]),
    )
    values = torch.cat(seen)
    assert len(values.unique(dim=0)) > 20
    assert (values.flatten(1) == 0).any(dim=1).double().mean() > 0.5  # padding came in


@needs_compiler
def test_compiled_training_takes_the_same_steps() -> None:
    inputs, labels = vectors()
    nets = [seeded(TwoLayers) for _ in range(2)]
    histories = [
        train_base(
            net,
            inputs[:300],
            labels[:300],
            inputs[300:],
            labels[300:],
            sigma=0.1,
            settings=TrainingSettings(5, 0.02, 64, compiled=compiled),
        )
        for net, compiled in zip(nets, (False, True), strict=True)
    ]
    torch.testing.assert_close(nets[0].top.weight, nets[1].top.weight, rtol=1e-3, atol=1e-4)
    assert histories[0].epochs[-1]["training_loss"] == pytest.approx(
        histories[1].epochs[-1]["training_loss"], rel=1e-3
    )


def test_what_does_not_compile_trains_in_eager_mode_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: object, **_: object) -> object:
        def fail(*_: object) -> None:
            raise RuntimeError("no compiler here")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    inputs, labels = vectors()
    arguments = (inputs[:300], labels[:300], inputs[300:], labels[300:])
    plain, net = seeded(TwoLayers), seeded(TwoLayers)
    train_base(plain, *arguments, sigma=0.1, settings=TrainingSettings(2, 0.02, 64))
    with pytest.warns(RuntimeWarning, match=r"does not compile \(no compiler here\): it runs in eager mode"):
        train_base(net, *arguments, sigma=0.1, settings=TrainingSettings(2, 0.02, 64, compiled=True))
    assert rrise.fingerprint(net) == rrise.fingerprint(plain)


def test_mixed_precision_keeps_the_weights_in_float32() -> None:
    inputs, labels = vectors()
    net = seeded(TwoLayers)
    settings = TrainingSettings(20, 0.02, 64, mixed_precision=True)
    history = train_base(
        net, inputs[:300], labels[:300], inputs[300:], labels[300:], sigma=0.1, settings=settings
    )
    assert net.top.weight.dtype == torch.float32
    assert history.selected["noisy_validation_error"] < 0.25


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (torch.zeros(3, dtype=torch.int64), "for each of the 4 inputs, got torch.int64 of shape"),
        (torch.zeros(4), "one whole-number label for each of the 4 inputs, got torch.float32"),
        (torch.tensor([0, 1, 2, 0]), "labels from 0 to 1, got 0 to 2"),
        (torch.tensor([0, 1, -1, 0]), "labels from 0 to 1, got -1 to 1"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Labelled(TwoLayers(), torch.rand(4, 4), labels, (0.0, 1.0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sigma": -0.1}, "expected sigma >= 0"),
        ({"label_smoothing": 1.0}, "0 <= label_smoothing < 1, got .*label_smoothing=1"),
        ({"augmentation": Augmentation(["flip"])}, r"images \[channels, height, width\] for augmentation"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict, sentence: str) -> None:
    inputs, labels = vectors()
    arguments = {"sigma": 0.1, "settings": TrainingSettings(1, 0.1), **changes}
    with pytest.raises(ValueError, match=sentence):
        train_base(TwoLayers(), inputs, labels, inputs, labels, **arguments)
