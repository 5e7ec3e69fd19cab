"""A calibration in a folder: its numbers as JSON, its evidence as Parquet, and the check that both agree."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rrise.certifiers.guarantee import Guarantee
from rrise.certifiers.with_votes import QueryEvidence
from rrise.errors import FolderError
from rrise.files import Json, write_table
from rrise.statistics import (
    PAPER,
    Calibration,
    CalibrationEvidence,
    Promise,
    Threat,
    as_promise,
    as_rule,
    exact_level,
    level_text,
    refit_calibration,
    score_by_name,
)
from rrise.votes.smoothing import Smoothing

_COLUMNS = ("top_probability", "agreeing_votes", "lower_bound", "score")
_LABEL = "label"


def calibration_to_json(calibration: Calibration) -> Json:
    """Return the numbers of a calibration as JSON.

    Offset, rank and size are lists if there are groups. What the paper's calibration does not have is left
    out for it, as in version 0.1.
    """
    sure, groups = calibration.confidence, calibration.groups
    numbers = {
        "score": calibration.score.name,
        "offset": calibration.offset if groups is None else list(calibration.offsets),
        "rank": calibration.rank if groups is None else list(calibration.ranks),
        "size": calibration.size if groups is None else list(calibration.sizes),
        "n": calibration.n,
        "beta": level_text(calibration.beta),
        "gamma": level_text(calibration.gamma),
    }
    if (calibration.rule, calibration.promise, groups) == (PAPER, Promise.MARGINAL, None):
        return numbers
    return {
        **numbers,
        "rule": calibration.rule.name,
        "promise": calibration.promise.value,
        "confidence": None if sure is None else level_text(sure),
        "groups": None if groups is None else list(groups),
        **({} if calibration.threat is None else {"threat": dict(vars(calibration.threat))}),
    }


def calibration_from_json(value: Json) -> Calibration:
    """Read the numbers back."""
    sure, groups = value.get("confidence"), value.get("groups")
    offset, rank, size = (
        [value[name]] if groups is None else value[name] for name in ("offset", "rank", "size")
    )
    return Calibration(
        score=score_by_name(str(value["score"])),
        offsets=tuple(map(float, offset)),
        ranks=tuple(map(int, rank)),
        sizes=tuple(map(int, size)),
        n=int(value["n"]),
        beta=exact_level(value["beta"], "beta"),
        gamma=exact_level(value["gamma"], "gamma"),
        rule=as_rule(str(value.get("rule", PAPER.name))),
        promise=as_promise(str(value.get("promise", Promise.MARGINAL.value))),
        confidence=None if sure is None else exact_level(sure, "confidence"),
        groups=None if groups is None else tuple(map(int, groups)),
        threat=None if value.get("threat") is None else Threat(**value["threat"]),
    )


def check_calibration(calibration: Calibration, evidence: CalibrationEvidence, folder: Path) -> None:
    """Refuse a calibration whose offset, rank or size does not follow from its evidence."""
    again, _ = refit_calibration(calibration, evidence.top_probability, evidence.agreeing, evidence.label)
    same = replace(again, offsets=calibration.offsets) == calibration
    if not same or not np.allclose(again.offsets, calibration.offsets, rtol=1e-9, atol=1e-11):
        raise FolderError(
            f"{folder} contradicts itself: expected the offset {_listed(again.offsets)} at rank "
            f"{_listed(again.ranks)} from its {_listed(again.sizes)} calibration inputs, got "
            f"{_listed(calibration.offsets)} at rank {_listed(calibration.ranks)} of "
            f"{_listed(calibration.sizes)}"
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
    table = dict(zip(_COLUMNS, columns, strict=True))
    write_table(path, pa.table(table if evidence.label is None else {**table, _LABEL: evidence.label}))


def load_evidence(path: Path) -> CalibrationEvidence:
    """Read the evidence back; a damaged file raises a `FolderError`."""
    try:
        table = pq.read_table(path)
        known = _LABEL in table.column_names
        columns = [table.column(name).to_numpy() for name in (*_COLUMNS, *((_LABEL,) if known else ()))]
    except (OSError, pa.ArrowException, KeyError) as error:
        raise FolderError(f"{path} is damaged: it is not a readable Parquet file ({error})") from None
    return CalibrationEvidence(*columns)


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(map(repr, values))


def save_query(query: QueryEvidence, path: Path) -> None:
    """Write the query votes of the calibration inputs: two columns per number of votes."""
    columns = {}
    for m in query.stops:
        columns[f"query_{m}"] = query.agreeing[m]
        columns[f"reference_{m}_of_{query.n[m]}"] = query.reference[m]
    write_table(path, pa.table(columns))


def load_query(path: Path, calibration: Calibration, evidence: CalibrationEvidence) -> QueryEvidence:
    """Read query votes back; refuse votes that do not divide those of the calibration."""
    try:
        table = pq.read_table(path)
        agreeing, reference, n = {}, {}, {}
        for name in table.column_names:
            kind, number, *of = name.split("_")
            values = table.column(name).to_numpy()
            if kind == "query":
                agreeing[int(number)] = values
            else:
                reference[int(number)], n[int(number)] = values, int(of[1])
    except (OSError, pa.ArrowException, ValueError, IndexError, KeyError) as error:
        raise FolderError(f"{path} is damaged: it does not hold query votes ({error})") from None
    stops = sorted(agreeing)
    counts = np.stack([np.zeros_like(evidence.agreeing), *(agreeing[m] for m in stops)])
    steps = np.diff([0, *stops])[:, None]
    if len(reference) != len(stops) or np.any(np.diff(counts, axis=0) < 0):
        raise FolderError(f"{path} contradicts itself: query votes do not grow with their number")
    if np.any(np.diff(counts, axis=0) > steps):
        raise FolderError(f"{path} contradicts itself: more query votes agree than there are")
    for m, first in agreeing.items():
        taken_out = (n[m] + m, first + reference[m])
        apart = (n[m], reference[m])
        if not any(
            number == calibration.n and np.array_equal(votes, evidence.agreeing)
            for number, votes in (taken_out, apart)
        ):
            raise FolderError(f"{path} contradicts the calibration: its votes are not those of the evidence")
    return QueryEvidence(agreeing, reference, n)
