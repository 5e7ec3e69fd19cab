from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rrise.data.catalogue import DATASETS, Dataset, load_dataset, load_digits

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def write_images(folder: Path, images: np.ndarray, suffix: str = ".png") -> None:
    folder.mkdir(parents=True)
    for index, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{index}{suffix}")


@pytest.fixture
def class_folders(tmp_path: Path) -> Path:
    for part in ("train", "test"):
        write_images(tmp_path / part / "cat", PIXELS[:2])
        write_images(tmp_path / part / "ant", PIXELS[2:5])
    return tmp_path


def test_digits_are_complete_and_in_range() -> None:
    digits = load_digits()
    assert digits.images.shape == (1797, 1, 8, 8)
    assert digits.images.dtype == np.uint8
    assert digits.images.max() == 255
    assert np.bincount(digits.labels).min() > 170
    inputs = digits.inputs(np.arange(5))
    assert 0 <= float(inputs.min()) <= float(inputs.max()) <= 1


def test_digits_are_dealt_into_the_same_two_parts_every_time() -> None:
    pool, first, again = load_digits(), load_dataset("digits"), load_dataset("digits")
    assert (len(first.train), len(first.test)) == (1047, 750)
    assert first.class_names == tuple("0123456789")
    np.testing.assert_array_equal(first.train.images, again.train.images)
    together = np.concatenate([first.train.images, first.test.images]).reshape(1797, -1)
    counts = np.bincount(np.concatenate([first.train.labels, first.test.labels]))
    np.testing.assert_array_equal(counts, np.bincount(pool.labels))
    assert sorted(map(bytes, together)) == sorted(map(bytes, pool.images.reshape(1797, -1)))


@pytest.mark.parametrize(
    ("images", "shape"),
    [
        (PIXELS, (3, 5, 4)),
        (PIXELS.transpose(0, 3, 1, 2), (3, 5, 4)),
        (PIXELS[..., 0], (1, 5, 4)),
        (PIXELS[..., :1], (1, 5, 4)),
        (torch.from_numpy(PIXELS), (3, 5, 4)),
    ],
)
def test_images_have_their_channels_first(images: np.ndarray, shape: tuple[int, ...]) -> None:
    data = Dataset.from_arrays(images, LABELS, images[:3], LABELS[:3])
    assert data.train.images.shape == (6, *shape)
    assert data.train.images.dtype == np.uint8
    assert data.train.images.flags.c_contiguous
    np.testing.assert_array_equal(data.train.images[:, 0], PIXELS[..., 0])
    np.testing.assert_allclose(data.train.inputs(np.array([4]))[0, 0], PIXELS[4, :, :, 0] / 255, rtol=1e-6)
    assert len(data.test) == 3


def test_floating_point_arrays_of_any_shape_keep_their_values() -> None:
    values = RANDOM.normal(size=(6, 7)) * 100
    data = Dataset.from_arrays(values, LABELS.astype(np.uint8), values[:2], [0, 5])
    assert data.train.images.dtype == np.float32
    assert data.train.labels.dtype == np.int64
    np.testing.assert_allclose(data.train.inputs(np.arange(6)), values, rtol=1e-6)
    assert data.class_names == ("0", "1", "2", "3", "4", "5")  # 3 and 4 have no inputs: that is fine


