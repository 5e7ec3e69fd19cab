"""What the monitor's tests find, and how soon: false alarms without drift, delays with it.

    python benchmarks/drift.py --run RUN --audited-run RUN [--data-root DIR]

Both are finished run folders. The label-free test is simulated on the top probabilities of both runs'
surrogates; the audited one on the calibration scores of the second, whose base classifier votes on shifted
test inputs here, as often as on each calibration input. Every simulated stream draws calibration inputs,
unchanged queries and then shifted ones anew, each without repetition: with a shift of nothing, all would be
exchangeable. A stream ends when the shifted inputs are used up.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from scipy import ndimage

import rrise
from machine import hardware
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.monitor.auditing import verdict
from rrise.models.folder import load_model
from rrise.models.inference import top_prediction
from rrise.runs.data import RunData
from rrise.runs.recipe import read_recipe
from rrise.statistics.martingales import ConformalMartingale

RESULTS = Path(__file__).parent / "results"
Array = NDArray[np.float64]
Images = NDArray[np.float32]

RATE = 0.005
"""Half of the monitor's default: each of its two tests has that."""
RATES = (0.1, 0.05, 0.01, RATE)
NULL_STREAMS = 1000
STREAMS = 100
BEFORE = {"label_free": 1000, "audited": 50}
"""Scores before the change, or all that there are."""
STRENGTHS = {
    "brightness": (0.05, 0.15, 0.3),
    "blur": (0.5, 1.0, 2.0),
    "noise": (0.2, 0.4, 0.8),
    "class prior": (0.2, 0.4, 0.8),
}
UNITS = {
    "brightness": "added to every pixel",
    "blur": "standard deviation in pixels",
    "noise": "standard deviation",
    "class prior": "share of the class with the lowest top probabilities, 0.1 before",
}


def shifted(images: Images, kind: str, strength: float) -> Images:
    """Return shifted copies of images in [0, 1]."""
    rng = np.random.default_rng(0)
    changed = {
        "brightness": lambda: images + strength,
        "blur": lambda: ndimage.gaussian_filter(images, (0, 0, strength, strength)),
        "noise": lambda: images + strength * rng.standard_normal(images.shape),
    }[kind]()
    return np.clip(changed, 0, 1).astype(np.float32)


@dataclass
class Pool:
    """Top probabilities of a run's held-out inputs, clean and shifted, and calibration scores if voted."""

    name: str
    calibration: int
    clean: Array
    shifted: dict[tuple[str, float], Array]
    clean_scores: Array | None = None
    shifted_scores: dict[tuple[str, float], Array] | None = None
    violations: dict[tuple[str, float], float] | None = None


class Case:
    """A finished run, and its held-out inputs."""

    def __init__(self, folder: Path, root: Path | None, inputs: int) -> None:
        self.folder = folder
        self.certifier: SurrogateCertifier = rrise.load_certifier(folder / "certifier")
        recipe = read_recipe(folder / "recipe.toml")
        data = RunData(recipe.data, root)
        self.name = recipe.data.source
        self.calibration_labels = data.labels("calibration").numpy()
        self.labels = data.labels("test").numpy()
        rng = np.random.default_rng(0)
        self.rows = np.sort(rng.permutation(len(self.labels))[:inputs])
        images = data.values("test")[:]
        self.images: Images = np.asarray(images[self.rows], dtype=np.float32)

    def clean(self) -> tuple[Array, Array]:
        """Return the stored top probabilities of calibration and test inputs."""
        evidence = self.certifier.evidence.top_probability
        for path in sorted(self.folder.glob("predictions/*/predictions.parquet")):
            table = pq.read_table(path)
            split = np.asarray(table.column("split").to_pylist())
            top = table.column("top_probability").to_numpy()
            calibration = top[split == "calibration"]
            if len(calibration) == len(evidence) and np.allclose(calibration, evidence, atol=1e-5):
                return calibration, top[split == "test"]
        raise SystemExit(f"{self.folder} holds no predictions of its certifier's surrogate")

    def answers(self, images: Images) -> tuple[NDArray[np.int64], Array]:
        """Return the surrogate's classes and top probabilities."""
        return top_prediction(self.certifier.network, torch.from_numpy(images), 256)

    def pool(self) -> Pool:
        """Compute the top probabilities of all shifted inputs."""
        calibration, test = self.clean()
        pool = Pool(self.name, len(calibration), np.concatenate([calibration, test]), {})
        labels = np.concatenate([self.calibration_labels, self.labels])
        self.hardest = int(np.argmin([pool.clean[labels == k].mean() for k in range(labels.max() + 1)]))
        hard = pool.clean[labels == self.hardest], pool.clean[labels != self.hardest]
        for kind, strength in shifts():
            if kind == "class prior":
                pool.shifted[kind, strength] = mixture(*hard, strength)
            else:
                pool.shifted[kind, strength] = self.answers(shifted(self.images, kind, strength))[1]
        return pool

    def vote(self, pool: Pool) -> None:
        """Add calibration scores: stored ones of clean inputs, and those of votes on shifted ones."""
        base = load_model(self.folder / "base")
        clean, wrong = self.scores(base, self.images)
        pool.clean_scores = np.concatenate([self.certifier.evidence.score, clean])
        pool.shifted_scores, pool.violations = {}, {}
        labels = np.concatenate([self.calibration_labels, self.labels[self.rows]])
        hard, voted = labels == self.hardest, labels[pool.calibration :] == self.hardest
        for kind, strength in shifts():
            if kind == "class prior":
                scores = pool.clean_scores
                pool.shifted_scores[kind, strength] = mixture(scores[hard], scores[~hard], strength)
                pool.violations[kind, strength] = float(
                    strength * wrong[voted].mean() + (1 - strength) * wrong[~voted].mean()
                )
                continue
            scores, violated = self.scores(base, shifted(self.images, kind, strength))
            pool.shifted_scores[kind, strength] = scores
            pool.violations[kind, strength] = float(violated.mean())

    def scores(self, base: torch.nn.Module, images: Images) -> tuple[Array, NDArray[np.bool_]]:
        """Audit inputs: their calibration scores, and which prove the bound of an issued radius wrong."""
        smoothing, calibration = self.certifier.smoothing, self.certifier.calibration
        label, top = self.answers(images)
        votes = rrise.collect_votes(
            base,
            images,
            sigma=smoothing.sigma,
            n=calibration.n,
            seed=7,
            split="audit",
            input_range=smoothing.input_range,
            precision=smoothing.precision,
            batch_size=256,
        )
        bound = calibration.lower_bound(top)
        found = [
            verdict(calibration, q, int(row[k]), b, b > 0.5)
            for q, row, k, b in zip(top, np.asarray(votes), label, bound, strict=True)
        ]
        return np.array([one.score for one in found]), np.array([one.violation for one in found])


