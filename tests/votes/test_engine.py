import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import rrise
from rrise.models.catalogue import build_model
from rrise.votes.plan import SHARD
from tests.closed_forms import Fan, HalfSpace, Slab

POINTS = np.random.default_rng(1).random((130, 2), dtype=np.float32)


@pytest.mark.parametrize(
    "base",
    [HalfSpace(torch.tensor([1.0, 2.0]), -1.4), Slab(0.5, 0.3), Fan(5)],
    ids=["half-space", "slab", "fan of 5"],
)
def test_votes_follow_the_true_smoothed_probabilities(base: nn.Module) -> None:
    n, sigma = 2000, 0.25
    truth = base.probabilities(POINTS, sigma)
    np.testing.assert_allclose(truth.sum(axis=1), 1, atol=1e-6)
    p_values = []
    for seed in range(5):
        votes = rrise.collect_votes(base, POINTS, sigma=sigma, n=n, seed=seed, input_range=None)
        expected = n * truth
        usable = expected.min(axis=1) > 5
        statistic = ((votes - expected) ** 2 / expected)[usable].sum()
        p_values.append(stats.chi2.sf(statistic, usable.sum() * (truth.shape[1] - 1)))
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4
    assert min(p_values) > 1e-5


def test_noise_is_clipped_to_the_input_range() -> None:
    class OutOfRange(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            outside = ((inputs < 0.0) | (inputs > 1.0)).any(dim=1).float()
            return torch.stack([1 - outside, outside], dim=1)

    inputs = np.full((3, 4), 0.9, np.float32)
    clipped = rrise.collect_votes(OutOfRange(), inputs, sigma=1.0, n=50)
    assert clipped[:, 1].sum() == 0
    free = rrise.collect_votes(OutOfRange(), inputs, sigma=1.0, n=50, input_range=None)
    assert free[:, 1].sum() > 100


@pytest.mark.parametrize("n", [1, 100 - 1, 100, 100 + 1, 3 * 100])
def test_votes_do_not_depend_on_the_batch_size(n: int) -> None:
    base = build_model("small-convnet", seed=0, image_size=4, width=4)
    images = torch.rand(SHARD + 5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    reference = rrise.collect_votes(base, images, sigma=0.5, n=n, seed=7)
    for batch_size in (1, 37, 100, 4096) if n == 1 else (37, 100, 4096):
        again = rrise.collect_votes(base, images, sigma=0.5, n=n, seed=7, batch_size=batch_size)
        np.testing.assert_array_equal(again, reference)


def test_the_first_shards_and_blocks_do_not_depend_on_the_later_ones() -> None:
    base = HalfSpace(torch.tensor([1.0, 2.0]), -1.4)
    settings = {"sigma": 0.25, "seed": 3}
    full = rrise.collect_votes(base, POINTS, n=3 * 100, **settings)
    np.testing.assert_array_equal(
        full[:SHARD], rrise.collect_votes(base, POINTS[:SHARD], n=3 * 100, **settings)
    )
    fewer = rrise.collect_votes(base, POINTS, n=2 * 100, **settings)
    assert np.all(fewer <= full)


def test_noise_is_independent_between_inputs_blocks_shards_splits_and_seeds() -> None:
    """Equal inputs get votes that correlate no more than independent ones would."""
    base = HalfSpace(torch.tensor([1.0, 2.0]), -1.5)
    same = np.full((SHARD * 8, 2), 0.5, np.float32)  # on the boundary: a fair coin

    def coins(seed: int, split: str) -> np.ndarray:
        plan = {"sigma": 0.25, "n": 100, "seed": seed, "split": split, "input_range": None}
        return np.asarray(rrise.collect_votes(base, same, **plan))[:, 1] - 100 / 2

    first, other_seed, other_split = coins(0, "a"), coins(1, "a"), coins(0, "b")
    assert stats.chi2.cdf((first**2).sum() / (100 / 4), len(first)) < 0.9999
    limit = 4.5 / len(first) ** 0.5
    for a, b in [
        (first, other_seed),
        (first, other_split),
        (first[:-1], first[1:]),
        (first[:-SHARD], first[SHARD:]),
    ]:
        assert abs(np.corrcoef(a, b)[0, 1]) < limit * 1.1
    plan = {"sigma": 0.25, "seed": 0, "split": "a", "input_range": None}
    blocks = [np.asarray(rrise.collect_votes(base, same[:SHARD], n=n, **plan))[:, 1] for n in (100, 200)]
    assert abs(np.corrcoef(blocks[0], blocks[1] - blocks[0])[0, 1]) < 4.5 / SHARD**0.5


@pytest.mark.parametrize("shape", [(6,), (1, 8, 8), (3, 4, 5), (2, 3, 2, 2), (16, 10)])
def test_any_input_shape_works(shape: tuple[int, ...]) -> None:
    base = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    inputs = np.random.default_rng(0).random((5, *shape))
    base(torch.zeros(1, *shape))
    votes = rrise.collect_votes(base, inputs, sigma=0.1, n=30)
    assert votes.shape == (5, 3)
    assert votes.dtype == np.int64
    assert (votes.sum(axis=1) == 30).all()


def test_runs_in_evaluation_mode_and_leaves_the_module_as_it_was() -> None:
    base = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.9), nn.Linear(8, 3)).train()
    before = rrise.fingerprint(base)
    first = rrise.collect_votes(base, POINTS[:5], sigma=0.1, n=50)
    np.testing.assert_array_equal(first, rrise.collect_votes(base, POINTS[:5], sigma=0.1, n=50))
    assert base.training
    assert rrise.fingerprint(base) == before


