"""Base classifiers whose smoothed probabilities are known exactly (no clipping)."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import integrate, stats
from torch import nn


class HalfSpace(nn.Module):
    """Class 1 where w·x + b > 0: P[class 1] = Phi((w·x + b) / (sigma |w|))."""

    def __init__(self, weight: torch.Tensor, bias: float) -> None:
        super().__init__()
        self.linear = nn.Linear(len(weight), 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.stack([-weight / 2, weight / 2]))
            self.linear.bias.copy_(torch.tensor([-bias / 2, bias / 2]))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs.flatten(1))

    def distances(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Signed distance to the hyperplane: positive in class 1. The exact certified radius."""
        weight = (self.linear.weight[1] - self.linear.weight[0]).detach().double().numpy()
        bias = (self.linear.bias[1] - self.linear.bias[0]).item()
        flat = inputs.reshape(len(inputs), -1).astype(np.float64)
        return (flat @ weight + bias) / np.linalg.norm(weight)

    def probabilities(self, inputs: NDArray[np.float32], sigma: float) -> NDArray[np.float64]:
        positive = stats.norm.cdf(self.distances(inputs) / sigma)
        return np.stack([1 - positive, positive], axis=1)


class Slab(nn.Module):
    """Class 1 between two parallel hyperplanes, |x_0 - centre| < half_width; else class 0."""

    def __init__(self, centre: float, half_width: float) -> None:
        super().__init__()
        self.register_buffer("geometry", torch.tensor([centre, half_width]))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inside = self.geometry[1] - (inputs.flatten(1)[:, 0] - self.geometry[0]).abs()
        return torch.stack([torch.zeros_like(inside), inside], dim=1)

    def probabilities(self, inputs: NDArray[np.float32], sigma: float) -> NDArray[np.float64]:
        centre, half_width = (float(value) for value in self.geometry)
        offset = inputs.reshape(len(inputs), -1)[:, 0].astype(np.float64) - centre
        inside = stats.norm.cdf((half_width - offset) / sigma) - stats.norm.cdf(
            (-half_width - offset) / sigma
        )
        return np.stack([1 - inside, inside], axis=1)


class Fan(nn.Module):
    """K classes in the plane: the direction, out of K evenly spaced ones, nearest to x - (1/2, 1/2)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        angles = 2 * torch.pi * torch.arange(classes) / classes
        self.register_buffer("directions", torch.stack([angles.cos(), angles.sin()]))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs - 0.5) @ self.directions

    def probabilities(self, inputs: NDArray[np.float32], sigma: float) -> NDArray[np.float64]:
        """Integrate the normal density over each sector, in polar coordinates around its tip."""
        classes = self.directions.shape[1]
        return np.array([[self._sector(x - 0.5, k, classes, sigma) for k in range(classes)] for x in inputs])

    @staticmethod
    def _sector(offset: NDArray[np.float32], k: int, classes: int, sigma: float) -> float:
        middle, half = 2 * np.pi * k / classes, np.pi / classes
        mean = offset.astype(np.float64) / sigma

        def density(angle: float) -> float:
            along = mean @ [np.cos(angle), np.sin(angle)]
            across = mean @ mean - along**2
            radial = np.exp(-(along**2) / 2) + along * np.sqrt(2 * np.pi) * stats.norm.cdf(along)
            return float(np.exp(-across / 2) * radial / (2 * np.pi))

        return float(integrate.quad(density, middle - half, middle + half)[0])