def shifts() -> Iterator[tuple[str, float]]:
    for kind, strengths in STRENGTHS.items():
        for strength in strengths:
            yield kind, strength


def mixture(hard: Array, others: Array, share: float) -> Array:
    """Return as many scores as there are for such a share of one class, at most 2,000."""
    rng = np.random.default_rng(0)
    size = int(min(2000, len(hard) / share, len(others) / (1 - share)))
    of_class = round(share * size)
    parts = rng.permutation(hard)[:of_class], rng.permutation(others)[: size - of_class]
    return np.concatenate(parts)


def false_alarms(scores: Array, calibration: int, grid: str) -> dict[str, float]:
    """Return the share of streams that ever raise an alarm, by rate, where nothing changes."""
    rng = np.random.default_rng(1)
    largest = np.empty(NULL_STREAMS)
    for stream in range(NULL_STREAMS):
        order = rng.permutation(scores)
        start = ConformalMartingale.start(order[:calibration], grid, stream)
        largest[stream] = start.bet(order[calibration:])[0].largest
    return {str(rate): float((largest >= np.log(1 / rate)).mean()) for rate in RATES}


def delays(clean: Array, changed: Array, calibration: int, grid: str, before: int) -> Array:
    """Return after how many changed scores each stream raises its alarm; infinity where it does not.

    A stream with an alarm before the change is left out: that is a false one.
    """
    rng = np.random.default_rng(2)
    found = []
    for stream in range(STREAMS):
        order = rng.permutation(clean)
        start = ConformalMartingale.start(order[:calibration], grid, stream)
        martingale, _ = start.bet(order[calibration : calibration + before])
        if martingale.largest < np.log(1 / RATE):
            above = martingale.bet(rng.permutation(changed))[1] >= np.log(1 / RATE)
            found.append(int(np.argmax(above)) + 1 if above.any() else np.inf)
    return np.array(found)


def summary(found: Array) -> dict[str, float | None]:
    def quantile(share: float) -> float | None:
        value = float(np.quantile(found, share, method="higher"))
        return value if np.isfinite(value) else None

    return {"detected": float(np.isfinite(found).mean()), "median": quantile(0.5), "q90": quantile(0.9)}


def measure(pool: Pool) -> dict[str, object]:
    """Simulate both tests on a pool."""
    record: dict[str, object] = {"calibration": pool.calibration}
    tests = {"label_free": (pool.clean, pool.shifted, "probability")}
    if pool.clean_scores is not None and pool.shifted_scores is not None:
        tests["audited"] = (pool.clean_scores, pool.shifted_scores, "real")
    for name, (clean, changed, grid) in tests.items():
        unchanged = len(clean) - pool.calibration
        before = min(BEFORE[name], unchanged)
        record[name] = {
            "false_alarms": false_alarms(clean, pool.calibration, grid),
            "length": unchanged,
            "before": before,
            "delays": {
                f"{kind} {strength:g}": {
                    "of": len(changed[kind, strength]),
                    **summary(delays(clean, changed[kind, strength], pool.calibration, grid, before)),
                }
                for kind, strength in shifts()
            },
        }
    if pool.violations is not None:
        record["violations"] = {f"{kind} {s:g}": share for (kind, s), share in pool.violations.items()}
    return record


