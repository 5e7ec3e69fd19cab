"""Objectives of the base classifier: their losses, the inputs they make, and how they train."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import special, stats
from torch import nn
from torch.distributions import Categorical, kl_divergence

import rrise
from rrise.data.catalogue import load_dataset
from rrise.data.sources import Pixels
from rrise.errors import SettingError
from rrise.models.catalogue import build_model
from rrise.settings import Setting
from rrise.statistics import certified_radius
from rrise.training.base import Labelled, base_task, train_base
from rrise.training.base_objectives import (
    BASE_OBJECTIVES,
    BaseObjective,
    Consistency,
    CrossEntropy,
    Scene,
    SmoothMix,
    register_base_objective,
)
from rrise.training.settings import TrainingSettings
from rrise.training.team import Team
from tests.training.networks import Convolutions, TwoLayers, Watches, WithDropoutAndNorm, seeded
from tests.training.test_base import needs_compiler, vectors
from tests.training.test_loop import Stop, place, run

INPUTS, CLASSES = 7, 5


def logits_of(copies: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits `[copies * INPUTS, CLASSES]`, copy by copy, and labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn((copies * INPUTS, CLASSES), generator=generator)
    return logits, torch.randint(CLASSES, (INPUTS,), generator=generator)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_consistency_is_the_published_one(copies: int, smoothing: float) -> None:
    logits, labels = logits_of(copies)
    objective = Consistency(weight=7.0, entropy=0.3, copies=copies)
    found = objective.loss(logits, labels.repeat(copies), smoothing)
    said = special.log_softmax(logits.double().numpy(), axis=1)
    wanted = (1 - smoothing) * np.eye(CLASSES)[labels.repeat(copies)] + smoothing / CLASSES
    copy = np.exp(said).reshape(copies, INPUTS, CLASSES)
    mean = copy.mean(axis=0)
    divergence = stats.entropy(np.broadcast_to(mean, copy.shape), copy, axis=2).mean()
    expected = -(wanted * said).sum(axis=1).mean() + 7 * divergence + 0.3 * stats.entropy(mean, axis=1).mean()
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_the_gradient_of_consistency_flows_through_the_mean_too() -> None:
    logits, labels = logits_of(2)
    ours, theirs = (logits.clone().double().requires_grad_() for _ in range(2))
    Consistency().loss(ours, labels.repeat(2), 0.0).backward()
    copies = [Categorical(logits=part) for part in theirs.chunk(2)]
    mean = Categorical(probs=(copies[0].probs + copies[1].probs) / 2)
    apart = sum(kl_divergence(mean, copy) for copy in copies) / 2
    loss = F.cross_entropy(theirs, labels.repeat(2)) + (20 * apart + 0.5 * mean.entropy()).mean()
    loss.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_copies_that_agree_pay_for_their_entropy_alone() -> None:
    logits, labels = logits_of(1)
    agreeing = logits.repeat(2, 1)
    found = Consistency(weight=1e4, entropy=0.5).loss(agreeing, labels.repeat(2), 0.0)
    expected = F.cross_entropy(logits, labels) + 0.5 * Categorical(logits=logits).entropy().mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-3)


def mixture_logits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return logits of inputs and of mixtures, two copies each, and labels and shares; some are missed."""
    plain, labels = logits_of(2)
    mixed, _ = logits_of(2, seed=1)
    mean = (plain[:INPUTS].softmax(1) + plain[INPUTS:].softmax(1)) / 2
    labels[:4] = mean.argmax(dim=1)[:4]
    assert 0 < (mean.argmax(dim=1) != labels).sum() < INPUTS
    return plain, mixed, labels, torch.rand(INPUTS) / 2


