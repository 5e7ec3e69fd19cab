"""Distillation: all weights, on inputs made anew at every step, with fresh votes of the base classifier.

A surrogate needs no labels, so any input can train it. Augmented and mixed inputs are new at every step, and
the base classifier has not been trained on them. Cross-entropy is linear in its target, so that a few votes
are as good a target as the smoothed probabilities, up to noise of the gradient. A trained surrogate can
teach a smaller one in place of votes: its answers have no noise and cost one pass.

A surrogate that starts from the base classifier keeps the statistics of its batch normalisation. The base
classifier votes with them, and they are those of its own training. Statistics of mixed and augmented batches
are others, and what they change has to be learned anew (`benchmarks/results/distillation-cpu.md`).
"""

from typing import Any

import torch
from torch import nn

from rrise.data.pool import Pool
from rrise.data.splits import split_indices
from rrise.errors import MismatchError, SettingError
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of, uncompiled
from rrise.seeds import derive_seed
from rrise.training.lesson import Lesson
from rrise.training.loop import Task
from rrise.training.objectives import cross_entropy, measurements
from rrise.training.recording import is_recordable
from rrise.training.settings import SurrogateTraining
from rrise.training.surrogate import Surrogate
from rrise.training.team import Team
from rrise.training.trainee import Trainee
from rrise.training.views import Views
from rrise.votes.array import Votes
from rrise.votes.collect import collect_votes
from rrise.votes.fresh import FreshVotes
from rrise.votes.inputs import ShardedInputs
from rrise.votes.noise import Noise
from rrise.votes.plan import VotePlan
from rrise.votes.smoothing import Smoothing

VALIDATION_INPUTS = 2_000
"""The largest number of inputs that measure the epochs."""
VALIDATION_VOTES = 256
"""Votes of each of these, collected before the first epoch."""
_SPLIT = "surrogate-validation"
_WORDS = 2**32


def smoothing_to_distill(
    base: nn.Module,
    inputs: ShardedInputs,
    votes: Any,
    sigma: float | Noise | None,
    precision: str | None,
) -> Smoothing:
    """Return the smoothed classifier to distill: that of the votes, or of `sigma` and `precision`."""
    known = votes.smoothing if isinstance(votes, Votes) else None
    if known is None and sigma is None:
        raise SettingError(
            "distill draws its own votes and needs the noise: pass sigma=0.25, or votes from collect_votes"
        )
    if known is not None:
        precision = precision or known.precision
        sigma = known.noise if sigma is None else sigma
    plan = VotePlan(sigma, 1, 0, _SPLIT, inputs.input_range, precision)  # type: ignore[arg-type]
    found = plan.smoothing(base, inputs.shard(0))
    if known is not None:
        found.check_same(known, "this training", "the votes")
    return found


