"""A finished figure: as PNG, and as SVG that shows its values on hover."""

import html
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rrise.evaluation.figures.style import STYLE
from rrise.files import write_bytes, write_text


@dataclass(frozen=True)
class Mark:
    """A point of a figure, in the coordinates of its data, and the value to show there."""

    axes: Any
    x: float
    y: float
    words: str


@dataclass(frozen=True)
class Drawing:
    """A matplotlib figure with its text alternative and the values behind it."""

    figure: Any
    title: str
    description: str
    marks: list[Mark] = field(default_factory=list)

    def mark(self, axes: Any, x: float, y: float, words: str) -> None:
        """Add a value to show on hover."""
        self.marks.append(Mark(axes, float(x), float(y), words))

    def png(self, dpi: int = 160) -> bytes:
        """Return the figure as PNG."""
        buffer = io.BytesIO()
        self._save(buffer, format="png", dpi=dpi, metadata={"Software": None})
        return buffer.getvalue()

    def svg(self) -> str:
        """Return the figure as SVG, the same bytes each time; text is drawn as paths, so no font is needed.

        Every mark is an invisible circle with a `title`, which browsers show on hover.
        """
        buffer = io.StringIO()
        self._save(buffer, format="svg", dpi=150, metadata=dict.fromkeys(_METADATA))
        text = buffer.getvalue()
        text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        start, rest = text.split(">", 1)
        start = re.sub(r'\s(width|height)="[^"]*"', "", start)
        words = f"<title>{html.escape(self.title)}</title>\n<desc>{html.escape(self.description)}</desc>"
        body = rest.rsplit("</svg>", 1)[0]
        return f'{start} role="img">\n{words}{body}{self._marks_as_svg()}</svg>\n'

    def _save(self, buffer: Any, **settings: Any) -> None:
        from matplotlib import style

        with style.context(["default", STYLE]):
            self._place()
            self.figure.savefig(buffer, **settings)

    def _place(self) -> None:
        """Lay the figure out once, so that all its forms and its marks agree."""
        if self.figure.get_layout_engine() is not None:
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")

    def _marks_as_svg(self) -> str:
        height = 72 * self.figure.get_figheight()
        scale = 72 / self.figure.dpi
        lines = ['<g class="marks" fill="#000" fill-opacity="0">']
        for mark in self.marks:
            x, y = scale * mark.axes.transData.transform((mark.x, mark.y))
            circle = f'<circle class="mark" cx="{x:.1f}" cy="{height - y:.1f}" r="6">'
            lines.append(f"{circle}<title>{html.escape(mark.words)}</title></circle>")
        return "\n".join([*lines, "</g>\n"])


_METADATA = ("Date", "Creator", "Format", "Type")


def write_figures(folder: Path, drawings: Mapping[str, Drawing]) -> dict[str, str]:
    """Write each figure as `NAME.png` and `NAME.svg` into an existing folder; return the SVG by name."""
    texts = {name: drawing.svg() for name, drawing in drawings.items()}
    for name, drawing in drawings.items():
        write_text(folder / f"{name}.svg", texts[name])
        write_bytes(folder / f"{name}.png", drawing.png())
    return texts
