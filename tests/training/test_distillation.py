import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.data.sources import Pixels
from rrise.training import distillation
from rrise.training.checkpoint import Checkpoint
from rrise.votes.fresh import FreshVotes
from rrise.votes.noise import Noise
from rrise.votes.philox import standard_normal
from tests.closed_forms import HalfSpace
from tests.training.networks import TwoLayers, WithDropoutAndNorm, seeded

SIGMA = 0.25


def distilled(base: nn.Module, inputs: Any, **changes: Any) -> rrise.Surrogate:
    settings = {"sigma": SIGMA, "epochs": 3, "batch_size": 64, **changes}
    return rrise.train_surrogate(base, inputs, strategy="distill", **settings)


def weights_of(surrogate: rrise.Surrogate) -> dict[str, torch.Tensor]:
    return surrogate.network.state_dict()


def same(one: rrise.Surrogate, other: rrise.Surrogate) -> bool:
    pairs = zip(weights_of(one).values(), weights_of(other).values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.fixture(autouse=True)
def _few_validation_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distillation, "VALIDATION_VOTES", 32)


class TestLearns:
    def test_the_true_smoothed_probabilities_from_four_votes_a_step(
        self, half_space: HalfSpace, uniform: np.ndarray
    ) -> None:
        settings = {"input_range": None, "epochs": 60, "learning_rate": 0.2, "batch_size": 128}
        surrogate = distilled(half_space, uniform, **settings)
        fresh = np.random.default_rng(9).random((500, 4), dtype=np.float32)
        predicted = surrogate(torch.from_numpy(fresh)).softmax(dim=1).numpy()
        truth = half_space.probabilities(fresh, SIGMA)
        untrained = half_space(torch.from_numpy(fresh)).softmax(dim=1).detach().numpy()
        assert np.abs(predicted - truth).mean() < 0.02 < np.abs(untrained - truth).mean()

    def test_better_than_the_head_alone_on_new_inputs(
        self, half_space: HalfSpace, uniform: np.ndarray
    ) -> None:
        student = seeded(lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
        how = {"network": student, "input_range": None, "learning_rate": 0.05, "batch_size": 64, "epochs": 20}
        votes = rrise.collect_votes(half_space, uniform, sigma=0.1, n=1_000, input_range=None)
        head = rrise.train_surrogate(half_space, uniform, votes, **how)
        free = distilled(half_space, uniform, **{**how, "sigma": 0.1})
        new = np.random.default_rng(9).random((1_000, 4), dtype=np.float32)
        truth = half_space.probabilities(new, 0.1)
        errors = [
            float(np.abs(one(torch.from_numpy(new)).softmax(dim=1).numpy() - truth).mean())
            for one in (head, free)
        ]
        assert errors[1] < 0.02
        assert errors[0] > 0.1

    def test_without_labels(self, uniform: np.ndarray) -> None:
        base = seeded(TwoLayers)
        labelled = distilled(base, uniform, labels=np.zeros(600, int))
        assert same(labelled, distilled(base, uniform))
        assert same(labelled, distilled(base, uniform, labels=np.ones(600, int)))


class TestRepeats:
    @pytest.mark.parametrize("make", [TwoLayers, WithDropoutAndNorm])
    def test_bit_by_bit(self, make: Callable[[], nn.Module], uniform: np.ndarray) -> None:
        base = seeded(make)
        one, two, other = (distilled(base, uniform, seed=seed, averaging=0.9) for seed in (1, 1, 2))
        assert same(one, two)
        assert one.history == two.history
        assert not same(one, other)

    @pytest.mark.parametrize("stored", [True, False])
    @pytest.mark.parametrize("averaging", [0.0, 0.9])
    def test_after_an_interruption(
        self, averaging: float, stored: bool, uniform: np.ndarray, tmp_path: Path
    ) -> None:
        base = seeded(WithDropoutAndNorm)
        settings = {"epochs": 6, "averaging": averaging, "jitter": 0.1, "stored_statistics": stored}
        whole = distilled(base, uniform, **settings)

        def stop(epoch: int, _: dict[str, float]) -> None:
            if epoch == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            distilled(
                base, uniform, checkpoint=Checkpoint(tmp_path, {}, seconds=0), on_epoch=stop, **settings
            )
        epochs: list[int] = []
        resumed = distilled(
            base,
            uniform,
            checkpoint=Checkpoint(tmp_path, {}),
            on_epoch=lambda epoch, _: epochs.append(epoch),
            **settings,
        )
        assert epochs == [4, 5, 6]
        assert resumed.history == whole.history
        assert same(resumed, whole)

    def test_compiled_and_not(self, uniform: np.ndarray) -> None:
        base = seeded(TwoLayers)
        plain, compiled = (distilled(base, uniform, epochs=2, compiled=choice) for choice in (False, True))
        for mine, theirs in zip(weights_of(plain).values(), weights_of(compiled).values(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


class WithStatistics(TwoLayers):
    """Holds the mean of its inputs, as a normalised network does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((4,), 0.5))


class TestStoredStatistics:
    """A surrogate that starts from the base normalises as the base does when it votes."""

    @staticmethod
    def statistics(network: nn.Module) -> list[torch.Tensor]:
        return [value for name, value in network.named_buffers() if "running" in name]

    @pytest.fixture
    def base(self, uniform: np.ndarray) -> nn.Module:
        base = seeded(WithDropoutAndNorm)
        with torch.no_grad():
            base.train()(3 * torch.from_numpy(uniform) + 1)  # statistics of other inputs
        return base.eval()

    def kept(self, base: nn.Module, uniform: np.ndarray, **changes: Any) -> bool:
        surrogate = distilled(base, uniform, **changes)
        start = changes.get("network", base)
        pairs = zip(self.statistics(surrogate.network), self.statistics(start), strict=True)
        return all(torch.equal(*pair) for pair in pairs)

    def test_a_surrogate_that_hardly_moves_stays_the_base(self, base: nn.Module, uniform: np.ndarray) -> None:
        inputs, still = torch.from_numpy(uniform), {"learning_rate": 1e-12, "weight_decay": 0.0}
        logits = base(inputs)
        assert torch.allclose(distilled(base, uniform, **still)(inputs), logits, atol=1e-5)
        moved = distilled(base, uniform, stored_statistics=False, **still)(inputs)
        assert (moved - logits).abs().max() > 0.05

    def test_they_are_kept_where_it_starts_with_those_of_the_base(
        self, base: nn.Module, uniform: np.ndarray
    ) -> None:
        assert self.kept(base, uniform)
        assert self.kept(base, uniform, network=copy.deepcopy(base), averaging=0.9)
        assert not self.kept(base, uniform, stored_statistics=False)

    def test_another_network_has_to_find_its_own(self, base: nn.Module, uniform: np.ndarray) -> None:
        other = seeded(WithDropoutAndNorm, 5)
        assert not self.kept(base, uniform, network=other)
        assert self.kept(base, uniform, network=other, stored_statistics=True)

    @pytest.mark.parametrize("base", [TwoLayers, WithStatistics], ids=["none", "of its inputs"])
    def test_a_base_without_them_does_not_still_those_of_another_network(
        self, base: type[nn.Module], uniform: np.ndarray
    ) -> None:
        network = nn.Sequential(seeded(base), nn.BatchNorm1d(2), nn.Linear(2, 2))
        surrogate = distilled(seeded(base), uniform, network=network)
        norm = surrogate.network[1]
        assert norm.running_mean.abs().max() > 0

    def test_one_layer_more_than_the_base_has_makes_it_another_network(
        self, base: nn.Module, uniform: np.ndarray
    ) -> None:
        more = nn.Sequential(*copy.deepcopy(base), nn.BatchNorm1d(2), nn.Linear(2, 2))
        assert not self.kept(base, uniform, network=more)

    def test_the_base_may_be_compiled_and_the_start_a_surrogate(
        self, base: nn.Module, uniform: np.ndarray
    ) -> None:
        first = distilled(base, uniform, epochs=1)
        assert self.kept(base, uniform, network=first)
        assert len(distillation._still(torch.compile(base), copy.deepcopy(base), None)) == 1

    def test_dropout_still_drops(self, base: nn.Module, uniform: np.ndarray) -> None:
        seen: list[bool] = []
        for part in base.modules():
            if isinstance(part, nn.Dropout):
                part.register_forward_hook(lambda part, *_: seen.append(part.training))
        distilled(base, uniform)
        assert True in seen


def test_every_step_has_noise_of_its_own(uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[tuple[int, ...]] = []
    shares = FreshVotes.shares

    def watched(self: FreshVotes, inputs: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        keys.append(tuple(key.tolist()))
        return shares(self, inputs, key)

    monkeypatch.setattr(FreshVotes, "shares", watched)
    distilled(seeded(TwoLayers), uniform)
    assert len(keys) == len(set(keys)) == 3 * 9


class Counting(nn.Module):
    """A base classifier of one's own code that counts the inputs it sees."""

    seen = 0

    def __init__(self) -> None:
        super().__init__()
        self.inside = TwoLayers()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        Counting.seen += len(inputs)
        return self.inside(inputs)


def test_passes_are_counted_as_they_are_made(uniform: np.ndarray) -> None:
    base, student = seeded(Counting), seeded(TwoLayers)
    Counting.seen = 0
    before = distilled(base, uniform, network=student, epochs=1)
    once = Counting.seen
    Counting.seen = 0
    surrogate = distilled(base, uniform, network=student, epochs=4, fresh_votes=7)
    checks = once - (4 * 540 + 32 * 60)
    assert 0 < checks < 200  # a few probes of the base classifier, which are not votes
    assert Counting.seen - checks == surrogate.vote_passes == 7 * 540 * 4 + 32 * 60
    assert surrogate.training_passes == surrogate.vote_passes + (3 * 540 + 60) * 4
    assert before.training_passes == (4 + 3) * 540 + 32 * 60 + 60


def test_few_of_many_inputs_measure_the_epochs_and_the_last_is_kept(
    uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distillation, "VALIDATION_INPUTS", 20)
    surrogate = distilled(seeded(TwoLayers), uniform, learning_rate=3.0, gradient_clip=100.0)
    assert len(surrogate.held_out) == len(set(surrogate.held_out)) == 20
    errors = [epoch["cross_entropy"] for epoch in surrogate.history.epochs]
    assert min(errors) < errors[-1]
    assert surrogate.history.selected_epoch == 3


def test_what_the_averages_measure_is_what_is_kept(uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    surrogate = distilled(base, uniform, averaging=0.95, learning_rate=0.05, epochs=5)
    held_out = torch.from_numpy(uniform[surrogate.held_out])
    votes = rrise.collect_votes(
        base,
        held_out,
        sigma=SIGMA,
        n=32,
        seed=rrise.seeds.derive_seed(0, "surrogate-validation"),
        split="surrogate-validation",
    )
    logits = surrogate(held_out).double()
    found = nn.functional.cross_entropy(logits, torch.from_numpy(np.asarray(votes) / 32)).item()
    assert found == pytest.approx(surrogate.history.selected["cross_entropy"], rel=1e-6)
    assert not same(surrogate, distilled(base, uniform, learning_rate=0.05, epochs=5))


class TestViews:
    def test_an_own_augmentation_is_used_for_any_inputs(self, uniform: np.ndarray) -> None:
        base, seen = seeded(TwoLayers), []

        def swapped(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
            seen.append(len(inputs))
            shifts = torch.randint(4, (1,), generator=generator)
            return inputs.roll(int(shifts), dims=1)

        one, two = (distilled(base, uniform, augment=swapped) for _ in range(2))
        assert sum(seen) == 2 * 3 * 540
        assert same(one, two)
        assert not same(one, distilled(base, uniform))

    @pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 4, 4), (2, 2, 2, 2)])
    def test_inputs_of_any_shape(self, shape: tuple[int, ...]) -> None:
        inputs = np.random.default_rng(0).random((80, *shape), dtype=np.float32)
        base = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 3))
        surrogate = distilled(base, inputs, jitter=0.1)
        assert surrogate(torch.from_numpy(inputs[:2])).shape == (2, 3)

    def test_8_bit_images_are_augmented_as_the_floats_they_stand_for(self) -> None:
        images = np.random.default_rng(0).integers(0, 256, (80, 1, 6, 6), dtype=np.uint8)
        floats = images.astype(np.float32) / np.float32(255)
        base = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
        settings = {"augmentations": ("crop-1", "flip", "randaugment")}
        one, two = (distilled(base, inputs, **settings) for inputs in (floats, Pixels(images)))
        assert same(one, two)
        assert not same(one, distilled(base, floats))

    def test_images_are_augmented_in_float32_whatever_the_network_computes_in(self) -> None:
        images = np.random.default_rng(0).random((80, 1, 6, 6), dtype=np.float32)
        base = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
        surrogate = distilled(
            base, images, network=copy.deepcopy(base).bfloat16(), augmentations=("crop-1", "randaugment")
        )
        assert surrogate.network[1].weight.dtype == torch.bfloat16

    def test_a_base_with_batch_norm_votes_in_evaluation_mode(self, uniform: np.ndarray) -> None:
        base = seeded(WithDropoutAndNorm).train()
        before = rrise.fingerprint(base)
        distilled(base, uniform)
        assert rrise.fingerprint(base) == before
        assert base.training
        assert all(parameter.requires_grad for parameter in base.parameters())


