from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from tests.closed_forms import HalfSpace

SIGMA = 0.25


def test_certificates_are_arrays_with_their_guarantee(
    certifier: rrise.Certifier, uniform: np.ndarray
) -> None:
    certificates = certifier(uniform[500:])
    assert len(certificates) == 100
    assert certificates.label.shape == certificates.radius.shape == certificates.issued.shape == (100,)
    assert certificates.issued.any()
    assert not certificates.issued.all()
    np.testing.assert_array_equal(certificates.issued, certificates.lower_bound > 0.5)
    np.testing.assert_array_equal(certificates.issued, certificates.radius > 0)
    assert (certificates.passes == 1).all()
    assert certificates.guarantee.level == 0.9
    for words in ("marginal", "exchangeable", "attacked", "issued certificates", "true class"):
        assert words in str(certificates.guarantee)


def test_radii_stay_below_the_exact_distance_to_the_boundary(half_space: HalfSpace) -> None:
    """The whole chain on a case with a closed form: votes, training, calibration, certificates."""
    rng = np.random.default_rng(5)
    inputs = rng.random((4000, 4), dtype=np.float32)
    plan = {"sigma": SIGMA, "seed": 2, "input_range": None}
    votes = rrise.collect_votes(half_space, inputs[:600], n=500, split="train", **plan)
    held_out = rrise.collect_votes(half_space, inputs[600:1000], n=2000, split="calibration", **plan)
    surrogate = rrise.train_surrogate(
        half_space, inputs[:600], votes, input_range=None, epochs=40, learning_rate=0.1, batch_size=128
    )
    distance = half_space.distances(inputs[1000:])
    for score in ("additive", "probit"):
        certifier = rrise.calibrate(
            surrogate, inputs[600:1000], held_out, sigma=SIGMA, failure=0.05, score=score, input_range=None
        )
        certificates = certifier(inputs[1000:])
        right = certificates.label == (distance > 0)
        wrong = certificates.issued & (~right | (certificates.radius > np.abs(distance)))
        assert wrong.mean() <= 0.05 + 4 * (0.05 * 0.95 / 400) ** 0.5
        assert certificates.issued.mean() > 0.4


def test_a_certified_radius_holds_against_every_direction_that_matters(
    certifier: rrise.Certifier, half_space: HalfSpace, uniform: np.ndarray
) -> None:
    """Moving an input by its radius straight at the hyperplane does not change the smoothed answer."""
    inputs = uniform[500:]
    certificates = certifier(inputs)
    issued = certificates.issued
    assert issued.sum() > 20
    weight = (half_space.linear.weight[1] - half_space.linear.weight[0]).detach().numpy()
    towards = np.where(certificates.label == 1, -1, 1)[:, None] * weight / np.linalg.norm(weight)
    moved = inputs + certificates.radius[:, None] * towards
    kept = (half_space.distances(moved) > 0) == (certificates.label == 1)
    assert kept[issued].mean() >= 0.9


def test_says_in_a_line_what_it_is(certifier: rrise.Certifier) -> None:
    assert repr(certifier).startswith("SurrogateCertifier(2 classes, inputs (4,), sigma=0.25, failure=0.1")
    assert len(repr(certifier)) < 150


def test_no_inputs_give_no_certificates(certifier: rrise.Certifier) -> None:
    assert len(certifier(np.zeros((0, 4)))) == 0


def test_batches_change_nothing_that_matters(certifier: rrise.Certifier, uniform: np.ndarray) -> None:
    one, many = certifier(uniform, batch_size=1), certifier(uniform)
    np.testing.assert_array_equal(one.label, many.label)
    np.testing.assert_allclose(one.radius, many.radius, atol=1e-6)


def test_training_on_after_calibration_does_not_reach_the_certifier(
    half_space: HalfSpace, uniform: np.ndarray
) -> None:
    votes = rrise.collect_votes(half_space, uniform[:200], sigma=SIGMA, n=100)
    surrogate = nn.Linear(4, 2)
    certifier = rrise.calibrate(surrogate, uniform[:200], votes, sigma=SIGMA, failure=0.2, base=half_space)
    before = certifier(uniform).lower_bound
    with torch.no_grad():
        surrogate.weight.mul_(5)
    np.testing.assert_array_equal(certifier(uniform).lower_bound, before)


