"""Measure what the foundation promises, and write the tables in benchmarks/results.

    python benchmarks/foundation.py

Rows: a million Clopper–Pearson bounds against statsmodels on the same counts; a certificate against the bare
forward pass of the same network and against Monte Carlo; the demo, step by step.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import torch
from rich.console import Console
from statsmodels.stats.proportion import proportion_confint

import rrise
from machine import check_idle, hardware, import_seconds, median_of, seconds_of
from rrise.certifiers.methods import TWO_STAGE
from rrise.data.catalogue import load_digits
from rrise.evaluation.report.comparison import comparison_headings, comparison_rows
from rrise.models.catalogue import build_model
from rrise.runs import run as run_module
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe
from rrise.statistics import clopper_pearson_lower
from rrise.votes.collect import collect_votes

RESULTS = Path(__file__).parent / "results"


def bounds() -> dict[str, float]:
    rng = np.random.default_rng(0)
    n = rng.integers(10_000, 100_001, 10**6)
    k = rng.integers(0, n + 1)
    fixed = rng.integers(0, 10_001, 10**6)
    few = slice(0, 10**5)
    return {
        "distinct_counts_s": median_of(3, lambda: clopper_pearson_lower(k, n, 0.001)),
        "votes_of_n_10000_s": median_of(3, lambda: clopper_pearson_lower(fixed, 10_000, 0.001)),
        "statsmodels_s": 10 * median_of(2, lambda: proportion_confint(k[few], n[few], 0.002, method="beta")),
    }


def demo(folder: Path) -> tuple[dict[str, object], rrise.Certifier]:
    recipe = read_recipe("digits")
    steps: dict[str, float] = {}
    original = run_module.progress_bar

    @contextmanager
    def timed(console: Console, what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        start = time.perf_counter()
        with original(console, what, total, unit) as advance:
            yield advance
        steps[what] = time.perf_counter() - start

    run_module.progress_bar = timed
    start = time.perf_counter()
    evaluation = run_recipe(folder, recipe, Console(quiet=True))
    total = time.perf_counter() - start
    start = time.perf_counter()
    run_recipe(folder, recipe, Console(quiet=True))
    again = time.perf_counter() - start
    run_module.progress_bar = original
    results = {
        "seconds": total,
        "seconds_training_and_voting": sum(steps.values()),
        "seconds_when_up_to_date": again,
        "steps": steps,
        "test_inputs": evaluation.results["test_inputs"],
        "failure": evaluation.results["main_failure"],
        "comparison": comparison_rows(evaluation.results),
        "offline": sum(evaluation.own[name] for name in ("targets", "training", "calibration")),
        "break_even": evaluation.own["break_even"][f"{TWO_STAGE.name} n{recipe.votes.test}"],
        "rival_passes": evaluation.own["rival_passes"],
    }
    return results, rrise.load_certifier(folder / "certifier")


def certificates(certifier: rrise.Certifier) -> dict[str, float]:
    images = load_digits().inputs(np.arange(256))
    network = build_model("small-convnet", seed=0).eval()
    rows: dict[str, float] = {}
    with torch.inference_mode():
        for size in (1, 256):
            batch = images[:size]
            seconds = [  # taken in turns, so that a slow moment of the machine hits both
                (
                    seconds_of(lambda batch=batch: network(batch)),
                    seconds_of(lambda batch=batch: certifier(batch)),
                )
                for _ in range(500)
            ]
            rows[f"forward_{size}_us"] = 1e6 * median(forward for forward, _ in seconds) / size
            rows[f"certificate_{size}_us"] = 1e6 * median(whole for _, whole in seconds) / size
    n = 10_000
    votes = median_of(3, lambda: collect_votes(network, images[:4], sigma=0.25, n=n, seed=0))
    rows["monte_carlo_10000_us"] = 1e6 * votes / 4
    return rows


def table(results: dict) -> str:
    cpu, b, c, d, i = (results[name] for name in ("hardware", "bounds", "certificates", "demo", "imports"))
    per_bound = b["statsmodels_s"] / b["distinct_counts_s"]
    lines = [
        "# Foundation",
        "",
        f"Measured {cpu['date']} on {cpu['cores']} cores of {cpu['cpu']}, Python {cpu['python']}, "
        f"torch {cpu['torch']}, by `python benchmarks/foundation.py`. Times are the best of several; compare "
        f"ratios.",
        "",
        "| a million Clopper–Pearson lower bounds | seconds |",
        "|---|---:|",
        f"| n from 10,000 to 100,000, distinct counts | {b['distinct_counts_s']:.2f} |",
        f"| n = 10,000 | {b['votes_of_n_10000_s']:.2f} |",
        f"| statsmodels (two-sided; ten times 100,000) | {b['statsmodels_s']:.2f} ({per_bound:.1f} x) |",
        "",
        "| per input, small-convnet at 8x8 | one input, µs | in a batch of 256, µs |",
        "|---|---:|---:|",
        f"| bare forward pass | {c['forward_1_us']:.0f} | {c['forward_256_us']:.1f} |",
        f"| certificate (RRISE) | {c['certificate_1_us']:.0f} | {c['certificate_256_us']:.1f} |",
        f"| ratio | {c['certificate_1_us'] / c['forward_1_us']:.2f} | "
        f"{c['certificate_256_us'] / c['forward_256_us']:.2f} |",
        f"| Monte Carlo, 10,000 votes | {c['monte_carlo_10000_us']:.0f} | |",
        "",
        "| `rrise demo` | seconds |",
        "|---|---:|",
        *(f"| {name} | {seconds:.1f} |" for name, seconds in d["steps"].items()),
        f"| training and voting together | {d['seconds_training_and_voting']:.1f} |",
        f"| the whole demo, without start-up | {d['seconds']:.1f} |",
        f"| the same again, up to date | {d['seconds_when_up_to_date']:.1f} |",
        "",
        f"{d['test_inputs']} test images, total failure {d['failure']}:",
        "",
        f"| {' | '.join(comparison_headings())} |",
        "|---|" + "---:|" * (len(comparison_headings()) - 1),
        *(f"| {' | '.join(row)} |" for row in d["comparison"]),
        "",
        f"The surrogate cost {d['offline']:,} passes once; it is cheaper than two-stage Monte Carlo from "
        f"{d['break_even']:,} certificates on. The cheapest two-stage Monte Carlo that certifies as much "
        f"takes {d['rival_passes']:,} passes per query.",
        "",
        "| start-up | seconds |",
        "|---|---:|",
        f"| Python alone | {i['python_s']:.2f} |",
        f"| `import rrise` | {i['import_rrise_s']:.2f} |",
        f"| `import torch` | {i['import_torch_s']:.2f} |",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    busy = check_idle()
    with tempfile.TemporaryDirectory() as folder:
        measured, certifier = demo(Path(folder) / "demo")
    results = {
        "hardware": hardware() | {"busy_cores": busy},
        "bounds": bounds(),
        "imports": import_seconds(),
        "demo": measured,
        "certificates": certificates(certifier),
    }
    (RESULTS / "foundation.json").write_text(json.dumps(results, indent=2) + "\n")
    (RESULTS / "foundation.md").write_text(table(results))
    Console().print((RESULTS / "foundation.md").read_text(), markup=False)


if __name__ == "__main__":
    main()
