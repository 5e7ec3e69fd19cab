import shutil
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from rrise.data.augmentation import AUGMENTATIONS, Augmentation, crop_box, erasing_box
from rrise.errors import InputError, SettingError
from rrise.torchvision_import import import_torchvision

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
ALL = ["resized-crop", "flip", "randaugment", "erasing"]
KINDS = [["crop-2"], ["flip"], ["crop-4", "flip"], ["resized-crop"], ["randaugment"], ["erasing"], ALL]


@pytest.fixture(scope="module", autouse=True)
def _torchvision() -> None:
    import_torchvision()


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _images(count: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Random 8-bit images as float32 in [0, 1]."""
    return torch.randint(256, (count, *shape), generator=_generator(seed)) / 255


def _copies(count: int, *shape: int) -> torch.Tensor:
    return _images(1, *shape).expand(count, *shape).contiguous()


def _boxes(box: tuple[torch.Tensor, ...]) -> list[list[int]]:
    return torch.cat(box, dim=1).long().tolist()


def _places(results: torch.Tensor, candidates: list[torch.Tensor]) -> list[int]:
    """Return which candidate each result is; each must be exactly one of them."""
    equal = torch.stack([(results == candidate).flatten(1).all(dim=1) for candidate in candidates], dim=1)
    assert (equal.sum(dim=1) == 1).all()
    return equal.int().argmax(dim=1).tolist()


def _assert_uniform(places: list[int], kinds: int) -> None:
    assert stats.chisquare(np.bincount(places, minlength=kinds)).pvalue > 1e-4


@pytest.mark.parametrize(("names", "padding"), [(["crop-2"], 2), (["crop-4"], 4)])
def test_a_crop_is_each_window_of_the_padded_image_equally_often(names: list[str], padding: int) -> None:
    from torchvision.transforms.v2 import functional

    images = _copies(5000, 1, 9, 6)
    padded = functional.pad(images[0], [padding])
    offsets = product(range(2 * padding + 1), repeat=2)
    windows = [functional.crop(padded, top, left, 9, 6) for top, left in offsets]
    _assert_uniform(_places(Augmentation(names)(images, _generator()), windows), len(windows))


def test_a_flip_is_the_mirror_image_half_the_time() -> None:
    from torchvision.transforms.v2 import functional

    images = _copies(4000, 1, 5, 4)
    both = [images[0], functional.horizontal_flip(images[0])]
    _assert_uniform(_places(Augmentation(["flip"])(images, _generator()), both), 2)


@pytest.mark.parametrize("names", [["crop-1", "flip"], ["flip", "crop-1"]])
def test_crop_and_flip_are_independent_of_each_other(names: list[str]) -> None:
    from torchvision.transforms.v2 import functional

    images = _copies(6000, 2, 7, 8)
    mirrored = functional.horizontal_flip(images[0])
    windows = [
        functional.crop(functional.pad(image, [1]), top, left, 7, 8)
        for image in (images[0], mirrored)
        for top, left in product(range(3), repeat=2)
    ]
    _assert_uniform(_places(Augmentation(names)(images, _generator()), windows), 18)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 64, 64), (3, 20, 50)])
def test_a_resized_crop_is_torchvisions_at_the_same_box(shape: tuple[int, int, int], antialias: bool) -> None:
    from torchvision.transforms.v2 import functional

    images, augmentation = _images(100, *shape), Augmentation(["resized-crop"])
    draws = augmentation.draw(100, shape, _generator(1))
    results = augmentation.apply(images, draws)
    boxes = _boxes(crop_box(draws[0][:, :-1], *shape[1:]))
    for image, result, (top, left, height, width) in zip(images, results, boxes, strict=True):
        expected = functional.resized_crop(
            image, top, left, height, width, list(shape[1:]), antialias=antialias
        )
        torch.testing.assert_close(result, expected, rtol=0, atol=2e-5)
    assert 0 <= results.min() <= results.max() <= 1
    flipped = Augmentation(["resized-crop", "flip"]).apply(images, draws)
    mirrored = torch.where(draws[0][:, -1, None, None, None] < 0.5, results.flip(3), results)
    torch.testing.assert_close(flipped, mirrored, rtol=0, atol=2e-5)


@pytest.mark.parametrize("size", [(32, 32), (20, 80), (80, 20)])
@pytest.mark.parametrize("kind", ["resized-crop", "erasing"])
def test_boxes_are_distributed_as_torchvisions(kind: str, size: tuple[int, int]) -> None:
    """Long images make many candidates fail, so that the retries and the fallback matter."""
    from torchvision import transforms

    count, image = 6000, torch.empty(3, *size)
    torch.manual_seed(0)
    uniform = torch.rand((count, 22), generator=_generator())
    if kind == "erasing":
        ours = torch.cat(erasing_box(uniform, *size), dim=1).numpy()
        theirs = np.array(
            [
                transforms.RandomErasing.get_params(image, (0.02, 0.33), (0.3, 3.3), [0.0])[:4]
                for _ in range(count)
            ]
        )
        theirs[(theirs[:, 2] == size[0]) & (theirs[:, 3] == size[1]), 2] = 0  # nothing is erased
    else:
        ours = torch.cat(crop_box(uniform, *size), dim=1).numpy()
        get_params = transforms.RandomResizedCrop.get_params
        theirs = np.array([get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)])
    areas = [boxes[:, 2] * boxes[:, 3] for boxes in (ours, theirs)]
    assert abs(areas[0].mean() - areas[1].mean()) < 4.5 * areas[1].std() * (2 / count) ** 0.5
    for column in (0, 1, 2, 3):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-4
    small = (ours[:, 2] < size[0]) & (ours[:, 3] < size[1])
    place = ours[small, :2] / (size - ours[small, 2:])
    assert abs(np.corrcoef(place.T)[0, 1]) < 4.5 / len(place) ** 0.5
    for end, start, length in ((size[0], 0, 2), (size[1], 1, 3)):
        assert (ours[:, start] >= 0).all()
        assert (ours[:, start] + ours[:, length] <= end).all()


def test_the_largest_uniform_numbers_stay_inside_the_image() -> None:
    for size in range(3, 130):
        top, left, height, width = crop_box(torch.full((1, 22), 1 - 2.0**-24), size, size)
        assert (top + height <= size).all()
        assert (left + width <= size).all()
    middle = torch.full((1, 22), 0.5)
    middle[:, :20] = 1 - 2.0**-24  # ratio 4/3 of the whole area never fits
    assert _boxes(crop_box(middle, 32, 32)) == [[0, 0, 32, 32]]
    assert _boxes(crop_box(middle, 20, 80)) == [[0, 26, 20, 27]]
    assert _boxes(crop_box(middle, 80, 20)) == [[26, 0, 27, 20]]


def test_erasing_is_torchvisions_at_the_same_box_half_the_time() -> None:
    from torchvision.transforms.v2 import functional

    shape, augmentation = (1, 12, 16), Augmentation(["erasing"])
    images = _images(20_000, *shape).clamp(min=1 / 255)
    draws = augmentation.draw(len(images), shape, _generator(2))
    results, boxes = augmentation.apply(images, draws), _boxes(erasing_box(draws[0][:, :-1], 12, 16))
    changed = (results != images).flatten(1).any(dim=1)
    assert stats.binomtest(int(changed.sum()), len(images)).pvalue > 1e-4
    for i in changed.nonzero()[:300, 0].tolist():
        expected = functional.erase(images[i], *boxes[i], v=torch.zeros(1, 1, 1))
        assert torch.equal(results[i], expected)


@pytest.mark.parametrize("names", KINDS, ids=",".join)
def test_images_are_augmented_independently_and_reproducibly(names: list[str]) -> None:
    augmentation, images = Augmentation(names), _copies(64, 3, 16, 16)
    kept = images.clone()
    results = augmentation(images, _generator(3))
    assert torch.equal(images, kept)
    assert len(results.flatten(1).unique(dim=0)) > (1 if names == ["flip"] else 8)
    assert results.shape == images.shape
    assert results.dtype == images.dtype
    assert 0 <= results.min() <= results.max() <= 1
    assert torch.equal(augmentation(images, _generator(3)), results)
    assert not torch.equal(augmentation(images, _generator(4)), results)

    generator = _generator(5)
    generator.set_state(_generator(3).get_state())
    assert torch.equal(augmentation(images, generator), results)
    draws = augmentation.draw(64, (3, 16, 16), _generator(3))
    part = augmentation.apply(images[10:20], tuple(drawn[10:20] for drawn in draws))
    torch.testing.assert_close(part, results[10:20], rtol=0, atol=1e-6)


def test_no_names_change_nothing() -> None:
    images = _images(2, 3, 4, 4)
    assert torch.equal(Augmentation([])(images, _generator()), images)


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("names", KINDS, ids=",".join)
def test_compiled_augmentation_is_the_same(names: list[str]) -> None:
    """But for values on the edge of rounding to 8 bits; enlarging to an odd size makes few of those."""
    augmentation, images = Augmentation(names), _images(32, 3, 19, 17)
    draws = augmentation.draw(32, (3, 19, 17), _generator())
    compiled = torch.compile(augmentation.apply, fullgraph=True, dynamic=False)
    difference = (compiled(images, draws) - augmentation.apply(images, draws)).abs()
    assert (difference > 1e-5).float().mean() < (0.002 if "randaugment" in names else 1e-9)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("crop-x", "crop-N"), ("crop-0", "crop-N"), ("fliip", "flip"), ("rand-augment", "randaugment")],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str, nearest: str) -> None:
    with pytest.raises(SettingError, match=rf"got '{name}': did you mean {nearest}\?") as refused:
        Augmentation(["flip", name])
    assert all(known in str(refused.value) for known in AUGMENTATIONS)


def test_a_single_name_is_refused() -> None:
    with pytest.raises(SettingError, match=r"expected a list of augmentations, got 'flip'"):
        Augmentation("flip")


@pytest.mark.parametrize("images", [torch.zeros(3, 8, 8), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)])
def test_other_inputs_than_images_are_refused(images: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"expected float32 images \[images, channels, height, width\]"):
        Augmentation(["flip"])(images, _generator())


def test_random_numbers_of_another_batch_are_refused() -> None:
    augmentation = Augmentation(["crop-2", "erasing"])
    draws = augmentation.draw(4, (3, 8, 8), _generator())
    with pytest.raises(InputError, match="draws for 5 images, got 2 tensors for 4, 4 images"):
        augmentation.apply(torch.zeros(5, 3, 8, 8), draws)
