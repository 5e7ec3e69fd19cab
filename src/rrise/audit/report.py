"""The folder of an audit: `audit.json`, `audit.md`, a figure, and images of the worst cases."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rrise.audit.attacks import ATTACKS
from rrise.audit.figure import attack_figure
from rrise.audit.findings import Audit, Finding, Worst
from rrise.certifiers.guarantee import Kind
from rrise.defaults import DOUBT
from rrise.evaluation.report.images import png_bytes
from rrise.files import new_folder, write_bytes, write_json, write_text

JSON, TABLE, FIGURE = "audit.json", "audit.md", "attacks"
HEADINGS = (
    "attack",
    "radius",
    "issued",
    "label changed",
    "wrong, of all inputs",
    "wrong, of issued",
    "above",
    "wrong before",
    "promised",
)
_ENLARGED, _GAP, _GREY = 128, 8, 128


def write_audit(folder: Path, audit: Audit, input_range: tuple[float, float] | None) -> None:
    """Write everything about an audit to a new folder, or replace an earlier one."""
    with new_folder(folder) as made:
        write_audit_files(made, audit, input_range)


def write_audit_files(folder: Path, audit: Audit, input_range: tuple[float, float] | None) -> None:
    """Write everything about an audit into an empty folder."""
    write_json(folder / JSON, audit.to_json())
    write_text(folder / TABLE, audit_text(audit))
    drawing = attack_figure(audit)
    write_bytes(folder / f"{FIGURE}.png", drawing.png())
    write_text(folder / f"{FIGURE}.svg", drawing.svg())
    if input_range is not None:
        _write_worst(folder, audit, input_range)


def _write_worst(folder: Path, audit: Audit, input_range: tuple[float, float]) -> None:
    """Write natural and moved input of the worst wrong certificates, if they are pictures."""
    for finding in audit.findings:
        for case in finding.worst:
            picture = _pair(case, input_range) if case.wrong else None
            if picture is not None:
                place = folder / picture_name(finding.attack, finding.radius, case.input)
                place.parent.mkdir(exist_ok=True)
                write_bytes(place, png_bytes(picture))


def picture_name(attack: str, radius: float, place: int) -> str:
    """Return where an audit keeps the picture of a wrong certificate, in its folder."""
    return f"worst/{attack}-{radius:g}-input-{place}.png"


def audit_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return the rows of the table, as texts."""
    return [
        (
            finding.attack,
            f"{finding.radius:g}",
            f"{finding.issued} of {finding.inputs}",
            str(finding.changed),
            _share(finding.wrong, finding.failure),
            _share(finding.wrong, finding.failure_of_issued),
            str(finding.above),
            "–" if finding.wrong_before is None else str(finding.wrong_before),
            _promised(audit, finding),
        )
        for finding in audit.findings
    ]


def verdict(audit: Audit) -> str:
    """Say in one sentence or two what the attacks reached."""
    if audit.promised is None:
        return "This certifier promises nothing."
    failure = f"{100 * audit.promised:g} %"
    if (worst := audit.exceeding(covered=True)) is not None:
        return f"Exceeded: {_wrong(audit, worst)}; {_PROMISED[audit.kind].format(failure=failure)}."
    if (worst := audit.exceeding(covered=False)) is not None:
        words = _wrong(audit, worst)
        return f"{words[0].upper()}{words[1:]}. The failure of {failure} is promised {_limits(audit)}."
    return f"No attack is proved to exceed the promised failure of {failure}."


_PROMISED = {
    Kind.PER_INPUT: "at most {failure} is promised for each input",
    Kind.MARGINAL: "{failure} is promised on average over calibration sets, so this set may be unlucky",
    Kind.PAC: "at most {failure} is promised, for all but a few calibration sets (its confidence)",
    Kind.ISSUED: "at most {failure} of them is promised, for all but a few calibration sets (its confidence)",
}


def _wrong(audit: Audit, worst: Finding) -> str:
    where = f"under the attack {worst.attack} at radius {worst.radius:g}" if worst.radius else "unattacked"
    wrong, of = audit.share(worst)
    who = "issued certificates are wrong" if audit.kind is Kind.ISSUED else "inputs get a wrong certificate"
    return f"{where}, {100 * wrong / of:.1f} % of the {who}"


def _limits(audit: Audit) -> str:
    """Say for which inputs the failure is promised."""
    if audit.kind is Kind.PER_INPUT:
        return "for one certificate of each input, not for the best of several"
    if audit.attack_radius == 0 and audit.tries == 1:
        return "only for inputs that nobody chose"
    tries = "one try" if audit.tries == 1 else f"{audit.tries} tries"
    return f"only for inputs moved by at most {audit.attack_radius:g}, and for {tries}"


def _promised(audit: Audit, finding: Finding) -> str:
    if audit.promised is None or not audit.covers(finding):
        return "nothing"
    return f"{100 * audit.promised:g} %"


def audit_text(audit: Audit) -> str:
    """Return the audit as Markdown."""
    rows = ["| " + " | ".join(row) + " |" for row in (HEADINGS, *audit_rows(audit))]
    rows.insert(1, "|---|" + "---:|" * (len(HEADINGS) - 1))
    attacks = dict.fromkeys(finding.attack for finding in audit.findings if finding.radius)
    lines = [
        "# Audit",
        "",
        f"`{audit.certifier}`",
        "",
        audit.promise,
        "",
        f"**{verdict(audit)}**",
        "",
        *rows,
        "",
        columns_text(audit.votes),
        "",
        *(f"- `{name}`: {ATTACKS[name].about}" for name in attacks),
    ]
    if audit.left_out:
        lines += ["", f"Left out, because they need gradients of the surrogate: {', '.join(audit.left_out)}."]
    return "\n".join([*lines, "", f"![wrong certificates by attack and radius]({FIGURE}.png)", ""])


def columns_text(votes: int) -> str:
    """Say what the columns mean, as Markdown."""
    return (
        f"*Wrong*: even the upper bound of {votes:,} fresh votes, at failure {DOUBT:g}, is below the "
        f"certified bound. *Above*: the bound is above the share of these votes. *Wrong before*: the bound, "
        f"before it was shortened by the attack radius, is wrong at the natural input; the promise is proved "
        f"for this. Intervals are at 95 %."
    )


def _share(count: int, interval: tuple[float, float, float]) -> str:
    share, low, high = (100 * part for part in interval)
    return f"{count} = {share:.1f} % ({low:.1f} to {high:.1f} %)"


def _pair(case: Worst, input_range: tuple[float, float]) -> NDArray[np.uint8] | None:
    """Return natural and moved input side by side, enlarged; None if they are no pictures."""
    shape = case.natural.shape
    if len(shape) != 3 or shape[0] not in (1, 3):
        return None
    low, high = input_range
    times = max(1, _ENLARGED // shape[1])
    levels = (
        np.round(255 * np.clip((image - low) / (high - low), 0, 1)).astype(np.uint8)
        for image in (case.natural, case.moved)
    )
    natural, moved = (image.repeat(times, axis=1).repeat(times, axis=2) for image in levels)
    between = np.full((shape[0], natural.shape[1], _GAP), _GREY, dtype=np.uint8)
    return np.concatenate([natural, between, moved], axis=2)
