"""Registries: things that are known by a name and own whatever is said about them."""

from collections.abc import MutableMapping
from typing import TypeVar

from rrise.errors import SettingError

Thing = TypeVar("Thing")


def register(known: MutableMapping[str, Thing], name: str, thing: Thing, what: str) -> Thing:
    """Make a thing known by its name, which must be new; `what` is its kind, for messages.

    >>> register({}, "probit", 3, "score")
    3
    >>> register({"probit": 3}, "probit", 4, "score")
    Traceback (most recent call last):
    rrise.errors.SettingError: a score named 'probit' is registered already: choose another name
    """
    if name in known:
        raise SettingError(f"a {what} named {name!r} is registered already: choose another name")
    known[name] = thing
    return thing
