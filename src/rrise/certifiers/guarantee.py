"""What a certificate promises, in words and numbers."""

from dataclasses import asdict, dataclass, field
from fractions import Fraction

from rrise.data.inputs import describe_range
from rrise.files import Json, sha256_of_json
from rrise.statistics import Calibration, CalibrationEvidence, exact_level, format_up, level_text
from rrise.votes.array import Smoothing


@dataclass(frozen=True)
class Guarantee:
    """What is promised, at which level, under which assumption; travels with every certificate.

    `failure` is the promised bound on the probability of a wrong certificate, or `none` where there is no
    such promise; `promise` says of what and over what, `assumptions` when it holds, and `not_promised` what
    must not be read into it.
    """

    method: str
    failure: str
    promise: str
    assumptions: tuple[str, ...]
    not_promised: tuple[str, ...]
    numbers: Json = field(hash=False)

    @property
    def level(self) -> float:
        """The promised confidence, `1 - failure`; 0 where nothing is promised."""
        return 0.0 if self.failure == NONE else float(1 - exact_level(self.failure, "failure"))

    @property
    def id(self) -> str:
        """A short name of exactly this guarantee."""
        return sha256_of_json(self.to_json())[:12]

    def to_json(self) -> Json:
        """Return the fields as JSON."""
        return {
            **asdict(self),
            "assumptions": list(self.assumptions),
            "not_promised": list(self.not_promised),
        }

    @classmethod
    def from_json(cls, value: Json) -> "Guarantee":
        """Read the fields back."""
        lists = {name: tuple(value[name]) for name in ("assumptions", "not_promised")}
        return cls(**{**value, **lists})

    def __str__(self) -> str:
        lines = [self.promise, *(f"Assumed: {text}" for text in self.assumptions)]
        return "\n".join([*lines, *(f"Not promised: {text}" for text in self.not_promised)])


NONE = "none"
"""The failure of a guarantee that promises nothing."""
WRONG = (
    "the smoothed classifier's answer is not the label, or changes somewhere within that L2 distance of the "
    "input"
)
FRESH_NOISE = "the noise is drawn afresh and independently of the input."
BEST_OF_SEVERAL = "the same level for the best of several certificates of one input, each with its own noise."
ABOUT_THE_TRUTH = "that the label is the true class: certificates are about the smoothed classifier."


def surrogate_guarantee(
    calibration: Calibration,
    evidence: CalibrationEvidence,
    smoothing: Smoothing,
    seen_in_training: int | None,
    source: str | None = None,
) -> Guarantee:
    """State the guarantee of a calibrated surrogate (Proposition 1 and Corollary 1 of the paper).

    `seen_in_training` is how many of the calibration inputs the surrogate was trained on, None where that is
    not known; `source` says what these inputs are, where they are not simply held-out data.
    """
    issued_share = float((calibration.lower_bound(evidence.top_probability) > 0.5).mean())
    held_out = "the calibration inputs and the noise of their votes had no part in training."
    if seen_in_training:
        held_out += (
            f" {seen_in_training} of {calibration.size} calibration inputs equal training inputs, which was "
            f"explicitly allowed."
        )
    elif seen_in_training is None:
        held_out += " Whether some of them equal training inputs is not known."
    failure = level_text(calibration.failure)
    which = "" if source is None else f", which are {source}"
    chosen = "which of them to take, and how many, was decided without looking at their scores or votes."
    return Guarantee(
        method="surrogate",
        failure=failure,
        promise=(
            f"With probability at most {failure} a radius is issued and wrong, that is: {WRONG}. "
            f"The probability is over the calibration inputs, the new input and the noise of the votes "
            f"together (marginal)."
        ),
        assumptions=(
            f"the input is exchangeable with the calibration inputs{which}: drawn in the same way, and not "
            f"chosen after looking at the surrogate.",
            held_out,
            *(() if source is None else (chosen,)),
        ),
        not_promised=(
            "anything for attacked inputs or after a shift of the data; Monte Carlo certificates do not have "
            "this weakness.",
            f"the same level for each single input, or among issued certificates alone: there the share of "
            f"wrong ones may be as large as {failure} / P[issued]{_among_issued(calibration, issued_share)}.",
            ABOUT_THE_TRUTH,
        ),
        numbers={
            **smoothing_numbers(smoothing),
            "score": calibration.score,
            "beta": level_text(calibration.beta),
            "gamma": level_text(calibration.gamma),
            "calibration_inputs": calibration.size,
            "calibration_votes": calibration.n,
            "calibration_inputs_seen_in_training": seen_in_training,
            "issued_share_of_calibration_inputs": issued_share,
            **({} if source is None else {"calibration_inputs_are": source}),
        },
    )


