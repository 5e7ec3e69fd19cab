"""TOML tables to dataclasses and back, with clear errors for unknown, missing or mistyped keys."""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, get_args

from rrise.errors import SettingError, did_you_mean
from rrise.settings import TYPE_WORDS, Declared, declared

Tables = dict[str, dict[str, Any]]
Kind = TypeVar("Kind")


def read_toml(file: Traversable) -> tuple[str, Tables]:
    """Return the text of a recipe and its parsed tables."""
    try:
        text = file.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingError(f"{file} is not a readable recipe: {error}") from None


def read_table(kind: type[Kind], table: Mapping[str, Any], name: str) -> Kind:
    """Build a dataclass from a table with checked keys; messages use the table's `name`."""
    known = {part.name: part for part in declared(kind)}
    missing = [f"{name}.{key}" for key, part in known.items() if part.is_required and key not in table]
    if missing:
        raise SettingError(f"the recipe is missing {', '.join(missing)}")
    return kind(**{key: _of_type(value, known[key], f"{name}.{key}") for key, value in table.items()})


def check_keys(
    kinds: Mapping[str, type], tables: Mapping[str, Any], prefix: str = "", *, what: str = "a recipe"
) -> None:
    """Refuse tables and keys that the dataclasses do not have, and suggest the nearest one.

    Messages name the kind of file, `what`, and the place of the tables in it, `prefix`.
    """
    keys = {name: [part.name for part in declared(kind)] for name, kind in kinds.items()}
    for name, table in tables.items():
        if name not in keys:
            homes = [f"{other}.{name}" for other, known in keys.items() if name in known]
            raise SettingError(f"{what} has no {prefix}{name}{_hint(name, keys, homes)}")
        if not isinstance(table, dict):
            raise SettingError(f"expected {prefix}{name} to be a table, got {_described(table)}")
        for key in table:
            if key not in keys[name]:
                homes = [f"{other}.{key}" for other, known in keys.items() if key in known]
                hint = _hint(key, keys[name], homes, within=f"{name}.")
                raise SettingError(f"{what} has no {prefix}{name}.{key}{hint}")


def parse_change(text: str) -> tuple[str, Any]:
    """Parse `table.key=value`; the value is TOML, and a bare word is a string.

    >>> parse_change("base.epochs=3"), parse_change("data.protocol=paper")
    (('base.epochs', 3), ('data.protocol', 'paper'))
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or "." not in key:
        raise SettingError(f"expected --set TABLE.KEY=VALUE, such as base.epochs=3; got {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key, value.strip()
    return key, parsed["value"] if len(parsed) == 1 else value.strip()


def change(tables: Tables, key: str, value: Any) -> None:
    """Set `table.key`, or `table.key.name` inside a key that is a table, in place."""
    name, *path = key.split(".")
    place: Any = tables.setdefault(name, {})
    for part in path[:-1]:
        place = place.setdefault(part, {}) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise SettingError(f"cannot set {key}: {key.rpartition('.')[0]} is not a table")
    place[path[-1]] = value


def write_tables(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables as TOML, without keys that are None.

    >>> print(write_tables({"base": {"epochs": 3, "weights": None, "options": {"classes": 10}}}))
    [base]
    epochs = 3
    options = { classes = 10 }
    """
    parts = []
    for name, table in tables.items():
        lines = [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]
        parts.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(parts) + "\n"


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items())
        bare = ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {bare if all(map(_is_bare, value)) else inside} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _is_bare(key: str) -> bool:
    return key.isascii() and key.replace("_", "").replace("-", "").isalnum()


def _hint(key: str, known: Iterable[str], homes: list[str], within: str = "") -> str:
    """Return the end of a sentence: the nearest name, the tables that have this key, or all names."""
    names = list(known)
    if near := difflib.get_close_matches(key, names, 1):
        return f": did you mean {within}{near[0]}?"
    if homes:
        return f": did you mean {' or '.join(homes)}?"
    return f"; it has {', '.join(f'{within}{name}' for name in names)}"


def _of_type(value: Any, part: Declared, key: str) -> Any:
    """Return a value in the type of its field.

    An int is a valid float, but true is not an int. A text is a valid list of texts.
    """
    if names := part.names:
        if value in names:
            return value
        raise SettingError(
            f"expected {key} out of {', '.join(names)}; got {_described(value)}"
            f"{did_you_mean(str(value), names)}"
        )
    if type(value) in part.types:
        return value
    if float in part.types and type(value) is int:
        return float(value)
    if tuple[str, ...] in part.types and type(value) is str:
        return (value,)
    lists = (kind for kind in part.types if isinstance(value, list) and get_args(kind))
    for item_type in (get_args(kind)[0] for kind in lists):
        if all(type(item) is item_type or (item_type is float and type(item) is int) for item in value):
            return tuple(item_type(item) for item in value)
    words = " or ".join(TYPE_WORDS[kind] for kind in part.types)
    raise SettingError(f"expected {key} to be {words}, got {_described(value)}")


def _described(value: Any) -> str:
    kind = TYPE_WORDS.get(type(value), "a list" if isinstance(value, list) else type(value).__name__)
    return kind if isinstance(value, dict | list) else f"{kind}: {toml_value(value)}"
