"""Settings, declared once: fields of a dataclass, each annotated with a `Setting`.

Checks, command-line options and documentation tables are all generated from that declaration.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from rrise.errors import SettingError, did_you_mean

TYPE_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    tuple[str, ...]: "a list of texts",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, ...]: "a list of numbers",
    dict: "a table",
}
TABLE_HEADINGS = ("setting", "default", "allowed", "meaning")
_ENDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "most": ("at most", operator.le),
    "below": ("below", operator.lt),
}


@dataclass(frozen=True)
class Setting:
    """The declaration of a field beyond its type and default: `Annotated[int, Setting("…", least=1)] = 64`.

    Attributes:
        help: the meaning, as help and documents show it.
        least: the smallest allowed number. With any limit, infinity and NaN are refused too.
        above: numbers must be above this. Limits apply to each item of a list.
        most: the largest allowed number.
        below: numbers must be below this.
        share: a number strictly between 0 and 1; whole numbers, if allowed, are counts.
        names: the allowed texts.
        option: the name on the command line, if it differs from the field's.
        unset: what holds if the default is None.
        quiet: `stored_settings` leaves it out while it has its default. A setting that is added later thus
            changes nothing that is stored.
    """

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    share: bool = False
    names: tuple[str, ...] = ()
    option: str = ""
    unset: str = "none"
    quiet: bool = False

    @property
    def limits(self) -> str:
        """The limits of a number in words, such as `at least 0 and below 1`."""
        ends = ((words, getattr(self, end)) for end, (words, _) in _ENDS.items())
        return " and ".join(f"{words} {value}" for words, value in ends if value is not None)

    def check_number(self, value: Any, name: str, *, whole: bool) -> None:
        """Refuse a value that is not a number or is beyond the limits."""
        is_whole, is_number = isinstance(value, Integral), isinstance(value, Real)
        if not (is_whole if whole else is_number):
            raise SettingError(f"expected {name} to be a {'whole ' if whole else ''}number, got {value!r}")
        if self.share and is_whole and value < 1:
            raise SettingError(f"expected {name} to be a count of at least 1, or a share; got {value}")
        if self.share and not is_whole and not 0 < value < 1:
            raise SettingError(f"expected {name} to be a share strictly between 0 and 1, got {value}")
        ends = ((is_within, getattr(self, end)) for end, (_, is_within) in _ENDS.items())
        if not math.isfinite(value) or any(
            end is not None and not is_within(value, end) for is_within, end in ends
        ):
            raise SettingError(f"expected {name} to be {self.limits}, got {value}")


@dataclass(frozen=True)
class Declared:
    """A field of a dataclass and its `Setting`; `types` are its allowed types, without None."""

    name: str
    types: tuple[Any, ...]
    is_optional: bool
    default: Any
    setting: Setting

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    @property
    def names(self) -> tuple[str, ...]:
        """The allowed texts, if they are listed."""
        literals = (get_args(kind) for kind in self.types if get_origin(kind) is Literal)
        return self.setting.names or tuple(name for names in literals for name in names)

    @property
    def option(self) -> str:
        """Its name on the command line, such as `--max-batch`."""
        return self.setting.option or f"--{self.name.replace('_', '-')}"

    @property
    def default_words(self) -> str:
        """Its default as help and documents show it; empty if there is none.

        >>> Declared("budgets", (tuple[int, ...],), False, (500, 1000), Setting("…")).default_words
        '[500, 1_000]'
        """
        if self.is_required:
            return ""
        return self.setting.unset if self.default is None else _written(self.default)

    @property
    def allowed_words(self) -> str:
        """Its allowed values: their type and their limits."""
        if self.names:
            return ", ".join(self.names)
        if self.setting.share:
            return "a count, or a share between 0 and 1" if int in self.types else "a share between 0 and 1"
        words = " or ".join(TYPE_WORDS[kind] for kind in self.types)
        each = "each " if get_origin(self.types[0]) is tuple else ""
        return f"{words}, {each}{self.setting.limits}" if self.setting.limits else words

    def check(self, value: Any, name: str) -> None:
        """Refuse a value that the declaration does not allow; types of texts and lists are not checked."""
        setting = self.setting
        if value is None and self.is_optional:
            return
        if self.names and value not in self.names:
            raise SettingError(
                f"expected {name} out of {', '.join(self.names)}; got {value!r}"
                f"{did_you_mean(str(value), self.names)}"
            )
        if not setting.limits and not setting.share:
            return
        if isinstance(value, tuple):
            for item in value:
                setting.check_number(item, f"each of {name}", whole=False)
        else:
            setting.check_number(value, name, whole=float not in self.types)


def declared(kind: type[Any]) -> list[Declared]:
    """Return the settings of a dataclass in order; a field without a `Setting` is a programming error."""
    hints, found = get_type_hints(kind, include_extras=True), []
    for part in fields(kind):
        hint = hints[part.name]
        said = [about for about in getattr(hint, "__metadata__", ()) if isinstance(about, Setting)]
        if get_origin(hint) is not Annotated or len(said) != 1:
            raise TypeError(f"{kind.__name__}.{part.name} needs a Setting in its annotation")
        default = part.default if part.default_factory is MISSING else part.default_factory()
        plain = hint.__origin__
        found.append(Declared(part.name, value_types(plain), NoneType in get_args(plain), default, said[0]))
    return found


def check_settings(settings: Any, prefix: str = "") -> None:
    """Refuse values that the declaration does not allow; `prefix` precedes names in errors."""
    for part in declared(type(settings)):
        part.check(getattr(settings, part.name), f"{prefix}{part.name}")


def stored_settings(settings: Any) -> dict[str, Any]:
    """Return the settings of a dataclass as they are stored: without quiet ones at their default."""
    unsaid = {part.name: part.default for part in declared(type(settings)) if part.setting.quiet}
    return {name: value for name, value in asdict(settings).items() if unsaid.get(name, MISSING) != value}


def table_rows(kind: type[Any], *, options: bool = False) -> list[tuple[str, str, str, str]]:
    """Return the settings of a dataclass under `TABLE_HEADINGS`, named as keys or as `options`."""
    return [
        (part.option if options else part.name, part.default_words, part.allowed_words, part.setting.help)
        for part in declared(kind)
    ]


def markdown_table(kind: type[Any], *, options: bool = False) -> str:
    """Return the settings of a dataclass as a table for documents."""
    rows = [TABLE_HEADINGS, ("---",) * len(TABLE_HEADINGS)]
    rows += [(f"`{name}`", *rest) for name, *rest in table_rows(kind, options=options)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def value_types(hint: Any) -> tuple[Any, ...]:
    """Return the types that a hint allows, without None; every table type is `dict`.

    >>> value_types(int | None), value_types(dict[str, int])
    ((<class 'int'>,), (<class 'dict'>,))
    """
    union = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    return tuple(dict if get_origin(kind) is dict else kind for kind in union if kind is not NoneType)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return f"{value:_}" if isinstance(value, int) else str(value)
