"""What an attack may look at, and how hard it tries."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier
from rrise.data.inputs import InputRange
from rrise.settings import Setting, check_settings
from rrise.statistics import Threat
from rrise.votes.smoothing import Smoothing


@dataclass(frozen=True)
class Effort:
    """How hard an attack tries.

    Attributes:
        steps: gradient steps from each start.
        restarts: starts for each input; the first is the input itself.
        copies: noisy copies at each step, for the smoothed probability, and to average over query noise.
        queries: certificates that an attack without gradients asks for, for each input.
    """

    steps: Annotated[int, Setting("Gradient steps from each start.", least=1)] = 20
    restarts: Annotated[int, Setting("Starts for each input.", least=1)] = 2
    copies: Annotated[int, Setting("Noisy copies at each step.", least=1)] = 16
    queries: Annotated[int, Setting("Certificates to ask for without gradients.", least=1)] = 100

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class Victim:
    """What an attack may look at.

    Attributes:
        certifier: answers queries.
        base: the base classifier, with gradients.
        surrogate: the surrogate, with gradients; None if it has none, as after an export.
        threshold: the surrogate's top probability from which on a radius is issued.
        generator: the attacker's own randomness.
    """

    certifier: Certifier
    base: nn.Module
    surrogate: nn.Module | None
    threshold: float
    generator: torch.Generator

    @property
    def smoothing(self) -> Smoothing:
        """The smoothed classifier."""
        return self.certifier.smoothing

    @property
    def query_noise(self) -> float:
        """The level of the noise that the certifier adds to queries; an attack knows it, not the noise."""
        threat = threat_of_certifier(self.certifier)
        return 0.0 if threat is None else threat.query_noise

    def normal(self, like: torch.Tensor, copies: int | None = None) -> torch.Tensor:
        """Return standard normal numbers in the shape of a tensor and on its device, perhaps in copies."""
        shape = like.shape if copies is None else (copies, *like.shape)
        return torch.randn(shape, generator=self.generator).to(like.device)

    def towards_anywhere(
        self, inputs: torch.Tensor, origin: torch.Tensor, radius: float, step: float
    ) -> torch.Tensor:
        """Return points one step away from an origin, in random directions, within the ball around inputs."""
        direction = self.normal(inputs)
        return self.within(inputs, origin + step * direction / length(direction), radius)

    def within(self, inputs: torch.Tensor, moved: torch.Tensor, radius: float) -> torch.Tensor:
        """Return the moved inputs, brought back into the ball around each input and into the range."""
        shift = moved - inputs
        shift = shift * (radius / length(shift).clamp_min(1e-12)).clamp_max(1.0)
        if self.smoothing.input_range is None:
            return inputs + shift
        return (inputs + shift).clamp(*self.smoothing.input_range)

    def smoothed(self, inputs: torch.Tensor, label: torch.Tensor, copies: int) -> torch.Tensor:
        """Return an estimate of the logit of a class under noise, with a gradient."""
        noise = self.smoothing.sigma, self.smoothing.noise_range
        share = self._averaged(self.base, inputs, *noise, copies).gather(1, label[:, None])
        return share[:, 0].clamp(1e-4, 1 - 1e-4).logit()

    def said(
        self, network: nn.Module, inputs: torch.Tensor, label: torch.Tensor, copies: int
    ) -> torch.Tensor:
        """Return the logit of the probability that a network gives to a class, with a gradient.

        If queries have noise, it is that of the average probability.
        """
        if self.query_noise:
            share = self._averaged(network, inputs, *self._of_queries, copies).gather(1, label[:, None])
            return share[:, 0].clamp(1e-6, 1 - 1e-6).logit()
        logits = self._logits(network, inputs)
        own: torch.Tensor = logits.gather(1, label[:, None])[:, 0]
        return own - logits.scatter(1, label[:, None], -torch.inf).logsumexp(dim=1)

    def ranked(self, network: nn.Module, inputs: torch.Tensor, copies: int) -> torch.Tensor:
        """Return the classes of each input from the most to the least probable for a network."""
        with torch.no_grad():
            if self.query_noise:
                found = self._averaged(network, inputs, *self._of_queries, copies)
            else:
                found = self._logits(network, inputs)
            ranked: torch.Tensor = found.argsort(dim=1, descending=True)
        return ranked

    @property
    def _of_queries(self) -> tuple[float, InputRange]:
        """The level of query noise, and the range that it is clipped to."""
        return self.query_noise, self.smoothing.input_range

    def _averaged(
        self, network: nn.Module, inputs: torch.Tensor, level: float, limits: InputRange, copies: int
    ) -> torch.Tensor:
        """Return the average class probabilities over noisy copies."""
        noisy = inputs + level * self.normal(inputs, copies)
        if limits is not None:
            noisy = noisy.clamp(*limits)
        shares = self._logits(network, noisy.flatten(0, 1)).softmax(dim=1)
        average: torch.Tensor = shares.unflatten(0, (copies, len(inputs))).mean(dim=0)
        return average

    def _logits(self, network: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        """Return what an attack computes with; bfloat16 is exact enough for it, and faster where it is used.

        It is used on a GPU, and wherever the smoothed classifier uses it.
        """
        device = inputs.device.type
        half = device == "cuda" or self.smoothing.precision == "bfloat16"
        with torch.autocast(device, torch.bfloat16, enabled=half):
            logits: torch.Tensor = network(inputs)
        return logits.float()


def threat_of_certifier(certifier: Certifier) -> Threat | None:
    """Return what the certifier's promise allows to happen to inputs before they are certified."""
    facts = certifier.guarantee.calibration
    return None if facts is None else facts.threat


@dataclass(frozen=True, eq=False)
class Moved:
    """What an attack made of inputs.

    Attributes:
        inputs: the moved inputs, each within the radius.
        certificates: the certificates that the attack got and uses; None: it asks once, at the end.
        tries: how many certificates it asked for, for each input, of those it might have used.
    """

    inputs: torch.Tensor
    certificates: Certificates | None = None
    tries: int = 1


class Best:
    """The best point of each input so far; before the first one, the input itself."""

    def __init__(self, inputs: torch.Tensor) -> None:
        self.points = inputs.clone()
        self.values = torch.full((len(inputs),), -torch.inf, device=inputs.device, dtype=torch.float64)

    def take(self, points: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Keep those of these points that are better, and return which they are."""
        better: torch.Tensor = values > self.values
        self.points[better], self.values[better] = points[better], values.double()[better]
        return better


def length(shift: torch.Tensor) -> torch.Tensor:
    """Return the L2 length of each row, broadcastable to it."""
    found: torch.Tensor = torch.linalg.vector_norm(shift.flatten(1), dim=1)
    return found.reshape(-1, *[1] * (shift.ndim - 1))