class Shifted(Noise):
    """Gaussian noise around 1 instead of 0: a noise that nothing else has."""

    name = "shifted"
    norm = "L2"
    sigma = 0.1

    def sample(self, key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
        return 1 + self.sigma * standard_normal(key, draw, owner, size)

    def radius(self, bound: Any) -> Any:
        raise NotImplementedError

    radius_in_sigma = bound = radius

    def to_json(self) -> dict[str, Any]:
        return {"noise": self.name}


def test_any_noise_can_be_distilled(half_space: HalfSpace, uniform: np.ndarray) -> None:
    how = {"input_range": None, "epochs": 80, "learning_rate": 0.2, "batch_size": 128}
    surrogate = distilled(half_space, uniform, sigma=Shifted(), **how)
    assert isinstance(surrogate.smoothing.noise, Shifted)
    truth = half_space.probabilities(uniform + 1, 0.1)
    predicted = surrogate(torch.from_numpy(uniform)).softmax(dim=1).numpy()
    assert np.abs(predicted - truth).mean() < 0.04
    assert np.abs(half_space.probabilities(uniform, 0.1) - truth).mean() > 0.2


@pytest.mark.parametrize("width", [2, 64])
def test_a_network_of_another_size_takes_the_bases_place(width: int, uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    network = seeded(lambda: nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2)))
    surrogate = distilled(base, uniform, network=network, epochs=40, learning_rate=0.02)
    assert surrogate.network[0].out_features == width
    assert surrogate.base_fingerprint == rrise.fingerprint(base)
    assert surrogate.history.selected["top_probability_error"] < 0.1


