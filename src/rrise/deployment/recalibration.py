"""A new certifier of the same surrogate, calibrated on the queries that a monitor has audited."""

import dataclasses
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.guarantee import surrogate_guarantee
from rrise.certifiers.surrogate import Certifier
from rrise.deployment.monitor_store import DONE, read_about, readable
from rrise.deployment.watched import certifier_identity
from rrise.errors import FolderError, InputError, MismatchError, SettingError
from rrise.files import Json
from rrise.statistics import fit_calibration, smallest_calibration_size


@dataclass(frozen=True, eq=False)
class AuditedQueries:
    """Queries whose votes a monitor has drawn, in the order in which they came.

    `about` says of which certifier, `top_probability` is the surrogate's, and `agreeing` counts the votes for
    its class.
    """

    about: Json
    time: NDArray[np.float64]
    top_probability: NDArray[np.float64]
    agreeing: NDArray[np.int64]


def read_audited(database: str | Path, since: float = 0.0) -> AuditedQueries:
    """Read the audits of queries that came at a time or later; the monitor may be running."""
    path = Path(database)
    if not path.is_file():
        raise FolderError(f"expected the database of a monitor at {path}, but there is none")
    address = f"{path.absolute().as_uri()}?mode=ro"
    with readable(path), closing(sqlite3.connect(address, uri=True)) as connection:
        about = read_about(connection, path)
        rows = connection.execute(
            "SELECT time, top_probability, agreeing FROM audits WHERE status = ? AND time >= ? "
            "ORDER BY number",
            (DONE, since),
        ).fetchall()
    time, top, agreeing = zip(*rows, strict=True) if rows else ((), (), ())
    return AuditedQueries(about, np.array(time), np.array(top), np.array(agreeing, dtype=np.int64))


def recalibrate(certifier: Certifier, audited: AuditedQueries) -> Certifier:
    """Calibrate a certifier's surrogate again, on audited queries, at the levels it had.

    Guarantee: as before, but for inputs exchangeable with the audited queries. These were picked at random
    among all queries; the promise is void for later queries that are of another kind again, and if the time
    from which on queries are taken was chosen by looking at their scores.
    """
    _check_belongs(certifier, audited.about)
    former = certifier.calibration
    needed = smallest_calibration_size(former.gamma)
    if len(audited.time) < needed:
        raise InputError(
            f"expected at least {needed} audited queries for a total failure of {float(former.failure):g}, "
            f"got {len(audited.time)}: wait for more, or audit a larger fraction"
        )
    calibration, evidence = fit_calibration(
        audited.top_probability,
        audited.agreeing,
        former.n,
        failure=former.failure,
        beta=former.beta,
        score=former.score,
    )
    source = f"queries audited from {_moment(audited.time.min())} to {_moment(audited.time.max())}"
    guarantee = surrogate_guarantee(calibration, evidence, certifier.smoothing, 0, source)
    return dataclasses.replace(certifier, calibration=calibration, evidence=evidence, guarantee=guarantee)


def recalibrate_folder(
    certifier: str | Path, database: str | Path, out: str | Path, since: str | None = None
) -> Certifier:
    """Write the certifier folder `out`: that of `certifier`, calibrated on what a monitor has audited.

    `since` is a time such as `2026-11-15` or `2026-11-15T08:00`, in UTC where it names no zone.
    """
    from rrise.certifiers.folder import load_certifier
    from rrise.deployment.exported_folder import is_exported

    if is_exported(Path(certifier)):
        raise MismatchError(
            f"{certifier} is an exported certifier, whose calibration is inside its graph: recalibrate works "
            f"on the certifier folder, with the database of a monitor that watched it in torch"
        )
    start = 0.0 if since is None else _seconds(since)
    new = recalibrate(load_certifier(certifier), read_audited(database, start))
    new.save(out)
    return new


def _check_belongs(certifier: Certifier, about: Json) -> None:
    """Refuse audits of another base classifier, number of votes, or calibrated surrogate."""
    for what, mine, theirs in (
        ("base classifier", certifier.smoothing.base, about.get("base_classifier")),
        ("number of votes", certifier.calibration.n, about.get("votes")),
        ("calibrated surrogate", certifier_identity(certifier), about.get("certifier")),
    ):
        if mine != theirs:
            raise MismatchError(
                f"the certifier and the monitor's database do not belong together: {what} "
                f"{str(mine)[:12]} here, {str(theirs)[:12]} there"
            )


def _seconds(since: str) -> float:
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise SettingError(f"expected a time such as 2026-11-15 or 2026-11-15T08:00, got {since!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