def timed(what: str, action: Callable[[], object]) -> object:
    start = time.perf_counter()
    result = action()
    print(f"{what}: {time.perf_counter() - start:.0f} s", flush=True)
    return result


def cells(entry: dict[str, float | None]) -> str:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:,.0f}"

    detected = f"{100 * (entry['detected'] or 0):.0f} %"
    return f"{number(entry['of'])} | {detected} | {number(entry['median'])} | {number(entry['q90'])}"


def null_rows(record: dict[str, dict[str, dict[str, object]]]) -> list[str]:
    rows = []
    for name, run in record.items():
        for test in ("label_free", "audited"):
            if test in run:
                shares = run[test]["false_alarms"]
                values = " | ".join(f"{shares[str(rate)]:.3f}" for rate in RATES)
                what = test.replace("_", "-")
                rows.append(
                    f"| {name} | {what} | {run['calibration']:,} | {run[test]['length']:,} | {values} |"
                )
    return rows


def drift_rows(name: str, run: dict[str, dict[str, object]]) -> list[str]:
    both = "audited" in run
    before = f"The change comes after {run['label_free']['before']:,} queries"
    before += f" and {run['audited']['before']} audits" if both else ""
    columns = ["shift", "strength", "changed queries", "label-free: detected", "median delay", "90 %"]
    if both:
        columns += ["changed audits", "audited: detected", "median delay", "90 %", "proven violations"]
    rows = [
        f"## Drift on {name}",
        "",
        f"{before}; {STREAMS} streams each, delays in changed queries or audits, – where fewer streams than "
        f"that raised an alarm.",
        "",
        f"| {' | '.join(columns)} |",
        f"|---|---|{'---:|' * (len(columns) - 2)}",
    ]
    for kind, strength in shifts():
        key = f"{kind} {strength:g}"
        row = f"| {kind} | {strength:g} | {cells(run['label_free']['delays'][key])} |"
        if both:
            row += f" {cells(run['audited']['delays'][key])} | {100 * run['violations'][key]:.1f} % |"
        rows.append(row)
    return rows


def table(record: dict[str, dict[str, dict[str, object]]], votes: int) -> list[str]:
    machine = hardware("cpu")
    lines = [
        "# What the monitor finds, and how soon",
        "",
        f"Measured {machine['date']} on {machine['torch_threads']} threads of {machine['cpu']} by "
        f"`python benchmarks/drift.py`. Alarm at a false-alarm rate of {RATE} for each test, half of the "
        f"monitor's default. Simulated on the answers of real surrogates, and on real votes for the audited "
        f"test ({votes} votes to an audit). A stream draws without repetition, so it is as long as there are "
        f"inputs.",
        "",
        f"## No drift: share of {NULL_STREAMS:,} streams that ever raise an alarm",
        "",
        "| run | test | calibration inputs | stream | "
        + " | ".join(f"rate {rate:g}" for rate in RATES)
        + " |",
        "|---|---|---:|---:|" + "---:|" * len(RATES),
        *null_rows(record),
    ]
    for name, run in record.items():
        lines += ["", *drift_rows(name, run)]
    lines += ["", "Strengths: " + "; ".join(f"{kind}: {unit}" for kind, unit in UNITS.items()) + ".", ""]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--audited-run", type=Path, required=True)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--inputs", type=int, default=1000, help="Shifted inputs of --run.")
    parser.add_argument("--audits", type=int, default=300, help="Shifted inputs of --audited-run.")
    arguments = parser.parse_args()
    record = {}
    wanted = ((arguments.run, arguments.inputs, False), (arguments.audited_run, arguments.audits, True))
    for folder, number, voted in wanted:
        case = Case(folder, arguments.data_root, number)
        pool = timed(f"{case.name}: top probabilities", case.pool)
        if voted:
            timed(f"{case.name}: votes", lambda case=case, pool=pool: case.vote(pool))
        record[case.name] = timed(f"{case.name}: streams", lambda pool=pool: measure(pool))
    lines = table(record, case.certifier.calibration.n)
    (RESULTS / "drift.md").write_text("\n".join(lines))
    content = {"hardware": hardware("cpu"), "rate": RATE, "streams": STREAMS, "runs": record}
    (RESULTS / "drift.json").write_text(json.dumps(content, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
