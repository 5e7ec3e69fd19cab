"""What an attack radius costs, and whether attacks break it.

    python benchmarks/attacked.py RUN --out OUT.json
    python benchmarks/attacked.py results/fashion-mnist-distilled/seed-100 --data-root DATA \
        --plain plain.safetensors --noisy noisy.safetensors --query-noise 0.25 --out OUT.json

The subject is a run folder, or the published evidence of one. Its calibration inputs and some of its test
inputs calibrate two surrogates: a plain one, and one that sees inputs with query noise. Without weights, they
are trained as the recipe says. With `--last-layer N` they are the base classifier with a new last layer. It
learns the published votes of the last N test inputs, which are then not judged. `--plain evidence` takes the
published predictions of the plain one, which is then not attacked.

All failures and attack radii come from one calibration each. The other test inputs are certified as they are,
and attacked. An attack is made once for each surrogate and radius. Fresh votes at the moved and at the
natural inputs judge all failures. `benchmarks/attacked_table.py` makes the page.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

import rrise
from attacked_subject import FAILURES, RADII, Row, Subject
from machine import hardware
from rrise.audit.attacks import ATTACKS
from rrise.audit.victim import Effort, Victim
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.defaults import DOUBT
from rrise.evaluation.measure.metrics import average_certified_radius, certified_accuracy
from rrise.files import write_json
from rrise.models.evaluating import evaluating
from rrise.statistics import clopper_pearson_upper
from rrise.votes.array import votes_for


def costs(subject: Subject, plain: dict[float, Certificates], noisy: Row) -> list[Row]:
    """Return what natural inputs get: certified accuracy and average length beyond each attack radius."""
    rows = []
    sigma = subject.recipe.votes.sigma
    for failure in FAILURES:
        exact = subject.monte_carlo(failure)
        mine = plain[failure]
        for radius in (0.0, *RADII):
            certified = (radius, failure) in noisy
            found = noisy[radius, failure].certify(subject.judged) if certified else None
            rows.append(
                {
                    "failure": failure,
                    "radius": radius,
                    "Monte Carlo": _beyond(exact, subject.labels, radius, sigma),
                    "without attack radius": _beyond(mine, subject.labels, radius, sigma),
                    "with attack radius": None
                    if found is None
                    else _beyond(found, subject.labels, 0.0, sigma),
                    "natural failure": float(noisy[radius, failure].calibration.natural_failure)
                    if certified
                    else None,
                }
            )
    return rows


def _beyond(found: Certificates, labels: NDArray[np.int64], radius: float, sigma: float) -> list[float]:
    """Return certified accuracy at a radius, and the average of what is certified beyond it, in sigma."""
    accuracy = float(certified_accuracy(found, labels, [radius])[0])
    shorter = replace(found, radius=np.maximum(found.radius - radius, 0.0))
    return [accuracy, average_certified_radius(shorter, labels) / sigma]


def attacked(
    subject: Subject,
    certifiers: dict[tuple[float, float], SurrogateCertifier],
    inputs: int,
    effort: Effort,
    votes: int,
) -> list[Row]:
    """Attack certifiers that share a surrogate, and judge what they certify."""
    rows, base, device = [], subject.base, next(subject.base.parameters()).device
    given = torch.from_numpy(subject.judged[:inputs])
    natural = _votes(subject, given, votes, "natural")
    for key, one in certifiers.items():
        rows.append(_judged(key, "natural", 0.0, one.certify(given), natural, natural, votes))
    radii = sorted({radius for radius, _ in certifiers} - {0.0}) or list(RADII)
    for radius in radii:
        mine = {key: one for key, one in certifiers.items() if key[0] in (radius, 0.0)}
        boldest = mine[max(mine, key=lambda key: key[1])]
        threshold = _threshold(boldest, given)
        for name, attack in ATTACKS.items():
            start = time.perf_counter()
            victim = Victim(boldest, base, boldest.network, threshold, torch.Generator().manual_seed(1))
            with evaluating(base):
                moved = attack.move(victim, given.to(device), radius, effort)
            there = _votes(subject, moved.inputs.cpu(), votes, f"{name}-{radius:g}")
            for key, one in mine.items():
                found = one.certify(moved.inputs.cpu())
                rows.append(_judged(key, name, radius, found, there, natural, votes))
            print(f"{name} at {radius:g}: {time.perf_counter() - start:.1f} s", rows[-1], flush=True)
    return rows


def _threshold(certifier: SurrogateCertifier, inputs: torch.Tensor) -> float:
    found = certifier.certify(inputs)
    assert found.probabilities is not None
    return float(found.probabilities.max(axis=1)[found.issued].min()) if found.issued.any() else 0.9


def _votes(subject: Subject, inputs: torch.Tensor, votes: int, name: str) -> NDArray[np.int64]:
    smoothing = subject.held_votes.smoothing
    assert smoothing is not None
    how: Row = {"sigma": smoothing.noise, "n": votes, "seed": 1, "split": f"attacked-{name}"}
    if next(subject.base.parameters()).is_cuda:
        how |= {"batch_size": 4096, "compiled": False}  # each call is short: no time for measurements
    return np.asarray(rrise.collect_votes(subject.base, inputs, precision=smoothing.precision, **how))


def _judged(  # noqa: PLR0917
    key: tuple[float, float],
    attack: str,
    radius: float,
    found: Certificates,
    there: NDArray[np.int64],
    natural: NDArray[np.int64],
    votes: int,
) -> Row:
    """Count certificates that fresh votes prove wrong: at the moved input, and before they were shortened."""
    upper, before = (
        clopper_pearson_upper(votes_for(counts, found.label), votes, DOUBT) for counts in (there, natural)
    )
    shift = key[0] / found.guarantee.smoothing.sigma
    longer = special.ndtr(special.ndtri(np.clip(found.lower_bound, 1e-12, 1 - 1e-16)) + shift)
    return {
        "attack_radius": key[0],
        "failure": key[1],
        "attack": attack,
        "radius": radius,
        "inputs": len(found),
        "issued": int(found.issued.sum()),
        "wrong": int((found.issued & (upper < found.lower_bound)).sum()),
        "wrong_before": int((found.issued & (before < longer)).sum()) if key[0] else None,
    }


def _attacks_of(former: Row) -> Row:
    """Return what an earlier result says of its attacks."""
    return {name: former[name] for name in ("attacks", "effort", "notes") if name in former}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subject", type=Path)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--plain", type=Path)
    parser.add_argument("--noisy", type=Path)
    parser.add_argument("--query-noise", type=float, default=0.25)
    parser.add_argument("--calibration", type=int, default=0)
    parser.add_argument("--last-layer", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=500)
    parser.add_argument("--votes", type=int, default=500)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--costs-only", action="store_true", help="keep the attacks that OUT has")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    size, last = options.calibration, options.last_layer
    subject = Subject.read(options.subject, options.data_root, size, last, device)
    noise = options.query_noise
    published = options.plain == Path("evidence")
    plain = {} if published else subject.certifiers(subject.surrogate(options.plain, 0.0), None)
    exact = {
        failure: subject.published(failure) if published else plain[0.0, failure].certify(subject.judged)
        for failure in FAILURES
    }
    noisy = subject.certifiers(subject.surrogate(options.noisy, noise), noise)
    machine = hardware(device.type)
    found: Row = {
        "dataset": subject.evidence.about["dataset"],
        "date": machine["date"],
        "hardware": machine,
        "sigma": subject.recipe.votes.sigma,
        "query_noise": noise,
        "calibration_inputs": len(subject.held),
        "judged_inputs": len(subject.judged),
        "effort": vars(options)
        | {"subject": None, "data_root": None, "plain": None, "noisy": None, "out": None},
        "costs": costs(subject, exact, noisy),
    }
    if last:
        found["notes"] = (
            "The surrogates are the base classifier with a new last layer, which learned the votes of "
            f"{last:,} other test images. Distilled surrogates certify more."
        )
    print(json.dumps(found["costs"], indent=1), flush=True)
    if options.costs_only:
        former = json.loads(options.out.read_text())
        write_json(options.out, {**former, **found, "attacked_on": former["hardware"]} | _attacks_of(former))
        return
    write_json(options.out, found)
    effort = Effort(options.steps, options.restarts, options.copies, options.queries)
    number = min(options.inputs, len(subject.judged))
    found["attacks"] = []
    for certifiers in filter(None, (noisy, plain)):
        found["attacks"] += attacked(subject, certifiers, number, effort, options.votes)
        write_json(options.out, found)


if __name__ == "__main__":
    main()
