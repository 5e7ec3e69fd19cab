"""Votes from a recipe: which base classifier, which inputs, which noise, where to."""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from rrise.data.inputs import InputRange, check_input_range
from rrise.data.sources import load_images
from rrise.errors import SettingError
from rrise.models.folder import load_base
from rrise.progress import vote_bar, vote_log
from rrise.runs.device import choose_device
from rrise.votes.array import Votes
from rrise.votes.inputs import ShardedInputs
from rrise.votes.noise import Gaussian
from rrise.votes.plan import VotePlan
from rrise.votes.ray_backend import Cluster, ray_backend
from rrise.votes.store import VoteStore
from rrise.votes.tuning import Estimate, estimate

TABLE = "votes"
_REQUIRED = ("base", "data", "sigma", "n")


@dataclass(frozen=True)
class VoteRecipe:
    """The table `[votes]` of a recipe: everything that determines a collection, and how to compute it."""

    base: str
    data: str
    sigma: float
    n: int
    out: str = "votes"
    seed: int = 0
    split: str = "inputs"
    data_root: str | Path | None = None
    input_range: InputRange = (0.0, 1.0)
    precision: str | None = None
    weights: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    device: str | None = None
    batch_size: int | None = None
    compiled: bool | None = None
    freezing: bool | None = None

    @classmethod
    def read(cls, path: Path | None, **changes: Any) -> "VoteRecipe":
        """Read a recipe; `changes` that are not None go before what it says."""
        given = {} if path is None else _table(path)
        given |= {name: value for name, value in changes.items() if value is not None and value != {}}
        known = [part.name for part in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise SettingError(
                f"{path}: [{TABLE}] has an unknown {unknown[0]!r}; it takes {', '.join(known)}"
            )
        if missing := [name for name in _REQUIRED if name not in given]:
            raise SettingError(f"expected {', '.join(missing)}: in the recipe's [{TABLE}], or as an option")
        if "input_range" in given:
            given["input_range"] = _range(given["input_range"])
        return cls(**given)

    @property
    def plan(self) -> VotePlan:
        """What to vote on."""
        return VotePlan(Gaussian(self.sigma), self.n, self.seed, self.split, self.input_range, self.precision)

    def wishes(self) -> dict[str, Any]:
        """Return how to compute, as far as the recipe says it."""
        given = {"batch_size": self.batch_size, "compiled": self.compiled, "freezing": self.freezing}
        return {name: value for name, value in given.items() if value is not None}


def collect(
    recipe: VoteRecipe,
    console: Console,
    *,
    cluster: Cluster | None = None,
    log: Callable[[str], object] | None = None,
) -> Votes:
    """Collect the votes of a recipe, here or on a cluster; `log` gets JSON lines instead of a bar."""
    store = _store(recipe, cluster)
    totals = len(store.inputs) * recipe.n, store.inputs.shards
    with _backend(store, cluster, recipe.wishes()) as backend:
        bar = vote_log(log, *totals) if log else vote_bar(console, f"votes of {recipe.split}", *totals)
        with bar as (advance, stored):
            return store.collect(backend=backend, on_progress=advance, on_shards=stored, **recipe.wishes())


def estimate_cost(recipe: VoteRecipe) -> tuple[Estimate, VoteStore]:
    """Measure what a recipe would cost on this machine; nothing is written."""
    store = _store(recipe, None)
    return estimate(store.base, store.plan, store.inputs, **recipe.wishes()), store


def _store(recipe: VoteRecipe, cluster: Cluster | None) -> VoteStore:
    plan = recipe.plan
    base = load_base(recipe.base, recipe.weights, recipe.options)
    root = None if recipe.data_root is None else Path(recipe.data_root)
    inputs = ShardedInputs(load_images(recipe.data, recipe.split, root), plan.input_range)
    if cluster is not None:
        if recipe.device is not None:
            raise SettingError("the device of Ray workers follows from --gpus-per-worker: leave device out")
        return VoteStore(recipe.out, base, inputs, plan, device=cluster.device)
    return VoteStore(recipe.out, base.to(choose_device(recipe.device)), inputs, plan)


@contextmanager
def _backend(store: VoteStore, cluster: Cluster | None, wishes: dict[str, Any]) -> Iterator[Any]:
    if cluster is None or store.finished():
        yield None
    else:
        with ray_backend(store, cluster, **wishes) as backend:
            yield backend


def _range(value: Any) -> InputRange:
    """Read a range as recipes and options write it: a pair, `LOW,HIGH`, or `none`."""
    if value in (None, "none"):
        return None
    ends: Any = value.split(",") if isinstance(value, str) else value
    return check_input_range(ends)


def _table(path: Path) -> dict[str, Any]:
    try:
        recipe = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(f"{path} is not a readable recipe: {error}") from None
    if any(isinstance(recipe.get(name), dict) for name in ("data", "base")):
        raise SettingError(f"{path} is the recipe of a whole run: collect its votes with rrise run {path}")
    table = recipe.get(TABLE)
    if not isinstance(table, dict):
        raise SettingError(f"expected a table [{TABLE}] in {path}")
    return table
