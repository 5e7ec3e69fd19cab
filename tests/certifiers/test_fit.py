"""The short way: one call from a base classifier and inputs to a certifier."""

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.errors import InputError, MismatchError, SettingError
from tests.closed_forms import HalfSpace

QUICK = rrise.SurrogateTraining(epochs=30, learning_rate=0.05, batch_size=64)


def test_it_keeps_its_promise_for_new_inputs(half_space: HalfSpace) -> None:
    """The smoothed probability is known here: bounds above it are counted."""
    inputs = np.random.default_rng(5).random((3000, 4))
    certifier = rrise.fit(
        half_space, inputs[:1000], sigma=0.25, failure=0.1, input_range=None, training=QUICK
    )
    found = certifier.certify(inputs[1000:])
    truth = half_space.probabilities(inputs[1000:].astype(np.float32), 0.25)
    of_label = np.take_along_axis(truth, found.label[:, None], axis=1)[:, 0]
    wrong = found.issued & (found.lower_bound > of_label)
    assert found.issued.mean() > 0.5
    assert wrong.mean() <= 0.1
    assert certifier.guarantee.calibration is not None
    assert certifier.guarantee.calibration.inputs == 200


def test_the_same_seed_gives_the_same_certifier(half_space: HalfSpace, uniform: np.ndarray) -> None:
    first, again, other = (
        rrise.fit(half_space, uniform, sigma=0.25, failure=0.1, training=QUICK, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first.guarantee.id == again.guarantee.id
    assert first.calibration.offset == again.calibration.offset != other.calibration.offset


def test_a_base_without_a_last_layer_is_trained_whole(uniform: np.ndarray) -> None:
    class Distances(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centres = nn.Parameter(torch.tensor([[0.2] * 4, [0.8] * 4]))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return -4 * (inputs[:, None] - self.centres).square().sum(dim=2)

    certifier = rrise.fit(Distances(), uniform, sigma=0.25, failure=0.1)
    assert certifier.certify(uniform[:20]).issued.any()


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"calibration": 600}, SettingError, "a count below the 600 inputs"),
        ({"calibration": 0.0}, SettingError, "expected calibration as a share"),
        ({"calibration": 50, "failure": 0.01}, SettingError, "50 calibration inputs are too few"),
        ({"failure": 0.0005}, SettingError, "for gamma=0.0004: use at least 2499"),
        ({"calibration": "some"}, SettingError, "expected calibration as a share"),
        ({"calibration_votes": 2}, SettingError, "2 votes can never certify"),
        ({"sigma": -1}, SettingError, "positive noise level"),
        ({"input_range": (0.4, 0.6)}, InputError, "expected inputs in"),
        ({"training": rrise.SurrogateTraining(strategy="some")}, SettingError, "a strategy out of"),
        ({"class_names": ["one"]}, SettingError, "expected 2 class names"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    half_space: HalfSpace,
    uniform: np.ndarray,
    changes: dict[str, object],
    error: type[Exception],
    sentence: str,
) -> None:
    with pytest.raises(error, match=sentence):
        rrise.fit(half_space, uniform, **{"sigma": 0.25, "failure": 0.05, "training": QUICK, **changes})  # type: ignore[arg-type]


def test_repeated_inputs_in_both_parts_are_refused(half_space: HalfSpace, uniform: np.ndarray) -> None:
    twice = np.concatenate([uniform, uniform])
    with pytest.raises(MismatchError, match="were used to train the surrogate"):
        rrise.fit(half_space, twice, sigma=0.25, failure=0.05, training=QUICK)
    seen = rrise.fit(half_space, twice, sigma=0.25, failure=0.05, training=QUICK, allow_seen=True)
    assert seen.guarantee.level == 0.95
