"""How strong certificates are at total failure 0.01: published evidence, by rule, promise and query votes.

    python benchmarks/strong_certificates.py results/fashion-mnist results/cifar-10 --out benchmarks/results

It reads evidence alone: no data, no GPU. Every number is a mean over the seeds of a folder. Radii are in
units of sigma. Shares are of two-stage Monte Carlo with all votes, at the same failure on the same inputs.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from machine import hardware
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.methods import TWO_STAGE
from rrise.certifiers.predictions import calibrated_certificates
from rrise.errors import SettingError
from rrise.evaluation.measure.equal_monte_carlo import Rivals
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.evaluation.measure.methods import SurrogateEvidence
from rrise.evaluation.measure.metrics import average_certified_radius, certified_accuracy
from rrise.evaluation.measure.passes_curve import surrogate_with_votes
from rrise.votes.array import votes_for

FAILURE = 0.01
RADII = (0.0, 0.5, 1.0, 2.0)
SIZES = (1_000, 2_000, 4_000)
SPLITS = 12
RULES = {
    "paper, probit": {"rule": "paper", "beta": 0.001, "score": "probit"},
    "floored, probit": {"rule": "floored", "score": "probit"},
    "floored, tapered": {"rule": "floored", "score": "tapered"},
}
SCORES = ("probit", "tapered")
Row = dict[str, float]


def strength(found: Certificates, evidence: Evidence) -> Row:
    """Return certified accuracy at several radii and the average certified radius."""
    sigma = found.guarantee.smoothing.sigma
    at = certified_accuracy(found, evidence.labels, [radius * sigma for radius in RADII])
    row = {f"CA at {radius:g}": float(value) for radius, value in zip(RADII, at, strict=True)}
    return {**row, "ACR": average_certified_radius(found, evidence.labels) / sigma}


def wrong(found: Certificates, evidence: Evidence) -> Row:
    """Return how often a bound is above the share of the votes, of all inputs and of the issued ones."""
    counts = np.asarray(evidence.reference)
    share = votes_for(counts, found.label) / counts.sum(axis=1)
    above = found.issued & (found.lower_bound > share)
    return {"wrong": float(above.mean()), "wrong of issued": float(above.sum() / max(1, found.issued.sum()))}


def monte_carlo(evidence: Evidence) -> Certificates:
    return next(
        one.certificates
        for one in evidence.voting
        if one.setting.method == TWO_STAGE.name
        and one.setting.failure == str(FAILURE)
        and one.setting.budget == evidence.about["main_budget"]
    )


def one_pass(evidence: Evidence, one: SurrogateEvidence) -> Iterator[tuple[str, Row]]:
    """Yield a row for each rule, calibrated on the run's own calibration inputs."""
    best = strength(monte_carlo(evidence), evidence)
    sigma = evidence.reference.smoothing
    assert sigma is not None
    rivals = Rivals(evidence.reference, evidence.labels, sigma.noise)
    for name, how in RULES.items():
        found, _ = calibrated_certificates(
            one.test,
            one.calibration,
            evidence.calibration_votes,
            smoothing=sigma,
            failure=FAILURE,
            **how,
        )
        row = strength(found, evidence)
        cheapest = rivals.cheapest(FAILURE, row["CA at 0"], row["ACR"] * sigma.sigma)
        shares = {"CA share": row["CA at 0"] / best["CA at 0"], "ACR share": row["ACR"] / best["ACR"]}
        passes = float("nan") if cheapest is None else float(cheapest.passes)
        yield name, {**row, **shares, "Monte Carlo passes": passes, **wrong(found, evidence)}


