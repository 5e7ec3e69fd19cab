"""The errors of RRISE. Each message is one sentence: what was expected, what was given, and what to do.

Every error is a `ValueError`, so callers need not know these names. The command line prints the sentence
and exits with code 2.
"""

import difflib
from collections.abc import Iterable


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
    """An invalid level, budget or other setting."""


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence ending that suggests the nearest known name, or nothing.

    >>> did_you_mean("epoch", ["epochs", "seed"])
    ': did you mean epochs?'
    """
    near = difflib.get_close_matches(name, list(known), 1)
    return f": did you mean {near[0]}?" if near else ""
