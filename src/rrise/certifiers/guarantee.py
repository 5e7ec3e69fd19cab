"""What a certificate promises, as data; `guarantee_words` writes it in sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rrise.errors import FolderError, MismatchError
from rrise.files import Json, sha256_of_json
from rrise.statistics import (
    FLOORED,
    PAPER,
    Calibration,
    CalibrationEvidence,
    Promise,
    Threat,
    exact_level,
    level_text,
)
from rrise.votes.smoothing import Smoothing

if TYPE_CHECKING:
    from rrise.certifiers.guarantee_words import GuaranteeWords

FORMAT = 2


class Kind(StrEnum):
    """What the probability of a wrong certificate is taken over.

    The first three are those of a calibrated surrogate, named as in `rrise.statistics.Promise`.
    """

    MARGINAL = "marginal"
    """Calibration inputs, new input and noise together."""
    PAC = "pac"
    """New input and noise, given the calibration set; it holds with a confidence over that set."""
    ISSUED = "issued"
    """New inputs with an issued radius, given the calibration set, with a confidence over that set."""
    PER_INPUT = "per-input"
    """The noise alone, for each input, whatever it is."""
    NONE = "none"
    """Nothing is promised."""


class Assumption(StrEnum):
    """What a promise assumes."""

    FRESH_NOISE = "fresh-noise"
    """The noise is drawn afresh and independently of the input."""
    EXCHANGEABLE = "exchangeable"
    """The new input is exchangeable with the calibration inputs."""
    INDEPENDENT = "independent"
    """Calibration inputs and new inputs are independent draws of one distribution."""
    INDEPENDENT_VOTES = "independent-votes"
    """The votes of different calibration inputs come from independent noise."""
    HELD_OUT = "held-out"
    """Calibration inputs and the noise of their votes had no part in training."""
    CHOSEN_BLINDLY = "chosen-blindly"
    """The calibration inputs were chosen without looking at their scores."""
    SAME_FORM = "same-form"
    """The surrogate runs in the form in which it was calibrated."""
    SECRET_NOISE = "secret-noise"
    """Nobody knows the noise of a query before the query is in."""
    MOVED_INPUTS = "moved-inputs"
    """An attacker moves new inputs as they arrive, within a radius, and has a number of tries."""
    OTHER_DEVICE = "other-device"
    """The surrogate computes on another device what it was calibrated with, as its probe tells."""


@dataclass(frozen=True)
class CalibrationFacts:
    """The calibration behind a promise.

    `seen_in_training` counts calibration inputs that the surrogate was trained on; None if unknown. `source`
    names the calibration inputs if they are not simply held-out data. `rule` names the calibration rule.
    `confidence` is that over the calibration set, None for a marginal promise. `groups` is the group of each
    class, if each group has a promise of its own. `threat` is what may happen to inputs before they are
    certified, and `natural_failure` the failure if it does not happen.
    """

    score: str
    beta: Fraction
    gamma: Fraction
    inputs: int
    votes: int
    issued_share: float
    seen_in_training: int | None = None
    source: str | None = None
    rule: str = PAPER.name
    confidence: Fraction | None = None
    groups: tuple[int, ...] | None = None
    threat: Threat | None = None
    natural_failure: Fraction | None = None


@dataclass(frozen=True)
class FormFacts:
    """The form in which an exported surrogate runs.

    `range_inputs` counts the inputs that chose the int8 ranges, and `ranges_from` names them.
    """

    runtime: str
    numbers: str
    range_inputs: int | None = None
    ranges_from: str | None = None


@dataclass(frozen=True)
class Guarantee:
    """What is promised, with which failure, under which assumptions; every certificate carries one.

    Attributes:
        method: the method that promises, such as `sequential`.
        kind: what the probability is taken over.
        failure: the promised bound on the probability that a radius is issued and wrong, or for the kind
            `issued` on the share of wrong ones among issued radii; None: no promise.
        smoothing: the smoothed classifier that the promise is about.
        assumptions: the conditions of the promise.
        nominal: the failure at which bounds are computed, if the promised one differs or there is none.
        calibration: the calibration behind the promise, if there is one.
        form: the form in which an exported surrogate runs.
        settings: the settings of the method, such as its votes.

    Example:
        >>> import torch, rrise
        >>> method = rrise.MonteCarlo(200, failure=0.01)
        >>> certifier = method.bind(torch.nn.Linear(4, 3), sigma=0.25, input_shape=(4,))
        >>> certifier.guarantee.failure_text, certifier.guarantee.kind.value
        ('0.01', 'per-input')
    """

    method: str
    kind: Kind
    failure: Fraction | None
    smoothing: Smoothing
    assumptions: tuple[Assumption, ...] = ()
    nominal: Fraction | None = None
    calibration: CalibrationFacts | None = None
    form: FormFacts | None = None
    settings: Mapping[str, int | float | str | None] = field(default_factory=dict, hash=False)

    @property
    def level(self) -> float:
        """`1 - failure`, or 0 if nothing is promised; kept for programs of version 0.1: use `failure`."""
        return 0.0 if self.failure is None else float(1 - self.failure)

    @property
    def failure_text(self) -> str:
        """The promised failure as a decimal, or `none`."""
        return "none" if self.failure is None else level_text(self.failure)

    @property
    def words(self) -> "GuaranteeWords":
        """The promise in sentences."""
        from rrise.certifiers.guarantee_words import words_of

        return words_of(self)

    @property
    def id(self) -> str:
        """A short name of exactly this guarantee; it depends on the facts, not on the words."""
        return sha256_of_json(self.facts())[:12]

    def facts(self) -> Json:
        """Return the fields as JSON."""
        calibration, form = self.calibration, self.form
        return {
            "method": self.method,
            "kind": self.kind.value,
            "failure": None if self.failure is None else level_text(self.failure),
            "nominal_failure": None if self.nominal is None else level_text(self.nominal),
            "norm": self.smoothing.noise.norm,
            "smoothing": self.smoothing.to_json(),
            "assumptions": [assumption.value for assumption in self.assumptions],
            "calibration": None if calibration is None else _calibration_to_json(calibration),
            "form": None if form is None else dict(vars(form)),
            "settings": dict(self.settings),
        }

    def to_json(self) -> Json:
        """Return the facts and the words as JSON, for files and HTTP responses."""
        return {
            "format": FORMAT,
            "id": self.id,
            "failure": self.failure_text,
            **self.words.to_json(),
            "facts": self.facts(),
        }

    @classmethod
    def from_json(cls, value: Json, smoothing: Smoothing) -> "Guarantee":
        """Read the facts back, also in the form of version 0.1; `smoothing` is what its file states."""
        if value.get("format") != FORMAT:
            from rrise.certifiers.guarantee_0_1 import read_guarantee

            return read_guarantee(value, smoothing)
        facts = value["facts"]
        if value["id"] != sha256_of_json(facts)[:12]:
            raise FolderError("a guarantee contradicts itself: its id is not that of its facts")
        calibration, form = facts["calibration"], facts["form"]
        found = cls(
            method=facts["method"],
            kind=Kind(facts["kind"]),
            failure=None if facts["failure"] is None else exact_level(facts["failure"], "failure"),
            smoothing=Smoothing.from_json(facts["smoothing"]),
            assumptions=tuple(Assumption(name) for name in facts["assumptions"]),
            nominal=None
            if facts["nominal_failure"] is None
            else exact_level(facts["nominal_failure"], "nominal_failure"),
            calibration=None if calibration is None else _calibration_from_json(calibration),
            form=None if form is None else FormFacts(**form),
            settings=facts["settings"],
        )
        if found.smoothing != smoothing:
            raise FolderError("a guarantee is of another smoothed classifier than its file")
        if (value["failure"], facts["norm"]) != (found.failure_text, smoothing.noise.norm):
            raise FolderError("a guarantee contradicts itself: its failure or norm is not that of its facts")
        return found

    def __str__(self) -> str:
        return str(self.words)


def surrogate_guarantee(
    calibration: Calibration,
    evidence: CalibrationEvidence,
    smoothing: Smoothing,
    seen_in_training: int | None,
    *,
    source: str | None = None,
    form: FormFacts | None = None,
    method: str = "surrogate",
    more: tuple[Assumption, ...] = (),
    settings: Mapping[str, int | float | None] | None = None,
) -> Guarantee:
    """Return the guarantee of a calibrated surrogate; `docs/guarantee.md` proves it."""
    bound = calibration.lower_bound(evidence.top_probability, evidence.label)
    assumptions = [Assumption.EXCHANGEABLE, Assumption.HELD_OUT]
    if calibration.promise is not Promise.MARGINAL:
        assumptions.append(Assumption.INDEPENDENT)
    if calibration.rule is FLOORED:
        assumptions.append(Assumption.INDEPENDENT_VOTES)
    if source is not None:
        assumptions.append(Assumption.CHOSEN_BLINDLY)
    if form is not None:
        assumptions.append(Assumption.SAME_FORM)
    if (threat := calibration.threat) is not None:
        if threat.sigma != smoothing.sigma:
            raise MismatchError(
                f"expected an attack radius for votes with sigma {smoothing.sigma:g}, got one for "
                f"{threat.sigma:g}"
            )
        assumptions.append(Assumption.SECRET_NOISE)
        if threat.matters:
            assumptions.append(Assumption.MOVED_INPUTS)
    facts = CalibrationFacts(
        calibration.score.name,
        calibration.beta,
        calibration.gamma,
        calibration.size,
        calibration.n,
        float((bound > 0.5).mean()),
        seen_in_training,
        source,
        calibration.rule.name,
        calibration.confidence,
        calibration.groups,
        threat,
        None if threat is None else calibration.natural_failure,
    )
    return Guarantee(
        method,
        Kind(calibration.promise.value),
        calibration.failure,
        smoothing,
        (*assumptions, *more),
        calibration=facts,
        form=form,
        settings=settings or {},
    )


def per_input_guarantee(
    method: str, failure: Fraction, smoothing: Smoothing, **settings: int | float | None
) -> Guarantee:
    """Return the guarantee of a method that draws fresh noise for each input, and whose promise holds."""
    return Guarantee(method, Kind.PER_INPUT, failure, smoothing, (Assumption.FRESH_NOISE,), settings=settings)


def no_guarantee(
    method: str, smoothing: Smoothing, nominal: Fraction | None = None, **settings: int | float | None
) -> Guarantee:
    """Return a guarantee that promises nothing; bounds are still computed at the failure `nominal`."""
    return Guarantee(method, Kind.NONE, None, smoothing, nominal=nominal, settings=settings)


def _calibration_to_json(facts: CalibrationFacts) -> Json:
    """Return the facts; those that the paper's rule does not have are left out, as in all earlier files."""
    sure = facts.confidence
    more: Json = {
        "rule": facts.rule,
        "confidence": None if sure is None else level_text(sure),
        "groups": None if facts.groups is None else list(facts.groups),
    }
    if (facts.rule, sure, facts.groups) == (PAPER.name, None, None):
        more = {}
    if facts.threat is not None and facts.natural_failure is not None:
        more |= {"threat": dict(vars(facts.threat)), "natural_failure": level_text(facts.natural_failure)}
    known = {name: value for name, value in vars(facts).items() if name not in _ADDED}
    return {**known, "beta": level_text(facts.beta), "gamma": level_text(facts.gamma), **more}


def _calibration_from_json(value: Json) -> CalibrationFacts:
    read: dict[str, Any] = {name: exact_level(value[name], name) for name in ("beta", "gamma")}
    if value.get("confidence") is not None:
        read["confidence"] = exact_level(value["confidence"], "confidence")
    if value.get("groups") is not None:
        read["groups"] = tuple(value["groups"])
    if value.get("threat") is not None:
        read["threat"] = Threat(**value["threat"])
        read["natural_failure"] = exact_level(value["natural_failure"], "natural_failure")
    return CalibrationFacts(**{**value, **read})


_ADDED = ("rule", "confidence", "groups", "threat", "natural_failure")
