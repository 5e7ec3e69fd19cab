"""The errors of RRISE. Each message is one sentence: what was expected, what was given, and what to do.

Every error is a `ValueError`, so callers need not know these names. The command line prints the sentence
and exits with code 2.
"""

import difflib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path


class RriseError(ValueError):
    """Base class of every error that a user can cause and fix.

    Example:
        >>> import rrise
        >>> try:
        ...     rrise.Gaussian(-1)
        ... except rrise.RriseError as error:
        ...     print(error)
        expected a positive noise level sigma, got -1
    """


class SettingError(RriseError):
    """An invalid failure, budget or other setting."""


class InputError(RriseError):
    """An array, image or file that the certifier or the classifier does not accept."""


class MismatchError(RriseError):
    """Things that do not belong together: another base classifier, another sigma, another split."""


class FolderError(RriseError):
    """A folder on disk that is missing, truncated, edited or of another kind."""


class WorkerError(RriseError):
    """A worker in another process or on another machine that failed permanently."""


class LittleIssuedWarning(UserWarning):
    """A calibrated certifier abstains on nearly all of its calibration inputs."""


def described(value: object) -> str:
    """Describe what was given instead of something else.

    >>> described("folder"), described({}), described(None), described(dict)
    ("the text 'folder'", 'a dict', 'None', 'the class dict')
    """
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the text {value[:80]!r}"
    if isinstance(value, PathLike):
        return f"the path {value}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def as_path(value: object, what: str) -> Path:
    """Return a path; anything else is an error that names what was expected."""
    if not isinstance(value, str | PathLike):
        raise FolderError(f"expected the path of {what}, got {described(value)}")
    return Path(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence ending that suggests the nearest known name, or nothing.

    >>> did_you_mean("epoch", ["epochs", "seed"])
    ': did you mean epochs?'
    """
    near = difflib.get_close_matches(name, list(known), 1)
    return f": did you mean {near[0]}?" if near else ""
