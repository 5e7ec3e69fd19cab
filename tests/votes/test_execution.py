"""How votes are computed: compiled or not, in which batches, in which precision."""

import shutil
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.models.catalogue import build_model
from rrise.votes import tuning
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.tuning import choose_execution, estimate, even_batch, usual_batch
from tests.closed_forms import Fan, HalfSpace

IMAGES = torch.rand(SHARD + 6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
PLAN = {"sigma": 0.5, "n": 150, "seed": 7}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@needs_compiler
@pytest.mark.parametrize("freezing", [True, False])
def test_compiled_votes_are_the_eager_ones(freezing: bool) -> None:
    base = build_model("small-convnet", seed=0)
    eager = rrise.collect_votes(base, IMAGES, **PLAN, compiled=False)
    plan = VotePlan(PLAN["sigma"], PLAN["n"], PLAN["seed"])
    inputs = ShardedInputs(IMAGES, plan.input_range)
    engine = VoteEngine(base, plan, IMAGES, Execution(320, compiled=True, freezing=freezing))
    assert engine.compiled
    answers = np.concatenate([drawn for _, drawn in engine.answers(inputs.numbered())])
    counts = np.stack([np.bincount(row, minlength=10) for row in answers])
    np.testing.assert_array_equal(counts, eager)


def only_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compiler trace functions, and not make machine code, which takes seconds."""
    compiler = torch.compile

    def trace(function: Callable, *, fullgraph: bool, **_: object) -> Callable:
        return compiler(function, fullgraph=fullgraph, dynamic=False, backend="eager")

    monkeypatch.setattr(torch, "compile", trace)


def test_many_engines_in_one_process_all_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler keeps a count by function, and gives up on one it compiled too often."""
    only_traced(monkeypatch)
    plan = VotePlan(0.5, 10, 0)
    for width in (2, 3):
        points = torch.rand(4, width)
        with torch._dynamo.config.patch(recompile_limit=1):
            engine = VoteEngine(nn.Linear(width, 2), plan, points, Execution(40, compiled=True))
        assert engine.compiled
        with torch._dynamo.config.patch(error_on_recompile=True):
            list(engine.answers(ShardedInputs(points, plan.input_range).numbered()))


class Unruly(nn.Module):
    """A classifier that no compiler takes."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            raise RuntimeError("cannot be traced")
        return inputs


class Deceptive(nn.Module):
    """A classifier that computes something else when compiled."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return -inputs if torch.compiler.is_compiling() else inputs


@pytest.mark.parametrize(
    ("base", "reason"), [(Unruly(), "does not compile"), (Deceptive(), "answers differ from the eager ones")]
)
def test_a_base_that_does_not_compile_votes_in_eager_mode_with_a_warning(
    base: nn.Module, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_traced(monkeypatch)
    points = np.random.default_rng(0).random((5, 2))
    with pytest.warns(RuntimeWarning, match=reason):
        votes = rrise.collect_votes(base, points, sigma=0.3, n=40, compiled=True)
    np.testing.assert_array_equal(votes, rrise.collect_votes(base, points, sigma=0.3, n=40, compiled=False))


def test_precision_belongs_to_the_base() -> None:
    base = build_model("small-convnet", seed=0)
    half = rrise.collect_votes(base, IMAGES, **PLAN, precision="bfloat16")
    converted = build_model("small-convnet", seed=0).bfloat16()
    np.testing.assert_array_equal(half, rrise.collect_votes(converted, IMAGES, **PLAN))
    assert half.smoothing.precision == "bfloat16"
    assert half.smoothing.base == rrise.fingerprint(converted) != rrise.fingerprint(base)
    assert base.head.weight.dtype == torch.float32


def test_votes_of_one_precision_are_refused_where_another_is_meant() -> None:
    base = HalfSpace(torch.tensor([3.0, -2.0, 1.0, 0.5]), -1.0)
    points = np.random.default_rng(0).random((300, 4), dtype=np.float32)
    plan = {"sigma": 0.25, "n": 400, "seed": 1}
    full, half = (rrise.collect_votes(base, points, **plan, precision=p) for p in (None, "bfloat16"))
    other = rrise.collect_votes(base, points, **plan, split="selection", precision="bfloat16")
    with pytest.raises(ValueError, match=r"base classifier .* here, .* there"):
        rrise.monte_carlo_certificates(full, other)
    trained = rrise.train_surrogate(base, points, half, epochs=2)  # of the base, at the votes' precision
    assert trained.smoothing.precision == "bfloat16"
    assert trained.network.linear.weight.dtype == torch.float32
    held_out = np.random.default_rng(1).random((200, 4), dtype=np.float32)
    for precision, fits in (("bfloat16", True), ("float32", False)):
        votes = rrise.collect_votes(base, held_out, **plan, precision=precision)
        if fits:
            certifier = rrise.calibrate(trained, held_out, votes, sigma=0.25, base=base)
            certifier.check_base(base)
            assert certifier.smoothing.precision == "bfloat16"
        else:
            with pytest.raises(ValueError, match="do not belong together"):
                rrise.calibrate(trained, held_out, votes, sigma=0.25)
    with pytest.raises(ValueError, match=r"another base|do not belong together"):
        rrise.train_surrogate(HalfSpace(torch.ones(4) / 3, 0.1), points, half)


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [("float8", "a precision out of float32, tf32"), ("tf32", "tf32 is a precision of NVIDIA GPUs")],
)
def test_an_impossible_precision_is_refused(precision: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rrise.collect_votes(nn.Linear(2, 2), torch.rand(3, 2), sigma=0.1, n=5, precision=precision)


def test_float32_means_float32_whatever_is_switched_on() -> None:
    """A base at float32 must not silently compute in a coarser format."""
    seen = []

    class Looks(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append(torch.backends.mkldnn.matmul.fp32_precision)
            return inputs

    before = torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        rrise.collect_votes(Looks(), torch.rand(3, 2), sigma=0.1, n=5)
        assert seen[-1] == "ieee"
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before


def test_infinite_logits_win_or_lose_as_numbers_do() -> None:
    class Infinite(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            rows = [[0.0, torch.inf, torch.inf], [-torch.inf] * 3, [-torch.inf, -torch.inf, 0.0]]
            return torch.tensor(rows)[(inputs[:, 0] * 3).long().clamp(0, 2)]

    points = np.array([[0.1], [0.5], [0.9]], np.float32)
    votes = rrise.collect_votes(Infinite(), points, sigma=1e-4, n=20)
    assert votes.tolist() == [[0, 20, 0], [20, 0, 0], [0, 0, 20]]


def test_the_batch_size_is_found_and_can_be_set() -> None:
    base, plan = build_model("small-convnet", seed=0), VotePlan(0.5, 20_000, 7)
    found = choose_execution(base, plan, IMAGES, len(IMAGES))
    assert 256 <= found.batch_size <= 4096
    assert not found.compiled  # seconds of work do not pay for it
    long = choose_execution(base, VotePlan(0.5, 10**8, 7), IMAGES, 10**6)
    assert long.compiled
    assert choose_execution(base, plan, IMAGES, len(IMAGES), batch_size=77).batch_size == 77
    assert even_batch(6400, 1000) == 920  # seven batches, rounded up to a multiple of 8


def test_a_short_job_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VoteEngine, "try_task", lambda *_: pytest.fail("measured"))
    found = choose_execution(nn.Linear(64, 2), VotePlan(0.5, 4000, 7), torch.rand(64, 64), 64)
    assert found == Execution(even_batch(64 * 4000, usual_batch((64,), "cpu")), False, True)


def test_a_job_of_seconds_is_measured_by_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []
    monkeypatch.setattr(VoteEngine, "try_task", lambda *_: batches.append(time.sleep(0.01)))
    plan, points = VotePlan(0.5, 40_000, 7), torch.rand(64, 64)
    assert not choose_execution(nn.Linear(64, 2), plan, points, 64).compiled
    assert len(batches) == 1


class Starved(nn.Module):
    """A classifier whose process waits for a busy machine before each large batch."""

    slept = 0.0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > 100:
            time.sleep(0.3)
            Starved.slept += 0.3
        return inputs


def test_other_processes_change_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_SHORT_JOB", 0.0)
    points, plan = torch.rand(SHARD, 1024), VotePlan(0.5, 5000, 7)  # a second of work; minutes of waiting
    quick, starved = (choose_execution(base, plan, points, SHARD) for base in (nn.Identity(), Starved()))
    assert quick == starved
    assert Starved.slept > 0.5


class Hungry(nn.Module):
    """A classifier that needs too much memory for more than 256 inputs."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > 256:
            raise torch.OutOfMemoryError("full")
        return inputs


def test_a_batch_too_large_for_memory_is_not_chosen() -> None:
    points = torch.rand(70, 2)
    assert choose_execution(Hungry(), VotePlan(0.5, 20_000, 7), points, 70).batch_size <= 256
    with pytest.raises(ValueError, match="a batch of 500 noisy inputs does not fit into the memory of cpu"):
        rrise.collect_votes(Hungry(), points, sigma=0.5, n=100, batch_size=500)


def test_what_a_process_has_switched_on_changes_no_vote() -> None:
    base, points = HalfSpace(torch.tensor([3.0, -2.0]), -0.5), torch.rand(70, 2)
    plain = rrise.collect_votes(base, points, **PLAN)
    with torch.autocast("cpu", torch.bfloat16):
        np.testing.assert_array_equal(rrise.collect_votes(base, points, **PLAN), plain)
    torch.set_default_dtype(torch.bfloat16)
    try:
        np.testing.assert_array_equal(rrise.collect_votes(base, points, **PLAN), plain)
    finally:
        torch.set_default_dtype(torch.float32)


def test_inputs_that_change_while_votes_are_taken_are_refused() -> None:
    class Augmented:
        def __len__(self) -> int:
            return 70

        def __getitem__(self, key: slice) -> torch.Tensor:
            return torch.rand(len(range(70)[key]), 2)

    with pytest.raises(ValueError, match="inputs from 0 on have changed since they were first read"):
        rrise.collect_votes(nn.Linear(2, 2), Augmented(), **PLAN)


def test_answers_that_are_no_classes_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VoteEngine, "classes_of", lambda _, logits: torch.full((len(logits),), 7))
    with pytest.raises(ValueError, match="answers that are not classes"):
        rrise.collect_votes(nn.Linear(2, 2), torch.rand(3, 2), **PLAN)


def test_an_estimate_is_near_the_truth(tmp_path) -> None:
    base, plan = Fan(5), VotePlan(0.25, 2000, 7)
    points = np.random.default_rng(1).random((200, 2), dtype=np.float32)
    told = estimate(base, plan, ShardedInputs(points, plan.input_range))
    assert told.passes == 200 * 2000
    assert told.seconds > 0
    rrise.VoteStore(tmp_path, base, points, plan).collect()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    assert 0.5 < told.bytes_on_disk / size < 2


def test_inputs_are_read_a_shard_at_a_time() -> None:
    class Lazy:
        largest = 0

        def __len__(self) -> int:
            return len(IMAGES)

        def __getitem__(self, key: slice) -> np.ndarray:
            part = IMAGES[key].numpy()
            Lazy.largest = max(Lazy.largest, len(part))
            return part

    base = build_model("small-convnet", seed=0)
    np.testing.assert_array_equal(
        rrise.collect_votes(base, Lazy(), **PLAN), rrise.collect_votes(base, IMAGES, **PLAN)
    )
    assert Lazy.largest == SHARD


def test_channels_last_leaves_the_callers_module_alone() -> None:
    base = build_model("small-convnet", seed=0, width=64)
    assert VoteEngine(base, VotePlan(0.25, 10, 0), IMAGES[:3], Execution(64)).channels_last
    strides = [weight.stride() for weight in base.parameters()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rrise.collect_votes(base, IMAGES[:3], **PLAN)
    assert [weight.stride() for weight in base.parameters()] == strides
