"""A surrogate for a machine without a GPU: the base classifier with a new last layer.

The layer learns stored votes of some images. With query noise, it sees features of noisy copies of them, and
still learns the votes of the clean images.
"""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.models.evaluating import evaluating
from rrise.models.head import features_before, find_head
from rrise.training.objectives import cross_entropy

EPOCHS, RATE, BATCH = 200, 1e-3, 512


def with_last_layer(
    base: nn.Module, images: NDArray[np.float32], counts: NDArray[np.int64], noise: float, copies: int = 8
) -> nn.Module:
    """Return the base classifier with a last layer that was trained on these votes."""
    network = copy.deepcopy(base).float().requires_grad_(False)
    head = find_head(network, counts.shape[1])
    torch.manual_seed(1)
    seen = torch.from_numpy(images).repeat(copies if noise else 1, 1, 1, 1)
    batches = ((part + noise * torch.randn_like(part)).clamp(0, 1) for part in seen.split(256))
    with evaluating(network):
        features = features_before(network, head, batches)
    assert features is not None
    shares = torch.from_numpy(counts / counts.sum(axis=1, keepdims=True)).float()
    targets = shares.repeat(len(seen) // len(images), 1)
    head.requires_grad_(True)
    optimiser = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(features)).split(BATCH):
            loss = cross_entropy(head(features[batch]), targets[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    return network.requires_grad_(False).eval()
