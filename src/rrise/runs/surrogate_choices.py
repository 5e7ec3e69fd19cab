"""The surrogates that a run can train, by name."""

from dataclasses import dataclass
from typing import Literal

from rrise.errors import SettingError, did_you_mean

Strategy = Literal["head", "all", "all-random", "distill"]
Objective = Literal["cross-entropy", "jensen-shannon"]
_NAMES: dict[str, tuple[Strategy, Objective]] = {
    "head": ("head", "cross-entropy"),
    "all": ("all", "cross-entropy"),
    "all-random": ("all-random", "cross-entropy"),
    "distill": ("distill", "cross-entropy"),
    "jensen-shannon": ("all-random", "jensen-shannon"),
    "jensen-shannon-base": ("all", "jensen-shannon"),
}
_VARIANTS: dict[tuple[Strategy, Objective], str] = {
    ("head", "cross-entropy"): "trainhead_initbase",
    ("all", "cross-entropy"): "trainall_initbase",
    ("all-random", "cross-entropy"): "trainall_initrandom",
    ("distill", "cross-entropy"): "distill",
    ("all-random", "jensen-shannon"): "init0",
    ("all", "jensen-shannon"): "init1",
    ("head", "jensen-shannon"): "inithead",
}


@dataclass(frozen=True)
class SurrogateChoice:
    """A way to train a surrogate: weights, objective and votes per input."""

    strategy: Strategy
    objective: Objective
    budget: int
    """Of `distill`: all votes that each training input gets in its epochs."""
    network: str = ""
    """The name of its own network, if it does not have the base classifier's architecture."""

    @classmethod
    def read(cls, name: str, budget: int, stored: int, fresh: int) -> "SurrogateChoice":
        """Parse a name: `all-random` uses `budget` votes, `head@500` the first 500 of the `stored` votes.

        `distill` draws `fresh` votes of its own.

        >>> SurrogateChoice.read("head@500", 10_000, 10_000, fresh=800).variant
        'trainhead_initbase_n500'
        """
        kind, at, votes = name.partition("@")
        if kind not in _NAMES:
            raise SettingError(
                f"expected surrogates among {', '.join(_NAMES)}, or with votes as in head@500; got {name!r}"
                f"{did_you_mean(kind, _NAMES)}"
            )
        if at and kind == "distill":
            raise SettingError(
                f"distill draws its own votes: expected it without @, and surrogate.fresh_votes; got {name!r}"
            )
        if at and not (votes.isascii() and votes.isdigit() and 1 <= int(votes) <= stored):
            raise SettingError(
                f"expected a number of votes from 1 to votes.train = {stored} after the @, got {name!r}"
            )
        usual = fresh if kind == "distill" else budget
        return cls(*_NAMES[kind], int(votes) if at else usual)

    @property
    def is_distilled(self) -> bool:
        """Whether it draws its own votes, and uses no stored ones."""
        return self.strategy == "distill"

    @property
    def method(self) -> str:
        """The name of the method that it is registered under."""
        from rrise.certifiers.methods import JENSEN_SHANNON, RRISE

        return (JENSEN_SHANNON if self.objective == "jensen-shannon" else RRISE).name

    @property
    def variant(self) -> str:
        """The paper's notation, such as `trainhead_initbase_n10000`."""
        prefix = f"{self.network}_" if self.network else ""
        return f"{prefix}{_VARIANTS[self.strategy, self.objective]}_n{self.budget}"
