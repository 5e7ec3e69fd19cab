"""`rrise train-base` and `rrise train-surrogate`: the first steps of `rrise run`."""

from rrise.cli.run import (
    Changes,
    DataRoot,
    Device,
    Fresh,
    Out,
    Profile,
    RecipeName,
    TensorBoard,
    run_steps,
)


def train_base(
    recipe: RecipeName,
    *,
    profile: Profile = None,
    changes: Changes = None,
    out: Out = None,
    data_root: DataRoot = None,
    device: Device = None,
    fresh: Fresh = False,
    tensorboard: TensorBoard = False,
) -> None:
    """Train the base classifier of a recipe in RUN/base; `rrise run` continues from there."""
    how = {"data_root": data_root, "device": device, "fresh": fresh, "tensorboard": tensorboard}
    run_steps(recipe, profile, changes, out, until="base", **how)


def train_surrogate(
    recipe: RecipeName,
    *,
    profile: Profile = None,
    changes: Changes = None,
    out: Out = None,
    data_root: DataRoot = None,
    device: Device = None,
    fresh: Fresh = False,
    tensorboard: TensorBoard = False,
) -> None:
    """Train the surrogate of a recipe in RUN/surrogate, after its base classifier and votes."""
    how = {"data_root": data_root, "device": device, "fresh": fresh, "tensorboard": tensorboard}
    run_steps(recipe, profile, changes, out, until="surrogate", **how)