def test_records_round_down(certifier: rrise.Certifier, uniform: np.ndarray) -> None:
    certificates = certifier(uniform[500:])
    for record, radius, bound in zip(
        certificates.records(("no", "yes")), certificates.radius, certificates.lower_bound, strict=True
    ):
        assert radius - 2e-6 < record["radius"] <= radius
        assert bound - 2e-6 < record["lower_bound"] <= bound
        assert record["class_name"] == ("no", "yes")[record["label"]]


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (np.zeros((2, 5)), r"shape \(inputs, 4\), got \(2, 5\)"),
        (np.zeros(4), "leading axis"),
        (np.zeros((2, 4), np.uint8), "got uint8"),
        (np.full((2, 4), 2.0), r"in \[0, 1\], got values from 2 to 2"),
        (np.full((2, 4), np.nan), "NaN or infinity in input 0"),
    ],
)
def test_inputs_it_was_not_calibrated_for_are_refused(
    certifier: rrise.Certifier, inputs: np.ndarray, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        certifier(inputs)


class ChangesItsInput(nn.Module):
    """Normalises in place, as some classifiers do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs.sub_(0.5).div_(0.5))


def test_a_module_that_changes_its_input_in_place_does_not_reach_the_callers_data(
    uniform: np.ndarray,
) -> None:
    base, inputs = ChangesItsInput(), uniform[:200].copy()
    votes = rrise.collect_votes(base, inputs, sigma=SIGMA, n=100)
    surrogate = rrise.train_surrogate(base, inputs[:100], votes[:100], epochs=2)
    certifier = rrise.calibrate(surrogate, inputs[100:], votes[100:], sigma=SIGMA, failure=0.1)
    first = certifier(inputs).lower_bound
    np.testing.assert_array_equal(certifier(inputs).lower_bound, first)
    np.testing.assert_array_equal(inputs, uniform[:200])


def test_a_surrogate_in_training_mode_is_calibrated_and_used_in_evaluation_mode(uniform: np.ndarray) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
    votes = rrise.collect_votes(net, uniform[:200], sigma=SIGMA, n=100)
    certifier = rrise.calibrate(net, uniform[:200], votes, sigma=SIGMA, failure=0.1, base=net)
    assert certifier.program is not None
    np.testing.assert_array_equal(certifier(uniform).lower_bound, certifier(uniform).lower_bound)
    assert net.training


def test_a_surrogate_that_depends_on_its_batch_is_refused(uniform: np.ndarray, half_space: HalfSpace) -> None:
    votes = rrise.collect_votes(half_space, uniform[:200], sigma=SIGMA, n=100)
    net = nn.Sequential(
        nn.Unflatten(1, (2, 2)), nn.BatchNorm1d(2, track_running_stats=False), nn.Flatten(), nn.Linear(4, 2)
    )
    with pytest.raises(
        ValueError, match="surrogate answers an input differently when other inputs are in its batch"
    ):
        rrise.calibrate(net, uniform[:200], votes, sigma=SIGMA, failure=0.1)


class Drifts(nn.Module):
    """Follows its inputs with a running mean, in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("mean", torch.full((4,), 0.5))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits = self.linear(inputs - self.mean)
        self.mean.add_(1e-4 * (inputs.mean(0) - self.mean))
        return logits


class Reassigns(Drifts):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.mean = self.mean + 1e-6
        return self.linear(inputs - self.mean)


@pytest.mark.parametrize("kind", [Drifts, Reassigns])
def test_a_module_that_changes_itself_when_called_is_refused(
    kind: type[nn.Module], uniform: np.ndarray, half_space: HalfSpace
) -> None:
    votes = rrise.collect_votes(half_space, uniform[:200], sigma=SIGMA, n=100)
    with pytest.raises(ValueError, match="surrogate changes its own weights or buffers when it is called"):
        rrise.calibrate(kind(), uniform[:200], votes, sigma=SIGMA)
    with pytest.raises(ValueError, match="base classifier changes its own weights or buffers"):
        rrise.collect_votes(kind(), uniform[:200], sigma=SIGMA, n=100)


def test_precision_belongs_to_the_smoothed_classifier(half_space: HalfSpace, uniform: np.ndarray) -> None:
    votes = rrise.collect_votes(half_space, uniform[:200], sigma=SIGMA, n=100)
    other = replace(votes.smoothing, precision="bfloat16")
    with pytest.raises(ValueError, match="precision float32 here, bfloat16 there"):
        votes.smoothing.check_same(other, "these votes", "those")


@pytest.fixture(scope="module")
def parts(half_space: HalfSpace, uniform: np.ndarray) -> dict:
    plan = {"sigma": SIGMA, "n": 100}
    votes = rrise.collect_votes(half_space, uniform[:200], split="train", **plan)
    return {
        "surrogate": rrise.train_surrogate(half_space, uniform[:200], votes, epochs=2),
        "images": uniform[200:400],
        "votes": rrise.collect_votes(half_space, uniform[200:400], split="calibration", **plan),
        "sigma": SIGMA,
        "failure": 0.1,
    }


def calibrate(parts: dict, **changes: object) -> rrise.Certifier:
    return rrise.calibrate(**{**parts, **changes})


class TestMismatches:
    """A certifier refuses to be made from things that do not belong together."""

    def test_sigma(self, parts: dict) -> None:
        with pytest.raises(ValueError, match=r"do not belong together: sigma 0\.5 here, 0\.25 there"):
            calibrate(parts, sigma=0.5)

    def test_input_range(self, parts: dict) -> None:
        with pytest.raises(ValueError, match=r"input range None here, \(0\.0, 1\.0\) there"):
            calibrate(parts, input_range=None)

    def test_votes_of_another_base(self, parts: dict) -> None:
        other = HalfSpace(torch.tensor([1.0, 1.0, 1.0, 1.0]), -2.0)
        votes = rrise.collect_votes(other, parts["images"], sigma=SIGMA, n=100)
        with pytest.raises(ValueError, match="this calibration and the votes do not belong together: base"):
            calibrate(parts, votes=votes)

    def test_another_base_given(self, parts: dict) -> None:
        with pytest.raises(ValueError, match="do not belong together: base classifier"):
            calibrate(parts, base=nn.Linear(4, 2))
        with pytest.raises(ValueError, match="trained for another base classifier"):
            calibrate(parts, base=nn.Linear(4, 2), votes=np.asarray(parts["votes"]))

    def test_votes_of_unknown_origin(self, parts: dict) -> None:
        plain = np.asarray(parts["votes"])
        assert calibrate(parts, votes=plain).smoothing.base == parts["surrogate"].base_fingerprint
        with pytest.raises(ValueError, match="these votes do not record their base classifier"):
            calibrate(parts, votes=plain, surrogate=nn.Linear(4, 2))

    def test_inputs_the_surrogate_was_trained_on(
        self, parts: dict, uniform: np.ndarray, half_space: HalfSpace
    ) -> None:
        images = np.concatenate([uniform[:30], parts["images"][:170]])
        votes = rrise.collect_votes(half_space, images, sigma=SIGMA, n=100)
        with pytest.raises(ValueError, match="30 of 200 calibration inputs were used to train the surrogate"):
            calibrate(parts, images=images, votes=votes)
        guarantee = calibrate(parts, images=images, votes=votes, allow_seen=True).guarantee
        assert guarantee.calibration is not None
        assert guarantee.calibration.seen_in_training == 30
        assert "30 of 200 calibration inputs equal training inputs" in str(guarantee)

    def test_votes_of_other_inputs(self, parts: dict) -> None:
        with pytest.raises(ValueError, match="the votes are of other inputs than those given"):
            calibrate(parts, images=parts["images"][::-1])

    def test_number_of_classes(self, parts: dict) -> None:
        with pytest.raises(ValueError, match="votes over 3 classes, got 2"):
            calibrate(parts, surrogate=nn.Linear(4, 3))
        with pytest.raises(ValueError, match="expected 2 class names, got 3"):
            calibrate(parts, class_names=["a", "b", "c"])

    def test_too_few_inputs_for_the_level(self, parts: dict) -> None:
        with pytest.raises(
            ValueError, match=r"200 calibration inputs are too few for gamma=0\.004: use at least 249"
        ):
            calibrate(parts, failure=0.005)

    def test_no_module(self, parts: dict) -> None:
        with pytest.raises(ValueError, match=r"surrogate to be a torch\.nn\.Module, got the text"):
            calibrate(parts, surrogate="resnet")

    def test_no_inputs(self, parts: dict) -> None:
        with pytest.raises(ValueError, match="calibration set is empty"):
            calibrate(parts, images=np.zeros((0, 4)), votes=parts["votes"][:0])

    def test_a_surrogate_that_returns_nan(self, parts: dict) -> None:
        broken = nn.Linear(4, 2)
        nn.init.constant_(broken.weight, float("nan"))
        with pytest.raises(ValueError, match="surrogate returned NaN for input 0"):
            calibrate(parts, surrogate=broken)

    def test_another_base_at_use(self, certifier: rrise.Certifier, half_space: HalfSpace) -> None:
        certifier.check_base(half_space)
        with pytest.raises(ValueError, match="was made for the base classifier"):
            certifier.check_base(HalfSpace(torch.ones(4), 0.0))
