"""Measure what a certificate costs beside the bare forward pass, in torch and in each exported form.

    rrise run cifar-10 --out runs/cifar-10
    python benchmarks/inference.py --run runs/cifar-10

For eager and compiled torch, ONNX Runtime and OpenVINO (where installed), fp32 and int8: the time of one
input and of 256, with and without the certificate, and certified accuracy and average certified radius on
test inputs, each form calibrated in itself. Monte Carlo at 10,000 votes stands beside them: its certificates
come from the run's stored votes, its time from a part of the passes. Times are medians of several turns;
compare ratios.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import torch

import rrise
from machine import check_idle, hardware, median_of, seconds_of
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import surrogate_guarantee
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.export.calibration_data import CalibrationData, calibration_data
from rrise.deployment.export.exporting import export_certifier
from rrise.deployment.export.runtimes import RUNTIMES, Form, open_model
from rrise.deployment.loading import load_deployed
from rrise.models.evaluating import evaluating
from rrise.models.folder import load_model
from rrise.models.inference import top_prediction
from rrise.runs.data import RunData
from rrise.runs.recipe import read_recipe
from rrise.statistics import level_text, refit_calibration
from rrise.votes.array import votes_for

RESULTS = Path(__file__).parent / "results"
BATCH = 256
TURNS = 3
SINGLES, BATCHES = 100, 1
VOTES, SELECTION, TIMED_VOTES = 10_000, 100, 512
EAGER = "torch, eager"
GOALS = {"ratio": 1.1, "int8_speed": 4.0, "points_lost": 1.0}
Act = Callable[[np.ndarray], object]


@dataclass
class Contender:
    """One form: the bare forward pass, the certificate, and the certificates of all test inputs."""

    name: str
    bare: Act
    certify: Callable[[np.ndarray], Certificates]


def progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def in_torch(name: str, certifier: SurrogateCertifier) -> Contender:
    def bare(inputs: np.ndarray) -> object:
        with evaluating(certifier.network):
            return certifier.network(torch.from_numpy(inputs)).numpy()

    return Contender(name, bare, certifier.certify)


def compiled(certifier: SurrogateCertifier, data: CalibrationData) -> SurrogateCertifier:
    """Return the certifier with its network compiled, and calibrated in that form."""
    progress("compiling")
    network = torch.compile(certifier.network, dynamic=False)
    rows = len(data.images)
    full = np.resize(data.images, (-(-rows // BATCH) * BATCH, *data.images.shape[1:]))  # batches of one size
    label, top = (part[:rows] for part in top_prediction(network, torch.from_numpy(full), BATCH))
    agreeing = votes_for(np.asarray(data.votes), label)
    calibration, evidence = refit_calibration(certifier.calibration, top, agreeing)
    guarantee = surrogate_guarantee(calibration, evidence, certifier.smoothing, 0)
    return replace(
        certifier, network=network, calibration=calibration, evidence=evidence, guarantee=guarantee
    )


def in_runtime(
    certifier: SurrogateCertifier, data: CalibrationData, folder: Path, *, int8: bool, runtime: str
) -> Contender:
    """Export, and open the same graph a second time up to its logits."""
    progress(f"exporting: {folder.name}")
    export_certifier(
        certifier,
        data.images,
        data.votes,
        folder,
        int8=int8,
        runtime=runtime,
        range_inputs=data.range_inputs,
        allow_seen=True,
    )
    model = onnx.load(folder / "certifier.onnx")
    del model.graph.output[:]
    logits = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", None])
    model.graph.output.append(logits)
    form = Form(runtime, "int8" if int8 else "fp32")
    threads = torch.get_num_threads()
    bare = open_model(form, model.SerializeToString(), threads=threads)
    found = load_deployed(folder, threads=threads)
    return Contender(found.runtime, bare.run, found.certify)


def timed(contenders: list[Contender], inputs: np.ndarray) -> dict[str, dict[str, float]]:
    """Time every contender in turns, and return the median of each."""
    taken: dict[str, dict[str, list[float]]] = {c.name: defaultdict(list) for c in contenders}
    for turn in range(TURNS):
        for contender in contenders:
            progress(f"turn {turn + 1} of {TURNS}: {contender.name}")
            time.sleep(0.2)  # threads of the runtime before stop spinning
            kept = taken[contender.name]
            for size, times in ((1, SINGLES), (BATCH, BATCHES)):
                batch = inputs[:size]
                if size == 1 or turn == 0:
                    contender.bare(batch)
                for _ in range(times):  # in turns too, since processors change their pace
                    for what, act in (("bare", contender.bare), ("certificate", contender.certify)):
                        kept[f"{what}_{size}_s"].append(seconds_of(lambda act=act, batch=batch: act(batch)))
    return {
        name: {what: statistics.median(seconds) for what, seconds in kept.items()}
        for name, kept in taken.items()
    }


def quality(label: np.ndarray, radius: np.ndarray, issued: np.ndarray, truth: np.ndarray) -> dict:
    right = label == truth
    return {
        "certified_accuracy": float((right & issued).mean()),
        "average_certified_radius": float(np.where(right, radius, 0).mean()),
        "issued": float(issued.mean()),
    }


def answered(contender: Contender, inputs: np.ndarray, truth: np.ndarray) -> dict:
    progress(f"certificates of {len(inputs):,} inputs: {contender.name}")
    parts = [contender.certify(inputs[start : start + BATCH]) for start in range(0, len(inputs), BATCH)]
    columns = [np.concatenate([getattr(p, name) for p in parts]) for name in ("label", "radius", "issued")]
    return quality(*columns, truth)


def monte_carlo(run: Path, certifier: SurrogateCertifier, inputs: np.ndarray, truth: np.ndarray) -> dict:
    """Certify from stored votes, and time a part of the passes that one input takes."""
    rows = slice(0, len(truth))
    n = min(VOTES, read_recipe(run / "recipe.toml").votes.test)
    votes = rrise.read_votes(run / "votes" / "test", n)[rows]
    selection = rrise.read_votes(run / "votes" / "test-selection")[rows]
    level = level_text(certifier.calibration.failure)
    found = rrise.monte_carlo_certificates(votes, selection, failure=level)
    method = rrise.MonteCarlo(TIMED_VOTES, failure=level)
    base, smoothing = load_model(run / "base"), certifier.smoothing
    how = {"sigma": smoothing.sigma, "precision": smoothing.precision, "selection_votes": SELECTION}
    seconds = median_of(3, lambda: method.bind(base, batch_size=BATCH, **how).certify(inputs[:1]))
    per_input = seconds * (n + SELECTION) / (TIMED_VOTES + SELECTION)
    return {
        "form": f"Monte Carlo, n={n:,}",
        "certificate_1_s": per_input,
        "certificate_256_s": per_input * BATCH,
        **quality(found.label, found.radius, found.issued, truth),
    }


def contenders_of(
    certifier: SurrogateCertifier, data: CalibrationData, scratch: Path, *, compile_too: bool
) -> list[Contender]:
    found = [in_torch(EAGER, certifier)]
    if compile_too:
        found.append(in_torch("torch, compiled", compiled(certifier, data)))
    for runtime in filter(find_spec, RUNTIMES):
        for int8 in (False, True):
            name = f"{runtime}-{int8}"
            found.append(in_runtime(certifier, data, scratch / name, int8=int8, runtime=runtime))
    return found


def row_of(name: str, times: dict[str, float], eager: dict[str, float], measured: dict) -> dict:
    return {
        "form": name,
        **times,
        **{f"ratio_{size}": times[f"certificate_{size}_s"] / times[f"bare_{size}_s"] for size in (1, BATCH)},
        **{
            f"faster_than_eager_{size}": eager[f"certificate_{size}_s"] / times[f"certificate_{size}_s"]
            for size in (1, BATCH)
        },
        **measured,
    }


def table(results: dict) -> str:
    machine, data = results["hardware"], results["data"]
    lines = [
        f"# Inference on {machine['torch_threads']} threads of {machine['cpu']}",
        "",
        f"Measured {machine['date']}, Python {machine['python']}, torch {machine['torch']}, by `python "
        f"benchmarks/inference.py`: {data['network']}, inputs {data['shape']}, {data['test_inputs']:,} test "
        f"inputs of {data['source']}, total failure {data['failure']}, {data['calibration_inputs']:,} "
        f"calibration inputs, each form calibrated in itself. Times are medians of several turns in one run; "
        f"compare ratios.",
        "",
        "| form | one input, ms | bare pass, ms | ratio | in 256: inputs/s | ratio to bare | "
        "faster than eager, one / 256 | certified accuracy | mean certified radius |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in results["forms"]:
        one, many = 1e3 * row["certificate_1_s"], BATCH / row["certificate_256_s"]
        good = f"{100 * row['certified_accuracy']:.1f} % | {row['average_certified_radius']:.4f}"
        if "bare_1_s" in row:
            faster = f"{row['faster_than_eager_1']:.1f} / {row['faster_than_eager_256']:.1f}"
            times = f"{one:.2f} | {1e3 * row['bare_1_s']:.2f} | {row['ratio_1']:.2f} | {many:,.0f}"
            lines.append(f"| {row['form']} | {times} | {row['ratio_256']:.2f} | {faster} | {good} |")
        else:
            lines.append(f"| {row['form']} | {one:,.0f} | | | {many:.3f} | | | {good} |")
    return "\n".join([*lines, "", *results["goals"], ""])


def goals(rows: list[dict]) -> list[str]:
    """Say of each goal whether it was met, and by how much."""
    by_name = {row["form"]: row for row in rows}
    int8, eager = by_name["onnxruntime-int8"], by_name[EAGER]
    ratios = [row[f"ratio_{size}"] for row in rows if "ratio_1" in row for size in (1, BATCH)]
    exported = [row[f"ratio_{size}"] for row in rows if row["form"].startswith("onnx") for size in (1, BATCH)]
    lost = 100 * (eager["certified_accuracy"] - int8["certified_accuracy"])
    slowest = min(int8["faster_than_eager_1"], int8["faster_than_eager_256"])
    return [
        f"- Goal: a certificate takes at most {GOALS['ratio']} times the bare pass of the same runtime. "
        f"Largest ratio in ONNX Runtime {max(exported):.2f}, over all forms {max(ratios):.2f}.",
        f"- Goal: int8 is at least {GOALS['int8_speed']:.0f} times faster than eager fp32. One input "
        f"{int8['faster_than_eager_1']:.1f}, in batches of {BATCH} {int8['faster_than_eager_256']:.1f}: "
        f"{'met' if slowest >= GOALS['int8_speed'] else 'not met by both'}.",
        f"- Goal: int8 loses at most {GOALS['points_lost']:.0f} point of certified accuracy. It loses "
        f"{lost:.1f}: {'met' if lost <= GOALS['points_lost'] else 'not met'}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a finished run, such as runs/cifar-10")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--test-inputs", type=int, default=2048)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    busy = check_idle(options.out)
    recipe = read_recipe(options.run / "recipe.toml")
    run_data = RunData(recipe.data, options.data_root)
    certifier = rrise.load_certifier(options.run / "certifier")
    data = calibration_data(options.run / "certifier", certifier, data_root=options.data_root)
    inputs = np.asarray(run_data.values("test")[: options.test_inputs], dtype=np.float32)
    truth = run_data.labels("test")[: len(inputs)].numpy()
    with tempfile.TemporaryDirectory() as scratch:
        found = contenders_of(certifier, data, Path(scratch), compile_too=not options.no_compile)
        measured = {contender.name: answered(contender, inputs, truth) for contender in found}
        times = timed(found, inputs)
    rows = [row_of(c.name, times[c.name], times[EAGER], measured[c.name]) for c in found]
    rows.append(monte_carlo(options.run, certifier, inputs, truth))
    results = {
        "hardware": hardware("cpu") | {"busy_cores": busy},
        "data": {
            "source": recipe.data.source,
            "network": recipe.surrogate.architecture or recipe.base.architecture,
            "shape": " x ".join(map(str, certifier.input_shape)),
            "test_inputs": len(inputs),
            "calibration_inputs": certifier.calibration.size,
            "failure": level_text(certifier.calibration.failure),
        },
        "forms": rows,
        "goals": goals(rows),
    }
    options.out.mkdir(exist_ok=True, parents=True)
    (options.out / "inference-cpu.json").write_text(json.dumps(results, indent=2) + "\n")
    (options.out / "inference-cpu.md").write_text(table(results))
    print(table(results))


if __name__ == "__main__":
    main()