def distillation(
    base: nn.Module,
    student: nn.Module,
    pool: Pool,
    smoothing: Smoothing,
    *,
    views: Views,
    settings: SurrogateTraining,
    team: Team,
    teacher: nn.Module | None = None,
) -> Lesson:
    """Return what the loop needs to distill the smoothed classifier into the student.

    `pool` holds the inputs in float32, and `views` makes new inputs of their batches. Some of them are held
    out: they get their votes once, at the start, and measure every epoch. The last epoch is kept: the base
    classifier knows the held-out inputs, so that few of them would select an early epoch. With a `teacher`,
    its probabilities are the targets of every step. The held-out inputs keep their votes.
    """
    if settings.objective != "cross-entropy":
        raise SettingError(
            f"distill needs the objective cross-entropy, which is unbiased for a few votes; got "
            f"{settings.objective!r}"
        )
    device = device_of(student)
    for what, other in (("base classifier", base), ("teacher", teacher)):
        if other is not None and device_of(other).type != device.type:
            raise MismatchError(
                f"expected {what} and network on one device, got {device_of(other)} and {device}"
            )
    parts = _parts(len(pool), settings)
    kept, held_out = (torch.from_numpy(parts[name]).to(device) for name in ("kept", "held_out"))
    validation = _validation_votes(base, pool[held_out], smoothing, settings.seed).to(device)
    sample = pool[kept[:8]].cpu()
    fresh = FreshVotes(base, _plan(smoothing, settings.fresh_votes, settings.seed), sample)
    student.requires_grad_(True)
    trainee, dtype = Trainee(student, cross_entropy, settings, team), precision_of(student)

    def seen(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return what the student sees: the inputs, or what query noise makes of them."""
        if settings.query_noise == 0:
            return inputs
        noise = torch.randn(inputs.shape, generator=generator, device=inputs.device)
        noisy = inputs + settings.query_noise * noise
        return noisy if smoothing.input_range is None else noisy.clamp(*smoothing.input_range)

    def make(*arguments: torch.Tensor) -> torch.Tensor:
        return views.make(*arguments)

    def vote(inputs: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return fresh.shares(inputs, key)

    def answer(inputs: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = tutor(trainee.laid_out(inputs))
        return said.float().softmax(dim=1)

    tutor = base if teacher is None else teacher
    fast_make, fast_vote = trainee.compile(make, "augmentation"), trainee.compile(vote, "base classifier")
    fast_answer = trainee.compile(answer, "teacher")

    def examples(batch: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        full = trainee.is_full(batch)
        arguments = views.draw(pool[kept[batch]], generator)
        key = torch.randint(_WORDS, (2,), generator=generator, device=generator.device)
        made = (fast_make if full else make)(*arguments)
        if teacher is None:
            with fresh.computing():
                targets = (fast_vote if full else vote)(made, key)
        else:
            with evaluating(teacher), trainee.precision():
                targets = (fast_answer if full else answer)(made)
        return seen(made, generator).to(dtype), targets.to(dtype)

    def measure() -> dict[str, float]:
        generator = torch.Generator(device).manual_seed(derive_seed(settings.seed, "query noise"))
        chosen = (seen(pool[part], generator) for part in held_out.split(settings.batch_size))
        return measurements(trainee.logits(part.to(dtype) for part in chosen), validation)

    task = Task(
        trainee,
        list(student.parameters()),
        len(kept),
        examples,
        measure,
        select_by=None,
        still=_still(base, student, settings.stored_statistics),
        recordable=views.recordable and is_recordable(tutor),
        shape=pool.shape,
        averaging=settings.averaging,
    )
    return Lesson(
        task,
        held_out,
        epoch_passes=(3 if teacher is None else 4) * len(kept) + len(held_out),
        votes=VALIDATION_VOTES * len(held_out),
        epoch_votes=0 if teacher is not None else settings.fresh_votes * len(kept),
    )


def _still(base: nn.Module, student: nn.Module, stored: bool | None) -> list[nn.Module]:
    """Return the layers that normalise by stored statistics, and must not change them."""
    start = student.network if isinstance(student, Surrogate) else student
    mine, theirs = _normalising(start), _normalising(uncompiled(base))
    if stored is None:
        stored = all(name in theirs and _same_statistics(part, theirs[name]) for name, part in mine.items())
    return list(mine.values()) if stored else []


def _normalising(network: nn.Module) -> dict[str, nn.Module]:
    """Return the layers with running statistics by name."""
    return {name: part for name, part in network.named_modules() if _statistics(part)}


def _statistics(part: nn.Module) -> dict[str, torch.Tensor]:
    found = {name: getattr(part, name, None) for name in ("running_mean", "running_var")}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def _same_statistics(one: nn.Module, other: nn.Module) -> bool:
    mine, theirs = _statistics(one), _statistics(other)
    return mine.keys() == theirs.keys() and all(
        torch.equal(value.float(), theirs[name].float()) for name, value in mine.items()
    )


def _parts(inputs: int, settings: SurrogateTraining) -> dict[str, Any]:
    """Hold out a share of the inputs at random; nothing is known of them to stratify by."""
    count = min(VALIDATION_INPUTS, max(1, round(inputs * settings.validation_share)))
    sizes = {"held_out": count, "kept": inputs - count}
    return split_indices(inputs, sizes, derive_seed(settings.seed, "holdout"))


def _plan(smoothing: Smoothing, n: int, seed: int) -> VotePlan:
    return VotePlan(smoothing.noise, n, seed, _SPLIT, smoothing.input_range, smoothing.precision)


def _validation_votes(base: nn.Module, inputs: torch.Tensor, smoothing: Smoothing, seed: int) -> torch.Tensor:
    """Return the shares of the classes among many votes of the held-out inputs."""
    votes = collect_votes(
        base,
        inputs.cpu(),
        sigma=smoothing.noise,
        n=VALIDATION_VOTES,
        seed=derive_seed(seed, _SPLIT),
        split=_SPLIT,
        input_range=smoothing.input_range,
        precision=smoothing.precision,
    )
    return torch.from_numpy(votes / VALIDATION_VOTES)
