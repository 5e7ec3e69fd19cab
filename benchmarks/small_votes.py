"""Measure whole jobs of `collect_votes`, start-up included, beside the loop of Cohen et al.

    python benchmarks/small_votes.py                     # jobs of 0.1, 1 and 10 seconds, about eight minutes
    python benchmarks/small_votes.py --jobs 100          # the longest ones: half an hour; the other rows stay

A job is as many votes as the loop makes in so many seconds, at its best batch size. The loop is that of
cohen.py, in a process of its own: RRISE changes how its process keeps memory. `collect_votes` is called with
nothing but inputs, noise and number of votes, and chooses everything else within the job. Nothing is kept
between two calls, and the compiler's caches are off. Both take turns. *Live*: a voting method certifies, and
collects the same votes. *Busy*: as many processes as cores compute all the time; the loop has one thread.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import rrise
from cohen import best_batch, cohen_votes
from machine import RESULTS, check_idle, hardware, seconds_of
from rrise.certifiers.voting import SELECTION_VOTES
from rrise.models.catalogue import build_model

SIGMA, N = 0.25, 10_000
"""Noise level, and votes per input where the job is long enough for that many."""
TURNS = {0.1: 15, 1.0: 7, 10.0: 3, 100.0: 1}
SHORT, LIVE, BUSY = 0.3, 1.0, 1.0
GOALS = {"jobs": 1.0, "live": 0.95, "busy": 1.0}


def linear() -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Linear(64, 10), (64,)


def perceptron() -> tuple[nn.Module, tuple[int, ...]]:
    layers = nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    return nn.Sequential(*layers), (30,)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "linear 64→10": linear,
    "MLP on 30 features": perceptron,
    "small CNN 8×8": lambda: (build_model("small-convnet", seed=0), (1, 8, 8)),
    "ResNet-18 32×32": lambda: (build_model("resnet-18", seed=0), (3, 32, 32)),
}


def model(name: str) -> tuple[nn.Module, torch.Tensor, int]:
    """Return a network, an input `[1, ...]` of it, and the number of its classes."""
    torch.manual_seed(0)
    module, shape = MODELS[name]()
    module.eval()
    image = torch.rand(1, *shape)
    with torch.no_grad():
        return module, image, module(image).shape[1]


def serve_loop(name: str, pipe: Any) -> None:
    """Run the loop in this process: asked for threads alone, find its best batch and rate; else do a job."""
    module, image, classes = model(name)
    everything = torch.get_num_threads()
    while (asked := pipe.recv()) is not None:
        threads, *job = asked
        torch.set_num_threads(threads or everything)
        count = partial(cohen_votes, module, image, sigma=SIGMA, classes=classes)
        if job:
            inputs, n, batch = job
            pipe.send(seconds_of(lambda: [count(n, batch) for _ in range(inputs)]))  # noqa: B023
        else:
            batch = best_batch(lambda size: count(size, size), lambda: None)  # noqa: B023
            passes, seconds = batch, seconds_of(lambda: count(batch, batch))  # noqa: B023
            while seconds < SHORT:
                passes *= 2
                seconds = seconds_of(lambda: count(passes, batch))  # noqa: B023
            pipe.send((batch, passes / seconds))


class Loop:
    """The loop, in a process of its own."""

    def __init__(self, name: str, threads: int = 0) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve_loop, args=(name, theirs), daemon=True)
        self.process.start()
        self.threads = threads
        self.batch, self.rate = self._ask()

    def _ask(self, *job: int) -> Any:
        self.pipe.send((self.threads, *job))
        return self.pipe.recv()

    def shaped(self, seconds: float) -> tuple[int, int]:
        """Return inputs and votes per input of a job that takes the loop so long."""
        passes = max(1, round(self.rate * seconds))
        return max(1, passes // N), min(N, passes)

    def seconds(self, inputs: int, n: int) -> float:
        """Return how long the loop took for a job."""
        return float(self._ask(inputs, n, self.batch))

    def close(self) -> None:
        """End the process."""
        self.pipe.send(None)
        self.process.join()


def in_turns(turns: int, first: Callable[[], float], second: Callable[[], float]) -> dict[str, Any]:
    """Return the median seconds of both, and the ratio of the first to the second with its quartiles."""
    pairs = []
    for _ in range(turns):
        pairs.append((first(), second()))
        time.sleep(0.05)  # idle threads of the loop stop spinning
    ratios = [one / other for one, other in pairs]
    lower, median, upper = (float(value) for value in np.quantile(ratios, [0.25, 0.5, 0.75]))
    seconds = [float(np.median(side)) for side in zip(*pairs, strict=True)]
    return {"seconds": seconds, "ratio": median, "quartiles": [lower, upper], "turns": turns}


def measure(name: str, jobs: list[float], row: dict[str, Any], *, beside: bool) -> None:
    """Measure one network, and add what was found to its row."""
    module, image, _ = model(name)

    def collected(inputs: int, n: int) -> float:
        images = image.expand(inputs, *image.shape[1:])
        return seconds_of(lambda: rrise.collect_votes(module, images, sigma=SIGMA, n=n))

    def certified(inputs: int, n: int) -> float:
        method = rrise.MonteCarlo(n - SELECTION_VOTES).bind(module, sigma=SIGMA)
        return seconds_of(lambda: method.certify(image.expand(inputs, *image.shape[1:])))

    def add(key: str, job: tuple[int, int], found: dict[str, Any]) -> None:
        row[key] = {"inputs": job[0], "n": job[1], **found}
        print(name, key, row[key], flush=True)

    loop = Loop(name)
    row |= {"batch": loop.batch, "loop_rate": loop.rate}
    collected(1, 10)
    for seconds in jobs:
        job = loop.shaped(seconds)
        turns = TURNS.get(seconds, 3)
        add(f"{seconds:g}", job, in_turns(turns, partial(loop.seconds, *job), partial(collected, *job)))
    if beside:
        inputs, n = loop.shaped(LIVE)
        job = (inputs, max(n, 2 * SELECTION_VOTES))
        add("live", job, in_turns(5, partial(collected, *job), partial(certified, *job)))
    loop.close()
    if beside:
        with burners():
            single = Loop(name, threads=1)
            job = single.shaped(BUSY)
            add("busy", job, in_turns(5, partial(single.seconds, *job), partial(collected, *job)))
            single.close()


def burn(seconds: float, parent: int) -> None:
    """Keep a core busy for so long, or until the parent is gone."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and os.getppid() == parent:
        sum(range(100_000))


