"""Measure the vote engine against other ways to take votes, and write the table in benchmarks/results.

    python benchmarks/votes.py                      # this machine's CPU
    python benchmarks/votes.py --device cuda        # its GPU
    python benchmarks/votes.py --models resnet-18   # measure one model again; the other rows stay

Rows, in forward passes per second:
(a) the loop of Cohen et al.'s algorithm (cohen.py) at its best batch size, found by trying 32 to 4096;
(b) randomized smoothing of the adversarial-robustness-toolbox (`pip install rrise[benchmark]`);
(c) the compiled forward pass alone, on batches that are ready;
(d) this engine, with the votes written to a store.
(a), (c) and (d) are measured in turns, five times; ratios are medians over turns, and say more than rates.
All run in one process, so that (a) too keeps its memory as RRISE has set it. small_votes.py runs the loop in
a process of its own.
"""

import argparse
import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from cohen import best_batch, cohen_votes
from machine import RESULTS, check_idle, hardware, import_seconds, median_of
from rrise.models.catalogue import build_model
from rrise.models.evaluating import evaluating
from rrise.models.precision import PRECISIONS, matrix_products
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs, ShardInputs
from rrise.votes.plan import VotePlan
from rrise.votes.store import VoteStore
from rrise.votes.tuning import choose_execution

SIZES = {"resnet-18": 32, "mlp-mixer-tiny": 32, "efficientnet-b0": 32, "vit-tiny": 64}
ALL_PRECISIONS = {"cpu": ("float32", "bfloat16"), "cuda": ("tf32", "bfloat16")}
SIGMA = 0.25
COPIES = {"cpu": 64, "cuda": 1000}
"""Inputs to a batch of (b)."""


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def rate(action: Callable[[], int], device: str, seconds: float) -> float:
    """Return passes per second of an action that returns how many it made."""
    wait(device)
    start, passes = time.perf_counter(), 0
    while passes == 0 or time.perf_counter() - start < seconds:
        passes += action()
    wait(device)
    return passes / (time.perf_counter() - start)


def loop(module: nn.Module, image: torch.Tensor, classes: int, dtype: torch.dtype, size: int) -> int:
    """Do (a): take one batch of noisy copies of one input, and count the answers one by one."""
    return int(cohen_votes(module, image.to(dtype), size, size, sigma=SIGMA, classes=classes).sum())


def toolbox(module: nn.Module, shape: tuple[int, ...], classes: int, device: str) -> Callable | None:
    """Return (b), the toolbox's prediction counts, or None where it is not installed."""
    try:
        from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing
    except ImportError:
        return None
    smooth = PyTorchRandomizedSmoothing(
        module,
        loss=nn.CrossEntropyLoss(),
        input_shape=shape,
        nb_classes=classes,
        clip_values=(0.0, 1.0),
        device_type="gpu" if device == "cuda" else "cpu",
        scale=SIGMA,
    )
    return lambda image, n, size: int(smooth._prediction_counts(image, n=n, batch_size=size).sum())


def forward_alone(engine: VoteEngine, size: int) -> Callable[[], int]:
    """Return (c), a call of the compiled module on one of a few ready batches."""
    module = engine.module

    def classify(batch: torch.Tensor) -> torch.Tensor:
        return module(batch)

    compiled = torch.compile(classify, dynamic=False, options=engine.compiler_options)
    batches = [torch.rand(size, *engine.shape, device=engine.device).to(_dtype(engine)) for _ in range(3)]
    if engine.channels_last:
        batches = [batch.contiguous(memory_format=torch.channels_last) for batch in batches]
    turn = iter(range(10**9))

    def call() -> int:
        compiled(batches[next(turn) % len(batches)])
        return size

    for _ in range(4):
        call()
    return call


def _dtype(engine: VoteEngine) -> torch.dtype:
    return PRECISIONS[engine.precision]


def engine_row(
    base: nn.Module, plan: VotePlan, images: torch.Tensor, engine: VoteEngine, folder: Path
) -> Callable[[], int]:
    """Return (d), a call that collects the votes of all images into a new store, its set-up included."""
    turn = iter(range(10**9))
    inputs = ShardedInputs(images, plan.input_range)

    def call() -> int:
        store = VoteStore(folder / str(next(turn)), base, inputs, plan)
        store.collect(backend=engine)
        return len(images) * plan.n

    call()
    return call


