"""How to optimise, and what came of it."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from rrise.errors import SettingError, did_you_mean


@dataclass(frozen=True)
class TrainingSettings:
    """How to optimise; the defaults are the paper's (Appendix A.3 and A.5) but for length and rate.

    `compiled` and `mixed_precision` (bfloat16 where it is safe, float32 weights) are on for a GPU and off
    for a CPU where they are None.
    """

    epochs: int
    learning_rate: float
    batch_size: int = 512
    weight_decay: float = 5e-4
    gradient_clip: float = 1.0
    warmup_epochs: int = 5
    seed: int = 0
    compiled: bool | None = None
    mixed_precision: bool | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            raise SettingError(
                f"expected at least 1 epoch, a batch size of at least 1 and a positive learning rate, got "
                f"{self.epochs}, {self.batch_size} and {self.learning_rate}"
            )
        if not self.weight_decay >= 0 or not self.gradient_clip > 0 or self.warmup_epochs < 0:
            raise SettingError(
                f"expected a weight decay and warm-up epochs of at least 0 and a positive gradient clip, "
                f"got {self.weight_decay}, {self.warmup_epochs} and {self.gradient_clip}"
            )


@dataclass(frozen=True)
class SurrogateTraining:
    """How to train a surrogate; the defaults are the paper's (Appendix A.5).

    Attributes:
        strategy: `head` trains the last layer of a copy of the base classifier, `all` every weight of it, and
            `all-random` every weight from a random start.
        objective: `cross-entropy`, or `jensen-shannon` as Bhardwaj et al. (2024).
        head: the name of the submodule to train with the strategy `head`; found where it is not given.
        epochs: passes over the training inputs.
        learning_rate: of AdamW, after the warm-up.
        batch_size: inputs to a step.
        weight_decay: of AdamW.
        gradient_clip: the largest norm of a gradient.
        warmup_epochs: epochs in which the learning rate grows.
        validation_share: the share of the inputs that selects the epoch.
        seed: of batches and start.
        compiled: use `torch.compile`; on for a GPU and off for a CPU where it is None.
        mixed_precision: bfloat16 where it is safe; on for a GPU and off for a CPU where it is None.
    """

    strategy: str = "head"
    objective: str = "cross-entropy"
    head: str | None = None
    epochs: int = 200
    learning_rate: float = 5e-4
    batch_size: int = 512
    weight_decay: float = 5e-4
    gradient_clip: float = 1.0
    warmup_epochs: int = 5
    validation_share: float = 0.1
    seed: int = 0
    compiled: bool | None = None
    mixed_precision: bool | None = None

    @property
    def training(self) -> TrainingSettings:
        """What the training loop is told of them."""
        return TrainingSettings(
            self.epochs,
            self.learning_rate,
            self.batch_size,
            self.weight_decay,
            self.gradient_clip,
            self.warmup_epochs,
            self.seed,
            self.compiled,
            self.mixed_precision,
        )

    def changed(self, **changes: Any) -> "SurrogateTraining":
        """Return the settings with some changed; an unknown name is a `SettingError`."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise SettingError(
                    f"train_surrogate has no setting {name!r}{did_you_mean(name, known)}; it has "
                    f"{', '.join(known)}"
                )
        return replace(self, **changes)


@dataclass
class TrainingHistory:
    """What each epoch measured on the validation part, and which epoch was kept (counted from 1)."""

    selected_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)

    @property
    def selected(self) -> dict[str, float]:
        """The measurements at the kept epoch."""
        return self.epochs[self.selected_epoch - 1]
