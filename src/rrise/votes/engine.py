"""The noise-vote engine: the base classifier under Gaussian noise, many inputs to a batch.

The n draws of a shard's inputs are numbered draw by draw: sample s is draw `s // inputs` of input
`s % inputs`. The samples are cut into batches. One function makes the noisy copies, classifies them and
returns their classes; it is compiled if that saves time. Answers stay on the device until the shard is done.

Determinism: the noise of a sample depends on the seed, the split's name, the shard with its inputs, the
input's index in it, and the number of the draw. It never depends on batches, workers or interruptions.
"""

import copy
import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.errors import InputError, SettingError, WorkerError
from rrise.models.checks import check_is_function
from rrise.models.compiling import prefers_channels_last, take_signals_back, with_own_code
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of, uncompiled
from rrise.models.logits import logits_of
from rrise.models.precision import at_precision, matrix_products, own_copy
from rrise.progress import OnProgress
from rrise.votes.inputs import ShardInputs
from rrise.votes.philox import key_of
from rrise.votes.plan import SHARD, VotePlan, whole_number

_NAN = -1

Answers = NDArray[Any]
"""The class of every noisy copy, `[inputs, draws]`, in the order of the draws; the smallest integer type."""
Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Execution:
    """How passes are computed. This affects the speed, and the rounding in the last bits of a logit."""

    batch_size: int
    compiled: bool = False
    freezing: bool = False
    """Compile the weights in as constants, which are then laid out and folded once."""

    def __post_init__(self) -> None:
        if whole_number(self.batch_size, "batch_size") < 1:
            raise SettingError(f"expected a batch size of at least 1, got {self.batch_size}")


