"""Runs a monitor in a child process and kills it, again and again; prints what was found as JSON.

    python -m tests.deployment.monitor.killed_monitor DATABASE ROUNDS SEED

Query number i has the top probability `top(i)` and is the only one with its input. A round goes on at the
query after the last one that the database has seen.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.monitor.monitor import Monitor
from tests.closed_forms import HalfSpace
from tests.deployment.monitor.watched_certifier import watched_half_space
from tests.made_certificates import made_certificates

VOTES = 40


def inputs_of(number: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.stack([(number // 100**power % 100) / 100 for power in range(4)], axis=1).astype(np.float32)


def top(number: NDArray[np.int64]) -> NDArray[np.float32]:
    return (0.5 + (number * 7919 % 1000) / 2001).astype(np.float32)


def answers_of(number: NDArray[np.int64]) -> Certificates:
    probabilities = np.stack([1 - top(number), top(number)], axis=1)
    nothing = np.zeros(len(number))
    return made_certificates(np.ones_like(number), nothing, nothing, nothing > 0, probabilities)


def serve(database: Path, watched: SurrogateCertifier, base: HalfSpace, acknowledge: int) -> None:
    """Observe query after query until killed; tell each state that the monitor says it has."""
    monitor = Monitor(watched, database, base=base, fraction=0.2, keep_inputs=True, max_waiting=10**6)
    number, said = monitor.state().queries, (-1, -1)
    while True:
        batch = np.arange(number, number + 5)
        monitor.observe(inputs_of(batch), answers_of(batch))
        number += 5
        state = monitor.state()
        if (state.queries, state.audited) != said:
            said = state.queries, state.audited
            os.write(acknowledge, f"{said[0]} {said[1]} {state.errors}\n".encode())
        time.sleep(0.001)


def killed(database: Path, watched: SurrogateCertifier, base: HalfSpace, after: float) -> list[list[int]]:
    """Run for a while, kill, and return the states the monitor said it had."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        serve(database, watched, base, write)
    os.close(write)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as lines:
        return [[int(value) for value in line.split()] for line in lines.read().splitlines()]


def main() -> None:
    torch.set_num_threads(1)
    database, rounds, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    watched, base = watched_half_space(votes=VOTES)
    said = [killed(database, watched, base, chance.uniform(0.02, 0.7)) for _ in range(rounds)]
    with Monitor(watched, database, base=base, keep_inputs=True) as monitor:
        before = monitor.state()
        monitor.flush(audits=True)
        after = monitor.state()
    print(
        json.dumps(
            {
                "said": said,
                "calibration": watched.evidence.top_probability.tolist(),
                "scores": watched.evidence.score.tolist(),
                "before": [before.queries, before.audited, before.waiting, before.lost],
                "after": [after.queries, after.audited, after.waiting, after.lost, after.errors],
            }
        )
    )


if __name__ == "__main__":
    main()
