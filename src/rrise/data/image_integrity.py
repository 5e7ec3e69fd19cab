"""Whether an image file is whole, checked before it is decoded: decoders show what they can of a damaged one.

A PNG has a checksum for every chunk, so any change of a few bytes is noticed. A JPEG has none: only a missing
part is noticed, and a change inside its data gives another picture.
"""

import re
import zlib

from rrise.errors import InputError

PNG, JPEG = "PNG", "JPEG"
KINDS = (PNG, JPEG)

_SIGNATURES = {PNG: b"\x89PNG\r\n\x1a\n", JPEG: b"\xff\xd8"}
_END_OF_IMAGE, _START_OF_SCAN = 0xD9, 0xDA
_MARKER = re.compile(rb"\xff+([^\xff])", re.DOTALL)
_MARKER_AFTER_SCAN = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]", re.DOTALL)
"""In the data of a scan, 0xff 0x00 stands for the value 0xff; the others are restart markers."""


def check_whole(content: bytes, kinds: tuple[str, ...] = KINDS) -> None:
    """Refuse a file that is none of these kinds of images, is cut off, or fails one of its checksums."""
    kind = next((kind for kind in kinds if content.startswith(_SIGNATURES[kind])), None)
    if kind is None:
        raise InputError(f"the image cannot be read: expected a {' or '.join(kinds)} file")
    if kind == PNG:
        _check_png(content)
    else:
        _check_jpeg(content)


def _check_png(content: bytes) -> None:
    """Check the checksum of every chunk, and that the file ends with its end chunk."""
    view, place, name = memoryview(content), len(_SIGNATURES[PNG]), b""
    while name != b"IEND":
        data = place + 8
        end = data + int.from_bytes(view[place : place + 4], "big")
        if end + 4 > len(content):
            raise InputError("the image cannot be read: the PNG file is cut off")
        name = content[place + 4 : data]
        if zlib.crc32(view[place + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            raise InputError("the image cannot be read: a checksum in the PNG file is wrong, it is damaged")
        place = end + 4
    if place != len(content):
        raise InputError("the image cannot be read: the PNG file goes on after its end, it is damaged")


def _check_jpeg(content: bytes) -> None:
    """Follow the segments to the end marker; cameras store more behind it, which no decoder reads."""
    place = len(_SIGNATURES[JPEG])
    while found := _MARKER.match(content, place):
        marker, place = found[1][0], found.end()
        if marker == _END_OF_IMAGE:
            return
        size = int.from_bytes(content[place : place + 2], "big")
        place += size
        if size < 2 or place > len(content):
            break
        if marker == _START_OF_SCAN:
            after = _MARKER_AFTER_SCAN.search(content, place)
            if after is None:
                break
            place = after.start()
    raise InputError("the image cannot be read: the JPEG file is cut off or damaged")
