"""A figure as a part of a page."""

import re

from rrise.looks import INK, PAPER

_REFERENCE = re.compile(r'(\bid="|href="#|url\(#)([^"#)]+)')


def inline_svg(name: str, svg: str) -> str:
    """Return an SVG for a page that has several: its own ids, and the page's colours of text and ground."""
    text = _REFERENCE.sub(lambda found: f"{found[1]}{name}-{found[2]}", svg)
    return text.replace(INK, "currentColor").replace(PAPER, "var(--page)")
