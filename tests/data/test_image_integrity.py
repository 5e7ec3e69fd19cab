"""A damaged image is refused, not decoded as far as it goes."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from rrise.data.files import read_inputs
from rrise.data.image_integrity import check_whole
from rrise.data.images import image_mode, read_image, read_pixels
from rrise.errors import InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
SHAPE, RANGE = (1, 8, 8), (0.0, 1.0)


def encoded(kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, kind, **options)
    return stream.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    body = name + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def test_a_png_in_which_any_one_byte_changed_is_refused() -> None:
    whole, accepted = encoded("PNG"), []
    for place in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            damaged = whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :]
            try:
                read_image(damaged, SHAPE, RANGE)
            except InputError:
                continue
            accepted.append((place, change))
    assert accepted == []


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_that_is_cut_off_anywhere_is_refused(kind: str) -> None:
    whole = encoded(kind)
    for size in range(len(whole)):
        with pytest.raises(InputError, match="the image cannot be read"):
            read_image(whole[:size], SHAPE, RANGE)


def test_a_png_ends_with_its_end_chunk() -> None:
    whole = encoded("PNG")
    with pytest.raises(InputError, match="goes on after its end"):
        check_whole(whole + b"\0")
    with pytest.raises(InputError, match="cut off"):
        check_whole(whole.removesuffix(chunk(b"IEND", b"")))
    with pytest.raises(InputError, match="checksum"):
        check_whole(whole[:-1] + b"\0")


def test_cameras_may_store_more_behind_a_jpeg() -> None:
    whole = encoded("JPEG", quality=95)
    np.testing.assert_array_equal(
        read_image(whole + b"\0trailer\xff\xd9", SHAPE, RANGE), read_image(whole, SHAPE, RANGE)
    )


def test_jpegs_with_several_scans_restarts_and_comments_are_whole() -> None:
    for options in ({"progressive": True}, {"restart_marker_blocks": 1}, {"comment": b"\xff\xd9 \xff\x00"}):
        read_image(encoded("JPEG", **options), SHAPE, RANGE)


def test_pillow_may_not_fill_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(InputError, match=r"set PIL\.ImageFile\.LOAD_TRUNCATED_IMAGES = False"):
        read_image(encoded("PNG"), SHAPE, RANGE)


def test_every_reader_of_images_refuses_a_damaged_one(tmp_path: Path) -> None:
    path, whole = tmp_path / "x.png", encoded("PNG")
    path.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    for read in (lambda: read_inputs(path, SHAPE, RANGE), lambda: read_pixels([path])):
        with pytest.raises(InputError, match=r"x\.png: the image cannot be read: a checksum"):
            read()


def test_another_kind_of_image_is_refused_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(encoded("BMP"))
    for read in (read_pixels, lambda paths: image_mode(paths[0])):
        with pytest.raises(InputError, match=r"x\.png.* cannot be read"):
            read([path])
