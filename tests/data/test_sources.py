from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rrise.data.benchmarks import BENCHMARKS
from rrise.data.catalogue import load_dataset, load_digits
from rrise.data.sources import Pixels, load_images
from tests.data.miniatures import arrays, small

GREY = np.random.default_rng(0).integers(0, 256, (5, 6, 7), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)


def test_pixels_have_their_channels_first_and_lie_between_0_and_1() -> None:
    np.testing.assert_allclose(Pixels(GREY)[1:3], GREY[1:3, None] / 255, rtol=1e-6)
    np.testing.assert_allclose(Pixels(COLOUR)[:2], COLOUR[:2].transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    first = COLOUR.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(Pixels(first)[:2], first[:2] / 255, rtol=1e-6)
    assert Pixels(GREY)[:2].dtype == np.float32
    assert Pixels(COLOUR).images.shape == (5, 3, 6, 7)
    assert np.shares_memory(Pixels(COLOUR).images, COLOUR)
    with pytest.raises(ValueError, match="8-bit images of 3 or 4 axes"):
        Pixels(GREY[0])


def test_an_array_is_mapped_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", GREY / 255)
    images = load_images(str(tmp_path / "x.npy"), "test")
    assert isinstance(images, np.memmap)
    np.testing.assert_array_equal(images, GREY / 255)


def test_the_split_names_the_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x_train=GREY, x_test=COLOUR)
    source = f"npz:{tmp_path / 'x.npz'}"
    assert load_images(source, "train")[:5].shape == (5, 1, 6, 7)
    assert load_images(source, "test")[:5].shape == (5, 3, 6, 7)
    with pytest.raises(ValueError, match="has no array x_calibration, only x_train, x_test"):
        load_images(source, "calibration")


def test_a_dataset_by_name_gives_the_part_that_the_split_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = load_dataset("digits")
    np.testing.assert_array_equal(load_images("digits", "train").images, digits.train.images)
    np.testing.assert_array_equal(load_images("digits", "test").images, digits.test.images)
    np.testing.assert_array_equal(load_images("digits", "inputs").images, load_digits().images)
    content = arrays((32, 32, 3))
    np.savez(tmp_path / "cifar-10.npz", **content)
    monkeypatch.setenv("RRISE_DATA", str(tmp_path))
    monkeypatch.setitem(BENCHMARKS, "cifar-10", small("cifar-10"))
    test = load_images("cifar-10", "test")
    np.testing.assert_allclose(test[:3], content["x_test"][:3].transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert len(load_images("cifar-10", "train")) == 40
    with pytest.raises(ValueError, match="split of cifar-10 to be train or test, got 'inputs'"):
        load_images("cifar-10", "inputs")


def test_a_folder_of_classes_gives_the_part_that_the_split_names(tmp_path: Path) -> None:
    for part, index in (("train", 0), ("test", 1)):
        (tmp_path / part / "cat").mkdir(parents=True)
        Image.fromarray(COLOUR[index]).save(tmp_path / part / "cat" / "0.png")
    np.testing.assert_array_equal(
        load_images(str(tmp_path), "test").images, COLOUR[1:2].transpose(0, 3, 1, 2)
    )


def test_a_folder_of_images_in_the_order_of_their_names(tmp_path: Path) -> None:
    for index in range(5):
        Image.fromarray(COLOUR[index]).save(tmp_path / f"{index}.png")
    np.testing.assert_allclose(
        load_images(str(tmp_path), "test")[:], COLOUR.transpose(0, 3, 1, 2) / 255, rtol=1e-6
    )
    Image.fromarray(GREY[0]).save(tmp_path / "5.png")
    with pytest.raises(ValueError, match=r"images of one kind, .*5\.png of mode L"):
        load_images(str(tmp_path), "test")
    (tmp_path / "0.png").write_bytes(b"rubbish")
    with pytest.raises(ValueError, match=r"0\.png: the image cannot be read"):
        load_images(str(tmp_path), "test")


def test_what_is_no_data_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.npy").write_bytes(b"rubbish")
    np.savez(tmp_path / "x.npz", x=GREY)
    (tmp_path / "x.npz").rename(tmp_path / "archive.npy")
    for source, sentence in (
        ("mnist", "expected data as digits"),
        (tmp_path / "empty", "holds no"),
        (tmp_path / "bad.npy", "bad.npy: expected a .npy file"),
        (tmp_path / "none.npy", "none.npy cannot be read: No such file"),
        (tmp_path / "archive.npy", "archive.npy: expected a .npy file"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_images(str(source), "test")
