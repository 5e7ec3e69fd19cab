"""A new certifier of the same surrogate, calibrated on the queries that a monitor has audited."""

import dataclasses
import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.guarantee import surrogate_guarantee
from rrise.certifiers.surrogate import SurrogateCertifier, on_device
from rrise.deployment.export.bound_table import BoundTable, is_issued
from rrise.deployment.export.exported import ExportedCertifier, ExportProbe
from rrise.deployment.monitor.database import check_pages, read_about, readable
from rrise.deployment.monitor.store import DONE
from rrise.deployment.monitor.subject import certifier_identity
from rrise.errors import FolderError, InputError, MismatchError, SettingError
from rrise.files import Json
from rrise.statistics import Calibration, CalibrationEvidence, refit_calibration, terms_of
from rrise.statistics.martingales import ConformalMartingale

CHANGING = 0.01
"""Probability of refusing queries that are exchangeable among themselves."""
_REFERENCE = 1 / 3
"""The share of audited queries, from the start, that the others are compared with."""


@dataclass(frozen=True, eq=False)
class AuditedQueries:
    """Queries whose votes a monitor has drawn, in order of arrival.

    `about` identifies the certifier. `top_probability` is the surrogate's, and `agreeing` counts the votes
    for its class. `distinct` counts the different inputs. `alarm` is the time of the alarm, None if there
    was none. `dropped` counts the audits that were dropped in all, because too many waited.
    """

    about: Json
    time: NDArray[np.float64]
    top_probability: NDArray[np.float64]
    agreeing: NDArray[np.int64]
    label: NDArray[np.int64]
    score: NDArray[np.float64]
    distinct: int
    alarm: float | None
    dropped: int = 0


def read_audited(database: str | Path, since: float = 0.0) -> AuditedQueries:
    """Read the audits of queries from a time on; the monitor may be running."""
    path = Path(database)
    if not path.is_file():
        raise FolderError(f"expected the database of a monitor at {path}, but there is none")
    address = f"{path.absolute().as_uri()}?mode=ro"
    with readable(path), closing(sqlite3.connect(address, uri=True)) as connection:
        check_pages(connection, path)
        about = read_about(connection, path)
        rows = connection.execute(
            "SELECT time, top_probability, agreeing, label, score, digest FROM audits "
            "WHERE status = ? AND time >= ? ORDER BY number",
            (DONE, since),
        ).fetchall()
        (alarm,) = connection.execute("SELECT min(alarm_time) FROM tests").fetchone()
        (dropped,) = connection.execute("SELECT value FROM counters WHERE name = 'dropped'").fetchone()
        time, top, agreeing, label, score, digest = zip(*rows, strict=True) if rows else ((),) * 6
        return AuditedQueries(
            about,
            np.array(time, dtype=np.float64),
            np.array(top, dtype=np.float64),
            np.array(agreeing, dtype=np.int64),
            np.array(label, dtype=np.int64),
            np.array(score, dtype=np.float64),
            len(set(digest)),
            None if alarm is None else float(alarm),
            int(dropped),
        )


def recalibrate(
    certifier: SurrogateCertifier, audited: AuditedQueries, *, unattacked: bool = False
) -> SurrogateCertifier:
    """Recalibrate a certifier's surrogate on audited queries, on the same terms.

    Guarantee: as before, but for inputs exchangeable with the audited queries. These are a random sample of
    all queries, unless the monitor dropped audits because too many waited: then busy times count for less,
    and the guarantee names the number. The promise is void for later queries of yet another kind. It is also
    void if the queries, or their number, were chosen by looking at their scores. A certifier with query noise
    also needs queries that nobody moved: `unattacked` says so.
    """
    calibration, evidence, source = _fitted(certifier, audited, unattacked)
    guarantee = surrogate_guarantee(calibration, evidence, certifier.smoothing, None, source=source)
    return dataclasses.replace(
        certifier,
        calibration=calibration,
        evidence=evidence,
        guarantee=on_device(guarantee, certifier.network),
        query=None,
        held_out=None,
    )


def recalibrate_exported(
    folder: Path, audited: AuditedQueries, out: Path, *, unattacked: bool = False
) -> ExportedCertifier:
    """Write an exported certifier with the same surrogate, recalibrated as `recalibrate` does.

    The queries were audited in the exported form, so the guarantee is about that form.
    """
    from rrise.deployment.export.folder import load_exported, load_graph, save_exported
    from rrise.deployment.export.graph import opset_of, with_certificates, without_certificates
    from rrise.deployment.export.runtimes import open_model

    former = load_exported(folder)
    calibration, evidence, source = _fitted(former, audited, unattacked)
    export = dataclasses.replace(
        former.export, calibration=calibration, evidence=evidence, seen_in_training=None, source=source
    )
    noise = export.smoothing.noise
    table = BoundTable.of(calibration, noise)
    surrogate = without_certificates(load_graph(folder))
    noisy = calibration.threat is not None
    model = with_certificates(surrogate, export.smoothing.input_range, table, export.identity, noisy=noisy)
    content = model.SerializeToString()
    inputs = former.probe_inputs
    probe = ExportProbe(inputs, dict(open_model(export.form, content).run(inputs)))
    top = audited.top_probability.astype(np.float32)
    cost = {
        "calibration_inputs": len(top),
        "former": _summary(BoundTable.of(former.calibration, noise), top, audited.label),
        "exported": _summary(table, top, audited.label),
    }
    save_exported(out, export, content, probe, {"opset": opset_of(model), "cost": cost})
    return load_exported(out)


