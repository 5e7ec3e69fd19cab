"""What a base classifier is trained for: which copies of an input it sees, and the loss on them.

All objectives see noisy copies of the inputs. Those beyond cross-entropy make the votes agree more, and so
lengthen certified radii.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import torch
import torch.nn.functional as F

from rrise.errors import SettingError
from rrise.registry import register
from rrise.settings import Setting, check_settings, declared

Function = Callable[[torch.Tensor], torch.Tensor]
Copies = Annotated[int, Setting("Noisy copies of each input at every step.", least=2)]


@dataclass(frozen=True)
class Scene:
    """What an objective may use to make the inputs of a step.

    Attributes:
        noisy: adds noise to each input of a batch, `copies` times, clips unless the noise is unclipped, and
            returns `[copies * B, ...]`. It adds the same noise at each call.
        clipped: clips inputs to the input range.
        probabilities: the network's class probabilities in evaluation mode, with gradients for its inputs.
        generator: random numbers of the step.
    """

    noisy: Function
    clipped: Function
    probabilities: Function
    generator: torch.Generator


class BaseObjective(Protocol):
    """An objective of `train_base`: a dataclass of settings.

    Attributes:
        copies: how often noise is added to each input of a batch.
        rows: how many inputs the network sees for each input of a batch.
    """

    @property
    def copies(self) -> int: ...  # noqa: D102

    @property
    def rows(self) -> int: ...  # noqa: D102

    def examples(
        self, clean: torch.Tensor, labels: torch.Tensor, scene: Scene
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the network's inputs, `rows` for each of a batch, and what the loss compares with."""

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        """Return the mean loss of the network's answers to these inputs."""


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy on one noisy copy of each input (Cohen et al., 2019).

    Attributes:
        copies: one copy.
        rows: one row.
    """

    @property
    def copies(self) -> int:  # noqa: D102
        return 1

    rows = copies

    def examples(
        self, clean: torch.Tensor, labels: torch.Tensor, scene: Scene
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return noisy inputs and their labels."""
        return scene.noisy(clean), labels

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        """Return the cross-entropy."""
        return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)


