"""Guarantees as version 0.1 wrote them: sentences, and numbers in a dictionary."""

from rrise.certifiers.guarantee import Assumption, CalibrationFacts, FormFacts, Guarantee, Kind
from rrise.data.inputs import describe_range
from rrise.errors import FolderError
from rrise.files import Json
from rrise.statistics import exact_level
from rrise.votes.smoothing import Smoothing

_METHODS = {
    "monte-carlo, one-stage": "monte-carlo-one-stage",
    "early-stopping, not valid under optional stopping": "early-stopping",
}
_OF_SMOOTHING = ("sigma", "norm", "input_range", "base_classifier", "precision")
_OF_CALIBRATION = (
    "score",
    "beta",
    "gamma",
    "calibration_inputs",
    "calibration_votes",
    "calibration_inputs_seen_in_training",
    "issued_share_of_calibration_inputs",
    "calibration_inputs_are",
    "form",
    "ranges",
)


def read_guarantee(value: Json, smoothing: Smoothing) -> Guarantee:
    """Return the facts of a guarantee of version 0.1; refuse one of another smoothed classifier."""
    numbers = value["numbers"]
    _check_smoothing(numbers, smoothing)
    failure = None if value["failure"] == "none" else exact_level(value["failure"], "failure")
    nominal = numbers.get("nominal_failure")
    settings = {
        name: number
        for name, number in numbers.items()
        if name not in (*_OF_SMOOTHING, *_OF_CALIBRATION, "nominal_failure")
    }
    calibration, form = _calibration(numbers), _form(numbers)
    if calibration is not None:
        kind, assumptions = Kind.MARGINAL, [Assumption.EXCHANGEABLE, Assumption.HELD_OUT]
        assumptions += [Assumption.CHOSEN_BLINDLY] if calibration.source is not None else []
        assumptions += [Assumption.SAME_FORM] if form is not None else []
    elif failure is None:
        kind, assumptions = Kind.NONE, []
    else:
        kind, assumptions = Kind.PER_INPUT, [Assumption.FRESH_NOISE]
    return Guarantee(
        method=_METHODS.get(str(value["method"]), str(value["method"])),
        kind=kind,
        failure=failure,
        smoothing=smoothing,
        assumptions=tuple(assumptions),
        nominal=None if nominal is None else exact_level(nominal, "nominal_failure"),
        calibration=calibration,
        form=form,
        settings=settings,
    )


def _check_smoothing(numbers: Json, smoothing: Smoothing) -> None:
    said = {
        "sigma": smoothing.sigma,
        "norm": smoothing.noise.norm,
        "input_range": describe_range(smoothing.input_range),
        "base_classifier": smoothing.base,
        "precision": smoothing.precision,
    }
    for name, wanted in said.items():
        if numbers[name] != wanted:
            raise FolderError(
                f"a guarantee contradicts its file: {name} is {numbers[name]!r} in the guarantee and "
                f"{wanted!r} in the file"
            )


def _calibration(numbers: Json) -> CalibrationFacts | None:
    if "calibration_inputs" not in numbers:
        return None
    seen = numbers["calibration_inputs_seen_in_training"]
    return CalibrationFacts(
        score=str(numbers["score"]),
        beta=exact_level(numbers["beta"], "beta"),
        gamma=exact_level(numbers["gamma"], "gamma"),
        inputs=int(numbers["calibration_inputs"]),
        votes=int(numbers["calibration_votes"]),
        issued_share=float(numbers["issued_share_of_calibration_inputs"]),
        seen_in_training=None if seen is None else int(seen),
        source=numbers.get("calibration_inputs_are"),
    )


def _form(numbers: Json) -> FormFacts | None:
    if "form" not in numbers:
        return None
    runtime, _, kind = str(numbers["form"]).partition("-")
    ranges = numbers["ranges"] or {}
    return FormFacts(runtime, kind, ranges.get("inputs"), ranges.get("from"))
