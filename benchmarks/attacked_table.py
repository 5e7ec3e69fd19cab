"""The page about attack radii: what they cost, and what attacks reach.

    python benchmarks/attacked_table.py digits.json fashion-mnist.json > attacked.md

The files are those that `benchmarks/attacked.py` stored.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rrise.audit.attacks import ATTACKS
from rrise.audit.findings import NATURAL
from rrise.statistics import clopper_pearson_lower, clopper_pearson_upper

Row = dict[str, Any]
TITLE = """# What an attack radius costs, and whether attacks break it

Measured by `benchmarks/attacked.py`. A certifier with an attack radius promises its failure for inputs that
somebody moved by at most that radius before they were certified. [Who attacks what](../../docs/attacks.md)
explains attacks and promises.
"""
COSTS = """
### Cost
Certified accuracy at the attack radius, and the average radius beyond it in units of sigma, on natural
inputs.
"""
FOUND = """
### Attacks
Inputs whose certificate is proved wrong by fresh votes. In brackets: inputs whose bound, before it was
shortened by the attack radius, is wrong at the natural input. That is the larger event, for which the promise
is proved. The last column is the largest share of a row, with its 95 % interval.
"""


def page(places: list[Path]) -> str:
    """Write the stored results as Markdown."""
    return TITLE + "".join(_section(json.loads(place.read_text())) for place in places)


def _section(found: Row) -> str:
    effort, machine = found["effort"], found["hardware"]
    where = machine.get("gpu") or f"{machine['cores']} cores of {machine['cpu']}"
    lines = [
        "",
        f"## {found['dataset']}, query noise {found['query_noise']:g}",
        f"{found['date']} on {where}. {found['calibration_inputs']:,} inputs calibrate, "
        f"{found['judged_inputs']:,} others are judged, at sigma {found['sigma']:g}. "
        f"{found.get('notes', '')}".rstrip(),
        COSTS,
        "| promised failure | attack radius | Monte Carlo | no attack radius: nothing promised under attack "
        "| with attack radius | share of Monte Carlo | calibrated at |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        *map(_cost, found["costs"]),
        FOUND,
        f"{effort['votes']:,} fresh votes judge each input. Attacks with gradients take {effort['steps']} "
        f"steps with {effort['copies']} noisy copies, from {effort['restarts']} "
        f"start{'s' * (effort['restarts'] > 1)}; `queries` takes {effort['queries']} queries.",
        "",
        "| attack radius | promised failure | moved by | inputs | "
        + " | ".join([NATURAL, *ATTACKS])
        + " | largest share |",
        "|---:|---:|---:|---:|" + "---:|" * (len(ATTACKS) + 2),
        *_attacks(found["attacks"]),
    ]
    return "\n".join(lines) + "\n"


def _cost(row: Row) -> str:
    mine, exact = row["with attack radius"], row["Monte Carlo"]
    if row["radius"] == 0:
        rest = ["–"] * 3
    elif mine is None:
        rest = ["too few calibration inputs", "–", "–"]
    else:
        rest = [_pair(mine), f"{mine[0] / exact[0]:.3f}", f"{row['natural failure']:.5f}"]
    plain = _pair(row["without attack radius"])
    return _line([f"{row['failure']:g}", f"{row['radius']:g}", _pair(exact), plain, *rest])


def _pair(numbers: list[float]) -> str:
    return f"{numbers[0]:.3f} / {numbers[1]:.3f}"


def _attacks(rows: list[Row]) -> list[str]:
    """Return a line for each certifier and radius of attacks."""
    moved: dict[tuple[float, float, float], dict[str, Row]] = {
        (row["attack_radius"], row["failure"], row["radius"]): {} for row in rows if row["radius"]
    }
    for row in rows:
        for (own, failure, radius), found in moved.items():
            if (own, failure) == (row["attack_radius"], row["failure"]) and row["radius"] in (radius, 0.0):
                found[row["attack"]] = row
    return [
        _line(
            [
                f"{own:g}" if own else "none",
                f"{failure:g}",
                f"{radius:g}",
                str(found[NATURAL]["inputs"]),
                *(_count(found[name]) if name in found else "–" for name in (NATURAL, *ATTACKS)),
                _share(max(found.values(), key=lambda row: row["wrong"])),
            ]
        )
        for (own, failure, radius), found in moved.items()
    ]


def _count(row: Row) -> str:
    before = row["wrong_before"]
    return str(row["wrong"]) + ("" if before is None else f" ({before})")


def _share(row: Row) -> str:
    low, high = (
        100 * float(bound(row["wrong"], row["inputs"], 0.025))
        for bound in (clopper_pearson_lower, clopper_pearson_upper)
    )
    return f"{100 * row['wrong'] / row['inputs']:.1f} % ({low:.1f} to {high:.1f} %)"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path)
    print(page(parser.parse_args().results), end="")
