"""A calibration in a folder: its numbers as JSON, its evidence as Parquet, and the check that both agree."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rrise.certifiers.guarantee import Guarantee
from rrise.errors import FolderError
from rrise.files import Json, write_table
from rrise.statistics import (
    Calibration,
    CalibrationEvidence,
    exact_level,
    level_text,
    refit_calibration,
    score_by_name,
)
from rrise.votes.smoothing import Smoothing

_COLUMNS = ("top_probability", "agreeing_votes", "lower_bound", "score")


def calibration_to_json(calibration: Calibration) -> Json:
    """Return the numbers of a calibration as JSON."""
    return {
        "score": calibration.score.name,
        "offset": calibration.offset,
        "rank": calibration.rank,
        "size": calibration.size,
        "n": calibration.n,
        "beta": level_text(calibration.beta),
        "gamma": level_text(calibration.gamma),
    }


def calibration_from_json(value: Json) -> Calibration:
    """Read the numbers back."""
    return Calibration(
        score=score_by_name(str(value["score"])),
        offset=float(value["offset"]),
        rank=int(value["rank"]),
        size=int(value["size"]),
        n=int(value["n"]),
        beta=exact_level(value["beta"], "beta"),
        gamma=exact_level(value["gamma"], "gamma"),
    )


def check_calibration(calibration: Calibration, evidence: CalibrationEvidence, folder: Path) -> None:
    """Refuse a calibration whose offset, rank or size does not follow from its evidence."""
    again, _ = refit_calibration(calibration, evidence.top_probability, evidence.agreeing)
    same_offset = np.isclose(again.offset, calibration.offset, rtol=1e-9, atol=1e-12)
    if not same_offset or (again.rank, again.size) != (calibration.rank, calibration.size):
        raise FolderError(
            f"{folder} contradicts itself: expected the offset {again.offset!r} at rank {again.rank} from "
            f"its {again.size} calibration inputs, got {calibration.offset!r} at rank {calibration.rank} of "
            f"{calibration.size}"
        )


def stored_guarantee(value: Json, smoothing: Smoothing, folder: Path) -> Guarantee:
    """Read the guarantee in a folder's manifest; one that contradicts itself or the folder is refused."""
    try:
        return Guarantee.from_json(value, smoothing)
    except FolderError as error:
        raise FolderError(f"{folder}: {error}") from None


def save_evidence(evidence: CalibrationEvidence, path: Path) -> None:
    """Write the data that the offset was computed from, one row per calibration input."""
    columns = (evidence.top_probability, evidence.agreeing, evidence.lower, evidence.score)
    write_table(path, pa.table(dict(zip(_COLUMNS, columns, strict=True))))


def load_evidence(path: Path) -> CalibrationEvidence:
    """Read the evidence back; a damaged file raises a `FolderError`."""
    try:
        table = pq.read_table(path)
        columns = [table.column(name).to_numpy() for name in _COLUMNS]
    except (OSError, pa.ArrowException, KeyError) as error:
        raise FolderError(f"{path} is damaged: it is not a readable Parquet file ({error})") from None
    return CalibrationEvidence(*columns)
