"""Collects the votes of a recipe, here or on a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from rrise.data.inputs import InputRange, check_input_range
from rrise.data.sources import has_parts, load_images
from rrise.errors import SettingError
from rrise.models.folder import load_base
from rrise.progress import vote_bar, vote_log
from rrise.runs.device import choose_device
from rrise.runs.vote_recipe import VoteRecipe
from rrise.votes.array import Votes
from rrise.votes.cluster import Cluster
from rrise.votes.inputs import ShardedInputs
from rrise.votes.noise import gaussian
from rrise.votes.plan import VotePlan
from rrise.votes.ray_backend import ray_backend
from rrise.votes.store import VoteStore
from rrise.votes.tuning import Estimate, estimate


def collect(
    recipe: VoteRecipe,
    console: Console,
    *,
    cluster: Cluster | None = None,
    log: Callable[[str], object] | None = None,
) -> Votes:
    """Collect the votes of a recipe, here or on a cluster; with `log`, write JSON lines instead of a bar."""
    store = _store(recipe, cluster)
    totals = len(store.inputs) * recipe.n, store.inputs.shards
    with _backend(store, cluster, recipe.wishes()) as backend:
        bar = vote_log(log, *totals) if log else vote_bar(console, f"votes of {recipe.split}", *totals)
        with bar as (advance, stored):
            return store.collect(backend=backend, on_progress=advance, on_shards=stored, **recipe.wishes())


def estimate_cost(recipe: VoteRecipe) -> tuple[Estimate, VoteStore]:
    """Estimate the cost of a recipe on this machine; nothing is written."""
    store = _store(recipe, None)
    return estimate(store.base, store.plan, store.inputs, **recipe.wishes()), store


def _store(recipe: VoteRecipe, cluster: Cluster | None) -> VoteStore:
    plan = _plan(recipe)
    base = load_base(recipe.base, recipe.weights, recipe.options)
    root = None if recipe.data_root is None else Path(recipe.data_root)
    if has_parts(recipe.data) and recipe.split not in ("train", "test"):
        raise SettingError(
            f"{recipe.data} has a train and a test part: say which one gets votes, with --split train or "
            f"--split test (split in a recipe); got {recipe.split!r}"
        )
    inputs = ShardedInputs(load_images(recipe.data, recipe.split, root), plan.input_range)
    if cluster is not None:
        if recipe.device is not None:
            raise SettingError("--gpus-per-worker sets the device of Ray workers: remove device")
        return VoteStore(recipe.out, base, inputs, plan, device=cluster.device)
    return VoteStore(recipe.out, base.to(choose_device(recipe.device)), inputs, plan)


@contextmanager
def _backend(store: VoteStore, cluster: Cluster | None, wishes: dict[str, Any]) -> Iterator[Any]:
    if cluster is None or store.finished():
        yield None
    else:
        with ray_backend(store, cluster, **wishes) as backend:
            yield backend


def _plan(recipe: VoteRecipe) -> VotePlan:
    return VotePlan(
        gaussian(recipe.sigma, clip=recipe.clip),
        recipe.n,
        recipe.seed,
        recipe.split,
        _range(recipe.input_range),
        recipe.precision,
    )


def _range(value: tuple[float, ...] | str) -> InputRange:
    """Parse a range from a recipe or an option: a pair, `LOW,HIGH`, or `none`."""
    if value == "none":
        return None
    ends: Any = value.split(",") if isinstance(value, str) else value
    return check_input_range(ends)
