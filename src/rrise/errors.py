"""What RRISE raises: one sentence that says what was expected, what came and what to do.

Every error is a `ValueError`, so that callers need not know these names; the command line prints
the sentence and exits with code 2.
"""

import difflib
from collections.abc import Iterable


class RriseError(ValueError):
    """Base of every error that a user can cause and mend."""


class SettingError(RriseError):
    """A level, budget or other setting that cannot work."""


class InputError(RriseError):
    """An array, image or file that is not what the certifier or the classifier takes."""


class MismatchError(RriseError):
    """Things that do not belong together: another base classifier, another sigma, another split."""


class FolderError(RriseError):
    """A folder on disk that is missing, truncated, edited or of another kind."""


class WorkerError(RriseError):
    """A worker on another machine or in another process that failed for good."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest known name, or nothing.

    >>> did_you_mean("epoch", ["epochs", "seed"])
    ': did you mean epochs?'
    """
    near = difflib.get_close_matches(name, list(known), 1)
    return f": did you mean {near[0]}?" if near else ""