class VoteEngine:
    """A base classifier ready to vote under a plan; `sample` holds a few of the inputs, to test it.

    The base is never changed: if it must be converted, a copy of it votes.
    """

    def __init__(self, base: nn.Module, plan: VotePlan, sample: torch.Tensor, execution: Execution) -> None:
        self.plan, self.execution = plan, execution
        self.shape = tuple(sample.shape[1:])
        module = at_precision(base, plan.precision)
        self.smoothing = plan.smoothing(module, sample)
        self.precision = self.smoothing.precision
        self.channels_last = sample.ndim == 4 and prefers_channels_last(module)
        if self.channels_last:
            module = own_copy(module) if module is base else module
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.module = module
        self.device = device_of(module)
        with self.computing():
            self.classes = check_is_function(module, sample[:SHARD], "base classifier")
            self._compiled = self._compile(sample) if execution.compiled else None

    @property
    def device_type(self) -> str:
        """Where it computes: `cpu`, `cuda`."""
        return self.device.type

    @property
    def compiler_options(self) -> dict[str, Any]:
        """The options of `torch.compile`; CUDA graphs avoid launching each kernel separately."""
        return {"freezing": self.execution.freezing, "triton.cudagraphs": self.device.type == "cuda"}

    @property
    def compiled(self) -> bool:
        """Whether batches run compiled; False also where the compiler failed."""
        return self._compiled is not None

    def with_batch_size(self, batch_size: int) -> "VoteEngine":
        """Return the same engine for another batch size, in eager mode."""
        other = copy.copy(self)
        other.execution = replace(self.execution, batch_size=batch_size, compiled=False)
        other._compiled = None
        return other

    def with_n(self, n: int) -> "VoteEngine":
        """Return the same engine for another number of draws."""
        other = copy.copy(self)
        other.plan = replace(self.plan, n=n)
        return other

    def try_batch(self, sample: torch.Tensor) -> None:
        """Compute one batch, wait for it and discard the answers."""
        with self.computing():
            self._step(*self._arguments(ShardInputs(0, sample[:SHARD], ""))).sum().item()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Hold the module in evaluation mode, and its arithmetic at the precision of the plan."""
        with evaluating(self.module), matrix_products(self.precision):
            yield

    def answers(
        self, shards: Iterable[ShardInputs], on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Answers]]:
        """Vote on shards, and yield the number and answers `[inputs, n - drawn]` of each, in order.

        On a GPU, each shard is started before the previous one is yielded, so the GPU never waits for the
        host.
        """
        started: deque[_Shard] = deque()
        for shard in shards:
            with self._voting():
                started.append(self._start(shard, on_progress))
            if self.device.type == "cpu" or len(started) > 1:
                yield self._finish(started.popleft())
        while started:
            yield self._finish(started.popleft())

    def chosen_answers(
        self, shard: ShardInputs, draw: NDArray[np.int64], owner: NDArray[np.int64]
    ) -> Answers:
        """Vote on some noisy copies of a shard's inputs, in eager mode: draw `draw[i]` of input `owner[i]`.

        A vote on the whole shard gives the same answers for these copies.
        """
        held, key, *_ = self._arguments(shard)
        pairs = [torch.from_numpy(numbers).to(self.device) for numbers in (draw, owner)]
        batches = zip(*(numbers.split(self.execution.batch_size) for numbers in pairs), strict=True)
        with self._voting():
            answers = torch.cat([self._classified(self.copies(held, key, *batch)) for batch in batches])
        return self._checked(answers.cpu().numpy(), shard.index * SHARD + owner)

    @contextmanager
    def _voting(self) -> Iterator[None]:
        """Compute; if a batch does not fit into memory, say what to do."""
        try:
            with self.computing():
                yield
        except torch.OutOfMemoryError as error:
            raise SettingError(
                f"a batch of {self.execution.batch_size} noisy inputs does not fit into the memory of "
                f"{self.device}: use a smaller batch size"
            ) from error

    def _start(self, shard: ShardInputs, on_progress: OnProgress | None) -> "_Shard":
        total, size = len(shard.inputs) * (self.plan.n - shard.drawn), self.execution.batch_size
        arguments = self._arguments(shard)
        kind = torch.int16 if self.classes <= torch.iinfo(torch.int16).max else torch.int32
        answers = torch.empty(-(-total // size) * size, dtype=kind, device=self.device)
        for first in range(0, total, size):
            answers[first : first + size] = self._step(*arguments)
            arguments[-1].add_(size)
            if on_progress is not None:
                on_progress(min(size, total - first))
        return _Shard(shard.index, len(shard.inputs), answers[:total])

    def _finish(self, shard: "_Shard") -> tuple[int, Answers]:
        """Return a shard's number and answers."""
        owner = shard.index * SHARD + np.arange(shard.inputs)
        return shard.index, self._checked(shard.fetch().reshape(-1, shard.inputs).T, owner)

    def _checked(self, answers: NDArray[Any], owner: NDArray[np.int64]) -> Answers:
        """Return the answers, one row or item per `owner`; NaN is an error that names the input."""
        if answers.min() < _NAN or answers.max() >= self.classes:
            raise WorkerError(f"{self.device} returned answers that are not classes: it cannot be trusted")
        broken = (answers == _NAN).reshape(len(answers), -1).any(axis=1)
        if broken.any():
            index = owner[broken.argmax()]
            raise InputError(f"the base classifier returned NaN for a noisy copy of input {index}")
        return np.ascontiguousarray(answers, dtype=np.min_scalar_type(self.classes - 1))

    def _arguments(self, shard: ShardInputs) -> tuple[torch.Tensor, ...]:
        """Return a step's arguments: the shard's inputs, padded; key; number of inputs; first sample."""
        inputs, shape, pinned = len(shard.inputs), (SHARD, *self.shape), self.device.type == "cuda"
        padded = torch.zeros(shape, dtype=torch.float32, device="cpu", pin_memory=pinned)
        padded[:inputs] = shard.inputs
        key = key_of(self.plan.shard_seed(shard.index, shard.content), self.device)
        count, start = (torch.full((), inputs * each, device=self.device) for each in (1, shard.drawn))
        return padded.to(self.device, non_blocking=True), key, count, start

    def _noisy(
        self, inputs: torch.Tensor, key: torch.Tensor, count: torch.Tensor, start: torch.Tensor
    ) -> torch.Tensor:
        """Return the batch of noisy copies that starts at sample `start`."""
        sample = torch.arange(self.execution.batch_size, device=inputs.device) + start
        return self.copies(inputs, key, sample // count, sample % count)

    def copies(
        self, inputs: torch.Tensor, key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor
    ) -> torch.Tensor:
        """Return noisy copies, ready for the module: draw `draw[i]` of input `owner[i]`."""
        noise = self.plan.noise.sample(key, draw, owner, math.prod(self.shape))
        noisy = inputs[owner] + noise.view(-1, *self.shape)
        if self.plan.input_range is not None:
            noisy = noisy.clamp(*self.plan.input_range)
        noisy = noisy.to(precision_of(self.module))
        return noisy.contiguous(memory_format=torch.channels_last) if self.channels_last else noisy

    def _step(self, *arguments: torch.Tensor) -> torch.Tensor:
        return (self._compiled or self._eager)(*arguments)

    def _eager(self, *arguments: torch.Tensor) -> torch.Tensor:
        return self._classified(self._noisy(*arguments))

    def _classified(self, noisy: torch.Tensor) -> torch.Tensor:
        return self.classes_of(logits_of(self.module, noisy, "base classifier", copy=False))

    def _compile(self, sample: torch.Tensor) -> Step | None:
        """Return the compiled function of one batch; if it cannot be trusted, warn and return None."""
        arguments = self._arguments(ShardInputs(0, sample[:SHARD], ""))
        self._eager(*arguments)
        module = uncompiled(self.module)

        def step(*arguments: torch.Tensor) -> torch.Tensor:
            return self.classes_of(module(self._noisy(*arguments)))

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's, about its own code
                compiled: Step = torch.compile(
                    with_own_code(step), fullgraph=True, dynamic=False, options=self.compiler_options
                )
                wrong = self._wrong_answers(compiled, arguments)
            reason = f"{wrong} answers differ from the eager ones" if wrong else None
        except Exception as error:  # compilers raise anything
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        finally:
            take_signals_back()
        if reason is None:
            return compiled
        warnings.warn(
            f"the base classifier does not compile ({reason}): votes are collected in eager mode, slower",
            RuntimeWarning,
            stacklevel=2,
        )
        return None

    def _wrong_answers(self, compiled: Step, arguments: tuple[torch.Tensor, ...]) -> int:
        """Count the answers of a compiled function that are clearly wrong.

        A CUDA graph is recorded during the first two calls and replayed from the third on.
        """
        wrong = 0
        for _ in range(3 if self.device.type == "cuda" else 1):
            logits = logits_of(self.module, self._noisy(*arguments), "base classifier", copy=False)
            wrong += _clearly_wrong(compiled(*arguments), logits)
            arguments[-1].add_(self.execution.batch_size)
        return wrong

    def classes_of(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the class of each noisy copy: the lowest on ties; `_NAN` where a logit is NaN."""
        if logits.shape[1] != self.classes:
            raise InputError(
                f"expected {self.classes} logits from the base classifier, as before; got {logits.shape[1]}"
            )
        return torch.where(torch.isnan(logits).any(dim=1), _NAN, logits.argmax(dim=1))


class _Shard:
    """Answers in transfer from the device."""

    def __init__(self, index: int, inputs: int, answers: torch.Tensor) -> None:
        self.index, self.inputs = index, inputs
        self._host, self._arrived = answers, None
        if answers.device.type == "cuda":
            self._host = torch.empty(answers.shape, dtype=answers.dtype, pin_memory=True)
            self._host.copy_(answers, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(answers.device))

    def fetch(self) -> NDArray[Any]:
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._host.cpu().numpy()


def _clearly_wrong(answers: torch.Tensor, logits: torch.Tensor) -> int:
    """Count the answers that are not the top class of these logits, even allowing for rounding."""
    given = logits.gather(1, answers.long().clamp(min=0)[:, None])[:, 0]
    slack = (1e-3 if logits.dtype in (torch.float32, torch.float64) else 0.05) * logits.abs().amax(dim=1)
    broken = torch.isnan(logits).any(dim=1)
    return int(torch.where(broken, answers != _NAN, logits.amax(dim=1) - given > slack).sum())
