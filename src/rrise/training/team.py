"""The processes that train one network together: a single one, or those started by `torchrun`."""

import os
from typing import Any

import torch
from torch import nn

from rrise.errors import SettingError


class Team:
    """A single process; `join_team` returns the team of a `torchrun` instead.

    Every member computes its part of each batch. Gradients are averaged, so all members take the step that
    one process would take with the whole batch.
    """

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and messages."""
        return self.rank == 0

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the network with shared gradients."""
        return network

    def part(self, batch: torch.Tensor) -> torch.Tensor:
        """Return this member's part of a batch."""
        return batch[self.rank :: self.size]

    def agreed(self, answer: bool) -> bool:
        """Return the leader's answer; every member must call this."""
        return answer

    def weight(self, batch: torch.Tensor) -> float:
        """Return the weight of a member's mean loss, such that the members' average is the batch's mean."""
        return len(self.part(batch)) * self.size / len(batch)


class _Accelerated(Team):
    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator
        self.rank, self.size = accelerator.process_index, accelerator.num_processes

    def wrap(self, network: nn.Module) -> nn.Module:
        wrapped: nn.Module = self._accelerator.prepare_model(network)
        return wrapped

    def agreed(self, answer: bool) -> bool:
        from accelerate.utils import broadcast_object_list

        return bool(broadcast_object_list([answer])[0])


def started_by_torchrun() -> bool:
    """Tell whether this process is one of several that `torchrun` started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def join_team(device: torch.device) -> tuple[Team, torch.device]:
    """Return the team of this process, and the device it must use."""
    if not started_by_torchrun():
        return Team(), device
    try:
        from accelerate import Accelerator
    except ImportError:
        raise SettingError(
            "training on several GPUs needs accelerate: pip install 'rrise[distributed]'"
        ) from None
    accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision="no")
    return _Accelerated(accelerator), accelerator.device
