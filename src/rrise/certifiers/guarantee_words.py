"""Guarantees in sentences: the only place that words a promise."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from rrise.certifiers.guarantee import Assumption, CalibrationFacts, FormFacts, Guarantee, Kind
from rrise.files import Json
from rrise.statistics import PAPER, Threat, exactly, format_up, level_text

WRONG = "the smoothed classifier does not answer the label, or its answer changes within the {norm} radius"
ABOUT_THE_TRUTH = (
    "that the label is the true class. A certificate is about the smoothed classifier, not about the truth."
)
CASCADE = "cascade"
"""The method whose issued share is not that of its first certifier."""
EACH_INPUT = "the same failure for each single input."
NOT_ISSUED = "anything about inputs for which the certifier abstains: their bounds are reported as 0."
BEST_OF_SEVERAL = "this failure for the best of several certificates of one input."


@dataclass(frozen=True)
class GuaranteeWords:
    """What is promised (`promise`), under which `assumptions`, and what is `not_promised`."""

    promise: str
    assumptions: tuple[str, ...]
    not_promised: tuple[str, ...]

    def to_json(self) -> Json:
        """Return the sentences as JSON."""
        return {
            "promise": self.promise,
            "assumptions": list(self.assumptions),
            "not_promised": list(self.not_promised),
        }

    def __str__(self) -> str:
        lines = [self.promise, *(f"Assumed: {text}" for text in self.assumptions)]
        return "\n".join([*lines, *(f"Not promised: {text}" for text in self.not_promised)])


@dataclass(frozen=True)
class MethodWords:
    """The words of one method: a sentence after its promise, and one about its nominal failure."""

    why: str = ""
    nominal: str = ""


METHOD_WORDS: dict[str, MethodWords] = {}
"""The words of each method, by the name in its guarantees."""


def register_words(method: str, *, why: str = "", nominal: str = "") -> None:
    """Add the words of one method; `nominal` may contain `{nominal}`."""
    METHOD_WORDS[method] = MethodWords(why, nominal)


def words_of(guarantee: Guarantee) -> GuaranteeWords:
    """Write a guarantee in sentences."""
    own = METHOD_WORDS.get(guarantee.method, MethodWords())
    return GuaranteeWords(
        _promise(guarantee, own),
        tuple(_assumption(guarantee, assumption) for assumption in guarantee.assumptions),
        _not_promised(guarantee, own),
    )


def _promise(guarantee: Guarantee, own: MethodWords) -> str:
    wrong = WRONG.format(norm=guarantee.smoothing.noise.norm)
    failure = guarantee.failure_text
    if guarantee.kind is Kind.NONE:
        parts = ["Nothing is promised.", own.why, f"A radius may be wrong at any rate. Wrong means: {wrong}."]
    elif guarantee.kind is Kind.PER_INPUT:
        twice = (
            ""
            if guarantee.nominal is None
            else f" This is twice the nominal {level_text(guarantee.nominal)}."
        )
        parts = [
            f"For each input, whatever it is, the probability of issuing a wrong radius is at most {failure}."
            f"{twice} The probability is over the noise.",
            f"Wrong means: {wrong}.",
            own.why,
        ]
    else:
        promised, over = _calibrated(guarantee)
        parts = [promised, f"Wrong means: {wrong}.", over, _per_group(guarantee), own.why]
    return " ".join(part for part in parts if part)


def _calibrated(guarantee: Guarantee) -> tuple[str, str]:
    """Return what a calibrated surrogate promises, and what the probability is over."""
    failure = guarantee.failure_text
    attacked, noise = _attacked(guarantee), _noise(guarantee)
    if guarantee.kind is Kind.MARGINAL:
        return (
            f"The probability of issuing a wrong radius is at most {failure}{attacked}",
            f"The probability is over the calibration inputs, the new input and {noise} together (marginal).",
        )
    confidence = _calibration_of(guarantee).confidence
    assert confidence is not None
    sure = (
        f"This holds with confidence {level_text(confidence)} over the calibration inputs and the noise of "
        f"their votes{'' if _calibration_of(guarantee).threat is None else ' and queries'}"
    )
    if guarantee.kind is Kind.PAC:
        return (
            f"The probability of issuing a wrong radius for a new input is at most {failure}{attacked}",
            f"{sure} (PAC).",
        )
    return (f"Among issued radii, the probability of a wrong one is at most {failure}.", f"{sure}.")


def _attacked(guarantee: Guarantee) -> str:
    """End the sentence of the promise; say what holds for moved inputs, and what for others."""
    facts = _calibration_of(guarantee)
    if facts.threat is None or facts.natural_failure is None or not facts.threat.matters:
        return "."
    tries = "" if facts.threat.tries == 1 else f", for the best of {facts.threat.tries} tries"
    moved = (
        f" even if somebody moved the input by up to {exactly(facts.threat.radius)} before it was certified"
    )
    natural = "" if guarantee.method == CASCADE else _natural(facts.natural_failure)
    return f",{moved if facts.threat.radius > 0 else ''}{tries}.{natural}".replace(",,", ",")


def _natural(failure: Fraction) -> str:
    return f" For an input that nobody moved, one try fails with probability at most {_up(failure)}."


def _up(failure: Fraction) -> str:
    return format_up(float(failure), 6).rstrip("0")


def _noise(guarantee: Guarantee) -> str:
    more = "" if _calibration_of(guarantee).threat is None else " and of the query"
    return f"the noise of the votes{more}"


def _per_group(guarantee: Guarantee) -> str:
    facts = _calibration_of(guarantee)
    if facts.groups is None:
        return ""
    number = max(facts.groups) + 1
    which = "class" if number == len(facts.groups) else f"of {number} groups of classes"
    joint = "" if facts.confidence is None else " The confidence is for all of them together."
    return f"The promise holds for each {which} that the surrogate answers, separately.{joint}"


def _assumption(guarantee: Guarantee, assumption: Assumption) -> str:
    written: dict[Assumption, Callable[[Guarantee], str]] = {
        Assumption.FRESH_NOISE: lambda _: "the noise is drawn afresh and independently of the input.",
        Assumption.EXCHANGEABLE: _exchangeable,
        Assumption.INDEPENDENT: lambda _: (
            "calibration inputs and new inputs are independent draws from one distribution."
        ),
        Assumption.INDEPENDENT_VOTES: lambda _: (
            "the votes of different calibration inputs come from independent noise."
        ),
        Assumption.HELD_OUT: lambda given: _held_out(_calibration_of(given)),
        Assumption.CHOSEN_BLINDLY: lambda _: (
            "nobody looked at scores or votes to decide which calibration inputs to take, or how many."
        ),
        Assumption.SAME_FORM: lambda given: _same_form(given.form),
        Assumption.SECRET_NOISE: lambda _: (
            "the certifier draws new noise for each query, and nobody knows it before the query is in."
        ),
        Assumption.MOVED_INPUTS: lambda given: _moved_inputs(_threat_of(given)),
        Assumption.OTHER_DEVICE: lambda given: _other_device(given.form),
    }
    return written[assumption](guarantee)


def _exchangeable(guarantee: Guarantee) -> str:
    source = _calibration_of(guarantee).source
    which = "" if source is None else f" The calibration inputs are {source}."
    threat = _calibration_of(guarantee).threat
    drawn = "the input" if threat is None or threat.radius == 0 else "the input, before anybody moved it,"
    return (
        f"{drawn} is exchangeable with the calibration inputs: it is drawn in the same way, and nobody "
        f"chose it after looking at the surrogate.{which}"
    )


def _moved_inputs(threat: Threat) -> str:
    tries = "one certificate" if threat.tries == 1 else f"up to {threat.tries} certificates"
    return (
        f"an attacker moves new inputs as they arrive, by at most {exactly(threat.radius)} in L2, and asks "
        f"for {tries} for each. The attacker does not choose which inputs arrive. Nobody moved the "
        f"calibration inputs."
    )


def _held_out(facts: CalibrationFacts) -> str:
    words = "the calibration inputs and the noise of their votes had no part in training."
    if facts.seen_in_training:
        return (
            f"{words} {facts.seen_in_training} of {facts.inputs} calibration inputs equal training inputs; "
            f"this was explicitly allowed."
        )
    if facts.seen_in_training is None:
        return f"{words} Whether some of them equal training inputs is not known."
    return words


def _same_form(form: FormFacts | None) -> str:
    assert form is not None
    words = f"the exported surrogate runs in {form.runtime} as {form.numbers}: the form that was calibrated."
    if form.range_inputs is None:
        return words
    return (
        f"{words} Its int8 ranges come from {form.range_inputs} {form.ranges_from}. These had no part in "
        f"fitting the offset."
    )


def _other_device(form: FormFacts | None) -> str:
    assert form is not None
    return (
        f"the surrogate computes in {form.runtime} what it was calibrated with on a CPU, up to rounding. A "
        f"probe of a few inputs checked this."
    )


def _not_promised(guarantee: Guarantee, own: MethodWords) -> tuple[str, ...]:
    nominal = "" if guarantee.nominal is None else own.nominal.format(nominal=level_text(guarantee.nominal))
    if guarantee.calibration is not None:
        return (
            _against_attacks(guarantee.calibration.threat),
            EACH_INPUT if guarantee.kind is Kind.ISSUED else _among_issued(guarantee),
            *((NOT_ISSUED,) if guarantee.calibration.rule != PAPER.name else ()),
            *((BEST_OF_SEVERAL,) if _has_its_own_noise(guarantee) else ()),
            ABOUT_THE_TRUTH,
        )
    several = BEST_OF_SEVERAL if guarantee.kind is Kind.PER_INPUT and not nominal else ""
    return tuple(text for text in (nominal, several, ABOUT_THE_TRUTH) if text)


def _has_its_own_noise(guarantee: Guarantee) -> bool:
    """Whether the same input gets other certificates each time, and nothing is said of several tries."""
    threat = _calibration_of(guarantee).threat
    if threat is not None:
        return not threat.matters
    return Assumption.FRESH_NOISE in guarantee.assumptions


def _against_attacks(threat: Threat | None) -> str:
    if threat is None or threat.radius == 0:
        often = (
            "" if threat is None or threat.tries == 1 else f" or asked about more than {threat.tries} times,"
        )
        which = (
            f"for attacked inputs,{often} or after a shift of the data"
            if often
            else ("for attacked inputs or after a shift of the data")
        )
    else:
        which = (
            f"for inputs that were moved by more than {exactly(threat.radius)}, chosen freely or asked about "
            f"more often, or after a shift of the data"
        )
    return f"anything {which}. Monte Carlo certificates do not have this weakness."


def _threat_of(guarantee: Guarantee) -> Threat:
    threat = _calibration_of(guarantee).threat
    assert threat is not None
    return threat


def _among_issued(guarantee: Guarantee) -> str:
    failure, share = guarantee.failure, _calibration_of(guarantee).issued_share
    words = (
        "the same failure for each single input, or among issued certificates alone. Among these, the share "
        f"of wrong ones may be as large as {guarantee.failure_text} / P[issued]"
    )
    threat = _calibration_of(guarantee).threat
    attacked = threat is not None and threat.radius > 0  # an attacker changes which ones are issued
    if share <= 0 or failure is None or attacked or guarantee.method == CASCADE:
        return f"{words}."
    among = min(1.0, float(failure) / share)
    return f"{words} (about {format_up(among, 3)} at the issued share of the calibration inputs)."


def _calibration_of(guarantee: Guarantee) -> CalibrationFacts:
    assert guarantee.calibration is not None
    return guarantee.calibration
