"""The recipe of a vote: base classifier, inputs, noise, output, and how to compute."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rrise.errors import SettingError
from rrise.runs.settings import Clip, NoiseSeed, Precision
from rrise.runs.toml_tables import Tables, change, check_keys, read_table, read_toml
from rrise.settings import Setting, check_settings, declared

TABLE = "votes"


@dataclass(frozen=True)
class VoteRecipe:
    """The table `[votes]` of a recipe: what determines a collection of votes, and how to compute it."""

    base: Annotated[
        str, Setting("The base: a model folder, an architecture, `timm:NAME` or `package.module:name`.")
    ]
    data: Annotated[
        str, Setting("The inputs: a dataset, `FILE.npy`, `npz:FILE` (x_SPLIT) or a folder of images.")
    ]
    sigma: Annotated[float, Setting("Noise level.", above=0)]
    n: Annotated[int, Setting("Votes per input.", least=1)]
    out: Annotated[str, Setting("Where votes are stored: a folder or an fsspec URL.")] = "votes"
    seed: NoiseSeed = 0
    split: Annotated[str, Setting("Name of the inputs; each name has noise of its own.")] = "inputs"
    data_root: Annotated[str | None, Setting("Where datasets are.", unset="$RRISE_DATA")] = None
    input_range: Annotated[
        tuple[float, ...] | str,
        Setting("Lowest and highest value of an input: `LOW,HIGH`, or `none` for any, without clipping."),
    ] = "0,1"
    clip: Clip = True
    precision: Precision = None
    weights: Annotated[
        str | None,
        Setting("Weights of the base: a safetensors file, or `random`.", unset="those of a folder"),
    ] = None
    options: Annotated[
        dict[str, Any],
        Setting("What the base is built with; on the command line NAME=VALUE.", option="--option"),
    ] = field(default_factory=dict)
    device: Annotated[str | None, Setting("Where to compute: cpu or cuda.", unset="cuda if there")] = None
    batch_size: Annotated[int | None, Setting("Noisy inputs to a pass.", least=1, unset="found")] = None
    compiled: Annotated[
        bool | None, Setting("Use torch.compile.", option="--compile", unset="if it pays")
    ] = None
    freezing: Annotated[
        bool | None, Setting("Compile the weights in.", option="--freeze", unset="on a CPU")
    ] = None

    def __post_init__(self) -> None:
        check_settings(self, f"{TABLE}.")

    @classmethod
    def read(cls, path: Path | None, **changes: Any) -> "VoteRecipe":
        """Read the recipe at a path, if given; `changes` override the file."""
        tables = {} if path is None else _tables(path)
        for name, value in changes.items():
            change(tables, f"{TABLE}.{name}", value)
        check_keys({TABLE: cls}, tables, what="a recipe of votes")
        table = tables.get(TABLE, {})
        missing = [part.name for part in declared(cls) if part.is_required and part.name not in table]
        if missing:
            raise SettingError(
                f"missing {', '.join(missing)}: set it in the recipe's [{TABLE}], or pass an option"
            )
        return read_table(cls, table, TABLE)

    def wishes(self) -> dict[str, Any]:
        """Return the settings of the recipe that say how to compute."""
        given = {"batch_size": self.batch_size, "compiled": self.compiled, "freezing": self.freezing}
        return {name: value for name, value in given.items() if value is not None}


def _tables(path: Path) -> Tables:
    _, tables = read_toml(path)
    if any(isinstance(tables.get(name), dict) for name in ("data", "base")):
        raise SettingError(f"{path} is the recipe of a complete run: collect its votes with rrise run {path}")
    return tables