class TestTeacher:
    """A trained surrogate in place of fresh votes."""

    def test_its_answers_are_the_targets(self, half_space: HalfSpace, uniform: np.ndarray) -> None:
        teacher = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
        how = {"input_range": None, "epochs": 60, "learning_rate": 0.05, "batch_size": 128, "mixed": 0.0}
        student = seeded(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)))
        found = distilled(half_space, uniform, network=student, teacher=teacher, **how)
        seen = torch.from_numpy(uniform)
        taught, said = (one(seen).softmax(dim=1).detach().numpy() for one in (teacher, found))
        truth = half_space.probabilities(uniform, SIGMA)
        assert np.abs(said - taught).mean() < 0.01
        assert np.abs(said - truth).mean() > 0.1
        assert found.history.selected["top_probability_error"] > 0.1  # measured with votes of the base

    def test_a_smaller_surrogate_follows_a_large_one(
        self, half_space: HalfSpace, uniform: np.ndarray
    ) -> None:
        how = {"input_range": None, "learning_rate": 0.2, "batch_size": 128, "epochs": 60}
        large = distilled(half_space, uniform, **how)
        small = distilled(half_space, uniform, network=seeded(lambda: nn.Linear(4, 2)), teacher=large, **how)
        assert large.smoothing == small.smoothing
        assert small.base_fingerprint == rrise.fingerprint(half_space)
        said = small(torch.from_numpy(uniform)).softmax(dim=1).numpy()
        assert np.abs(said - half_space.probabilities(uniform, SIGMA)).mean() < 0.02

    def test_it_costs_a_pass_and_no_votes(self, uniform: np.ndarray) -> None:
        teacher, network = seeded(Counting), seeded(TwoLayers)
        Counting.seen = 0
        found = distilled(seeded(TwoLayers), uniform, network=network, teacher=teacher, epochs=4)
        assert Counting.seen == 540 * 4 + 1  # one to see how many classes it has
        assert found.vote_passes == 32 * 60
        assert found.training_passes == found.vote_passes + (4 * 540 + 60) * 4

    def test_it_is_left_as_it_was(self, uniform: np.ndarray) -> None:
        teacher = seeded(WithDropoutAndNorm).train()
        before = copy.deepcopy(teacher.state_dict())
        one, other = (distilled(seeded(TwoLayers), uniform, teacher=teacher) for _ in range(2))
        assert teacher.training
        assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())
        assert same(one, other)  # and it answers in evaluation mode, without dropout

    def test_a_surrogate_of_another_smoothed_classifier_is_refused(self, uniform: np.ndarray) -> None:
        base = seeded(TwoLayers)
        teacher = distilled(base, uniform, sigma=0.5, epochs=1)
        with pytest.raises(ValueError, match="this training and the teacher do not belong together"):
            distilled(base, uniform, teacher=teacher)