def measure(name: str, precision: str, device: str, seconds: float) -> dict[str, object]:
    base = build_model(name, seed=0).to(device)
    images = torch.rand(1024, 3, SIZES[name], SIZES[name], generator=torch.Generator().manual_seed(0))
    plan = VotePlan(SIGMA, 1000, 0, precision=precision)
    execution = choose_execution(base, plan, images[:64], len(images), compiled=True)
    start = time.perf_counter()
    engine = VoteEngine(base, plan, images[:64], execution)
    ready = time.perf_counter() - start
    module, size = engine.module, execution.batch_size
    row: dict[str, object] = {"batch_size": size, "compiled": engine.compiled, "ready_s": ready}
    first, array = ALL_PRECISIONS[device][0], images[0].numpy()
    loops = {}
    for kind in (precision, first):
        plain = build_model(name, seed=0).to(device).to(PRECISIONS[kind]).eval()
        take = partial(loop, plain, images[:1].to(device), engine.classes, PRECISIONS[kind])
        with matrix_products(kind):
            row[f"batch_of_loop_{kind}"] = best = best_batch(take, lambda: wait(device))
        loops[kind] = partial(take, best)
    tool = toolbox(plain, tuple(images.shape[1:]), engine.classes, device)
    with matrix_products(first):
        row["b_first"] = rate(partial(tool, array, *[COPIES[device]] * 2), device, seconds) if tool else None
    with evaluating(module), matrix_products(precision):
        forward = forward_alone(engine, size)
        speed = rate(forward, device, seconds)
    passes = max(1, round(2 * speed * seconds / size)) * size
    shards = max(1, passes // (64 * plan.n))
    engine.plan = plan = VotePlan(SIGMA, min(plan.n, max(1, passes // 64)), 0, precision=precision)
    turns: dict[str, list[float]] = {"a": [], "a_first": [], "c": [], "d": []}
    with tempfile.TemporaryDirectory() as folder:
        vote = engine_row(base, plan, images[: 64 * shards], engine, Path(folder))
        for _ in range(5):
            for key, kind in (("a", precision), ("a_first", first)):
                with torch.no_grad(), matrix_products(kind):
                    turns[key].append(rate(loops[kind], device, seconds))
            with evaluating(module), matrix_products(precision):
                turns["c"].append(rate(forward, device, seconds))
            turns["d"].append(rate(vote, device, seconds))
    row |= {key: float(np.median(rates)) for key, rates in turns.items()}
    for key in ("a", "a_first", "c"):
        row[f"d/{key}"] = float(np.median(np.divide(turns["d"], turns[key])))
    row |= {"turns": turns, "date": hardware(device)["date"]}
    row |= rounding(base, images[:64], engine, 20 if device == "cpu" else 1000)
    return row


def rounding(base: nn.Module, images: torch.Tensor, engine: VoteEngine, n: int) -> dict[str, float]:
    """Return the share of answers that change with compiling, and with half the batch size."""
    plan = VotePlan(SIGMA, n, 0, precision=engine.plan.precision)
    shard = [ShardInputs(0, images, "rounding")]

    def answers(execution: Execution) -> np.ndarray:
        return next(iter(VoteEngine(base, plan, images, execution).answers(shard)))[1]

    engine.plan = plan
    compiled = next(iter(engine.answers(shard)))[1]
    size = engine.execution.batch_size
    eager, half = (answers(Execution(batch)) for batch in (size, size // 2))
    return {
        "changed_by_compiling": float((compiled != eager).mean()),
        "changed_by_batch_size": float((half != eager).mean()),
    }


PEAK = """
import sys, resource, torch
from rrise.models.catalogue import build_model
from rrise.votes.collect import collect_votes
name, device, n, inputs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
base = build_model(name, seed=0).to(device)
shape = (3, 32, 32) if name != "small-convnet" else (1, 8, 8)
precision = "bfloat16" if device == "cuda" else None
collect_votes(base, torch.rand(inputs, *shape), sigma=0.25, n=n, batch_size=1024, precision=precision,
              compiled=False)
resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(torch.cuda.max_memory_allocated() if device == "cuda" else resident)
"""


def peak_memory(device: str) -> dict[str, object]:
    """Return the peak memory in bytes of a process that collects votes, by n and by the number of inputs."""
    name = "resnet-18" if device == "cuda" else "small-convnet"

    def peak(n: int, inputs: int) -> int:
        command = [sys.executable, "-c", PEAK, name, device, str(n), str(inputs)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])

    few, many = peak(1_000, 64), peak(100_000, 64)
    return {"model": name, "n_1000": few, "n_100000": many, "ratio": many / few}


def first_shard(device: str) -> float:
    """Return the seconds from the start of Python to the first shard of a small network, in eager mode."""
    command = [sys.executable, "-c", PEAK, "small-convnet", device, "10", "64"]
    return median_of(3, lambda: subprocess.run(command, check=True, capture_output=True))


def table(results: dict) -> str:
    machine, first = results["hardware"], ALL_PRECISIONS[results["device"]][0]
    where = machine.get("gpu") or f"{machine['torch_threads']} threads of {machine['cpu']}"
    lines = [
        f"# Votes on {where}",
        "",
        f"Measured {machine['date']} on {where}, Python {machine['python']}, torch {machine['torch']}, by "
        f"`python benchmarks/votes.py --device {results['device']}`. Forward passes per second; compare "
        f"ratios.",
        "",
        f"| model | precision | measured | batch | batch of (a) | (a) loop | (a) at {first} "
        f"| (b) toolbox at {first} | (c) forward alone | (d) this engine "
        f"| d/c | d/a | d/(a at {first}) | ready, s |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for key, row in results["rows"].items():
        name, precision = key.split(" ")
        toolbox_rate = f"{row['b_first']:,.0f}" if row["b_first"] else "–"
        of_loop = f"{row[known]:,}" if (known := f"batch_of_loop_{precision}") in row else "256"
        lines.append(
            f"| {name} | {precision} | {row['date']} | {row['batch_size']:,} | {of_loop} | {row['a']:,.0f} "
            f"| {row['a_first']:,.0f} | {toolbox_rate} | {row['c']:,.0f} | {row['d']:,.0f} "
            f"| {row['d/c']:.3f} | {row['d/a']:.2f} | {row['d/a_first']:.2f} | {row['ready_s']:.0f} |"
        )
    lines += [
        "",
        "*ready*: compiling and checking, once per process. Answers changed by rounding, of a million:",
        "",
        "| model | precision | compiled against eager | half the batch size |",
        "|---|---|---:|---:|",
    ]
    for key, row in results["rows"].items():
        name, precision = key.split(" ")
        changed = (1e6 * row[f"changed_by_{what}"] for what in ("compiling", "batch_size"))
        lines.append(f"| {name} | {precision} | {' | '.join(f'{share:,.0f}' for share in changed)} |")
    memory, start = results["memory"], results["imports"]
    lines += [
        "",
        f"Peak memory ({memory['model']}): {memory['n_1000'] / 2**20:,.0f} MiB at n = 1,000, "
        f"{memory['n_100000'] / 2**20:,.0f} MiB at n = 100,000 (ratio {memory['ratio']:.3f}).",
        "",
        f"Start-up: `import rrise` {start['import_rrise_s']:.2f} s, `import torch` "
        f"{start['import_torch_s']:.2f} s (Python alone {start['python_s']:.2f} s); from the start of Python "
        f"to the first shard of a small network {start['first_shard_s']:.1f} s.",
        "",
    ]
    return "\n".join(lines)


def write_results(path: Path, results: dict) -> None:
    path.write_text(json.dumps(results, indent=2) + "\n")
    path.with_suffix(".md").write_text(table(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--models", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--precisions", nargs="+", choices=list(PRECISIONS))
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    busy = check_idle(options.out)
    path = options.out / f"votes-{options.device}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    rows = {}
    with contextlib.suppress(FileNotFoundError):
        rows = json.loads(path.read_text())["rows"]
    results = {
        "hardware": hardware(options.device) | {"busy_cores": busy},
        "device": options.device,
        "memory": peak_memory(options.device),
        "imports": {**import_seconds(), "first_shard_s": first_shard(options.device)},
        "rows": rows,
    }
    write = partial(write_results, path, results)
    order = [f"{name} {precision}" for name in SIZES for precision in PRECISIONS]
    for precision in options.precisions or ALL_PRECISIONS[options.device][::-1]:
        for name in options.models:
            torch._dynamo.reset()
            rows[f"{name} {precision}"] = row = measure(name, precision, options.device, options.seconds)
            gc.collect()
            print(name, precision, {key: value for key, value in row.items() if key != "turns"}, flush=True)
            results["rows"] = {key: rows[key] for key in order if key in rows}
            write()
    write()
    print(table(results))


if __name__ == "__main__":
    main()
