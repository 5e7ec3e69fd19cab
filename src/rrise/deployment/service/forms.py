"""Forms: the parts of a multipart body, held in memory."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from rrise.deployment.service.refusals import RefusedError
from rrise.errors import InputError


def form_parts(content_type: str, body: bytes, most: int) -> list[tuple[str, bytes]]:
    """Return type and content of each part of a form."""
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser, parse_options_header

    collected = _Parts(most)
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise InputError("expected a form with a boundary in its Content-Type, got none")
    try:
        parser = MultipartParser(boundary, cast(Any, collected.callbacks()))
        parser.write(body)
        parser.finalize()
    except (FormParserError, ValueError) as error:
        raise InputError(f"the form cannot be read: {error}") from None
    return collected.parts


class _Parts:
    """Collects the parts of a form while it is parsed."""

    def __init__(self, most: int) -> None:
        self.parts: list[tuple[str, bytes]] = []
        self._most = most
        self._name, self._value, self._type, self._content = bytearray(), bytearray(), "", bytearray()

    def callbacks(self) -> Mapping[str, Callable[..., None]]:
        """Return the callbacks of the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._name.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._content.extend(data[start:end]),
            "on_part_end": self._end,
        }

    def _begin(self) -> None:
        self._type, self._content = "", bytearray()

    def _end_header(self) -> None:
        if self._name.lower() == b"content-type":
            self._type = self._value.decode("latin-1")
        self._name, self._value = bytearray(), bytearray()

    def _end(self) -> None:
        if len(self.parts) == self._most:
            raise RefusedError(413, f"expected at most {self._most} inputs in one request, got more")
        self.parts.append((self._type, bytes(self._content)))
