"""Evidence in a folder: two Parquet files, a row for each input, and JSON about them."""

import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee
from rrise.certifiers.predictions import Predictions
from rrise.errors import FolderError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.methods import SurrogateEvidence
from rrise.evaluation.measure.outcomes import MethodSetting, Offline, Outcome
from rrise.evaluation.measure.pass_time import PassTime
from rrise.files import (
    Json,
    as_written,
    check_files,
    read_signed_json,
    sha256_of_file,
    write_bytes,
    write_signed_json,
)
from rrise.votes.array import Votes
from rrise.votes.smoothing import Smoothing

EVIDENCE, REPORTED, CALIBRATION = "evidence.json", "reported.parquet", "calibration.parquet"
_FORMAT = 1


def write_evidence(folder: Path, evidence: Evidence) -> None:
    """Write evidence into an existing folder."""
    reported: dict[str, Any] = {
        "index": evidence.indices.astype(np.int32),
        "true_label": _small(evidence.labels),
        "calibrated_on": evidence.calibrated_on,
        "votes": _lists(evidence.reference),
    }
    calibration: dict[str, Any] = {"votes": _lists(evidence.calibration_votes)}
    calibration |= {f"votes {n}": _lists(votes) for n, votes in evidence.fewer_votes.items()}
    for n, (tests, held) in evidence.query.items():
        reported[f"query votes {n}"], calibration[f"query votes {n}"] = _lists(tests), _lists(held)
    for one in evidence.surrogates:
        for columns, predictions in ((reported, one.test), (calibration, one.calibration)):
            columns[f"{one.variant} label"] = _small(predictions.label)
            columns[f"{one.variant} top_probability"] = predictions.top_probability.astype(np.float32)
    for place, outcome in enumerate(evidence.voting):
        found = outcome.certificates
        reported[f"{place} label"] = _small(found.label)
        reported[f"{place} lower_bound"] = found.lower_bound.astype(np.float32)
        reported[f"{place} passes"] = _small(found.passes)
    for name, columns in ((REPORTED, reported), (CALIBRATION, calibration)):
        write_bytes(folder / name, _parquet(columns))
    assert evidence.reference.smoothing is not None
    about = {
        "format": _FORMAT,
        "about": evidence.about,
        "smoothing": evidence.reference.smoothing.to_json(),
        "seconds": {name: found.to_json() for name, found in evidence.pass_times.items()},
        "fewer_votes": list(evidence.fewer_votes),
        "query_votes": list(evidence.query),
        "surrogates": [_about_surrogate(one) for one in evidence.surrogates],
        "voting": [
            {**asdict(outcome.setting), "guarantee": outcome.certificates.guarantee.to_json()}
            for outcome in evidence.voting
        ],
        "files": {name: sha256_of_file(folder / name) for name in (REPORTED, CALIBRATION)},
    }
    write_signed_json(folder / EVIDENCE, about)


def read_evidence(folder: Path) -> Evidence:
    """Read what `write_evidence` wrote; a changed or missing file is a `FolderError` that names it."""
    found = read_signed_json(folder / EVIDENCE)
    if found.get("format") != _FORMAT:
        raise FolderError(
            f"the evidence in {folder} has format {found.get('format')!r}, and this version reads {_FORMAT}"
        )
    with as_written(folder / EVIDENCE):
        check_files(folder, found["files"], EVIDENCE)
        return _evidence(folder, found)


def _evidence(folder: Path, found: Json) -> Evidence:
    reported, calibration = (pq.read_table(folder / name) for name in (REPORTED, CALIBRATION))
    smoothing = Smoothing.from_json(found["smoothing"])
    return Evidence(
        about=found["about"],
        indices=_column(reported, "index"),
        labels=_column(reported, "true_label"),
        calibrated_on=reported.column("calibrated_on").to_numpy(),
        reference=_votes(reported, smoothing),
        voting=tuple(_voting(reported, place, one, smoothing) for place, one in enumerate(found["voting"])),
        surrogates=tuple(_surrogate(reported, calibration, one) for one in found["surrogates"]),
        calibration_votes=_votes(calibration, smoothing),
        fewer_votes={n: _votes(calibration, smoothing, f"votes {n}") for n in found["fewer_votes"]},
        pass_times={name: PassTime.from_json(value) for name, value in found["seconds"].items()},
        query={
            n: (
                _votes(reported, smoothing, f"query votes {n}"),
                _votes(calibration, smoothing, f"query votes {n}"),
            )
            for n in found.get("query_votes", ())
        },
    )


def _about_surrogate(one: SurrogateEvidence) -> Json:
    names = ("method", "variant", "budget", "seen_in_training")
    return {**{name: getattr(one, name) for name in names}, "offline": asdict(one.offline)}


def _surrogate(reported: pa.Table, calibration: pa.Table, about: Json) -> SurrogateEvidence:
    test, calibrated = (
        Predictions(
            _column(table, f"{about['variant']} label"),
            table.column(f"{about['variant']} top_probability").to_numpy().astype(np.float64),
        )
        for table in (reported, calibration)
    )
    return SurrogateEvidence(
        about["method"],
        about["variant"],
        about["budget"],
        test,
        calibrated,
        Offline(**about["offline"]),
        about["seen_in_training"],
    )


def _voting(table: pa.Table, place: int, about: Json, smoothing: Smoothing) -> Outcome:
    setting = {name: value for name, value in about.items() if name != "guarantee"}
    certificates = Certificates.from_bound(
        _column(table, f"{place} label"),
        table.column(f"{place} lower_bound").to_numpy().astype(np.float64),
        guarantee=Guarantee.from_json(about["guarantee"], smoothing),
        passes=_column(table, f"{place} passes"),
    )
    return Outcome(MethodSetting(**setting), certificates)


def _small(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the smallest type that holds them all."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _lists(votes: Votes) -> pa.Array:
    flat = pa.array(_small(np.asarray(votes)).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, votes.shape[1])


def _votes(table: pa.Table, smoothing: Smoothing, name: str = "votes") -> Votes:
    column = table.column(name).combine_chunks()
    counts = column.flatten().to_numpy().reshape(len(column), -1)
    return Votes(counts.astype(np.int64), smoothing)


def _column(table: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(table.column(name).to_numpy(), dtype=np.int64)


def _parquet(columns: Mapping[str, Any]) -> bytes:
    """Return a Parquet file as small as it gets, the same bytes for the same columns."""
    table = pa.table(dict(columns))
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    file = io.BytesIO()
    pq.write_table(
        table,
        file,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in table.schema.names if name.endswith(("label", "passes"))],
        use_byte_stream_split=floats,
        write_page_checksum=True,
    )
    return file.getvalue()
