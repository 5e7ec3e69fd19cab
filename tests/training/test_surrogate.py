from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.data.sources import Pixels
from rrise.models.head import features_before
from rrise.training.features import Features
from tests.closed_forms import HalfSpace
from tests.training.networks import ScalesItsHead, TwoLayers, seeded

SIGMA = 0.25


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


@pytest.mark.parametrize("strategy", ["head", "all", "all-random"])
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
    assert body_moved == (strategy != "head")
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
    monkeypatch.setattr("rrise.training.features.features_before", lambda *_: None)
    plain = rrise.train_surrogate(base, uniform, votes, epochs=5)
    assert plain.training_passes > 3 * len(uniform)
    torch.testing.assert_close(cached.network.top.weight, plain.network.top.weight)


def test_surrogates_of_one_network_and_inputs_share_their_features(
    uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, other = seeded(TwoLayers), seeded(TwoLayers)
    with torch.no_grad():
        other.body[0].weight.add_(0.1)
    computed = []

    def counted(network: nn.Module, *rest: Any) -> Any:
        computed.append(network)
        return features_before(network, *rest)

    monkeypatch.setattr("rrise.training.features.features_before", counted)
    shared = Features()
    for number, (network, inputs) in enumerate(((base, uniform), (base, uniform[:500]), (other, uniform))):
        for n in (50, 20):
            votes = rrise.collect_votes(network, inputs, sigma=SIGMA, n=n)
            alone = rrise.train_surrogate(network, inputs, votes, epochs=3)
            before = len(computed)
            together = rrise.train_surrogate(network, inputs, votes, epochs=3, features=shared)
            assert len(computed) - before == (n == 50), number
            assert torch.equal(alone.network.top.weight, together.network.top.weight)
            assert alone.training_passes == together.training_passes


def test_a_head_that_more_follows_after_is_trained_inside_the_network(uniform: np.ndarray) -> None:
    base = seeded(ScalesItsHead)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    surrogate = rrise.train_surrogate(base, uniform, votes, epochs=2, head="top")
    assert torch.equal(surrogate.network.body[0].weight, base.body[0].weight)
    assert surrogate.training_passes > len(uniform)


def test_what_follows_a_head_that_starts_at_zero_is_noticed(uniform: np.ndarray) -> None:
    base = seeded(ScalesItsHead)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    start = seeded(ScalesItsHead)
    with torch.no_grad():
        start.top.weight.zero_()
        start.top.bias.zero_()
    surrogate = rrise.train_surrogate(base, uniform, votes, network=start, head="top", epochs=1)
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
    from rrise.torchvision_import import import_torchvision

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
        ({"strategy": "tail"}, "a strategy out of head, all, all-random, distill; got 'tail'"),
        ({"votes": np.ones((600, 3), int)}, "votes over 2 classes, got 3"),
        ({"votes": np.ones((599, 2), int)}, "each of the 600 inputs, got 599 rows"),
        ({"votes": np.ones((600, 2))}, "votes as whole numbers"),
        ({"votes": np.ones(600, int)}, "votes as whole numbers of shape"),
        ({"votes": np.arange(1200).reshape(600, 2)}, "the same positive number of votes for every input"),
        ({"votes": np.zeros((600, 2), int)}, "the same positive number of votes"),
        ({"epochs": 0}, "epochs to be at least 1, got 0"),
        ({"head": "nose"}, "no submodule 'nose'"),
        ({"base": nn.Linear(4, 2)}, "this training and the votes do not belong together: base classifier"),
        ({"base": nn.Linear}, r"to be a torch\.nn\.Module, got the class Linear"),
        (
            {"input_range": (0, 1)},
            r"input range \(0\.0, 1\.0\) here, None there",
        ),
        ({"objective": "jensen"}, "cross-entropy, jensen-shannon; got 'jensen': did you mean jensen-shannon"),
        ({"network": nn.Linear(4, 3)}, "a network of 2 classes, like the base classifier; got 3"),
        ({"network": "net"}, r"expected the network to be a torch\.nn\.Module, got the text"),
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


def test_the_three_strategies_start_where_they_say(uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    still = {"epochs": 1, "learning_rate": 1e-12}

    def distance(strategy: str, seed: int = 0) -> float:
        surrogate = rrise.train_surrogate(base, uniform, votes, strategy=strategy, seed=seed, **still)
        return float((surrogate.network.body[0].weight - base.body[0].weight.detach()).abs().max())

    assert distance("head") == 0
    assert distance("all") < 1e-6
    assert distance("all-random") > 0.1
    assert distance("all-random", seed=1) != distance("all-random")


def test_weights_that_cannot_be_drawn_anew_are_an_error_with_advice(uniform: np.ndarray) -> None:
    class OwnWeights(TwoLayers):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

    base = OwnWeights()
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=10)
    with pytest.raises(ValueError, match=r"OwnWeights .* has weights but no reset_parameters.*network="):
        rrise.train_surrogate(base, uniform, votes, strategy="all-random")


def test_a_smaller_architecture_can_take_the_bases_place(uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    small = nn.Linear(4, 2)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=500)
    surrogate = rrise.train_surrogate(
        base, uniform, votes, network=small, strategy="all", epochs=40, learning_rate=0.1, batch_size=64
    )
    assert isinstance(surrogate.network, nn.Linear)
    assert surrogate.network is not small
    assert surrogate.base_fingerprint == rrise.fingerprint(base)
    assert surrogate.history.selected["top_probability_error"] < 0.05
    held_out = rrise.collect_votes(base, uniform[:100] * 0.9, sigma=SIGMA, n=500)
    rrise.calibrate(surrogate, uniform[:100] * 0.9, held_out, sigma=SIGMA, failure=0.1, base=base)


@pytest.mark.parametrize("strategy", ["all", "all-random"])
def test_the_jensen_shannon_surrogate_selects_by_certified_accuracy(
    strategy: str, uniform: np.ndarray
) -> None:
    base = seeded(TwoLayers)
    votes = rrise.collect_votes(base, uniform, sigma=SIGMA, n=50)
    arguments = {"objective": "jensen-shannon", "strategy": strategy, "epochs": 12, "learning_rate": 0.02}
    history = rrise.train_surrogate(base, uniform, votes, **arguments).history
    errors = [epoch["certified_error"] for epoch in history.epochs]
    assert history.selected_epoch == int(np.argmin(errors)) + 1
    wrong = 1 - np.asarray(votes).argmax(axis=1)
    opposite = rrise.train_surrogate(base, uniform, votes, labels=wrong, **arguments).history
    assert opposite.epochs[-1]["certified_error"] > 1 - history.epochs[-1]["certified_error"] - 0.01
    assert opposite.epochs[0]["jensen_shannon"] == history.epochs[0]["jensen_shannon"]


def test_the_inputs_that_select_the_epoch_are_recorded_and_spread_over_the_targets(
    uniform: np.ndarray, half_space: HalfSpace, votes: rrise.Votes
) -> None:
    surrogate = rrise.train_surrogate(half_space, uniform, votes, input_range=None, epochs=1)
    assert len(surrogate.held_out) == 60
    top = np.asarray(votes).max(axis=1)
    deciles = np.searchsorted(np.sort(top), top[surrogate.held_out]) // 60
    assert np.bincount(deciles, minlength=10).min() >= 4


def test_8_bit_images_train_as_the_floats_they_stand_for() -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 4, 4), dtype=np.uint8)
    floats = images.astype(np.float32) / np.float32(255)
    base = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    votes = rrise.collect_votes(base, floats, sigma=SIGMA, n=50)
    prints = [
        rrise.fingerprint(rrise.train_surrogate(base, inputs, votes, epochs=3).network)
        for inputs in (floats, Pixels(images))
    ]
    assert prints[0] == prints[1]