def promises(evidence: Evidence, one: SurrogateEvidence) -> Iterator[tuple[str, Row]]:
    """Yield a row for each promise, score and number of calibration inputs, over random splits."""
    smoothing, rng = evidence.reference.smoothing, np.random.default_rng(0)
    assert smoothing is not None
    for size in SIZES:
        orders = [rng.permutation(len(evidence.labels)) for _ in range(SPLITS)]
        for score, promise in product(SCORES, ("marginal", "pac", "issued")):
            rows = []
            for order in orders:
                held, judged = order[:size], order[size:]
                try:
                    found, _ = calibrated_certificates(
                        one.test[judged],
                        one.test[held],
                        evidence.reference[held],
                        smoothing=smoothing,
                        failure=FAILURE,
                        promise=promise,
                        score=score,
                    )
                except SettingError:
                    continue
                part = replace(evidence, labels=evidence.labels[judged], reference=evidence.reference[judged])
                rows.append({**strength(found, part), **wrong(found, part)})
            if rows:
                yield f"{promise}, {score}, {size:,}", mean(rows)


def with_votes(evidence: Evidence, one: SurrogateEvidence) -> Iterator[tuple[str, Row]]:
    """Yield a row for each number of query votes, beside the best Monte Carlo with as many."""
    smoothing = evidence.reference.smoothing
    assert smoothing is not None
    about = {**evidence.about, "main_failure": str(FAILURE), "calibration": {"rule": "floored"}}
    rivals = Rivals(evidence.reference, evidence.labels, smoothing.noise).at(FAILURE)
    for votes in (0, *sorted(evidence.query)):
        found = surrogate_with_votes(replace(evidence, about=about), one, votes, score="tapered")
        row = strength(found, evidence)
        within = [rival for rival in rivals if rival.passes <= max(votes, 1)]
        radius = max((rival.average_certified_radius for rival in within), default=0.0) / smoothing.sigma
        yield str(votes), {**row, "ACR of Monte Carlo": radius}


def mean(rows: list[Row]) -> Row:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def table(title: str, rows: dict[str, list[Row]]) -> list[str]:
    means = {name: mean(found) for name, found in rows.items() if found}
    if not means:
        return []
    columns = list(next(iter(means.values())))
    lines = ["", f"| {title} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, row in means.items():
        texts = (f"{row[c]:,.0f}" if c.endswith("passes") else f"{row[c]:.4f}" for c in columns)
        lines.append(f"| {name} | {' | '.join(texts)} |".replace("nan", "–"))
    return lines


def dataset(folder: Path, variant: str | None) -> list[str]:
    """Return the tables of one folder of results."""
    found: dict[str, dict[str, list[Row]]] = {
        "rule, score": {},
        "promise, score, calibration inputs": {},
        "query votes": {},
    }
    parts = sorted(folder.glob("seed-*"))
    for part in parts:
        evidence = read_evidence(part).held_out()
        wanted = variant or evidence.about["certifier"][1]
        one = next(one for one in evidence.surrogates if one.variant == wanted)
        for title, made in zip(found, (one_pass, promises, with_votes), strict=True):
            for name, row in made(evidence, one):
                found[title].setdefault(name, []).append(row)
        best = strength(monte_carlo(evidence), evidence)
        found["rule, score"].setdefault("Monte Carlo", []).append(
            {**best, **dict.fromkeys(_MORE, float("nan"))}
        )
    number = "1 seed" if len(parts) == 1 else f"{len(parts)} seeds"
    lines = ["", f"## {folder.name}, {wanted}, {number}"]
    for title, rows in found.items():
        lines += table(title, rows)
    return lines


_MORE = ("CA share", "ACR share", "Monte Carlo passes", "wrong", "wrong of issued")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--variant", help="the surrogate; default: that of the run's own certifier")
    parser.add_argument("--out", type=Path, help="a folder for strong-certificates.md")
    arguments, machine = parser.parse_args(), hardware()
    lines = [
        "# Certificates at total failure 0.01",
        "",
        f"Computed {machine['date']} from published evidence by `python benchmarks/strong_certificates.py`, "
        f"on {machine['cores']} cores of {machine['cpu']}. CA is certified accuracy at a radius, ACR the "
        "average certified radius, both radii in units of sigma. Shares are of two-stage Monte Carlo with "
        "all votes. *Monte Carlo passes*: the cheapest Monte Carlo that certifies as much. *Wrong*: bounds "
        "above the share of the votes.",
    ]
    for folder in arguments.folders:
        lines += dataset(folder, arguments.variant)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out is not None:
        (arguments.out / "strong-certificates.md").write_text(text)


if __name__ == "__main__":
    main()