def test_read_only_arrays_are_copied_so_that_torch_takes_them() -> None:
    frozen = np.frombuffer(PIXELS.transpose(0, 3, 1, 2).tobytes(), np.uint8).reshape(6, 3, 5, 4)
    data = Dataset.from_arrays(frozen, LABELS, frozen, LABELS)
    torch.from_numpy(data.train.images)  # warns, hence fails, for what cannot be written


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y_train": LABELS[:5]}, "6 inputs in x_train and 5 labels in y_train"),
        ({"y_test": -LABELS}, "whole numbers from 0 as labels in y_test, got -2"),
        ({"y_test": LABELS / 2}, "whole numbers from 0 as labels in y_test, got float64"),
        ({"y_test": LABELS[:, None]}, r"one label for each input, got an array of shape \(6, 1\)"),
        (
            {"x_train": PIXELS.astype(np.int64)},
            "x_train as uint8 images or as floating-point numbers, got int64",
        ),
        ({"x_train": PIXELS / 255}, r"one type and shape, got float32 \(5, 4, 3\) and uint8 \(3, 5, 4\)"),
        ({"x_test": PIXELS[:, :4]}, r"one type and shape, got uint8 \(3, 5, 4\) and uint8 \(3, 4, 4\)"),
        ({"x_test": PIXELS[0, 0]}, "x_test: expected 8-bit images of 3 or 4 axes"),
        ({"x_test": PIXELS[:0], "y_test": LABELS[:0]}, "x_test to hold at least one input"),
        ({"x_test": LABELS / 7}, r"x_test as a batch \[inputs, \.\.\.\]"),
        ({"x_test": np.full((6, 2), np.nan)}, "finite numbers in x_test, got NaN or infinity"),
        ({"x_test": [[1], [2, 3]]}, "x_test as one array, got a ragged list"),
        ({"class_names": ["cat", "dog"]}, "a name for each of 3 classes, got 2 names"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, object], sentence: str) -> None:
    arrays = {"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS, "y_test": LABELS}
    with pytest.raises(ValueError, match=sentence):
        Dataset.from_arrays(**(arrays | changes))  # type: ignore[arg-type]


def test_a_npz_file_is_a_dataset(tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    np.savez(file, x_train=PIXELS, y_train=LABELS, x_test=PIXELS[:2], y_test=LABELS[:2])
    data = load_dataset(f"npz:{file}")
    assert (data.name, data.source, data.class_names) == ("mine", str(file), ("0", "1", "2"))
    np.testing.assert_array_equal(data.test.images, PIXELS[:2].transpose(0, 3, 1, 2))
    names = np.array(["ant", "bee", "cat"])
    np.savez(file, x_train=PIXELS, y_train=LABELS, x_test=PIXELS, y_test=LABELS, class_names=names)
    assert load_dataset(f"npz:{file}").class_names == ("ant", "bee", "cat")


def test_a_npz_file_that_is_no_dataset_is_named_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    with pytest.raises(ValueError, match=r"there is no file .*mine\.npz"):
        load_dataset(f"npz:{file}")
    np.savez(file, x_train=PIXELS, x_test=PIXELS)
    with pytest.raises(ValueError, match=r"mine\.npz: it has no array y_train, y_test, only x_train, x_test"):
        load_dataset(f"npz:{file}")
    np.savez(file, x_train=PIXELS, y_train=LABELS[:2], x_test=PIXELS, y_test=LABELS)
    with pytest.raises(ValueError, match=r"mine\.npz: expected a label for each input"):
        load_dataset(f"npz:{file}")
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"mine\.npz cannot be read"):
        load_dataset(f"npz:{file}")
    np.savez(file, x_train=np.array([{}]), y_train=LABELS, x_test=PIXELS, y_test=LABELS)  # a pickle inside
    with pytest.raises(ValueError, match=r"mine\.npz: its array x_train: .* got the type object"):
        load_dataset(f"npz:{file}")


def test_a_folder_of_classes_is_a_dataset(class_folders: Path) -> None:
    data = load_dataset(str(class_folders))
    assert data.class_names == ("ant", "cat")
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(data.train.images, PIXELS[[2, 3, 4, 0, 1]].transpose(0, 3, 1, 2))
    (class_folders / "test").rename(class_folders / "val")
    np.testing.assert_array_equal(load_dataset(str(class_folders)).test.images, data.test.images)


def test_grey_images_become_coloured_where_any_is(class_folders: Path) -> None:
    Image.fromarray(PIXELS[5, :, :, 0]).save(class_folders / "train" / "cat" / "9.png")
    data = load_dataset(str(class_folders))
    assert data.train.images.shape == (6, 3, 5, 4)
    np.testing.assert_array_equal(data.train.images[-1], np.stack([PIXELS[5, :, :, 0]] * 3))


def test_folders_that_are_no_dataset_are_refused(class_folders: Path) -> None:
    source = str(class_folders)
    write_images(class_folders / "test" / "dog", PIXELS[:1])
    with pytest.raises(ValueError, match=r"expected in .*test only classes of .*train, got 'dog' too"):
        load_dataset(source)
    (class_folders / "test" / "dog" / "0.png").unlink()
    with pytest.raises(ValueError, match=r"dog holds no \.png"):
        load_dataset(source)
    (class_folders / "test" / "dog").rmdir()
    Image.fromarray(PIXELS[0, :3]).save(class_folders / "train" / "ant" / "9.png")
    with pytest.raises(
        ValueError, match=r"images of one kind, .*got .*9\.png of mode RGB with shape \(3, 4, 3\)"
    ):
        load_dataset(source)
    Image.fromarray(PIXELS[0]).convert("RGBA").save(class_folders / "train" / "ant" / "9.png")
    with pytest.raises(ValueError, match=r"9\.png of mode RGBA"):
        load_dataset(source)
    (class_folders / "train" / "ant" / "9.png").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match=r"9\.png: the image cannot be read: expected a PNG or JPEG file"):
        load_dataset(source)
    (class_folders / "test").rename(class_folders / "other")
    with pytest.raises(ValueError, match="expected image folders train/CLASS and test/CLASS"):
        load_dataset(source)


def test_a_name_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"digits, fashion-mnist, .*'cifar10': did you mean cifar-10\?"):
        load_dataset("cifar10")
    assert DATASETS == ("digits", "fashion-mnist", "cifar-10", "cifar-100", "tiny-imagenet")
