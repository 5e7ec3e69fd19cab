"""The inputs of a distillation: made anew of each batch, by augmenting, mixing and jittering."""

from collections.abc import Callable

import torch

from rrise.data.augmentation import Augmentation
from rrise.data.inputs import InputRange
from rrise.errors import InputError, SettingError
from rrise.training.settings import SurrogateTraining

Augment = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""An augmentation of one's own: maps a batch of inputs and a random generator to as many new inputs."""


class Views:
    """New inputs out of a batch: augmented, a share of them mixed, jittered, and clipped to the input range.

    A mixed input is `u a + (1 - u) b` with a uniform number `u`. Its partner `b` is the next input of the
    batch. Batches are in random order, so that is a random partner.
    """

    def __init__(
        self,
        settings: SurrogateTraining,
        shape: tuple[int, ...],
        limits: InputRange,
        augment: Augment | None = None,
    ) -> None:
        self._settings, self._limits, self._own = settings, limits, augment
        self._named = Augmentation(settings.augmentations) if settings.augmentations else None
        if self._named is not None and augment is not None:
            raise SettingError("expected augmentations by name or augment=, an own function; got both")
        if self._named is not None and (len(shape) != 3 or limits != (0.0, 1.0)):
            raise InputError(
                f"expected images [channels, height, width] in [0, 1] for {self._named!r}, got inputs of "
                f"shape {shape} in {limits}: use augment=, jitter or mixed"
            )

    @property
    def recordable(self) -> bool:
        """Whether all code is known, so that a recorded step repeats all of it."""
        return self._own is None

    def draw(self, clean: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
        """Return the arguments of `make`: the batch, after an own augmentation, and random numbers."""
        count, shape = len(clean), tuple(clean.shape[1:])
        if self._own is not None:
            clean = _checked(self._own(clean, generator), clean)
        mixed = round(self._settings.mixed * count)
        drawn = [torch.rand((mixed, *(1 for _ in shape)), generator=generator, device=clean.device)]
        if self._settings.jitter:
            drawn.append(torch.randn(clean.shape, generator=generator, device=clean.device))
        if self._named is not None:
            channels, height, width = shape
            drawn += self._named.draw(count, (channels, height, width), generator)
        return [clean, *drawn]

    def make(self, clean: torch.Tensor, share: torch.Tensor, *drawn: torch.Tensor) -> torch.Tensor:
        """Return the new inputs. It is pure and never waits for the device."""
        if self._settings.jitter:
            noise, *drawn = drawn  # type: ignore[assignment]
        made = clean if self._named is None else self._named.apply(clean, tuple(drawn))
        mixed = len(share)
        made = torch.cat([self.mix(made[:mixed], made.roll(-1, 0)[:mixed], share), made[mixed:]])
        if self._settings.jitter:
            made = made + self._settings.jitter * noise
        return made if self._limits is None else made.clamp(*self._limits)

    def mix(self, own: torch.Tensor, partner: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Return inputs of which each has this share of its own, and the rest of its partner."""
        return partner.lerp(own, share)


def _checked(made: object, clean: torch.Tensor) -> torch.Tensor:
    """Refuse an own augmentation that returns anything but as many inputs of the same shape."""
    if not isinstance(made, torch.Tensor) or made.shape != clean.shape or not made.is_floating_point():
        got = type(made).__name__
        if isinstance(made, torch.Tensor):
            got = f"{made.dtype} of shape {tuple(made.shape)}"
        raise InputError(
            f"expected augment(inputs, generator) to return {clean.dtype} of shape {tuple(clean.shape)}, "
            f"like its inputs; got {got}"
        )
    return made.to(clean.device, clean.dtype)
