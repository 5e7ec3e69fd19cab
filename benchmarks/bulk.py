"""Measure `certify_dataset`: its speed beside the bare forward pass, one and two workers, and its memory.

    python benchmarks/bulk.py                  # a CPU; about six minutes on an idle machine of two cores
    python benchmarks/bulk.py --device cuda
    python benchmarks/at_scale.py              # then: fill the tables of docs/at-scale.md

The bare forward pass runs the network over the same reader, which reads ahead and checks every input, and
keeps the class alone. Both are timed in turns in one run, and the median of each counts. Networks have
random weights and made-up votes: certificates cost the same. Workers are those of a local Ray with a core
each; their rate counts from the first finished part to the last, without Ray's start. Memory is the peak of
a process of its own, beside that of the same process before it certifies.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import rrise
from machine import hardware
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.catalogue import load_digits
from rrise.deployment.bulk.ahead import read_ahead
from rrise.deployment.bulk.inputs import Reader, list_inputs
from rrise.deployment.bulk.kinds import Wanted
from rrise.models.catalogue import build_model
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of
from rrise.votes.cluster import Cluster

RESULTS = Path(__file__).parent / "results"
GOAL = 0.85
TURNS = 3
CHUNK = 1024
SIZES = (100_000, 1_000_000)


def progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def certifier_of(network: torch.nn.Module, shape: tuple[int, ...], classes: int) -> SurrogateCertifier:
    """Calibrate a network on made-up votes: the certificates mean nothing and cost as always."""
    random = np.random.default_rng(0)
    images = random.random((200, *shape), dtype=np.float32)
    votes = np.zeros((200, classes), dtype=np.int64)
    with evaluating(network):
        votes[np.arange(200), network(torch.from_numpy(images)).argmax(dim=1).numpy()] = 300
    return rrise.calibrate(network, images, votes, sigma=0.25, failure=0.1, base=network)


def pixels(count: int, shape: tuple[int, ...], tile: int = 1000) -> np.ndarray:
    made = np.random.default_rng(1).integers(0, 256, (tile, *shape), dtype=np.uint8)
    return np.resize(made, (count, *shape))


def in_folders(folder: Path, images: np.ndarray) -> Path:
    """Write images as PNG files, a thousand to a folder."""
    for number, image in enumerate(images):
        inside = folder / f"{number // 1000:04}"
        inside.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        Image.fromarray(np.moveaxis(image, 0, 2)).save(buffer, "PNG")
        (inside / f"{number:07}.png").write_bytes(buffer.getvalue())
    return folder


def in_parquet(path: Path, images: np.ndarray) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.array(images.reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, images[0].size)
    pq.write_table(pa.table({"image": column}), path)
    return path


def in_array(path: Path, images: np.ndarray) -> Path:
    np.save(path, images)
    return path


def bare(certifier: SurrogateCertifier, inputs: Path, batch_size: int) -> int:
    """Run the network alone over the reader."""
    wanted = Wanted(certifier.input_shape, certifier.smoothing.input_range)
    listing = list_inputs([str(inputs)], wanted)
    spans = [(start, min(start + CHUNK, len(listing))) for start in range(0, len(listing), CHUNK)]
    device = device_of(certifier.network)
    classes = 0
    with Reader(listing, wanted, skip_bad=False) as reader, evaluating(certifier.network):
        for chunk in read_ahead(reader, spans):
            for batch in chunk.inputs.split(batch_size):
                classes += int(certifier.network(batch.to(device)).argmax(dim=1).cpu().sum())
    return classes


def timed(actions: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Time actions in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(TURNS):
        for name, act in actions.items():
            start = time.perf_counter()
            act()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def speed(certifier: SurrogateCertifier, inputs: Path, count: int, batch: int) -> dict:

    def certified() -> None:
        with tempfile.TemporaryDirectory() as out:
            rrise.certify_dataset(certifier, inputs, Path(out) / "out", batch_size=batch)

    bare(certifier, inputs, batch)  # warm up
    seconds = timed({"bare": lambda: bare(certifier, inputs, batch), "certified": certified})
    rates = {name: sorted(count / one for one in each) for name, each in seconds.items()}
    medians = {name: statistics.median(each) for name, each in rates.items()}
    return {
        "inputs": count,
        "batch_size": batch,
        **{f"{name}_per_s": value for name, value in medians.items()},
        "ratio": medians["certified"] / medians["bare"],
        "turns": rates,
    }


def speeds(device: str, fraction: float, scratch: Path) -> list[dict]:
    many = fraction * (64 if device == "cuda" else 1)
    batch = 4096 if device == "cuda" else 256
    rows = []
    for network, shape, count in (
        ("resnet-18", (3, 32, 32), int(768 * many)),
        ("small-convnet", (1, 8, 8), int(400_000 * many)),
    ):
        module = build_model(network, seed=0, classes=10)
        certifier = certifier_of(module, shape, 10).to(device)
        images = pixels(count, shape)
        forms: dict[str, Path] = {".npy of bytes": in_array(scratch / f"{network}.npy", images)}
        if network == "resnet-18":
            forms["PNG files"] = in_folders(scratch / network, images)
        else:
            forms["Parquet of bytes"] = in_parquet(scratch / f"{network}.parquet", images)
        for form, path in forms.items():
            progress(f"{network}, {form}: {count:,} inputs, {TURNS} turns")
            rows.append({"network": network, "form": form, **speed(certifier, path, count, batch)})
    return rows


def workers(count: int, scratch: Path) -> dict:
    """Time one and two Ray workers with a core each on ResNet-18."""
    import ray

    torch.set_num_threads(1)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR", num_cpus=2)
    certifier_of(build_model("resnet-18", seed=0, classes=10), (3, 32, 32), 10).save(scratch / "certifier")
    inputs, rates = in_array(scratch / "workers.npy", pixels(count, (3, 32, 32))), {}
    for number in (1, 2):
        progress(f"Ray: {count:,} inputs, {number} worker(s)")
        times: list[tuple[float, int]] = []
        rrise.certify_dataset(
            scratch / "certifier",
            inputs,
            scratch / f"workers-{number}",
            shard=32,
            cluster=Cluster(workers=number),
            on_progress=lambda done, times=times: times.append((time.perf_counter(), done)),
        )
        begin = 2 * number  # both workers are there
        done = sum(inputs for _, inputs in times[begin:])
        rates[number] = done / (times[-1][0] - times[begin - 1][0])
    ray.shutdown()
    return {
        "network": "resnet-18",
        "inputs": count,
        "one": rates[1],
        "two": rates[2],
        "ratio": rates[2] / rates[1],
    }


def peak_memory(count: int, scratch: Path) -> dict:
    progress(f"memory at {count:,} inputs")
    command = [sys.executable, __file__, "--memory-of", str(scratch / f"{count}.npy"), "--out", str(scratch)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"inputs": count, **json.loads(found.stdout.splitlines()[-1])}


def resident_peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure_memory(inputs: Path, scratch: Path) -> None:
    """Certify in this process, and print the peak of its memory before and after."""
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    certifier = certifier_of(network, (1, 8, 8), 10)
    certifier.certify(np.zeros((4096, 1, 8, 8), dtype=np.float32))
    before = resident_peak()
    out = scratch / f"out-{inputs.stem}"
    done = rrise.certify_dataset(certifier, inputs, out)
    assert done.inputs == int(inputs.stem)
    written = sum(path.stat().st_size for path in out.iterdir())
    print(json.dumps({"before_bytes": before, "peak_bytes": resident_peak(), "written_bytes": written}))


def memory(sizes: list[int], scratch: Path) -> list[dict]:
    digits = load_digits().images
    for count in sizes:
        np.save(scratch / f"{count}.npy", np.resize(digits, (count, *digits.shape[1:])))
    return [peak_memory(count, scratch) for count in sizes]


def table(results: dict) -> str:
    machine = results["hardware"]
    place = machine.get("gpu") or f"{machine['torch_threads']} threads of {machine['cpu']}"
    low = min(row["ratio"] for row in results["speeds"])
    lines = [
        f"# Whole datasets on {place}",
        "",
        f"Measured {machine['date']} on {place}, Python {machine['python']}, torch {machine['torch']}, by "
        f"`python benchmarks/bulk.py --device {results['device']}`; load at the start {results['load']:.1f}. "
        f"Inputs per second, median of {TURNS} turns (spread in brackets); compare ratios.",
        "",
        "| network | inputs | files | batch | bare forward pass | `certify_dataset` | ratio |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in results["speeds"]:
        rates = [
            f"{row[f'{name}_per_s']:,.0f} ({row['turns'][name][0]:,.0f}–{row['turns'][name][-1]:,.0f})"
            for name in ("bare", "certified")
        ]
        lines.append(
            f"| {row['network']} | {row['inputs']:,} | {row['form']} | {row['batch_size']:,} | {rates[0]} | "
            f"{rates[1]} | {row['ratio']:.3f} |"
        )
    verdict = "met" if low >= GOAL else "not met"
    lines += [
        "",
        f"- Goal: at least {GOAL} of the bare forward pass. The smallest ratio is {low:.3f}: {verdict}.",
    ]
    if found := results.get("workers"):
        lines.append(
            f"- Ray workers with a core each, {found['network']}, {found['inputs']:,} inputs: one "
            f"{found['one']:,.1f} inputs/s, two {found['two']:,.1f} inputs/s, ratio {found['ratio']:.2f}."
        )
    for row in results.get("memory", ()):
        grown = (row["peak_bytes"] - row["before_bytes"]) / 2**20
        lines.append(
            f"- Memory at {row['inputs']:,} inputs of 8 x 8: peak {row['peak_bytes'] / 2**20:,.0f} MiB, "
            f"{grown:,.0f} MiB above that of the certifier alone. "
            f"{row['written_bytes'] / row['inputs']:.0f} bytes are written for each."
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fraction", type=float, default=1.0, help="of all inputs, to try it out")
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.memory_of is not None:
        measure_memory(options.memory_of, options.out)
        return
    results = {"hardware": hardware(options.device), "device": options.device, "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        results["speeds"] = speeds(options.device, options.fraction, scratch)
        if options.device == "cpu":
            results["memory"] = memory([int(options.fraction * size) for size in SIZES], scratch)
            results["workers"] = workers(int(1024 * options.fraction), scratch)
    options.out.mkdir(exist_ok=True, parents=True)
    (options.out / f"bulk-{options.device}.json").write_text(json.dumps(results, indent=2) + "\n")
    (options.out / f"bulk-{options.device}.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
