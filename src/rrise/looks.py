"""How methods and scores look in figures: colours, dashes, markers and hatches, as plain data.

Each method or score owns its look. Only code that draws imports drawing libraries.
"""

from dataclasses import dataclass, replace
from typing import Any

INK, PAPER = "#1b1f24", "#fefefe"
"""The colours of text and of the background; the page replaces them with its own."""

BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#e69f00",
    "#cc79a7",
    "#56b4e9",
)
"""From the palette of Okabe and Ito; its black is the ink."""
GREY = "#777777"


@dataclass(frozen=True)
class Look:
    """How one thing is drawn; each of the four properties alone identifies it, even in grey."""

    colour: str
    dashes: tuple[float, ...] = ()
    marker: str = "o"
    hatch: str = ""
    hollow: bool = False

    def line(self) -> dict[str, Any]:
        """Return the arguments of `Axes.plot`."""
        face = PAPER if self.hollow else self.colour
        style = {"color": self.colour, "marker": self.marker, "markerfacecolor": face}
        return style | ({"dashes": self.dashes} if self.dashes else {})

    def bar(self) -> dict[str, Any]:
        """Return the arguments of `Axes.bar`."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": INK, "linewidth": 0.6}

    def variant(self, place: int) -> "Look":
        """Return the look of another setting of the same thing; `place` 0 returns this look."""
        if place == 0:
            return self
        dashes = (3.0, 1.0, *(1.0,) * (2 * place - 2))
        return replace(self, dashes=dashes, hatch="+" * (place + 1), hollow=True)


UNKNOWN = Look(GREY, (1, 2), "*", "oo")
"""The look of anything not registered, such as a method of another version."""
