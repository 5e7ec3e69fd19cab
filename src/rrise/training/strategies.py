"""Which weights of the surrogate are trained."""

from rrise.errors import SettingError

STRATEGIES = ("head", "all")
"""Both start from the base classifier: `head` trains its last layer alone, `all` every weight."""


def check_strategy(name: str) -> None:
    """Refuse an unknown strategy."""
    if name not in STRATEGIES:
        raise SettingError(f"expected a strategy out of {', '.join(STRATEGIES)}; got {name!r}")
