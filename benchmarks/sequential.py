"""Count the votes that deciding one radius takes, on published votes of Fashion-MNIST and CIFAR-10.

    python benchmarks/sequential.py

A random order of an input's stored votes is an exact draw of a sequence of votes: votes are exchangeable. The
methods vote on such sequences as they do live, and count every vote they draw.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from machine import hardware
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.sequential import Sequential
from rrise.certifiers.sequential_rules import Decision, Estimate, Rule
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.votes.noise import Noise
from rrise.votes.sequence import StoredVotes
from rrise.votes.smoothing import Smoothing

FOLDERS = ("cifar-10-distilled", "cifar-10", "fashion-mnist-distilled", "fashion-mnist")
RADII = (0.1, 0.25, 0.5)
N, FAILURE, ORDERS = 10_000, 0.001, 5
RESULTS = Path(__file__).parent / "results"
PUBLISHED = Path(__file__).parent.parent / "results"
PROBABILITIES = (0.6, 0.7, 0.8, 0.83, 0.8413, 0.85, 0.86, 0.87, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Estimating(Sequential):
    """How a wanted radius was reached before: 100 selection votes, and a bound for every probability."""

    def rule(self, noise: Noise) -> Rule:
        """Return the former rule."""
        return Estimate(self.n, FAILURE, noise, None, self.radius, 100, None)


def orders(counts: NDArray[np.int64], smoothing: Smoothing) -> Iterator[StoredVotes]:
    """Yield sequences with these counts, each in a random order."""
    rng, classes = np.random.default_rng(0), counts.shape[1]
    answers = np.repeat(np.tile(np.arange(classes, dtype=np.uint8), len(counts)), counts.reshape(-1))
    answers = answers.reshape(len(counts), -1)
    for _ in range(ORDERS):
        yield StoredVotes(rng.permuted(answers, axis=1), classes, smoothing)


def measured(found: list[Certificates], radius: float, top: NDArray[np.int64]) -> dict[str, float]:
    certified = np.array([one.radius >= radius for one in found])
    passes = np.array([one.passes for one in found])
    return {
        "certified": float(certified.mean()),
        "certified_spread": float(certified.mean(axis=1).std(ddof=1)),
        "votes": float(passes.mean()),
        "votes_spread": float(passes.mean(axis=1).std(ddof=1)),
        "median": float(np.median(passes)),
        "votes_certified": float(passes[certified].mean()),
        "votes_others": float(passes[~certified].mean()),
        "all_votes": float((passes == N).mean()),
        "other_class_certified": float(
            np.mean([(one.label != top)[sure].sum() for one, sure in zip(found, certified, strict=True)])
        ),
    }


def exactly(rule: Decision, p: float) -> tuple[float, float, float]:
    """Return the probability of certifying and of giving up, and the votes, for a label of probability p."""
    chance, at, votes, given_up = np.ones(1), 0, float(rule.selection), 0.0
    for look, fewest, most in zip(rule.looks, rule.test.accept, rule.test.hopeless, strict=True):
        votes += (look - at) * float(chance.sum())
        for _ in range(look - at):
            chance = p * np.append(0, chance) + (1 - p) * np.append(chance, 0)
        at = look
        chance[fewest:] = 0
        given_up += float(chance[: most + 1].sum()) if look < rule.looks[-1] else 0.0
        chance[: most + 1] = 0
    return rule.test.acceptance(p) if p < 1 else 1.0, given_up, votes


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(results: list[dict[str, object]]) -> list[str]:
    lines = [
        "| votes of | radius | method | certified | votes per input | median | if certified | if not | all "
        "10,000 |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in results:
        for name in ("before", "now"):
            found = one[name]
            assert isinstance(found, dict)
            lines.append(
                row(
                    [
                        str(one["votes_of"]),
                        f"{one['radius']:g}",
                        name,
                        f"{found['certified']:.2%}",
                        f"{found['votes']:,.0f} ± {found['votes_spread']:.0f}",
                        f"{found['median']:,.0f}",
                        f"{found['votes_certified']:,.0f}",
                        f"{found['votes_others']:,.0f}",
                        f"{found['all_votes']:.1%}",
                    ]
                )
            )
    return lines


def main() -> None:
    results: list[dict[str, object]] = []
    for name in FOLDERS:
        evidence = read_evidence(PUBLISHED / name / "seed-100")
        counts, smoothing = np.asarray(evidence.reference), evidence.reference.smoothing
        assert smoothing is not None
        found: dict[tuple[float, str], list[Certificates]] = {}
        for votes in orders(counts, smoothing):
            for radius in RADII:
                for method, kind in (("before", Estimating), ("now", Sequential)):
                    certificates = kind(N, FAILURE, radius=radius).certify_votes(votes)
                    found.setdefault((radius, method), []).append(certificates)
        for radius in RADII:
            result: dict[str, object] = {"votes_of": name, "inputs": len(counts), "radius": radius}
            for method in ("before", "now"):
                result[method] = measured(found[radius, method], radius, counts.argmax(axis=1))
            results.append(result)
            print(json.dumps(result), flush=True)
    rule = Sequential(N, FAILURE, radius=0.25).rule(smoothing.noise)
    assert isinstance(rule, Decision)
    chances = [(p, *exactly(rule, p)) for p in PROBABILITIES]
    level = rule.test.acceptance(rule.p0)
    (RESULTS / "sequential.md").write_text("\n".join(page(results, chances, level)))
    record = {"hardware": hardware(), "results": results, "chances": chances, "level": level}
    (RESULTS / "sequential.json").write_text(json.dumps(record, indent=2) + "\n")


def page(
    results: list[dict[str, object]], chances: list[tuple[float, float, float, float]], level: float
) -> list[str]:
    machine = hardware()
    return [
        "# Votes that deciding one radius takes",
        "",
        f"`Sequential({N}, failure={FAILURE}, radius=r)` asks of each input: is a radius of at least r "
        f"certified? Measured {machine['date']} by `python benchmarks/sequential.py`, on the published votes "
        f"(seed 100, sigma 0.25, {N:,} of each test image) in {ORDERS} random orders. All votes drawn are "
        "counted, with those that choose the class. *Before* is the former rule: 100 selection votes, 100 "
        "looks, the anytime-valid bound. *Now* is the exact test. ± is the standard deviation between "
        "orders.",
        "",
        *table(results),
        "",
        "## How it decides, by the probability of the class",
        "",
        f"Radius 0.25 at sigma 0.25 needs a probability of 0.8413. Computed exactly, not simulated. At "
        f"0.8413 the test accepts with a probability of {level:.6f}, and {FAILURE} is allowed. From 0.8584 "
        "on, one look at all votes would certify with at least 95 %; there it gives up at most 5 %.",
        "",
        "| probability | certified | given up early | votes |",
        "|---:|---:|---:|---:|",
        *(
            row([f"{p:g}", f"{accepted:.3%}", f"{given_up:.1%}", f"{votes:,.0f}"])
            for p, accepted, given_up, votes in chances
        ),
        "",
    ]


if __name__ == "__main__":
    main()
