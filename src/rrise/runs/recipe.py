"""A recipe: everything that determines a run, from the data to the promised failure."""

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from rrise._version import __version__
from rrise.errors import SettingError, did_you_mean
from rrise.runs.settings import (
    TABLES,
    AuditSettings,
    CalibrationSettings,
    DataSettings,
    EvaluationSettings,
    VoteSettings,
)
from rrise.runs.surrogate_choices import SurrogateChoice
from rrise.runs.toml_tables import (
    Tables,
    change,
    check_keys,
    parse_change,
    read_table,
    read_toml,
    write_tables,
)
from rrise.runs.training_settings import BaseSettings, SurrogateSettings
from rrise.settings import check_settings, declared, stored_settings
from rrise.statistics import Terms, Threat, check_budget, threat_of

PROFILE = "profile"


@dataclass(frozen=True)
class Recipe:
    """The tables of a recipe, checked at once: nothing invalid fails after an hour of work."""

    data: DataSettings
    base: BaseSettings
    votes: VoteSettings
    surrogate: SurrogateSettings
    calibration: CalibrationSettings
    evaluation: EvaluationSettings
    audit: AuditSettings

    def __post_init__(self) -> None:
        """Refuse now any setting that would fail after training and voting."""
        for name in TABLES:
            check_settings(getattr(self, name), f"{name}.")
        self._check_levels()
        self._check_data()
        self._check_networks()
        self._check_evaluation()

    def _check_levels(self) -> None:
        terms = self.terms()
        if isinstance(self.data.calibration, int):
            terms.check(self.data.calibration, self.votes.calibration)
        check_budget(self.votes.calibration, float(terms.exact_beta), "beta")
        check_budget(self.votes.test, self.calibration.failure, "failure")

    def _check_data(self) -> None:
        if bool(self.data.copies) != bool(self.data.copies_augmentations):
            raise SettingError(
                f"expected both data.copies and data.copies_augmentations, or neither; got "
                f"{self.data.copies} copies and {list(self.data.copies_augmentations)}"
            )

    def _check_networks(self) -> None:
        base, surrogate = self.base, self.surrogate
        if base.weights is None and (base.architecture is None or base.sigma is None):
            raise SettingError(
                "the recipe needs base.architecture and base.sigma, or base.weights of a trained classifier"
            )
        if surrogate.architecture is not None and surrogate.strategy not in ("all-random", "distill"):
            raise SettingError(
                f"a surrogate of another architecture starts from random weights: expected "
                f"surrogate.strategy 'all-random' or 'distill', got {surrogate.strategy!r}"
            )
        if surrogate.strategy == "distill" and surrogate.objective != "cross-entropy":
            raise SettingError(
                f"surrogate.strategy 'distill' needs surrogate.objective 'cross-entropy', got "
                f"{surrogate.objective!r}"
            )
        if surrogate.architecture is None and surrogate.options:
            raise SettingError("surrogate.options need surrogate.architecture: set it, or remove the options")
        if surrogate.head is not None and surrogate.strategy != "head":
            raise SettingError(f"surrogate.head needs surrogate.strategy 'head', got {surrogate.strategy!r}")
        if self.targets > self.votes.train:
            raise SettingError(
                f"expected surrogate.votes to be at most votes.train = {self.votes.train}, got {self.targets}"
            )

    def _check_evaluation(self) -> None:
        wanted = self.evaluation
        self.choices()
        for failure in wanted.failures:
            replace(self.terms(), failure=failure)

    @property
    def threat(self) -> Threat | None:
        """What may happen to inputs before they are certified; None without query noise."""
        how = self.calibration
        trained = self.surrogate.query_noise if self.surrogate.strategy == "distill" else 0.0
        noise = how.query_noise or (trained if how.attack_radius or how.tries > 1 else None) or None
        return threat_of(how.attack_radius, noise, how.tries, self.votes.sigma)

    def terms(self, classes: int | None = None) -> Terms:
        """Return the terms of the calibration; with `classes`, for each class if the settings say so."""
        how = self.calibration
        groups = tuple(range(classes)) if classes and how.per == "class" else None
        return Terms(
            how.failure, how.beta, how.score, how.rule, how.promise, how.confidence, groups, self.threat
        )

    @property
    def targets(self) -> int:
        """Votes per training input, out of the stored ones, that train a surrogate."""
        return self.surrogate.votes or self.votes.train

    def choices(self) -> list[SurrogateChoice]:
        """Return the surrogates of the run, each once: its own first, then those of the evaluation."""
        own, stored = self.surrogate, self.votes.train
        fresh = own.fresh_votes * own.epochs
        budget = fresh if own.strategy == "distill" else self.targets
        main = SurrogateChoice(own.strategy, own.objective, budget, own.network_name)
        others = (
            SurrogateChoice.read(name, self.targets, stored, fresh) for name in self.evaluation.surrogates
        )
        return list(dict.fromkeys([main, *others]))

    def tables(self) -> Tables:
        """Return the settings as tables, as they are stored."""
        return {name: stored_settings(getattr(self, name)) for name in TABLES}

    def settings(self) -> dict[str, Any]:
        """Return the settings by their full names, such as `base.epochs`."""
        tables = self.tables().items()
        return {f"{name}.{key}": value for name, table in tables for key, value in table.items()}

    def difference(self, stored: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
        """Return the first setting that differs from those stored as JSON: name, theirs, ours."""
        ours, unsaid = json.loads(json.dumps(self.settings())), _quiet_defaults()
        for name in [*stored, *sorted(unsaid.keys() & ours.keys() - stored.keys())]:
            there, here = (found.get(name, unsaid.get(name)) for found in (stored, ours))
            if there != here:
                return name, there, here
        return None

    def to_toml(self) -> str:
        """Return the recipe as stored in a run folder; it can be run again."""
        return f"# rrise {__version__}\n\n{write_tables(self.tables())}"


def _quiet_defaults() -> dict[str, Any]:
    """Return the settings that are stored only if they have another value than this default."""
    tables = {name: [part for part in declared(kind) if part.setting.quiet] for name, kind in TABLES.items()}
    return {f"{name}.{part.name}": part.default for name, parts in tables.items() for part in parts}


@dataclass(frozen=True)
class RecipeFile:
    """A recipe file: its name, its text and its parsed TOML."""

    name: str
    text: str
    tables: Tables
    profiles: dict[str, Tables]

    @classmethod
    def find(cls, source: str | Path) -> "RecipeFile":
        """Read the recipe at a path, or the packaged recipe of a name."""
        path, packaged = Path(source), packaged_recipes()
        if path.suffix == ".toml" or path.is_file():
            name = path.absolute().parent.name if path.name == "recipe.toml" else path.stem
            return cls._parse(name, path)
        if str(source) not in packaged:
            raise SettingError(
                f"expected the path of a .toml file, or a recipe out of {', '.join(packaged)}; got "
                f"{str(source)!r}{did_you_mean(str(source), packaged)}"
            )
        return cls._parse(str(source), packaged[str(source)])

    @classmethod
    def _parse(cls, name: str, file: Traversable) -> "RecipeFile":
        text, tables = read_toml(file)
        profiles = tables.pop(PROFILE, {})
        check_keys(TABLES, tables)
        if not isinstance(profiles, dict) or not all(isinstance(part, dict) for part in profiles.values()):
            raise SettingError(f"expected profiles as tables such as [{PROFILE}.quick.base]")
        for profile, changes in profiles.items():
            check_keys(TABLES, changes, f"{PROFILE}.{profile}.")
        return cls(name, text, tables, profiles)

    def recipe(self, profile: str | None = None, changes: Mapping[str, Any] | None = None) -> Recipe:
        """Return the recipe; a profile overrides its settings, and `changes` by full names override both."""
        tables = {name: copy.deepcopy(self.tables.get(name, {})) for name in TABLES}
        if profile is not None:
            if profile not in self.profiles:
                known = ", ".join(self.profiles) or "none"
                raise SettingError(f"the recipe {self.name} has no profile {profile!r}; it has: {known}")
            for name, table in self.profiles[profile].items():
                tables[name] |= copy.deepcopy(table)
        for key, value in (changes or {}).items():
            change(tables, key, value)
        check_keys(TABLES, tables)
        return Recipe(**{name: read_table(kind, tables[name], name) for name, kind in TABLES.items()})


def read_recipe(
    source: str | Path, profile: str | None = None, changes: Mapping[str, Any] | None = None
) -> Recipe:
    """Read the recipe at a path or of a packaged name, with a profile and changes.

    >>> read_recipe("digits", "quick", {"calibration.failure": 0.1}).calibration.failure
    0.1
    """
    return RecipeFile.find(source).recipe(profile, changes)


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Parse the values of `--set`; the last value of a key counts."""
    return dict(map(parse_change, texts))


def packaged_recipes() -> dict[str, Traversable]:
    """Return the recipes that come with the package, as readable files by name."""
    folder = resources.files("rrise") / "recipes"
    files = {Path(file.name).stem: file for file in folder.iterdir() if file.name.endswith(".toml")}
    return dict(sorted(files.items()))
