"""Methods: ways to certify, with everything that tables, figures and reports say about them.

The module of a certifier registers its method. Evaluations run every registered method that votes. Tables,
figures, the report and the command line read names, looks and notes from here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rrise.looks import UNKNOWN, Look
from rrise.registry import register
from rrise.statistics import Level

if TYPE_CHECKING:
    from rrise.certifiers.voting import VoteMethod

Variants = Callable[[int, Level], Iterable[tuple[str, Callable[[], "VoteMethod"]]]]
"""Maps votes and failure to the variants of a method: each a name and a factory, which may raise."""

LAST = 1000


@dataclass(frozen=True)
class Method:
    """One way to certify.

    Attributes:
        name: its name in results and tables, such as `Baseline 2`.
        label: its name in figures and pages; `name` if empty.
        about: a sentence for the documents: what it does, and whether its promise holds.
        order: its place in tables and legends.
        look: how it is drawn.
        in_paper: whether the paper has it.
        variants: how it votes on a new input; None for a surrogate, which takes one pass.
        main_variant: the variant in the main comparison, with `{n}` for the votes.
        paper_variant: the variant in the paper's tables, without the votes.
        paper_break_even: the variant of the paper's break-evens, if another.
        needs_selection: whether separate votes choose the class.
        abbreviation: its name in headings of break-evens; empty: no heading.
        caution: a sentence below tables that show it; a dagger then marks its rows.
        uncalibrated: for a surrogate: whether it is also shown without calibration.
    """

    name: str
    label: str = ""
    about: str = ""
    order: int = LAST
    look: Look = UNKNOWN
    in_paper: bool = False
    variants: Variants | None = None
    main_variant: str = ""
    paper_variant: str = ""
    paper_break_even: str = ""
    needs_selection: bool = False
    abbreviation: str = ""
    caution: str = ""
    uncalibrated: bool = False

    @property
    def votes(self) -> bool:
        """Whether it votes on each new input; otherwise it is a surrogate."""
        return self.variants is not None

    @property
    def shown_as(self) -> str:
        """Its name in figures and pages."""
        return self.label or self.name


METHODS: dict[str, Method] = {}
"""All registered methods by name; `methods()` returns them in order."""


def register_method(method: Method) -> Method:
    """Register a method under its name, which must be new."""
    return register(METHODS, method.name, method, "method")


def methods() -> list[Method]:
    """Return all registered methods in their order."""
    return sorted(METHODS.values(), key=lambda method: method.order)


def method_by_name(name: str) -> Method:
    """Return a registered method, or a plain one of this name if none is registered."""
    return METHODS.get(name, Method(name))