def test_the_loss_of_smoothmix_is_the_published_one() -> None:
    plain, mixed, labels, share = mixture_logits()
    ours, theirs = (torch.cat([plain, mixed]).double().requires_grad_() for _ in range(2))
    found = SmoothMix(weight=3.0).loss(ours, torch.stack([labels.float(), share], dim=1), 0.0)
    first, second, *mixtures = theirs.chunk(4)
    mean = (first.softmax(dim=1) + second.softmax(dim=1)) / 2
    weight = share[:, None].double()
    wanted = Categorical(probs=(1 - weight) * mean + weight / CLASSES)
    apart = sum(kl_divergence(wanted, Categorical(logits=mixture)) for mixture in mixtures) / 2
    known = (mean.argmax(dim=1) == labels).double()
    expected = F.cross_entropy(theirs[: 2 * INPUTS], labels.repeat(2)) + 3 * (known * apart).mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    found.backward()
    expected.backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_a_mixture_of_a_misclassified_input_teaches_nothing() -> None:
    plain, mixed, labels, share = mixture_logits()
    logits = torch.cat([plain, mixed]).requires_grad_()
    SmoothMix().loss(logits, torch.stack([labels.float(), share], dim=1), 0.0).backward()
    assert logits.grad is not None
    mean = (plain[:INPUTS].softmax(1) + plain[INPUTS:].softmax(1)) / 2
    taught = logits.grad[2 * INPUTS :].abs().sum(dim=1) > 0
    assert torch.equal(taught, (mean.argmax(dim=1) == labels).repeat(2))