def test_ties_go_to_the_lowest_class() -> None:
    class Even(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(inputs), 3)

    assert rrise.collect_votes(Even(), POINTS[:2], sigma=0.1, n=10).tolist() == [[10, 0, 0]] * 2


def test_nan_names_the_input() -> None:
    class Breaks(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.where(inputs.mean(dim=1, keepdim=True) > 0.8, torch.nan, inputs)

    inputs = np.full((SHARD + 10, 2), 0.2, np.float32)
    inputs[SHARD + 3] = 0.9
    with pytest.raises(ValueError, match=f"NaN for a noisy copy of input {SHARD + 3}$"):
        rrise.collect_votes(Breaks(), inputs, sigma=0.01, n=5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sigma": 0.0}, "positive noise level sigma, got 0.0"),
        ({"n": 0}, "at least 1 vote per input, got n=0"),
        ({"images": np.zeros((0, 2))}, "at least one input to vote on"),
        ({"images": np.zeros((3, 5))}, r"base classifier does not accept inputs of shape \(1, 5\)"),
        ({"batch_size": 0}, "batch size of at least 1"),
        ({"split": ""}, "expected a name for split, got ''"),
        ({"split": None}, "expected a name for split, got None"),
        ({"n": 10.5}, "a whole number for n, got 10.5"),
        ({"seed": "x"}, "a whole number for seed, got 'x'"),
        ({"sigma": "wide"}, "positive noise level sigma, got 'wide'"),
        ({"images": np.full((3, 2), 7.0)}, r"inputs in \[0, 1\], got values from 7 to 7"),
    ],
)
def test_bad_calls_are_refused_in_a_sentence(changes: dict[str, object], sentence: str) -> None:
    arguments = {"images": POINTS, "sigma": 0.1, "n": 10, **changes}
    with pytest.raises(ValueError, match=sentence):
        rrise.collect_votes(nn.Linear(2, 2), arguments.pop("images"), **arguments)  # type: ignore[arg-type]


class OnlyAlone(nn.Module):
    """A classifier for single inputs."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs[:1]


class Grows(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(inputs), 2 if len(inputs) < 20 else 3)


class Raises(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > 20:
            raise KeyError("too many")
        return inputs


class MixesTheBatch(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs - inputs.mean(dim=0)


class StaysRandom(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(inputs + 1, 0.5, training=True)


class Complex(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * 1j


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        (OnlyAlone(), r"return logits of shape \(9, classes\), got \(1, 2\)"),
        (Grows(), "expected 2 logits from the base classifier, as before; got 3"),
        (Raises(), "does not accept inputs of shape .* 'too many'"),
        (MixesTheBatch(), "answers an input differently when other inputs"),
        (StaysRandom(), "answers the same input differently each time"),
        (nn.Unflatten(1, (2, 1)), r"return logits of shape \(1, classes\), got \(1, 2, 1\)"),
        (Complex(), r"floating-point logits, got torch\.complex64"),
        ("resnet18", r"to be a torch\.nn\.Module, got the text"),
        (nn.Linear, r"to be a torch\.nn\.Module, got the class Linear"),
    ],
    ids=["one row", "more classes", "raises", "mixes", "random", "shape", "complex", "a name", "a class"],
)
def test_a_base_that_is_no_function_of_one_input_is_refused(base: nn.Module, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rrise.collect_votes(base, POINTS, sigma=0.1, n=50)


def test_a_base_that_changes_its_input_in_place_gets_the_same_votes() -> None:
    class InPlace(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs.sub_(0.5).div_(0.5)

    class Pure(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return (inputs - 0.5) / 0.5

    points = POINTS.copy()
    votes = rrise.collect_votes(InPlace(), points, sigma=0.25, n=200)
    np.testing.assert_array_equal(votes, rrise.collect_votes(Pure(), points, sigma=0.25, n=200))
    np.testing.assert_array_equal(points, POINTS)


def test_other_inputs_get_other_noise_under_the_same_seed_and_split() -> None:
    base = HalfSpace(torch.tensor([1.0, 2.0]), -1.5)
    first = np.full((SHARD, 2), 0.5, np.float32)  # both on the boundary: fair coins
    second = first + np.float32([0.2, -0.1])
    plan = {"sigma": 0.25, "n": 100, "input_range": None}
    coins = [np.asarray(rrise.collect_votes(base, points, **plan))[:, 1] for points in (first, second)]
    assert abs(np.corrcoef(coins)[0, 1]) < 4.5 / SHARD**0.5
