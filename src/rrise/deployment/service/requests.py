"""Requests: read within limits, and decoded into checked inputs or refused with a sentence.

Nothing here opens a path, fetches a URL or unpickles. Bodies are held only in memory.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect

from rrise.data.image_integrity import JPEG, PNG
from rrise.data.images import read_image
from rrise.data.inputs import InputRange, as_inputs
from rrise.data.npy import parse_array
from rrise.deployment.service.forms import form_parts
from rrise.deployment.service.refusals import RefusedError
from rrise.errors import InputError

IMAGE_TYPES = {"image/png": PNG, "image/jpeg": JPEG}
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

    async def read(self, request: Request) -> bytes:
        """Return the body of a request; it counts as held until it is released."""
        self._check_size(_declared_length(request))
        chunks: list[bytes] = []
        try:
            await self._read(request, chunks)
        except BaseException:
            self.release(*chunks)
            raise
        return b"".join(chunks)

    def release(self, *held: bytes) -> None:
        """Count what was read as no longer held."""
        self.held -= sum(map(len, held))

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
            return read_image(body, self.shape, self.input_range, (IMAGE_TYPES[kind],))
        if kind == ARRAY_TYPE:
            return parse_array(body)
        if kind == JSON_TYPE:
            return _json_array(body)
        raise RefusedError(415, f"expected a Content-Type out of {', '.join(TYPES)}; got {kind or 'none'}")

    def _form(self, content_type: str, body: bytes) -> NDArray[Any]:
        """Return the inputs of all parts of a form, in order."""
        parts = [
            self._checked(self._values(kind.partition(";")[0].strip().lower(), content))
            for kind, content in form_parts(content_type, body, self.max_inputs)
        ]
        if not parts:
            raise InputError("expected at least one file in the form, got none")
        return np.concatenate(parts)


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
