"""Processes that find torch loaded: starting Python with torch anew takes seconds of CPU time."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
"""Children are forked by one server, which has loaded torch and computed nothing."""
FORKS.set_forkserver_preload(
    ["torch", "rrise.votes.store", "rrise.training.base", "rrise.runs.pipeline", "rrise.deployment.bulk.run"]
)


def with_torch(function: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Start a function of a module in a process of its own; it ends with this one at the latest."""
    process = FORKS.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process
