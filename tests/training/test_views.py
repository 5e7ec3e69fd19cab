import pytest
import torch

from rrise.data.augmentation import Augmentation
from rrise.training.settings import SurrogateTraining
from rrise.training.views import Views

UNIT = (0.0, 1.0)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def views(shape: tuple[int, ...], limits: tuple[float, float] | None = UNIT, **settings: object) -> Views:
    return Views(SurrogateTraining(strategy="distill", **settings), shape, limits)


def test_a_share_of_each_batch_is_mixed_with_the_next_inputs() -> None:
    clean = torch.rand(9, 3)
    made = views((3,), mixed=0.5)
    _, share = made.draw(clean, generator())
    assert share.shape == (4, 1)
    found = made.make(clean, share)
    expected = share * clean[:4] + (1 - share) * clean[1:5]
    torch.testing.assert_close(found[:4], expected)
    assert torch.equal(found[4:], clean[4:])


def test_all_of_a_batch_can_be_mixed_and_the_last_input_has_the_first_as_partner() -> None:
    clean = torch.rand(5, 2, 2)
    made = views((2, 2), mixed=1.0)
    share = torch.zeros(5, 1, 1)
    torch.testing.assert_close(made.make(clean, share), clean.roll(-1, 0))
    torch.testing.assert_close(made.make(clean, 1 - share), clean)


def test_shares_are_uniform() -> None:
    _, share = views((2,), mixed=1.0).draw(torch.rand(20_000, 2), generator())
    quantiles = share.flatten().quantile(torch.linspace(0, 1, 11))
    torch.testing.assert_close(quantiles, torch.linspace(0, 1, 11), rtol=0, atol=0.02)


def test_without_mixing_jitter_or_augmentation_inputs_stay_as_they_are() -> None:
    clean, made = torch.rand(7, 3), views((3,), mixed=0.0)
    assert torch.equal(made.make(*made.draw(clean, generator())), clean)


def test_jitter_adds_gaussian_noise_and_stays_in_the_input_range() -> None:
    clean = torch.full((4_000, 5), 0.5)
    free, kept = (views((5,), limits, mixed=0.0, jitter=0.3) for limits in (None, UNIT))
    noise = free.make(*free.draw(clean, generator())) - clean
    assert float(noise.std()) == pytest.approx(0.3, rel=0.03)
    torch.testing.assert_close(kept.make(*kept.draw(clean, generator())), (clean + noise).clamp(0, 1))


def test_named_augmentations_come_before_mixing() -> None:
    clean, names = torch.rand(6, 3, 8, 8), ("crop-2", "flip")
    made = views((3, 8, 8), mixed=0.5, augmentations=names)
    _, share, *drawn = made.draw(clean, generator())
    augmented = Augmentation(names).apply(clean, tuple(drawn))
    expected = torch.cat([share * augmented[:3] + (1 - share) * augmented[1:4], augmented[3:]])
    torch.testing.assert_close(made.make(clean, share, *drawn), expected)
    assert not torch.equal(augmented, clean)


def test_the_same_generator_gives_the_same_inputs() -> None:
    clean = torch.rand(6, 1, 8, 8)
    made = views((1, 8, 8), mixed=0.5, jitter=0.1, augmentations=("crop-2", "randaugment"))
    one, two, other = (
        made.make(*made.draw(clean, torch.Generator().manual_seed(seed))) for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
