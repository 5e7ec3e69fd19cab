"""Requests: read within limits, and decoded into checked inputs or refused with a sentence.

Nothing here opens a path, fetches a URL or unpickles. Bodies are held only in memory.
"""

import asyncio
import io
import json
import math
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect

from rrise.data.files import read_image
from rrise.data.inputs import InputRange, as_inputs
from rrise.deployment.service.forms import form_parts
from rrise.deployment.service.refusals import RefusedError
from rrise.errors import InputError

IMAGE_TYPES = {"image/png": "PNG", "image/jpeg": "JPEG"}
ARRAY_TYPE, JSON_TYPE, FORM_TYPE = "application/x-npy", "application/json", "multipart/form-data"
TYPES = (*IMAGE_TYPES, ARRAY_TYPE, JSON_TYPE, FORM_TYPE)

_FINITE = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))
_SMALL = 64 * 2**10
"""The most bytes of a body that is decoded at once; larger bodies are decoded in a thread."""


@dataclass
class BodyReader:
    """Reads bodies of at most `max_body` bytes each and `max_held` in total, within `timeout` seconds.

    The limits apply while a body streams in, whatever its Content-Length.
    """

    max_body: int
    max_held: int
    timeout: float
    held: int = field(default=0, init=False)

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body of a request; it counts as held until the end of the context."""
        self._check_size(_declared_length(request))
        chunks: list[bytes] = []
        try:
            await self._read(request, chunks)
            yield b"".join(chunks)
        finally:
            self.held -= sum(map(len, chunks))

    async def _read(self, request: Request, chunks: list[bytes]) -> None:
        size = 0
        try:
            async with asyncio.timeout(self.timeout):
                async for chunk in request.stream():
                    chunks.append(chunk)
                    size += len(chunk)
                    self.held += len(chunk)
                    self._check_size(size)
                    self._check_held()
        except TimeoutError:
            raise RefusedError(
                408, f"expected the whole request within {self.timeout:g} seconds: send it faster"
            ) from None
        except ClientDisconnect:
            raise RefusedError(400, "the client disconnected before its request was complete") from None

    def _check_size(self, size: int) -> None:
        if size > self.max_body:
            raise RefusedError(
                413, f"expected a body of at most {self.max_body} bytes: send fewer inputs in one request"
            )

    def _check_held(self) -> None:
        if self.held > self.max_held:
            raise RefusedError(503, "too many large requests are being read: try again in a moment", 1)


def _declared_length(request: Request) -> int:
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isascii() and declared.isdigit() else 0


@dataclass(frozen=True)
class Decoder:
    """Turns a body into inputs `[n, *shape]`, checked as the library checks them."""

    shape: tuple[int, ...]
    input_range: InputRange
    max_inputs: int

    async def decode(self, content_type: str, body: bytes) -> NDArray[np.float32]:
        """Return the inputs of a body, or refuse it with 415 or 422 and a sentence."""
        if len(body) <= _SMALL:
            return self.inputs(content_type, body)
        return await asyncio.to_thread(self.inputs, content_type, body)

    def inputs(self, content_type: str, body: bytes) -> NDArray[np.float32]:
        """Decode a body, or say why it cannot be decoded."""
        kind = content_type.partition(";")[0].strip().lower()
        try:
            if kind == FORM_TYPE:
                return self._checked(self._form(content_type, body))
            return self._checked(self._values(kind, body))
        except InputError as error:
            raise RefusedError(422, str(error)) from None

    def _checked(self, values: NDArray[Any]) -> NDArray[np.float32]:
        if values.shape == self.shape:
            values = values[None]
        if values.ndim and len(values) > self.max_inputs and values.shape[1:] == self.shape:
            raise RefusedError(
                413, f"expected at most {self.max_inputs} inputs in one request, got {len(values)}"
            )
        if self._plainly_fine(values):
            return np.array(values, dtype=np.float32, order="C")
        inputs = as_inputs(values, shape=self.shape, input_range=self.input_range)
        if len(inputs) == 0:
            raise InputError("expected at least one input, got an empty array")
        return np.asarray(inputs.numpy())

    def _plainly_fine(self, values: NDArray[Any]) -> bool:
        """Return True, within microseconds, if `as_inputs` would accept the values; False proves nothing."""
        if values.dtype != np.float32 or values.shape[1:] != self.shape or not values.size:
            return False
        low, high = self.input_range or _FINITE
        return bool(values.min() >= low and values.max() <= high)  # NaN is neither

    def _values(self, kind: str, body: bytes) -> NDArray[Any]:
        if kind in IMAGE_TYPES:
            return self._image(IMAGE_TYPES[kind], body)
        if kind == ARRAY_TYPE:
            return _array(body)
        if kind == JSON_TYPE:
            return _json_array(body)
        raise RefusedError(415, f"expected a Content-Type out of {', '.join(TYPES)}; got {kind or 'none'}")

    def _image(self, kind: str, body: bytes) -> NDArray[Any]:
        """Return an image as `rrise certify` reads it; its size is checked before it is decoded."""
        from PIL import Image

        if len(self.shape) == 3:
            with _image_errors(kind), warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked here
                with Image.open(io.BytesIO(body), formats=[kind]) as image:
                    (width, height), (wanted_height, wanted_width) = image.size, self.shape[1:]
            if (width, height) != (wanted_width, wanted_height):
                raise InputError(
                    f"expected an image of {wanted_width} x {wanted_height} pixels, got {width} x {height}: "
                    f"images are not resized, because that would certify another image"
                )
        with _image_errors(kind):
            return read_image(io.BytesIO(body), self.shape, self.input_range)

    def _form(self, content_type: str, body: bytes) -> NDArray[Any]:
        """Return the inputs of all parts of a form, in order."""
        parts = [
            self._checked(self._values(kind.partition(";")[0].strip().lower(), content))
            for kind, content in form_parts(content_type, body, self.max_inputs)
        ]
        if not parts:
            raise InputError("expected at least one file in the form, got none")
        return np.concatenate(parts)


@contextmanager
def _image_errors(kind: str) -> Iterator[None]:
    """Convert any error of an image decoder into an `InputError`."""
    from PIL import UnidentifiedImageError

    try:
        yield
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(
            f"the image cannot be read: expected a {kind} file, as its Content-Type says"
        ) from None
    except Exception as error:  # decoders raise many kinds for broken files
        raise InputError(f"the image cannot be read: {str(error) or type(error).__name__}") from None


def _array(body: bytes) -> NDArray[Any]:
    """Return the array in the bytes of a .npy file; the header must match their number."""
    try:
        start = _PREFIX[body[6:7]] + int.from_bytes(body[8 : _PREFIX[body[6:7]]], "little")
        shape, fortran, dtype = _array_header(body[:start])
    except Exception:  # its parser raises many kinds
        raise InputError("expected the bytes of a .npy file with an array of numbers") from None
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(body) - start:
        raise InputError(
            "expected the bytes of a .npy file with an array of numbers, got a header that does not match "
            "its content"
        )
    return np.frombuffer(body, dtype, count, start).reshape(shape, order="F" if fortran else "C")


_PREFIX = {b"\x01": 10, b"\x02": 12}
"""Bytes before the header's text, by format version; the last ones hold its length."""


@lru_cache(maxsize=64)
def _array_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse the header of a .npy file; most requests have the same one."""
    stream = io.BytesIO(header)
    version = np.lib.format.read_magic(stream)
    formats = np.lib.format
    read = formats.read_array_header_1_0 if version == (1, 0) else formats.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "biufc":
        raise InputError("no numbers")
    return shape, fortran, dtype


def _json_array(body: bytes) -> NDArray[Any]:
    """Return nested JSON arrays of numbers as one array of floats; 0 and 1 count as floats here."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {_first_line(error)}") from None
    if not isinstance(values, list):
        raise InputError(f"expected a JSON array of numbers, got {type(values).__name__}")
    try:
        array = np.asarray(values)
    except (ValueError, RecursionError):
        raise InputError("expected inputs as one array, got a ragged list") from None
    # JSON without keys and strings contains the letters of true and false only as values
    if array.size and (array.dtype.kind not in "iuf" or b"true" in body or b"false" in body):
        raise InputError("expected a JSON array of numbers, got other values in it")
    return array.astype(np.float64)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) and not isinstance(error, RecursionError) else "too deep"
