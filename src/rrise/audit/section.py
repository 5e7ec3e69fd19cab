"""An audit as a section of a run's report."""

import base64
from pathlib import Path

from rrise.audit.attacks import ATTACKS
from rrise.audit.findings import Audit
from rrise.audit.report import FIGURE, HEADINGS, JSON, audit_rows, columns_text, picture_name, verdict
from rrise.evaluation.report.shown import Attacked, WrongCase
from rrise.files import read_json

_PICTURES = 8


def attacked_section(folder: Path, class_names: tuple[str, ...]) -> Attacked:
    """Read the folder of an audit, and return what a report shows of it."""
    stored = read_json(folder / JSON)
    audit = Audit.from_json(stored)
    attacks = dict.fromkeys(finding.attack for finding in audit.findings if finding.radius)
    cases = [
        WrongCase(
            base64.b64encode(picture.read_bytes()).decode(),
            f"{finding['attack']}, moved by at most {finding['radius']:g}",
            class_names[case["natural_label"]],
            class_names[case["label"]],
            case["lower_bound"],
            case["share"],
        )
        for finding in stored["findings"]
        for case in finding["worst"]
        if (picture := folder / picture_name(finding["attack"], finding["radius"], case["input"])).is_file()
    ]
    worst_first = sorted(cases, key=lambda case: case.share - case.lower_bound)
    return Attacked(
        verdict(audit),
        HEADINGS,
        tuple(audit_rows(audit)),
        (columns_text(audit.votes).replace("*", ""), _effort(audit), _left_out(audit)),
        {name: ATTACKS[name].about for name in attacks if name in ATTACKS},
        (folder / f"{FIGURE}.svg").read_text(encoding="utf-8"),
        tuple(worst_first[:_PICTURES]),
    )


def _effort(audit: Audit) -> str:
    effort = audit.effort
    return (
        f"{effort.steps} gradient steps from each of {effort.restarts} starts, {effort.copies} noisy copies "
        f"at each step; without gradients, {effort.queries} queries for each input. A stronger attack may "
        f"exist: an audit can break a promise, not prove one."
    )


def _left_out(audit: Audit) -> str:
    if not audit.left_out:
        return ""
    return f"Left out, because they need gradients of the surrogate: {', '.join(audit.left_out)}."