@dataclass(frozen=True)
class Consistency:
    """Cross-entropy, and a penalty where noisy copies of an input get different answers.

    With `q` the mean of the copies' probabilities, the loss adds `weight` times the mean divergence
    `KL(q || copy)`, and `entropy` times the entropy of `q` (Jeong and Shin, NeurIPS 2020). Gradients flow
    through `q` too. The defaults are the publication's for CIFAR-10 at noise level 0.25.

    The loss is the published one. The training around it differs: a step takes `batch_size` inputs with all
    their copies, where the publication divides its batch among the copies. It trains without label smoothing
    and does not clip noisy copies; here both are settings.

    Attributes:
        weight: the weight of the divergence.
        entropy: the weight of the entropy.
        copies: noisy copies of each input.
    """

    weight: Annotated[float, Setting("Weight of the divergence between copies.", least=0)] = 20.0
    entropy: Annotated[float, Setting("Weight of the entropy of their mean.", least=0)] = 0.5
    copies: Copies = 2

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def rows(self) -> int:
        """One for each copy."""
        return self.copies

    def examples(
        self, clean: torch.Tensor, labels: torch.Tensor, scene: Scene
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return noisy inputs and their labels, the copies one after the other."""
        return scene.noisy(clean), labels.repeat(self.copies)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        """Return the cross-entropy and its penalties."""
        said = F.log_softmax(logits.float(), dim=1).unflatten(0, (self.copies, -1))
        mean = log_mean(said)
        of_mean = (mean.exp() * mean).sum(dim=1)
        divergence = of_mean.mean() - (mean.exp() * said).sum(dim=2).mean()
        right = F.cross_entropy(logits, targets, label_smoothing=label_smoothing)
        total: torch.Tensor = right + self.weight * divergence - self.entropy * of_mean.mean()
        return total


@dataclass(frozen=True)
class SmoothMix:
    """Cross-entropy, and less confidence on the way from an input to one that deceives the smoothed network.

    Some steps of gradient ascent, of a fixed length, lead from an input to one whose noisy copies get another
    answer. A random mixture with at most half of it should be answered like the input, mixed in the same
    shares with the uniform answer (Jeong et al., NeurIPS 2021). Inputs whose copies are misclassified on
    average have no such term. Inputs take the first step of the ascent before they are learned if
    `first_step` says so. The defaults are the publication's for CIFAR-10 at noise level 0.25; its steps grow
    with it, to 1.0 at noise level 0.5.

    The loss is the published one, with gradients through the input's own answer. Its authors raise the
    mixture's weight and the length of the first step over the first ten epochs. Here both are constant: an
    objective is a function of the batch alone, so that a step can be compiled and recorded, and the learning
    rate rises instead (`warmup_epochs`). Batches, label smoothing and clipping differ as for `Consistency`.

    Attributes:
        weight: the weight of the mixture's term.
        steps: steps of gradient ascent.
        step_size: the L2 length of a step.
        first_step: whether inputs take the first step themselves.
        copies: noisy copies of each input.

    Raises:
        SettingError: a value is not allowed, or `first_step` leaves no step for the mixture.
    """

    weight: Annotated[float, Setting("Weight of the term of mixtures.", least=0)] = 5.0
    steps: Annotated[int, Setting("Steps of gradient ascent.", least=1)] = 4
    step_size: Annotated[float, Setting("L2 length of a step.", above=0)] = 0.5
    first_step: Annotated[bool, Setting("Whether inputs take the first step before they are learned.")] = True
    copies: Copies = 2

    def __post_init__(self) -> None:
        check_settings(self)
        if self.first_step and self.steps < 2:
            raise SettingError(
                f"inputs that take the first step need a second one for their mixtures: expected steps of at "
                f"least 2, or first_step=False; got steps={self.steps}"
            )

    @property
    def rows(self) -> int:
        """One for each copy of an input and of its mixture."""
        return 2 * self.copies

    def examples(
        self, clean: torch.Tensor, labels: torch.Tensor, scene: Scene
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return noisy inputs, then noisy mixtures; the targets are labels and shares of the mixtures."""
        start = moved = clean
        for step in range(self.steps):
            moved = self._ascended(moved, labels, scene)
            if step == 0 and self.first_step:
                start = moved
        share = torch.rand(len(clean), generator=scene.generator, device=clean.device) / 2
        mixed = start.lerp(moved, share.to(clean.dtype).view(-1, *(1 for _ in clean.shape[1:])))
        targets = torch.stack([labels.float(), share], dim=1)  # float32 holds all class numbers
        return torch.cat([scene.noisy(start), scene.noisy(mixed)]), targets

    def _ascended(self, inputs: torch.Tensor, labels: torch.Tensor, scene: Scene) -> torch.Tensor:
        """Return inputs one step further from their labels."""
        with torch.enable_grad():
            at = inputs.detach().requires_grad_()
            said = scene.probabilities(scene.noisy(at)).unflatten(0, (self.copies, -1)).mean(dim=0)
            missed = -said.gather(1, labels[:, None]).clamp_min(1e-20).log().sum()
            (gradient,) = torch.autograd.grad(missed, [at])
        length = gradient.flatten(1).norm(dim=1).clamp_min(1e-8)
        direction = gradient / length.view(-1, *(1 for _ in inputs.shape[1:]))
        return scene.clipped(inputs + self.step_size * direction).detach()

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, label_smoothing: float) -> torch.Tensor:
        """Return the cross-entropy of the inputs and the divergence of the mixtures."""
        labels, share = targets[:, 0].long(), targets[:, 1:]
        said = F.log_softmax(logits.float(), dim=1).unflatten(0, (2, self.copies, -1))
        mean = log_mean(said[0]).exp()
        wanted = (1 - share) * mean + share / logits.shape[1]
        divergence = torch.xlogy(wanted, wanted).sum(dim=1) - (wanted * said[1]).sum(dim=2)
        known = (mean.argmax(dim=1) == labels).float()
        plain = logits[: len(logits) // 2]
        right = F.cross_entropy(plain, labels.repeat(self.copies), label_smoothing=label_smoothing)
        total: torch.Tensor = right + self.weight * (known * divergence).mean()
        return total


def log_mean(logarithms: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the mean along the first axis."""
    mean: torch.Tensor = torch.logsumexp(logarithms, dim=0) - math.log(len(logarithms))
    return mean


BASE_OBJECTIVES: dict[str, type[Any]] = {}
"""By name: the class of an objective, a dataclass of its options."""


def register_base_objective(name: str, kind: type[Any]) -> type[Any]:
    """Make an objective known by a name, which must be new; it is a dataclass of settings.

    Recipes then take it as `base.objective`, with its fields as `base.objective_options`.
    """
    declared(kind)
    return register(BASE_OBJECTIVES, name, kind, "base objective")


register_base_objective("cross-entropy", CrossEntropy)
register_base_objective("consistency", Consistency)
register_base_objective("smoothmix", SmoothMix)
