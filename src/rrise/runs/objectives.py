"""The objective of the base classifier, as a recipe names it."""

from dataclasses import asdict
from typing import Any

from rrise.errors import SettingError, did_you_mean
from rrise.files import Json
from rrise.runs.toml_tables import check_keys, read_table
from rrise.runs.training_settings import BaseSettings
from rrise.settings import declared
from rrise.training.base_objectives import BASE_OBJECTIVES, BaseObjective, CrossEntropy

_OPTIONS = "objective_options"


def base_objective(settings: BaseSettings) -> BaseObjective:
    """Return the objective with its options; refuse unknown names and options that are not allowed.

    >>> base_objective(BaseSettings(objective="consistency", objective_options={"weight": 10}))
    Consistency(weight=10.0, entropy=0.5, copies=2)
    """
    if settings.objective not in BASE_OBJECTIVES:
        raise SettingError(
            f"expected base.objective out of {', '.join(BASE_OBJECTIVES)}; got {settings.objective!r}"
            f"{did_you_mean(settings.objective, BASE_OBJECTIVES)}"
        )
    kind, given = BASE_OBJECTIVES[settings.objective], settings.objective_options
    parts = {part.name: part for part in declared(kind)}
    if given and not parts:
        raise SettingError(
            f"the objective {settings.objective} has no options: remove base.{_OPTIONS}, or choose another "
            f"base.objective"
        )
    check_keys({_OPTIONS: kind}, {_OPTIONS: given}, "base.", what=f"a recipe with {settings.objective}")
    for name, value in given.items():
        parts[name].check(value, f"base.{_OPTIONS}.{name}")
    found: Any = read_table(kind, given, f"base.{_OPTIONS}")
    objective: BaseObjective = found
    return objective


def unusual(objective: Any, *, clip: bool) -> Json:
    """Return what the manifest of a base classifier says of another objective, and of noise without clipping.

    It says nothing of the defaults, so that base classifiers from before these settings stay up to date.
    """
    other = {} if objective == CrossEntropy() else {"objective": asdict(objective)}
    return other if clip else {**other, "clip": False}