def monte_carlo_guarantee(alpha: Fraction, n: int, selection_n: int, smoothing: Smoothing) -> Guarantee:
    """State the guarantee of fixed-budget Monte Carlo certification (Cohen et al., 2019)."""
    numbers = {"votes": n, "selection_votes": selection_n}
    return per_input_guarantee("monte-carlo", alpha, smoothing, numbers)


def per_input_guarantee(
    method: str, alpha: Fraction, smoothing: Smoothing, numbers: Json, why: str = ""
) -> Guarantee:
    """State the guarantee of a method that spends fresh noise on each input, and whose level holds.

    `why` is a sentence more, where a method needs one.
    """
    failure = level_text(alpha)
    promise = (
        f"For each input, whatever it is, with probability at most {failure} over the noise a radius is "
        f"issued and wrong, that is: {WRONG}."
    )
    return Guarantee(
        method=method,
        failure=failure,
        promise=f"{promise} {why}".rstrip(),
        assumptions=(FRESH_NOISE,),
        not_promised=(BEST_OF_SEVERAL, ABOUT_THE_TRUTH),
        numbers={**smoothing_numbers(smoothing), **numbers},
    )


def one_stage_guarantee(alpha: Fraction, n: int, smoothing: Smoothing) -> Guarantee:
    """State what holds where the same votes choose and bound the class: twice the level it is computed at."""
    nominal, failure = level_text(alpha), level_text(2 * alpha) if alpha < Fraction(1, 2) else NONE
    not_valid = (
        f"the level {nominal}, at which the bounds are computed: it is not valid, because the same votes "
        f"choose the class and bound it. Near p = 1/2, with two close classes, about twice as many are wrong."
    )
    return Guarantee(
        method="monte-carlo, one-stage",
        failure=failure,
        promise=(
            "Nothing is promised: the same votes choose the class and bound it."
            if failure == NONE
            else f"For each input, whatever it is, with probability at most {failure}, twice the nominal "
            f"{nominal}, over the noise a radius is issued and wrong, that is: {WRONG}."
        ),
        assumptions=(FRESH_NOISE,),
        not_promised=(not_valid, ABOUT_THE_TRUTH),
        numbers={**smoothing_numbers(smoothing), "votes": n, "nominal_failure": nominal},
    )


def early_stopping_guarantee(
    alpha: Fraction, looks: list[int], tolerance: float, smoothing: Smoothing
) -> Guarantee:
    """State that bounds for a fixed number of votes promise nothing where the votes choose their number.

    `looks` are the numbers of votes after which to stop.
    """
    nominal = level_text(alpha)
    return Guarantee(
        method="early-stopping, not valid under optional stopping",
        failure=NONE,
        promise=(
            f"Nothing is promised: the bounds are computed at the level {nominal} as if the number of votes "
            f"had been fixed beforehand, which is not valid under optional stopping. A radius may be wrong "
            f"more often, that is: {WRONG}."
        ),
        assumptions=(),
        not_promised=(
            f"the level {nominal}, which is not valid under optional stopping: the votes decide when to "
            f"stop, and choose the class that they bound.",
            ABOUT_THE_TRUTH,
        ),
        numbers={
            **smoothing_numbers(smoothing),
            "largest_budget": looks[-1],
            "looks": len(looks),
            "tolerance": tolerance,
            "nominal_failure": nominal,
        },
    )


def smoothing_numbers(smoothing: Smoothing) -> Json:
    """Return the smoothed classifier as the numbers of a guarantee."""
    return {
        "sigma": smoothing.sigma,
        "norm": "L2",
        "input_range": describe_range(smoothing.input_range),
        "base_classifier": smoothing.base,
        "precision": smoothing.precision,
    }


def _among_issued(calibration: Calibration, issued_share: float) -> str:
    if issued_share <= 0:
        return ""
    among = min(1.0, float(calibration.failure) / issued_share)
    return f" (about {format_up(among, 3)} at the issued share of the calibration inputs)"