@contextmanager
def burners() -> Iterator[None]:
    """Keep as many cores busy as there are; for ten minutes at most."""
    context = multiprocessing.get_context("spawn")
    about = (600.0, os.getpid())
    processes = [context.Process(target=burn, args=about, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in processes:
        process.start()
    time.sleep(2.0)
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def table(results: dict[str, Any]) -> str:
    machine, rows = results["hardware"], results["rows"]
    jobs = sorted({key for row in rows.values() for key in row if key[0].isdigit()}, key=float)
    lines = [
        f"# Whole jobs of votes on {machine['torch_threads']} threads of {machine['cpu']}",
        "",
        f"Measured {machine['date']} by `python benchmarks/small_votes.py`, Python {machine['python']}, "
        f"torch {machine['torch']}, with {machine['busy_cores']} cores busy with other work. How many times "
        "as fast `collect_votes` with its defaults is as the loop of Cohen et al. at its best batch size, "
        "start-up included: medians of turns, with quartiles. A job is what the loop does in that time.",
        "",
        f"| network | best batch of the loop | loop, votes/s | {' | '.join(f'{job} s' for job in jobs)} "
        "| live / collected | beside busy processes |",
        "|---|---:|---:|" + "---:|" * (len(jobs) + 2),
    ]
    for name, row in rows.items():
        cells = [_cell(row.get(key)) for key in (*jobs, "live", "busy")]
        lines.append(f"| {name} | {row['batch']:,} | {row['loop_rate']:,.0f} | {' | '.join(cells)} |")
    return "\n".join(
        [
            *lines,
            "",
            "*Live*: certifying by Monte Carlo, as a share of the speed of `collect_votes`. "
            f"*Beside busy processes*: {machine['cores']} of them, against the loop with one thread at its "
            f"best batch, for about {BUSY:g} s. Goals: {', '.join(f'{k} {v:g}' for k, v in GOALS.items())}.",
            "",
        ]
    )


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    if found["turns"] < 3:
        return f"{found['ratio']:.2f}"
    lower, upper = found["quartiles"]
    return f"{found['ratio']:.2f} ({lower:.2f}–{upper:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--jobs", nargs="*", type=float, default=[0.1, 1.0, 10.0], help="seconds")
    parser.add_argument("--no-live", action="store_true", help="leave live votes and busy machines out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    busy = check_idle(options.out)
    torch._inductor.config.force_disable_caches = True
    path = options.out / "small-votes-cpu.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    before = json.loads(path.read_text())["rows"] if path.exists() else {}
    rows: dict[str, Any] = {name: before.get(name, {}) for name in MODELS}
    beside = not options.no_live and options.jobs != [100.0]
    for name in options.models:
        measure(name, options.jobs, rows[name], beside=beside)
        found = {
            "hardware": hardware() | {"busy_cores": busy},
            "rows": {name: row for name, row in rows.items() if row},
        }
        path.write_text(json.dumps(found, indent=2) + "\n")
        path.with_suffix(".md").write_text(table(found))
    print(path.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
