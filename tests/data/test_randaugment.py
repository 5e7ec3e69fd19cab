import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from rrise.data.randaugment import LEVELS, OPERATIONS, RandAugment
from rrise.errors import InputError, SettingError
from rrise.torchvision_import import import_torchvision


@pytest.fixture(scope="module", autouse=True)
def _torchvision() -> None:
    import_torchvision()


def _pixels(channels: int, height: int, width: int) -> torch.Tensor:
    """8-bit images of many kinds: smooth, noisy, of little contrast, and of one value."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(4, channels, 5, 5, generator=generator)
    fine = torch.rand(4, channels, height, width, generator=generator)
    smooth = F.interpolate(coarse, size=(height, width), mode="bilinear")
    flat = torch.full((1, channels, height, width), 0.3)
    return (torch.cat([smooth, fine, 0.3 + 0.2 * fine, flat]) * 255).round().to(torch.uint8)


def _torchvisions(pixels: torch.Tensor, operation: str, magnitude: int, turned: bool) -> torch.Tensor:
    """Return what the operation of torchvision's class makes of 8-bit images."""
    from torchvision.transforms import v2

    oracle = v2.RandAugment(magnitude=magnitude, fill=0)
    levels, signed = oracle._AUGMENTATION_SPACE[operation]
    values = levels(LEVELS, *pixels.shape[-2:])
    level = 0.0 if values is None else float(values[magnitude])
    return oracle._apply_image_or_video_transform(
        pixels,
        operation,
        -level if signed and turned else level,
        interpolation=v2.InterpolationMode.NEAREST,
        fill=oracle._fill,
    )


def _share_of_differences(result: torch.Tensor, expected: torch.Tensor, most: int = 1) -> float:
    """Return the share of pixels that differ; none by more than `most` values of 255."""
    values = (result * 255).round()
    torch.testing.assert_close(values / 255, result, rtol=0, atol=1e-7)
    difference = (values - expected).abs()
    assert difference.max() <= most
    return float((difference > 0).float().mean())


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 16, 64)])
def test_every_operation_is_torchvisions_at_every_magnitude(shape: tuple[int, int, int]) -> None:
    """Exactly, but for blends on the edge of rounding, which the processor's instructions decide."""
    pixels, choices = _pixels(*shape), range(2 * len(OPERATIONS))
    batch = (pixels / 255).repeat(len(choices), 1, 1, 1)
    drawn = torch.tensor(choices).repeat_interleave(len(pixels))[:, None]
    for magnitude in range(LEVELS):
        results = RandAugment(magnitude, passes=1).apply(batch, drawn).split(len(pixels))
        for choice, result in zip(choices, results, strict=True):
            operation = OPERATIONS[choice // 2]
            share = _share_of_differences(
                result, _torchvisions(pixels, operation, magnitude, choice % 2 == 1)
            )
            limit = 0.05 if operation in ("Brightness", "Color", "Contrast") else 0.0
            assert share <= limit, f"{operation} at magnitude {magnitude}"


@pytest.mark.parametrize("shape", [(3, 28, 40), (3, 7, 9), (3, 2, 5)])
def test_sizes_of_every_kind_at_the_default_magnitude(shape: tuple[int, int, int]) -> None:
    pixels = _pixels(*shape)
    for choice in range(2 * len(OPERATIONS)):
        result = RandAugment(passes=1).apply(pixels / 255, torch.full((len(pixels), 1), choice))
        expected = _torchvisions(pixels, OPERATIONS[choice // 2], 9, bool(choice % 2))
        assert _share_of_differences(result, expected) < 0.005


def test_each_image_gets_the_two_operations_it_drew() -> None:
    pixels = _pixels(3, 32, 32).repeat(40, 1, 1, 1)
    augment = RandAugment()
    drawn = augment.draw(len(pixels), (3, 32, 32), torch.Generator().manual_seed(1))
    results = augment.apply(pixels / 255, drawn)
    different = 0.0
    for image, result, choices in zip(pixels, results, drawn.tolist(), strict=True):
        expected = image[None]
        for choice in choices:
            expected = _torchvisions(expected, OPERATIONS[choice // 2], 9, bool(choice % 2))
        different += _share_of_differences(result, expected[0], most=255)
    assert different / len(pixels) < 1e-4


def test_operations_and_directions_are_drawn_equally_often_and_independently() -> None:
    drawn = RandAugment().draw(40_000, (3, 8, 8), torch.Generator().manual_seed(0))
    assert drawn.shape == (40_000, 2)
    kinds = 2 * len(OPERATIONS)
    pairs = np.bincount((drawn[:, 0] * kinds + drawn[:, 1]).numpy(), minlength=kinds**2)
    assert stats.chisquare(pairs).pvalue > 1e-4


def test_the_names_are_torchvisions() -> None:
    from torchvision.transforms import v2

    assert set(OPERATIONS) == set(v2.RandAugment._AUGMENTATION_SPACE)


def test_images_are_rounded_to_eight_bits_first() -> None:
    images = torch.rand((1, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    result = RandAugment(passes=1).apply(images, torch.tensor([[0]]))
    torch.testing.assert_close(result, (images * 255).round() / 255, rtol=0, atol=1e-7)


def test_bad_settings_and_channels_are_refused() -> None:
    with pytest.raises(SettingError, match="magnitude from 0 to 30, got 31"):
        RandAugment(31)
    with pytest.raises(InputError, match="expected images of 1 or 3 channels for randaugment, got 2"):
        RandAugment().draw(4, (2, 8, 8), torch.Generator())
    with pytest.raises(InputError, match="got 4"):
        RandAugment().apply(torch.zeros(1, 4, 8, 8), torch.zeros(1, 2, dtype=torch.int64))
