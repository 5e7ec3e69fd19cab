"""Measure the service under load, beside a bare FastAPI endpoint that batches the same forward pass.

    python benchmarks/serving.py [--certifier FOLDER] [--seconds 5] [--rounds 3] [--soak 600]

Both run as processes of their own with the same server, and are loaded in turns. The bare endpoint decodes
the same `.npy` body, batches the same forward pass with the same limits, delays and process settings, and
answers the class: no checks, no certificate, no metrics, no security headers. load.py is the client.
`--rounds 0 --soak 600` measures the soak alone and keeps the other numbers.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from load import CLIENT, load
from machine import RESULTS, check_idle, hardware

CONNECTIONS = (1, 32, 256)
GOALS = {1: 0.75, 32: 0.9, 256: 0.9}
"""Of the bare rate, by connections."""
PATH = "/v1/certify"


def serve_rrise(folder: str, port: int) -> None:
    from rrise.deployment.loading import load_deployed
    from rrise.deployment.service.app import create_app
    from rrise.deployment.service.server import run_service

    run_service(create_app(load_deployed(folder)), host="127.0.0.1", port=port, on_start=lambda _: None)


def serve_bare(folder: str, port: int) -> None:
    import io
    from collections.abc import AsyncIterator
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import asynccontextmanager

    import torch
    import uvicorn
    from fastapi import FastAPI, Request

    import rrise
    from rrise.deployment.service.process import prepare_process
    from rrise.deployment.service.settings import ServiceSettings

    network, settings = rrise.load_certifier(folder).network.eval(), ServiceSettings()
    waiting: asyncio.Queue[tuple[np.ndarray, asyncio.Future[int]]] = asyncio.Queue()
    thread = ThreadPoolExecutor(1)

    def forward(batch: np.ndarray) -> list[int]:
        with torch.no_grad():
            classes: list[int] = network(torch.from_numpy(batch)).argmax(dim=1).tolist()
        return classes

    async def work() -> None:
        loop, last = asyncio.get_running_loop(), 1
        while True:
            items = [await waiting.get()]
            if (last > 1 or not waiting.empty()) and waiting.qsize() < settings.max_batch - 1:
                await asyncio.sleep(settings.max_delay)
            while len(items) < settings.max_batch and not waiting.empty():
                items.append(waiting.get_nowait())
            last = len(items)
            batch = np.stack([inputs for inputs, _ in items])
            for (_, answered), label in zip(
                items, await loop.run_in_executor(thread, forward, batch), strict=True
            ):
                answered.set_result(label)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(work())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post(PATH)
    async def classify(request: Request) -> dict[str, int]:
        answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting.put_nowait((np.load(io.BytesIO(await request.body())), answered))
        return {"label": await answered}

    prepare_process()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False, backlog=4096)


SERVERS = {"rrise serve": serve_rrise, "bare endpoint": serve_bare}


def body_of(shape: tuple[int, ...]) -> bytes:
    import io

    stream = io.BytesIO()
    np.save(stream, np.random.default_rng(0).random(shape, dtype=np.float32))
    return stream.getvalue()


def started(name: str, folder: str) -> tuple[BaseProcess, int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=SERVERS[name], args=(folder, port))
    process.start()
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{name} did not start")


def resident_megabytes(process: BaseProcess) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def compare(folder: str, body: bytes, duration: float, rounds: int) -> dict[str, Any]:
    """Load both in turns, and keep the median of each number."""
    servers = {name: started(name, folder) for name in SERVERS}
    found: dict[str, dict[int, list[dict[str, float]]]] = {
        name: {n: [] for n in CONNECTIONS} for name in SERVERS
    }
    for _, port in servers.values():
        load(port, PATH, body, 32, 2.0)
    for _ in range(rounds):
        for connections in CONNECTIONS:
            for name, (_, port) in servers.items():
                found[name][connections].append(load(port, PATH, body, connections, duration))
    for process, _ in servers.values():
        process.terminate()
        process.join()
    return {
        name: {
            str(connections): {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            for connections, rows in by_connections.items()
        }
        for name, by_connections in found.items()
    }


def soak(folder: str, body: bytes, duration: float) -> dict[str, float]:
    """Load the service for long, and watch its memory; the first tenth is to warm up."""
    process, port = started("rrise serve", folder)
    load(port, PATH, body, 32, duration / 10)
    memory, totals = [resident_megabytes(process)], []
    for _ in range(9):
        totals.append(load(port, PATH, body, 32, duration / 10))
        memory.append(resident_megabytes(process))
    process.terminate()
    process.join()
    return {
        "seconds": duration,
        "megabytes_after_warming_up": memory[0],
        "megabytes_at_the_end": memory[-1],
        "requests_per_second": statistics.mean(part["requests_per_second"] for part in totals),
        "largest_p99_ms": max(part["p99_ms"] for part in totals),
        "error_share": max(part["error_share"] for part in totals),
    }


def small_certifier() -> str:
    from rich.console import Console

    from rrise.runs.pipeline import run_recipe
    from rrise.runs.recipe import read_recipe

    folder = Path(tempfile.mkdtemp()) / "demo"
    run_recipe(folder, read_recipe("digits", "quick"), Console(quiet=True))
    return str(folder / "certifier")


def table(results: dict[str, Any]) -> str:
    machine = results["hardware"]
    lines = [
        "# The service under load",
        "",
        f"Measured {machine['date']} by `python benchmarks/serving.py` on {machine['cpu']}, "
        f"{machine['cores']} cores for server and client ({results['client']}) together; certifier of inputs "
        f"{results['input_shape']}, {results['seconds']:g} s per measurement, median of {results['rounds']}. "
        f"Goals: {', '.join(f'{goal:.0%} at {n}' for n, goal in GOALS.items())} connections.",
        "",
        "| connections | server | requests/s | p50 | p99 | errors | of the bare rate |",
        "|---|---|---|---|---|---|---|",
    ]
    for connections in map(str, CONNECTIONS):
        bare = results["load"]["bare endpoint"][connections]["requests_per_second"]
        for name in SERVERS:
            row = results["load"][name][connections]
            rate = row["requests_per_second"]
            lines.append(
                f"| {connections} | {name} | {rate:,.0f} | {row['p50_ms']:.1f} ms | {row['p99_ms']:.1f} ms | "
                f"{100 * row['error_share']:.2f} % | {100 * rate / bare:.0f} % |"
            )
    if "soak" in results:
        found = results["soak"]
        lines += [
            "",
            f"Soak, {found['date']}: {found['seconds']:g} s at 32 connections, "
            f"{found['requests_per_second']:,.0f} requests/s, largest p99 of a tenth "
            f"{found['largest_p99_ms']:.1f} ms, errors "
            f"{100 * found['error_share']:.2f} %, memory {found['megabytes_after_warming_up']:.0f} MB after "
            f"the first tenth and {found['megabytes_at_the_end']:.0f} MB at the end.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--certifier")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, default=0.0)
    asked, busy = parser.parse_args(), check_idle()
    import rrise

    folder = asked.certifier or small_certifier()
    shape = rrise.load_certifier(folder).input_shape
    body = body_of(shape)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    file = RESULTS / "serving-cpu.json"
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if asked.rounds:
        results |= {
            "hardware": hardware() | {"busy_cores": busy},
            "client": CLIENT,
            "input_shape": list(shape),
            "seconds": asked.seconds,
            "rounds": asked.rounds,
            "goals": GOALS,
            "server": {name: version(name) for name in ("uvicorn", "httptools", "uvloop")},
            "load": compare(folder, body, asked.seconds, asked.rounds),
        }
    if asked.soak:
        results["soak"] = soak(folder, body, asked.soak) | {"date": hardware()["date"]}
    file.write_text(json.dumps(results, indent=2) + "\n")
    (RESULTS / "serving-cpu.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