def test_votes_that_are_given_say_what_to_distill(half_space: HalfSpace, uniform: np.ndarray) -> None:
    votes = rrise.collect_votes(half_space, uniform, sigma=0.5, n=10, precision="bfloat16")
    surrogate = rrise.train_surrogate(half_space, uniform, votes, strategy="distill", epochs=1)
    assert surrogate.smoothing == votes.smoothing
    for other in ({"sigma": 0.25}, {"precision": "float32"}):
        with pytest.raises(ValueError, match="this training and the votes do not belong together"):
            rrise.train_surrogate(half_space, uniform, votes, strategy="distill", **other)


def test_the_precision_of_the_votes_is_the_smoothings(uniform: np.ndarray) -> None:
    base = seeded(TwoLayers)
    surrogate = distilled(base, uniform, precision="bfloat16", epochs=1)
    assert surrogate.smoothing.precision == "bfloat16"
    assert surrogate.network.top.weight.dtype == torch.float32
    calibration = uniform[:200] * 0.9
    votes = rrise.collect_votes(base, calibration, sigma=SIGMA, n=100, precision="bfloat16")
    rrise.calibrate(surrogate, calibration, votes, failure=0.1, base=base)


class NotANumber(TwoLayers):
    """Returns NaN for inputs beyond the corner, where only mixed or noisy inputs are."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs[:, :1] > 0.9999, torch.nan, super().forward(inputs))


def test_a_base_that_votes_nan_stops_the_training(
    uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distillation, "_validation_votes", lambda *_: torch.full((60, 2), 0.5))
    with pytest.raises(rrise.RriseError, match="the loss became nan in epoch 1"):
        distilled(seeded(NotANumber), uniform * 0.9)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sigma": None}, r"needs the noise: pass sigma=0\.25, or votes from collect_votes"),
        ({"sigma": None, "votes": np.ones((600, 2), int)}, "needs the noise"),
        ({"sigma": -1.0}, "sigma"),
        ({"precision": "int8"}, "a precision out of"),
        ({"fresh_votes": 0}, "fresh_votes to be at least 1, got 0"),
        ({"mixed": 1.5}, "mixed to be at least 0 and at most 1, got 1.5"),
        ({"jitter": -0.1}, "jitter to be at least 0"),
        ({"averaging": 1.0}, "averaging to be at least 0 and below 1, got 1.0"),
        ({"objective": "jensen-shannon"}, "distill needs the objective cross-entropy"),
        ({"augmentations": ("crop-1",)}, r"images \[channels, height, width\] in \[0, 1\] for Augmentation"),
        ({"augmentations": ("crp-1",)}, "augmentations among"),
        ({"augmentations": ("flip",), "augment": lambda inputs, _: inputs}, "got both"),
        ({"augment": lambda inputs, _: inputs[:3]}, r"\(64, 4\), like its inputs; got torch\.float32 of"),
        ({"augment": lambda *_: None}, "like its inputs; got NoneType"),
        ({"network": nn.Linear(4, 3)}, "a network of 2 classes"),
        ({"teacher": nn.Linear(4, 3)}, "expected a teacher of 2 classes"),
        ({"teacher": "large"}, "expected the teacher to be a torch.nn.Module"),
        ({"strategy": "all"}, "expected the votes of the inputs"),
        ({"strategy": "all", "votes": np.ones((600, 2), int)}, "only strategy='distill' takes sigma"),
    ],
)
def test_bad_calls_are_refused_in_a_sentence(changes: dict, sentence: str, uniform: np.ndarray) -> None:
    arguments = {"sigma": SIGMA, "strategy": "distill", "epochs": 1, "batch_size": 64, **changes}
    with pytest.raises(ValueError, match=sentence):
        rrise.train_surrogate(seeded(TwoLayers), uniform, **arguments)


def test_fit_distills_without_votes_of_training_inputs(
    uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[str] = []

    def counted(*arguments: Any, **settings: Any) -> rrise.Votes:
        collected.append(settings["split"])
        return rrise.collect_votes(*arguments, **settings)

    monkeypatch.setattr("rrise.certifiers.fit.collect_votes", counted)
    training = rrise.SurrogateTraining(strategy="distill", epochs=2)
    certifier = rrise.fit(seeded(TwoLayers), uniform, sigma=SIGMA, failure=0.1, training=training)
    assert collected == ["calibration"]
    assert len(certifier.certify(uniform[:5])) == 5
    with pytest.raises(ValueError, match="expected strategy or training, got both"):
        rrise.fit(seeded(TwoLayers), uniform, sigma=SIGMA, failure=0.1, strategy="distill", training=training)


def test_a_distilled_surrogate_can_be_saved_and_exported(uniform: np.ndarray, tmp_path: Path) -> None:
    base = seeded(TwoLayers)
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
    surrogate = distilled(base, uniform[:400], network=network, averaging=0.9)
    votes = rrise.collect_votes(base, uniform[400:], sigma=SIGMA, n=200)
    certifier = rrise.calibrate(surrogate, uniform[400:], votes, failure=0.1, base=base)
    certifier.save(tmp_path / "certifier")
    loaded = rrise.load_certifier(tmp_path / "certifier")
    here, there = (one.certify(uniform[:20]) for one in (certifier, loaded))
    np.testing.assert_array_equal(here.radius, there.radius)
    rrise.export_certifier(loaded, uniform[400:], votes, tmp_path / "exported")
    exported = rrise.load_deployed(tmp_path / "exported").certify(uniform[:20])
    np.testing.assert_array_equal(exported.label, here.label)
    np.testing.assert_allclose(exported.radius, here.radius, atol=0.01)
