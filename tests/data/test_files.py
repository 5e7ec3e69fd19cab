import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rrise.data.files import find_files, read_inputs
from rrise.data.images import read_pixels

GREY, COLOUR, RANGE = (1, 4, 6), (3, 4, 6), (0.0, 1.0)


@pytest.fixture
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)


def test_images_are_read_as_they_are(tmp_path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(pixels).save(tmp_path / "colour.png")
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "grey.PNG")
    colour = read_inputs(tmp_path / "colour.png", COLOUR, RANGE).numpy()
    np.testing.assert_array_equal(np.round(colour[0] * 255).transpose(1, 2, 0), pixels)
    Image.fromarray(pixels).save(tmp_path / "colour.jpeg")
    decoded = np.asarray(Image.open(tmp_path / "colour.jpeg"))
    jpeg = read_inputs(tmp_path / "colour.jpeg", COLOUR, RANGE).numpy()
    np.testing.assert_array_equal(np.round(jpeg[0] * 255).transpose(1, 2, 0), decoded)
    grey = read_inputs(tmp_path / "grey.PNG", GREY, RANGE).numpy()
    np.testing.assert_array_equal(np.round(grey[0, 0] * 255), pixels[:, :, 0])


def test_conversions_without_loss_are_done_and_others_refused(tmp_path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "grey.png")
    assert read_inputs(tmp_path / "grey.png", COLOUR, RANGE).shape == (1, *COLOUR)
    Image.fromarray(pixels[:, :, 0]).convert("RGB").save(tmp_path / "grey-as-colour.png")
    assert read_inputs(tmp_path / "grey-as-colour.png", GREY, RANGE).shape == (1, *GREY)
    Image.fromarray(pixels).save(tmp_path / "colour.png")
    with pytest.raises(ValueError, match=r"colour\.png: expected a grey image, got a coloured one"):
        read_inputs(tmp_path / "colour.png", GREY, RANGE)
    Image.fromarray(pixels).convert("RGBA").save(tmp_path / "alpha.png")
    with pytest.raises(ValueError, match="got mode RGBA"):
        read_inputs(tmp_path / "alpha.png", COLOUR, RANGE)
    Image.fromarray(pixels).save(tmp_path / "hole.png", transparency=(0, 0, 0))
    with pytest.raises(ValueError, match="got mode RGB with transparency"):
        read_inputs(tmp_path / "hole.png", COLOUR, RANGE)


def sixteen_bit_png(pixels: np.ndarray) -> bytes:
    """Write an RGB image of 16 bits by hand: Pillow does not."""

    def chunk(name: bytes, content: bytes) -> bytes:
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels.astype(np.uint16) * 257 + 100)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_sixteen_bits_are_refused_and_not_cut_to_eight(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "deep.png").write_bytes(sixteen_bit_png(pixels))
    with Image.open(tmp_path / "deep.png") as image:
        assert image.mode == "RGB"
    with pytest.raises(ValueError, match=r"deep\.png: expected an 8-bit image, got one with 16 bits"):
        read_inputs(tmp_path / "deep.png", COLOUR, RANGE)
    with pytest.raises(ValueError, match=r"deep\.png: expected an 8-bit image, got one with 16 bits"):
        read_pixels([tmp_path / "deep.png"])


def test_arrays_of_one_or_many_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.full((3, 5), 0.5))
    np.save(tmp_path / "many.npy", np.full((7, 3, 5), 0.5))
    assert read_inputs(tmp_path / "one.npy", (3, 5), RANGE).shape == (1, 3, 5)
    assert read_inputs(tmp_path / "many.npy", (3, 5), RANGE).shape == (7, 3, 5)


def test_broken_files_are_named_in_a_sentence(tmp_path: Path, pixels: np.ndarray) -> None:
    image = tmp_path / "image.png"
    Image.fromarray(pixels).save(image)
    (tmp_path / "cut.png").write_bytes(image.read_bytes()[:60])
    (tmp_path / "noise.jpg").write_bytes(b"not an image")
    (tmp_path / "noise.npy").write_bytes(b"not an array")
    (tmp_path / "text.txt").write_text("hello")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "none.npy", np.zeros((0, *COLOUR)))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "empty.png").touch()
    np.savez(tmp_path / "several.npz", a=np.zeros(2), b=np.zeros(2))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    bomb = bytearray(image.read_bytes())
    bomb[16:24] = struct.pack(">II", 60_000, 60_000)
    bomb[29:33] = struct.pack(">I", zlib.crc32(bytes(bomb[12:29])))
    (tmp_path / "bomb.png").write_bytes(bomb)
    for name, sentence in [
        ("cut.png", "cut.png: the image cannot be read: the PNG file is cut off"),
        ("noise.jpg", "noise.jpg: the image cannot be read: expected a PNG or JPEG file"),
        ("noise.npy", "expected a .npy file with an array of numbers"),
        ("objects.npy", "expected a .npy file with an array of numbers"),
        ("none.npy", "expected at least one input, got an empty array"),
        ("empty.npy", "empty.npy: expected a .npy file with an array of numbers"),
        ("empty.png", "empty.png: the image cannot be read: expected a PNG or JPEG file"),
        ("several.npy", "expected a .npy file with an array of numbers"),
        ("bomb.png", "bomb.png: the image cannot be read: .*decompression bomb"),
        ("text.txt", r"expected a file of kind .png, .jpg, .jpeg, .npy"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            read_inputs(tmp_path / name, COLOUR, RANGE)
    with pytest.raises(ValueError, match="expected an image of 9 x 8 pixels, got 6 x 4"):
        read_inputs(image, (3, 8, 9), RANGE)
    with pytest.raises(ValueError, match=r"pass \.npy arrays"):
        read_inputs(image, (12,), RANGE)


def test_folders_are_read_in_order_and_missing_files_refused(tmp_path: Path) -> None:
    for name in ("b.png", "a.npy", "notes.txt", "C.JPG"):
        (tmp_path / name).touch()
    assert [path.name for path in find_files([tmp_path])] == ["C.JPG", "a.npy", "b.png"]
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="is neither a file nor a folder"):
        list(find_files([tmp_path / "pipe.png"]))
    with pytest.raises(ValueError, match="there is no file or folder"):
        list(find_files([tmp_path / "absent.png"]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds no \.png"):
        list(find_files([tmp_path / "empty"]))
