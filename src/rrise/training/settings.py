"""How to optimise, and what came of it."""

from dataclasses import dataclass, field

from rrise.errors import SettingError


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


@dataclass
class TrainingHistory:
    """What each epoch measured on the validation part, and which epoch was kept (counted from 1)."""

    selected_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)

    @property
    def selected(self) -> dict[str, float]:
        """The measurements at the kept epoch."""
        return self.epochs[self.selected_epoch - 1]
