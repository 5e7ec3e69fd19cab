"""The audit of a run: its certifier under attack, on some of its test inputs."""

from pathlib import Path

from torch import nn

from rrise.audit.attacks import ATTACKS
from rrise.audit.auditing import audit, radii_of
from rrise.audit.report import write_audit_files
from rrise.audit.section import attacked_section
from rrise.audit.victim import Effort
from rrise.certifiers.folder import MANIFEST as CERTIFIER
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.evaluation.report.shown import Attacked
from rrise.files import Json, sha256_of_file
from rrise.models.fingerprint import fingerprint
from rrise.progress import progress_bar
from rrise.runs.run import Run
from rrise.seeds import derive_seed

STEP = "audit"


def attacked(run: Run, base: nn.Module, certifier: SurrogateCertifier) -> Attacked | None:
    """Attack the certifier unless that is up to date, and return what the report shows; None if not asked."""
    s = run.recipe.audit
    if s.inputs == 0:
        return None

    def make(folder: Path) -> Json:
        total = 1 + len(ATTACKS) * len(radii_of(certifier, s.radii))
        with progress_bar(run.console, "attacks on test inputs", total, "attacks") as advance:
            found = audit(
                certifier,
                base,
                run.data.values("test")[: s.inputs],
                radii=s.radii,
                votes=s.votes,
                effort=Effort(s.steps, s.restarts, queries=s.queries),
                seed=derive_seed(run.recipe.votes.seed, STEP),
                on_progress=advance,
            )
        write_audit_files(folder, found, certifier.smoothing.input_range)
        return {}

    inputs = {
        "base": fingerprint(base),
        "certifier": sha256_of_file(run.folder / "certifier" / CERTIFIER),
        "attacks": list(ATTACKS),
        "settings": vars(s),
        **run.made_from("test"),
    }
    run.step(STEP, inputs, make)
    return attacked_section(run.folder / STEP, run.data.class_names)
