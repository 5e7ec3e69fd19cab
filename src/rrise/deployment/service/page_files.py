"""The files of the page, served without a token."""

from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

_SCRIPTS = ("page", "asking", "charts", "monitor", "pictures", "promise", "vectors", "verify")

PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in _SCRIPTS},
}
"""By path: the file and its type."""


def add_page(app: FastAPI) -> None:
    """Serve the page and everything it loads."""
    folder = files("rrise.deployment.service") / "page"
    for path, (name, content_type) in PAGE.items():
        answer = _constant((folder / name).read_bytes(), content_type)
        app.add_api_route(path, answer, include_in_schema=False)


def _constant(content: bytes, content_type: str) -> Any:
    async def answer() -> Response:
        return Response(content, headers={"content-type": content_type})

    return answer
