"""The noise-vote engine: the base classifier under Gaussian noise, many inputs to a batch.

The n draws of a shard's inputs are numbered draw by draw: sample s is draw `s // inputs` of input
`s % inputs`. The samples are cut into batches. One function makes the noisy copies, classifies them and
returns their classes; it is compiled if that saves time. On a CPU, each core computes batches of its own.
Answers stay on the device until the shard is done.

Determinism: the noise of a sample depends on the seed, the split's name, the shard with its inputs, the
input's index in it, and the number of the draw. It never depends on batches, workers or interruptions.
"""

import copy
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.errors import InputError, SettingError, WorkerError
from rrise.models.checks import check_is_function
from rrise.models.compiling import prefers_channels_last
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of
from rrise.models.logits import logits_of
from rrise.models.precision import at_precision, matrix_products, own_copy
from rrise.progress import OnProgress
from rrise.votes.compiled import NAN, Step, compiled_step
from rrise.votes.crew import Crew, one_thread
from rrise.votes.inputs import ShardInputs
from rrise.votes.philox import key_of
from rrise.votes.plan import SHARD, VotePlan, whole_number

Answers = NDArray[Any]
"""The class of every noisy copy, `[inputs, draws]`, in the order of the draws; the smallest integer type."""
_WIDE = 64
"""Channels from which the channels-last format is faster on a CPU: 6 % in a ResNet-18; 32 cost a third."""
_NOISE = 2**19
"""Numbers of noise that a core of a CPU draws at once, for several batches if these are small."""
Pairs = Callable[[int, int], tuple[torch.Tensor, torch.Tensor]]
"""The draws and the owners of a range of samples."""


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
        self.device = device_of(module)
        with self._quietly():
            self.smoothing = plan.smoothing(module, sample)
        self.precision = self.smoothing.precision
        self.channels_last = sample.ndim == 4 and prefers_channels_last(module) and self._wide(module)
        if self.channels_last:
            module = own_copy(module) if module is base else module
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.module = module
        self._crew = Crew(module, self.device)
        with self.computing():
            with self._quietly():
                self.classes = check_is_function(module, sample[:SHARD], "base classifier")
            self._compiled = self._compile(sample) if execution.compiled else None

    @property
    def device_type(self) -> str:
        """Where it computes: `cpu`, `cuda`."""
        return self.device.type

    @property
    def threads(self) -> int:
        """How many batches it computes at a time."""
        return len(self._crew)

    @property
    def task_size(self) -> int:
        """How many noisy copies a thread makes at a time: those of a batch, or of several small ones."""
        size = self.execution.batch_size
        if self.device.type != "cpu" or self._compiled is not None:
            return size
        return size * max(1, _NOISE // (size * max(1, math.prod(self.shape))))

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
        return self.in_stream(replace(self.plan, n=n))

    def in_stream(self, plan: VotePlan) -> "VoteEngine":
        """Return the same engine for a plan that differs in nothing but its stream and number of draws."""
        assert replace(plan, n=self.plan.n, seed=self.plan.seed, split=self.plan.split) == self.plan
        other = copy.copy(self)
        other.plan = plan
        return other

    def try_task(self, sample: torch.Tensor, tasks: int = 1) -> None:
        """Compute `task_size` noisy copies, on each of so many threads, and discard the answers."""
        shard = ShardInputs(0, sample[:SHARD], "")
        held, pairs = self._held(shard), self._samples(shard)(0, self.task_size)

        def vote(module: nn.Module, _: int) -> int:
            return int(self._vote(module, *held, *pairs).sum())  # waits for a GPU

        with self.computing():
            self._crew.work(range(tasks), vote)

    def try_noise(self, sample: torch.Tensor) -> None:
        """Make the noisy copies of one task, and discard them."""
        shard = ShardInputs(0, sample[:SHARD], "")
        with self.computing(), self._crew.computing():
            self.copies(*self._held(shard), *self._samples(shard)(0, self.task_size))

    def _wide(self, module: nn.Module) -> bool:
        """Tell whether channels fill a core's registers: narrower ones are slower beside each other."""
        convolutions = (part for part in module.modules() if isinstance(part, nn.Conv2d))
        return self.device.type != "cpu" or max(part.out_channels for part in convolutions) >= _WIDE

    def _quietly(self) -> AbstractContextManager[None]:
        """Let a few inputs use one thread: several wait for each other for longer than they compute."""
        return one_thread() if self.device.type == "cpu" else nullcontext()

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
        self,
        shard: ShardInputs,
        draw: NDArray[np.int64],
        owner: NDArray[np.int64],
        on_progress: OnProgress | None = None,
    ) -> Answers:
        """Vote on some noisy copies of a shard's inputs: draw `draw[i]` of input `owner[i]`.

        A vote on the whole shard gives the same answers for these copies.
        """
        draws, owners = (torch.from_numpy(numbers).to(self.device) for numbers in (draw, owner))
        with self._voting():
            answers = self._empty(len(draw))
            self._fill(
                answers, shard, lambda first, last: (draws[first:last], owners[first:last]), on_progress
            )
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
        inputs = len(shard.inputs)
        answers = self._empty(inputs * (self.plan.n - shard.drawn))
        self._fill(answers, shard, self._samples(shard), on_progress)
        return _Shard(shard.index, inputs, answers)

    def _empty(self, answers: int) -> torch.Tensor:
        kind = torch.int16 if self.classes <= torch.iinfo(torch.int16).max else torch.int32
        return torch.empty(answers, dtype=kind, device=self.device)

    def _samples(self, shard: ShardInputs) -> Pairs:
        """Return the draws and owners of a shard's samples, from the first that is missing."""
        inputs = len(shard.inputs)
        begin = inputs * shard.drawn

        def pairs(first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
            sample = torch.arange(begin + first, begin + last, device=self.device)
            return sample // inputs, sample % inputs

        return pairs

    def _fill(
        self, answers: torch.Tensor, shard: ShardInputs, pairs: Pairs, on_progress: OnProgress | None
    ) -> None:
        """Compute answers, task by task; all threads get as many, if they may be cut."""
        held, size = self._held(shard), self.task_size
        if self._compiled is None:
            rounds = -(-len(answers) // (size * len(self._crew)))
            size = -(-len(answers) // (rounds * len(self._crew)))

        def vote(module: nn.Module, first: int) -> int:
            last = min(first + size, len(answers))
            answers[first:last] = self._vote(module, *held, *pairs(first, last))
            return last - first

        self._crew.work(range(0, len(answers), size), vote, on_progress)

    def _finish(self, shard: "_Shard") -> tuple[int, Answers]:
        """Return a shard's number and answers."""
        owner = shard.index * SHARD + np.arange(shard.inputs)
        return shard.index, self._checked(shard.fetch().reshape(-1, shard.inputs).T, owner)

    def _checked(self, answers: NDArray[Any], owner: NDArray[np.int64]) -> Answers:
        """Return the answers, one row or item per `owner`; NaN is an error that names the input."""
        if answers.min() < NAN or answers.max() >= self.classes:
            raise WorkerError(f"{self.device} returned answers that are not classes: it cannot be trusted")
        broken = (answers == NAN).reshape(len(answers), -1).any(axis=1)
        if broken.any():
            index = owner[broken.argmax()]
            raise InputError(f"the base classifier returned NaN for a noisy copy of input {index}")
        return np.ascontiguousarray(answers, dtype=np.min_scalar_type(self.classes - 1))

    def _held(self, shard: ShardInputs) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the shard's inputs on the device, padded to a full shard, and the key of its noise."""
        shape, pinned = (SHARD, *self.shape), self.device.type == "cuda"
        padded = torch.zeros(shape, dtype=torch.float32, device="cpu", pin_memory=pinned)
        padded[: len(shard.inputs)] = shard.inputs
        key = key_of(self.plan.shard_seed(shard.index, shard.content), self.device)
        return padded.to(self.device, non_blocking=True), key

    def copies(
        self, inputs: torch.Tensor, key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor
    ) -> torch.Tensor:
        """Return noisy copies, ready for the module: draw `draw[i]` of input `owner[i]`."""
        noise = self.plan.noise.sample(key, draw, owner, math.prod(self.shape))
        noisy = inputs.index_select(0, owner).add_(noise.view(-1, *self.shape))
        if self.plan.noise_range is not None:
            noisy = noisy.clamp_(*self.plan.noise_range)
        noisy = noisy.to(precision_of(self.module))
        return noisy.contiguous(memory_format=torch.channels_last) if self.channels_last else noisy

    def _vote(
        self, module: nn.Module, held: torch.Tensor, key: torch.Tensor, *pairs: torch.Tensor
    ) -> torch.Tensor:
        """Return the classes of a task; of a batch if compiled, or of the part of a batch that is left."""
        if self._compiled is None:
            batches = self.copies(held, key, *pairs).split(self.execution.batch_size)
            logits = (logits_of(module, batch, "base classifier", copy=False) for batch in batches)
            return torch.cat([self.classes_of(each) for each in logits])
        missing = self.execution.batch_size - len(pairs[0])
        full = (nn.functional.pad(numbers, (0, missing)) for numbers in pairs) if missing else pairs
        return self._compiled(held, key, *full)[: len(pairs[0])]

    def _compile(self, sample: torch.Tensor) -> Step | None:
        """Return the compiled function of one batch; None, with a warning, if it cannot be trusted."""
        shard, size = ShardInputs(0, sample[:SHARD], ""), self.execution.batch_size
        starts = (0, size, 0) if self.device.type == "cuda" else (0,)
        batches = [(*self._held(shard), *self._samples(shard)(start, start + size)) for start in starts]
        with self._crew.computing():
            return compiled_step(self.module, self.copies, self.classes_of, batches, self.compiler_options)

    def classes_of(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the class of each noisy copy: the lowest on ties; `NAN` where a logit is NaN."""
        if logits.shape[1] != self.classes:
            raise InputError(
                f"expected {self.classes} logits from the base classifier, as before; got {logits.shape[1]}"
            )
        if torch.compiler.is_compiling() or logits.device.type == "cuda":
            return torch.where(torch.isnan(logits).any(dim=1), NAN, logits.argmax(dim=1))
        top, label = logits.max(dim=1)  # one quick call on a CPU; the maximum is NaN if any logit is
        return label.masked_fill_(torch.isnan(top), NAN)


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
