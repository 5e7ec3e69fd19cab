"""Options of commands: generated from declared settings, read from files, and checked together."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rrise.errors import SettingError
from rrise.settings import Declared, declared

Command = Callable[..., None]


def options_of(kind: type[Any], into: str, *, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Replace the parameter `into` of a command by one option per setting of a dataclass.

    The parameter receives a dictionary of the given settings by name. The dataclass or a file sets the
    others. `without` names settings that the command handles itself.
    """
    parts = {_parameter_name(part): part for part in declared(kind) if part.name not in without}

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_options(*arguments: Any, **named: Any) -> None:
            values = {part.name: named.pop(name, None) for name, part in parts.items()}
            given = {name: value for name, value in values.items() if value is not None}
            command(*arguments, **named, **{into: given})

        signature = inspect.signature(command, eval_str=True)
        parameters = [
            shown
            for own in signature.parameters.values()
            for shown in (map(_parameter, parts.values()) if own.name == into else [own])
        ]
        with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_options

    return decorate


def options_given(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings, by the names of their options."""
    return {part.option: given[part.name] for part in declared(kind) if part.name in given}


def check_needed(needed: str, is_given: bool, options: Mapping[str, object]) -> None:
    """Refuse options that have no effect without another option that is not given."""
    useless = [name for name, value in options.items() if value is not None]
    if useless and not is_given:
        raise SettingError(f"{useless[0]} has no effect without {needed}: pass both")


def check_backend(backend: str, **of_ray: Any) -> None:
    """Refuse an unknown back end, and options of Ray without it."""
    if backend not in ("local", "ray"):
        raise SettingError(f"expected a back end out of local, ray; got {backend!r}")
    given = [name.replace("_", "-") for name, value in of_ray.items() if value]
    if backend == "local" and given:
        raise SettingError(f"--{given[0]} needs --backend ray")


def read_token(file: Path) -> str:
    """Return the token in a file, without the white space around it."""
    try:
        return file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise SettingError(f"expected an ASCII token in {file}, got other bytes") from None


def _parameter_name(part: Declared) -> str:
    return part.option.removeprefix("--").replace("-", "_")


def _parameter(part: Declared) -> inspect.Parameter:
    """Return the parameter for a Typer option; a list or a union is passed as text."""
    plain = part.types[0] if part.types in ((bool,), (int,), (float,)) else str
    name = part.option
    flags = f"{name}/--no-{name.removeprefix('--')}" if plain is bool else name
    words = part.setting.help.replace("`", "") + (f" One of {', '.join(part.names)}." if part.names else "")
    option = typer.Option(flags, help=words, show_default=part.default_words or False)
    annotation = Annotated[plain | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(
        _parameter_name(part), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
