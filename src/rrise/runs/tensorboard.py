"""Measurements of each epoch for TensorBoard."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rrise.errors import SettingError
from rrise.training.loop import OnEpoch


def check_tensorboard() -> None:
    """Raise an error with the install command if TensorBoard is missing."""
    _summary_writer()


@contextmanager
def epoch_log(folder: Path | None, step: str) -> Iterator[OnEpoch | None]:
    """Yield a function that writes the measurements of a step's epochs; None without a folder."""
    if folder is None:
        yield None
        return
    with _summary_writer()(str(folder / step)) as writer:

        def write(epoch: int, measured: dict[str, float]) -> None:
            for name, value in measured.items():
                writer.add_scalar(f"{step}/{name}", value, epoch)

        yield write


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SettingError("--tensorboard needs TensorBoard: pip install 'rrise[tensorboard]'") from None
    return SummaryWriter
