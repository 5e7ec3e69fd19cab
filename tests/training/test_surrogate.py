import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.training.base import train_base
from rrise.training.loop import TrainingSettings, train
from tests.closed_forms import HalfSpace

SIGMA = 0.25


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.top = nn.Linear(16, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.top(self.body(inputs))


class ScalesItsHead(TwoLayers):
    """More follows after the head, so features cannot stand in for the network."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(inputs)


def seeded(kind: type[nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind()


@pytest.fixture(scope="module")
def votes(half_space: HalfSpace, uniform: np.ndarray) -> rrise.Votes:
    return rrise.collect_votes(half_space, uniform, sigma=SIGMA, n=500, seed=1, input_range=None)


def test_learns_the_true_smoothed_probabilities(
    half_space: HalfSpace, uniform: np.ndarray, votes: rrise.Votes
) -> None:
    settings = {"input_range": None, "epochs": 60, "learning_rate": 0.2, "batch_size": 128}
    surrogate = rrise.train_surrogate(half_space, uniform, votes, **settings)
    fresh = np.random.default_rng(9).random((500, 4), dtype=np.float32)
    predicted = surrogate(torch.from_numpy(fresh)).softmax(dim=1).numpy()
    truth = half_space.probabilities(fresh, SIGMA)
    untrained = half_space(torch.from_numpy(fresh)).softmax(dim=1).detach().numpy()
    assert np.abs(predicted - truth).mean() < 0.02 < np.abs(untrained - truth).mean()


@pytest.mark.parametrize("strategy", ["head", "all"])
def test_starts_from_the_base_and_leaves_it_as_it_was(
    strategy: str, uniform: np.ndarray, half_space: HalfSpace
) -> None:
    base = seeded(TwoLayers)
    before = rrise.fingerprint(base)
    own_votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    surrogate = rrise.train_surrogate(base, uniform, own_votes, strategy=strategy, epochs=3)
    assert rrise.fingerprint(base) == before == surrogate.base_fingerprint
    assert all(parameter.requires_grad for parameter in base.parameters())
    body_moved = not torch.equal(surrogate.network.body[0].weight, base.body[0].weight)
    assert body_moved == (strategy == "all")
    assert not torch.equal(surrogate.network.top.weight, base.top.weight)
    assert len(surrogate.history.epochs) == 3


def test_keeps_the_epoch_with_the_smallest_error_at_the_top_class(uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    history = rrise.train_surrogate(base, uniform, votes, epochs=20, learning_rate=0.3).history
    errors = [epoch["top_probability_error"] for epoch in history.epochs]
    assert history.selected["top_probability_error"] == min(errors)
    assert history.selected_epoch == int(np.argmin(errors)) + 1


def test_head_training_is_the_same_with_and_without_cached_features(
    uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = seeded(TwoLayers)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    cached = rrise.train_surrogate(base, uniform, votes, epochs=5)
    assert cached.training_passes == len(uniform)
    monkeypatch.setattr("rrise.training.surrogate.features_before", lambda *_: None)
    plain = rrise.train_surrogate(base, uniform, votes, epochs=5)
    assert plain.training_passes > 3 * len(uniform)
    torch.testing.assert_close(cached.network.top.weight, plain.network.top.weight)


def test_a_head_that_more_follows_after_is_trained_inside_the_network(uniform: np.ndarray) -> None:
    base = seeded(ScalesItsHead)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    surrogate = rrise.train_surrogate(base, uniform, votes, epochs=2, head="top")
    assert torch.equal(surrogate.network.body[0].weight, base.body[0].weight)
    assert surrogate.training_passes > len(uniform)


def test_same_seed_same_surrogate(uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    prints = [
        rrise.fingerprint(rrise.train_surrogate(base, uniform, votes, epochs=3, strategy="all", seed=seed))
        for seed in (1, 1, 2)
    ]
    assert prints[0] == prints[1] != prints[2]


class LazyCache(TwoLayers):
    """Sets up a public table at its first call."""

    table = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, 4)
        return super().forward(inputs + self.table)


@pytest.mark.parametrize(
    "make", [LazyCache, lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))]
)
def test_modules_that_are_set_up_at_their_first_call_work(make: Callable, uniform: np.ndarray) -> None:
    base = make()
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    rrise.train_surrogate(base, uniform, votes, epochs=1)


def test_plain_arrays_of_votes_are_taken(uniform: np.ndarray, half_space: HalfSpace) -> None:
    votes = np.asarray(rrise.collect_votes(half_space, uniform, sigma=SIGMA, n=50))
    assert rrise.train_surrogate(half_space, uniform, votes.tolist(), epochs=1).smoothing is None


def test_votes_of_other_inputs_are_refused(
    half_space: HalfSpace, uniform: np.ndarray, votes: rrise.Votes
) -> None:
    swapped = uniform.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    with pytest.raises(ValueError, match="they differ in 2 of 600 places, first at input 3"):
        rrise.train_surrogate(half_space, swapped, votes, input_range=None)
    picked = np.array([5, 17, 3] * 10)
    rrise.train_surrogate(half_space, uniform[picked], votes[picked], input_range=None, epochs=1)


def test_the_head_of_a_timm_model_is_found_and_trained() -> None:
    from rrise.models.torchvision_import import import_torchvision

    import_torchvision()
    import timm

    base = timm.create_model("resnet10t", num_classes=3).eval()
    inputs = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    votes = rrise.collect_votes(base, inputs, sigma=0.25, n=10)
    surrogate = rrise.train_surrogate(base, inputs, votes, epochs=2)
    assert surrogate.training_passes == 40
    assert torch.equal(surrogate.network.conv1[0].weight, base.conv1[0].weight)
    assert not torch.equal(surrogate.network.fc.weight, base.fc.weight)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"strategy": "tail"}, "a strategy out of head, all; got 'tail'"),
        ({"votes": np.ones((600, 3), int)}, "votes over 2 classes, got 3"),
        ({"votes": np.ones((599, 2), int)}, "each of the 600 inputs, got 599 rows"),
        ({"votes": np.ones((600, 2))}, "votes as whole numbers"),
        ({"votes": np.ones(600, int)}, "votes as whole numbers of shape"),
        ({"votes": np.arange(1200).reshape(600, 2)}, "the same positive number of votes for every input"),
        ({"votes": np.zeros((600, 2), int)}, "the same positive number of votes"),
        ({"epochs": 0}, "at least 1 epoch"),
        ({"head": "nose"}, "no submodule 'nose'"),
        ({"base": nn.Linear(4, 2)}, "this training and the votes do not belong together: base classifier"),
        ({"base": nn.Linear}, r"to be a torch\.nn\.Module, got the class Linear"),
        (
            {"input_range": (0, 1)},
            r"input range \(0\.0, 1\.0\) here, None there",
        ),
        ({"validation_share": 1.0}, "share strictly between 0 and 1"),
    ],
)
def test_bad_calls_are_refused_in_a_sentence(
    changes: dict, sentence: str, half_space: HalfSpace, uniform: np.ndarray, votes: rrise.Votes
) -> None:
    arguments = {"base": half_space, "votes": votes, "input_range": None, **changes}
    with pytest.raises(ValueError, match=sentence):
        rrise.train_surrogate(arguments.pop("base"), uniform, arguments.pop("votes"), **arguments)


def test_a_last_batch_of_one_does_not_break_batch_norm(uniform: np.ndarray) -> None:
    base = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    inputs = uniform[:37]  # 33 to train on after setting 4 aside: a batch of 32 and one of 1
    votes = rrise.collect_votes(base, inputs, sigma=SIGMA, n=50)
    rrise.train_surrogate(base, inputs, votes, strategy="all", epochs=2, batch_size=32)


def test_a_loss_that_is_not_finite_stops_with_a_sentence() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="the loss became nan in epoch 1"):
        train(
            net,
            list(net.parameters()),
            size=4,
            loss_of=lambda batch: net(torch.full((len(batch), 2), torch.nan)).sum(),
            measure=lambda: {"error": 0.0},
            select_by="error",
            settings=TrainingSettings(2, 0.1),
        )


def test_base_classifier_learns_under_noise_and_keeps_its_best_epoch() -> None:
    rng = torch.Generator().manual_seed(0)
    inputs = torch.rand(400, 4, generator=rng)
    labels = (inputs.sum(dim=1) > 2).long()
    net = seeded(TwoLayers)
    untrained = copy.deepcopy(net)
    history = train_base(
        net,
        inputs[:300],
        labels[:300],
        inputs[300:],
        labels[300:],
        sigma=0.1,
        settings=TrainingSettings(30, 0.02, 64),
    )
    errors = [epoch["noisy_validation_error"] for epoch in history.epochs]
    assert history.selected["noisy_validation_error"] == min(errors) < 0.2

    def accuracy(module: nn.Module) -> float:
        return float((module(inputs).argmax(dim=1) == labels).double().mean())

    assert accuracy(net) > max(0.9, accuracy(untrained))