class Ascent:
    """A scene without a training: it records which inputs get noise, and may clip them."""

    def __init__(self, inputs: torch.Tensor, copies: int, *, limits: tuple[float, float] | None) -> None:
        self.net = seeded(TwoLayers)
        self.at: list[torch.Tensor] = []
        self.limits = limits
        self.noise = 0.1 * torch.randn((copies, *inputs.shape), generator=torch.Generator().manual_seed(4))
        self.scene = Scene(self.noisy, self.clipped, self.probabilities, torch.Generator().manual_seed(5))

    def noisy(self, inputs: torch.Tensor) -> torch.Tensor:
        self.at.append(inputs.detach())
        return self.clipped((inputs + self.noise).flatten(0, 1))

    def clipped(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs if self.limits is None else inputs.clamp(*self.limits)

    def probabilities(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.net(inputs).softmax(dim=1)

    def smoothed_loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The negative logarithm of the average probability of the label over the same noise."""
        copies = len(self.noise)
        with torch.no_grad():
            said = self.probabilities(self.clipped((inputs + self.noise).flatten(0, 1)))
        return -said.unflatten(0, (copies, -1)).mean(dim=0).gather(1, labels[:, None])[:, 0].log()


@pytest.mark.parametrize("first_step", [True, False])
def test_smoothmix_climbs_in_steps_of_its_length_and_mixes_with_the_top(first_step: bool) -> None:
    inputs, labels = vectors()
    objective = SmoothMix(steps=4, step_size=0.05, first_step=first_step, copies=3)
    ascent = Ascent(inputs, 3, limits=None)
    rows, targets = objective.examples(inputs, labels, ascent.scene)
    *climbed, start, mixed = ascent.at
    assert torch.equal(climbed[0], inputs)
    assert torch.equal(start, climbed[1] if first_step else inputs)
    losses = torch.stack([ascent.smoothed_loss(at, labels) for at in climbed])
    assert (losses.diff(dim=0) > 0).all()
    lengths = torch.stack([(later - at).norm(dim=1) for at, later in pairwise(climbed)])
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.05))
    share = targets[:, 1:]
    top = start + (mixed - start) / share
    far = share[:, 0] > 0.1  # dividing by a small share magnifies rounding
    last = (top - climbed[-1]).norm(dim=1)[far]
    torch.testing.assert_close(last, torch.full_like(last, 0.05), rtol=1e-3, atol=1e-5)
    assert (ascent.smoothed_loss(top, labels) > losses[-1])[far].all()
    assert torch.equal(targets[:, 0], labels.float())
    torch.manual_seed(9)  # all random numbers are those of the scene
    assert torch.equal(objective.examples(inputs, labels, Ascent(inputs, 3, limits=None).scene)[1], targets)
    assert 0 <= share.min() < 0.02
    assert 0.48 < share.max() <= 0.5
    assert rows.shape == (objective.rows * len(inputs), 4)
    torch.testing.assert_close(rows[: 3 * len(inputs)], (start + ascent.noise).flatten(0, 1))
    torch.testing.assert_close(rows[3 * len(inputs) :], (mixed + ascent.noise).flatten(0, 1))


def test_what_smoothmix_makes_stays_in_the_input_range_and_within_its_steps() -> None:
    inputs, labels = vectors()
    ascent = Ascent(inputs, 2, limits=(0.0, 1.0))
    SmoothMix(steps=3, step_size=0.4).examples(inputs, labels, ascent.scene)
    for at in ascent.at:
        assert 0 <= at.min() <= at.max() <= 1
    for at, later in pairwise(ascent.at[:3]):
        assert ((later - at).norm(dim=1) <= 0.4 + 1e-6).all()
    assert (ascent.at[2] == 1).any()


def test_smoothmix_keeps_class_numbers_that_a_network_in_half_precision_could_not() -> None:
    class Wide(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs[:, :1] * torch.arange(4000)

    inputs, labels = torch.rand(3, 4).half(), torch.tensor([3999, 2049, 2051])
    ascent = Ascent(inputs, 2, limits=None)
    ascent.noise, ascent.net = ascent.noise.half(), Wide()
    _, targets = SmoothMix().examples(inputs, labels, ascent.scene)
    assert targets[:, 0].long().tolist() == [3999, 2049, 2051]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Consistency(weight=-1), "expected weight to be at least 0, got -1"),
        (lambda: Consistency(copies=1), "expected copies to be at least 2, got 1"),
        (lambda: SmoothMix(step_size=0), "expected step_size to be above 0, got 0"),
        (lambda: SmoothMix(steps=1), "expected steps of at least 2, or first_step=False; got steps=1"),
    ],
)
def test_options_that_cannot_be_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        make()
    assert SmoothMix(steps=1, first_step=False).steps == 1


OBJECTIVES = [CrossEntropy(), Consistency(copies=3), SmoothMix(step_size=0.1)]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("kind", [WithDropoutAndNorm, Convolutions])
def test_an_interrupted_training_ends_bit_for_bit_where_an_uninterrupted_one_does(
    objective: BaseObjective, kind: type[nn.Module], tmp_path: Path
) -> None:
    whole = seeded(kind)
    expected = run(whole, objective=objective)
    with pytest.raises(Stop):
        run(seeded(kind), place(tmp_path), stop_after=2, objective=objective)
    torch.manual_seed(7)  # whatever the process drew in between
    resumed = seeded(kind, seed=99)
    assert run(resumed, place(tmp_path), objective=objective) == expected
    assert rrise.fingerprint(resumed) == rrise.fingerprint(whole)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: type(one).__name__)
def test_it_learns_and_the_seed_determines_it(objective: BaseObjective) -> None:
    nets = [seeded(TwoLayers) for _ in range(3)]
    histories = [
        run(net, objective=objective, epochs=20, seed=seed) for net, seed in zip(nets, (0, 0, 1), strict=True)
    ]
    first, same, other = map(rrise.fingerprint, nets)
    assert first == same
    assert first != other
    assert histories[0].selected["noisy_validation_error"] < 0.3


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: type(one).__name__)
def test_the_network_learns_from_rows_copies_of_each_input_each_with_its_own_noise(
    objective: BaseObjective,
) -> None:
    net = Watches()
    run(net, objective=objective, epochs=1)
    assert [len(rows) for rows in net.seen] == [objective.rows * inputs for inputs in (64, 64, 64, 58)]
    values = torch.cat(net.seen)
    assert len(values.unique(dim=0)) == len(values)
    assert 0 <= values.min() < values.max() <= 1


@pytest.mark.slow  # the compiler takes most of a minute
@needs_compiler
def test_compiled_training_takes_the_same_steps() -> None:
    nets = [seeded(TwoLayers) for _ in range(2)]
    for net, compiled in zip(nets, (False, True), strict=True):
        run(net, objective=SmoothMix(step_size=0.1), epochs=2, compiled=compiled)
    torch.testing.assert_close(nets[0].top.weight, nets[1].top.weight, rtol=1e-3, atol=1e-4)


def test_noise_that_is_not_clipped_leaves_the_input_range_and_inputs_do_not() -> None:
    inputs, labels = torch.full((200, 4), 0.5), torch.zeros(200, dtype=torch.int64)
    arguments = {"sigma": rrise.UnclippedGaussian(0.4), "settings": TrainingSettings(2, 1e-3, 100)}
    net = Watches()
    train_base(net, inputs, labels, inputs[:10], labels[:10], **arguments)
    assert torch.cat(net.seen).std().item() == pytest.approx(0.4, rel=0.1)
    with pytest.raises(ValueError, match=r"expected inputs in \[0, 1\], got values from 3.5"):
        train_base(TwoLayers(), inputs + 3, labels, inputs, labels, **arguments)


@dataclass(frozen=True)
class Brier:
    """A toy: the squared error of the probabilities on clean inputs."""

    scale: Annotated[float, Setting("A factor.", above=0)] = 1.0

    @property
    def copies(self) -> int:
        return 1

    rows = copies

    def examples(
        self, clean: torch.Tensor, labels: torch.Tensor, scene: Scene
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return scene.clipped(clean), labels

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        classes = logits.shape[1]
        wanted = F.one_hot(targets, classes) * (1 - label_smoothing) + label_smoothing / classes
        return self.scale * (logits.softmax(dim=1) - wanted).square().sum(dim=1).mean()


def test_an_objective_of_ones_own_trains_and_no_step_of_it_is_replayed() -> None:
    net = seeded(TwoLayers)
    assert run(net, objective=Brier(), epochs=20).selected["noisy_validation_error"] < 0.3
    inputs, labels = vectors()
    both = Labelled(net, inputs, labels, None), Labelled(net, inputs, labels, None)
    how = {
        "sigma": 0.1,
        "settings": TrainingSettings(1, 0.1),
        "augmentation": None,
        "label_smoothing": 0.0,
        "input_range": None,
        "clip": False,
        "team": Team(),
    }
    assert base_task(net, *both, objective=Consistency(), **how).recordable
    assert not base_task(net, *both, objective=Brier(), **how).recordable


def test_an_objective_is_registered_once_and_is_a_dataclass_of_settings() -> None:
    with pytest.raises(SettingError, match="'consistency' is registered already: choose another name"):
        register_base_objective("consistency", Brier)
    with pytest.raises(TypeError, match="dataclass"):
        register_base_objective("toy", TwoLayers)
    assert "toy" not in BASE_OBJECTIVES


def average_radius(objective: BaseObjective) -> float:
    """Train briefly on digits, and return the mean certified radius of other digits; 0 where it is wrong."""
    digits = load_dataset("digits")
    train, test = digits.train, digits.test
    base = build_model("small-convnet", seed=0)
    train_base(
        base,
        Pixels(train.images[:400]),
        train.labels[:400],
        Pixels(train.images[400:450]),
        train.labels[400:450],
        sigma=0.25,
        settings=TrainingSettings(40, 5e-3, 64),
        objective=objective,
        label_smoothing=0.0,
    )
    votes = rrise.collect_votes(base, Pixels(test.images)[:200], sigma=0.25, n=400, batch_size=4096)
    right = np.asarray(votes)[np.arange(200), test.labels[:200]]
    bound = np.nan_to_num(stats.beta.ppf(0.001, right, 401 - right))  # no vote: no bound
    return float(certified_radius(bound, 0.25).mean())


def test_consistency_lengthens_the_average_certified_radius() -> None:
    assert average_radius(Consistency(weight=6)) > 1.05 * average_radius(CrossEntropy())