def recalibrate_folder(
    certifier: str | Path,
    database: str | Path,
    out: str | Path,
    since: str | None = None,
    *,
    unattacked: bool = False,
) -> SurrogateCertifier | ExportedCertifier:
    """Recalibrate the folder `certifier` on the queries that a monitor has audited, and write `out`.

    The certifier may be exported; `out` then is too. `since` is a time such as `2026-11-15` or
    `2026-11-15T08:00`, in UTC unless it names a zone. It is required after an alarm. `unattacked` says that
    nobody moved the audited queries; a certifier with an attack radius needs it.
    """
    from rrise.certifiers.folder import load_certifier
    from rrise.deployment.export.folder import is_exported

    if Path(out).resolve() == Path(certifier).resolve():
        raise SettingError(
            f"expected another folder than {certifier} to write to: the watched certifier stays as it is"
        )
    audited = read_audited(database, 0.0 if since is None else _seconds(since))
    if since is None and audited.alarm is not None:
        raise SettingError(
            f"the monitor raised an alarm at {_moment(audited.alarm)}: do not mix queries from before and "
            f"after the change. Pass --since with the time from which to use queries"
        )
    if is_exported(Path(certifier)):
        return recalibrate_exported(Path(certifier), audited, Path(out), unattacked=unattacked)
    new = recalibrate(load_certifier(certifier), audited, unattacked=unattacked)
    new.save(out)
    return new


def _fitted(
    certifier: SurrogateCertifier | ExportedCertifier, audited: AuditedQueries, unattacked: bool
) -> tuple[Calibration, CalibrationEvidence, str]:
    """Fit the calibration and describe its inputs; refuse queries that cannot support the promise."""
    _check_belongs(certifier, audited.about)
    former = certifier.calibration
    if former.threat is not None and not unattacked:
        raise SettingError(
            "a certifier with query noise, for an attack radius, must be calibrated on inputs that nobody "
            "moved, and queries may have been moved: pass --unattacked (unattacked=True) if these were not"
        )
    needed = terms_of(former).smallest_size
    if audited.distinct < needed:
        raise InputError(
            f"expected at least {needed} different audited queries for a total failure of "
            f"{float(former.failure):g}, got {audited.distinct} among {len(audited.time)}: wait for more, or "
            f"audit a larger fraction"
        )
    _check_alike(audited)
    calibration, evidence = refit_calibration(
        former, audited.top_probability, audited.agreeing, audited.label
    )
    times = f"from {_moment(audited.time.min())} to {_moment(audited.time.max())}"
    dropped = f"; {audited.dropped} audits were dropped at busy times" if audited.dropped else ""
    return calibration, evidence, f"queries audited {times}, {audited.distinct} of them different{dropped}"


def _check_alike(audited: AuditedQueries) -> None:
    """Refuse queries whose scores changed over time: later queries would not resemble all of them."""
    first = max(1, round(_REFERENCE * len(audited.score)))
    end, _ = ConformalMartingale.start(audited.score[:first], "real", seed=0).bet(audited.score[first:])
    if end.largest >= math.log(1 / CHANGING):
        raise InputError(
            "the audited queries changed over time, so later queries may not resemble all of them: use "
            "queries from a later time on (--since)"
        )


def _check_belongs(certifier: SurrogateCertifier | ExportedCertifier, about: Json) -> None:
    """Refuse audits of another base classifier, number of votes, or calibrated surrogate."""
    for what, mine, theirs in (
        ("base classifier", certifier.smoothing.base, about.get("base_classifier")),
        ("number of votes", certifier.calibration.n, about.get("votes")),
        ("calibrated surrogate", certifier_identity(certifier), about.get("certifier")),
    ):
        if mine != theirs:
            raise MismatchError(
                f"the certifier and the monitor's database do not belong together: {what} {str(mine)[:12]} "
                f"of the certifier, {str(theirs)[:12]} in the database; pass the certifier in the form that "
                f"the monitor watched, exported or not"
            )


def _summary(table: BoundTable, top: NDArray[np.float32], label: NDArray[np.int64]) -> Json:
    bound, radius = table.look_up(top, label)
    issued = float(is_issued(bound).mean())
    return {"issued_share": issued, "mean_radius": float(radius.mean(dtype=np.float64))}


def _seconds(since: str) -> float:
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise SettingError(f"expected a time such as 2026-11-15 or 2026-11-15T08:00, got {since!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
