"""A probe: inputs that check whether a loaded surrogate still computes what was calibrated."""

from dataclasses import dataclass

import torch
from torch import nn

from rrise.models.evaluating import evaluating
from rrise.models.logits import logits_of
from rrise.models.precision import matrix_products


@dataclass(frozen=True, eq=False)
class Probe:
    """Two typical inputs (averages over halves of the calibration set) and the surrogate's logits."""

    inputs: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def of(cls, network: nn.Module, inputs: torch.Tensor) -> "Probe":
        """Take the probe of a network in evaluation mode."""
        halves = torch.stack([half.mean(dim=0) for half in (inputs[::2], inputs[1::2]) if len(half)])
        with evaluating(network):
            return cls(halves, logits_of(network, halves, "surrogate").cpu())

    def agrees_with(self, network: nn.Module) -> bool:
        """Tell whether a network computes the same logits on its device, up to rounding."""
        with evaluating(network), matrix_products("float32"):
            logits = logits_of(network, self.inputs, "surrogate").cpu()
        if logits.shape != self.logits.shape:
            return False
        return torch.allclose(logits.double(), self.logits.double(), rtol=1e-3, atol=1e-4, equal_nan=True)
