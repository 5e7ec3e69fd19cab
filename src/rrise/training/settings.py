"""How to optimise, and what came of it."""

from dataclasses import dataclass, field
from typing import Annotated

from rrise.settings import Setting, check_settings

Epochs = Annotated[int, Setting("Passes over the training inputs.", least=1)]
LearningRate = Annotated[float, Setting("Learning rate after the warm-up; it falls from there.", above=0)]
BatchSize = Annotated[int, Setting("Inputs to a training step.", least=1)]
WeightDecay = Annotated[float, Setting("Weight decay of the optimiser.", least=0)]
GradientClip = Annotated[float, Setting("Longer gradients are cut to this norm.", above=0)]
WarmupEpochs = Annotated[int, Setting("Epochs in which the learning rate rises.", least=0)]
TrainingSeed = Annotated[int, Setting("Seed of weights, batches, noise and augmentations.")]
Compiled = Annotated[
    bool | None, Setting("Whether training steps are compiled.", unset="on a GPU, not on a CPU")
]


@dataclass(frozen=True)
class TrainingSettings:
    """How to optimise; the defaults are the paper's (Appendix A.3 and A.5) but for length and rate."""

    epochs: Epochs
    learning_rate: LearningRate
    batch_size: BatchSize = 512
    weight_decay: WeightDecay = 5e-4
    gradient_clip: GradientClip = 1.0
    warmup_epochs: WarmupEpochs = 5
    seed: TrainingSeed = 0
    compiled: Compiled = None
    mixed_precision: Annotated[
        bool | None,
        Setting("Whether to compute in bfloat16 where it is safe.", unset="on a GPU, not on a CPU"),
    ] = None

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass
class TrainingHistory:
    """What each epoch measured on the validation part, and which epoch was kept (counted from 1)."""

    selected_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)

    @property
    def selected(self) -> dict[str, float]:
        """The measurements at the kept epoch."""
        return self.epochs[self.selected_epoch - 1]
