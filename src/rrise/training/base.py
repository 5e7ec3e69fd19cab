"""The base classifier: supervised cross-entropy with Gaussian noise augmentation."""

import torch
import torch.nn.functional as F
from torch import nn

from rrise.data.inputs import InputRange
from rrise.models.evaluation_mode import evaluating
from rrise.progress import OnProgress
from rrise.seeds import derive_seed
from rrise.training.loop import TrainingHistory, TrainingSettings, train

LABEL_SMOOTHING = 0.1
_VALIDATION_COPIES = 8


def train_base(
    module: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    validation_images: torch.Tensor,
    validation_labels: torch.Tensor,
    *,
    sigma: float,
    settings: TrainingSettings,
    input_range: InputRange = (0.0, 1.0),
    on_progress: OnProgress | None = None,
) -> TrainingHistory:
    """Train `module` in place on inputs with Gaussian noise `sigma`, clipped to the input range.

    The epoch with the fewest errors on noisy copies of the validation inputs is kept; the copies are
    the same in every epoch.
    """
    noise = torch.Generator().manual_seed(derive_seed(settings.seed, "augmentation"))

    def noisy(clean: torch.Tensor) -> torch.Tensor:
        moved = clean + sigma * torch.randn(clean.shape, generator=noise)
        return moved if input_range is None else moved.clamp_(*input_range)

    copies = noisy(validation_images.repeat_interleave(_VALIDATION_COPIES, dim=0))
    truth = validation_labels.repeat_interleave(_VALIDATION_COPIES)

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        module.train()
        return F.cross_entropy(module(noisy(images[batch])), labels[batch], label_smoothing=LABEL_SMOOTHING)

    def measure() -> dict[str, float]:
        with evaluating(module):
            wrong = module(copies).argmax(dim=1) != truth
        return {"noisy_validation_error": wrong.double().mean().item()}

    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return train(
        module,
        parameters,
        size=len(images),
        loss_of=loss_of,
        measure=measure,
        select_by="noisy_validation_error",
        settings=settings,
        on_progress=on_progress,
    )
