"""A training step recorded on a GPU: launched as a whole instead of kernel by kernel."""

from collections.abc import Callable

import torch
from torch import nn

from rrise.errors import RriseError

_STEPS_BEFORE = 3
"""Steps before the recorded one: they compile, and create the optimiser's state."""
_KNOWN = {"torch", "timm", "torchvision", "rrise"}


class RecordedStep:
    """A step on batches of one size, recorded as a CUDA graph at its fourth call and replayed from then on.

    `step` takes the indices of a batch. All other data it uses must keep its memory address. Its random
    numbers must come from `generator` or torch's global generator. The result is the same as unrecorded.
    """

    def __init__(self, step: Callable[[torch.Tensor], object], size: int, generator: torch.Generator) -> None:
        self._step, self._generator = step, generator
        self._batch = torch.zeros(size, dtype=torch.int64, device=generator.device)
        self._stream = torch.cuda.Stream(generator.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._calls = 0

    def __call__(self, batch: torch.Tensor) -> None:
        """Do the step for a batch."""
        self._batch.copy_(batch)
        self._calls += 1
        if self._graph is None and self._calls > _STEPS_BEFORE:
            self._graph = self._record()
        if self._graph is not None:
            self._graph.replay()
            return
        current = torch.cuda.current_stream(self._batch.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            self._step(self._batch)
        current.wait_stream(self._stream)

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        try:
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._step(self._batch)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # CUDA reports anything that cannot be recorded
            raise RriseError(
                f"the training step cannot be recorded on this GPU ({str(error).strip().splitlines()[0]}): "
                f"train with compiled=False"
            ) from error
        return graph


def is_recordable(network: nn.Module) -> bool:
    """Tell whether a network's steps can be replayed: all its code is from known libraries.

    A custom module or hook may count its calls or draw numbers outside torch, which a replay would not do.
    """
    return not any(
        not is_known(part) or part._forward_hooks or part._forward_pre_hooks for part in network.modules()
    )


def is_known(thing: object) -> bool:
    """Tell whether the class of a thing is from a known library, none of whose code a replay would skip."""
    return type(thing).__module__.split(".")[0] in _KNOWN
