"""What an evaluation is computed from, input by input: small enough to keep, enough for every number."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.methods import ONE_STAGE, SEQUENTIAL, TWO_STAGE
from rrise.evaluation.measure.measurement import measure
from rrise.evaluation.measure.methods import SurrogateEvidence, surrogate_outcomes
from rrise.evaluation.measure.outcomes import MethodSetting, Outcome
from rrise.evaluation.measure.pass_time import PassTime
from rrise.evaluation.measure.passes_curve import passes_curve
from rrise.files import Json
from rrise.statistics import PAPER as PAPER_RULE
from rrise.statistics import Threat, float32_below
from rrise.votes.array import Votes

HELD_OUT, PAPER = "held-out", "paper"
_NOT_SHOWN = ("failures", "beta", "scores")
_FORMER_SCORES = ("additive", "probit")
"""The scores of earlier evidence, which does not name them."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The reported inputs with what every method found about them, an entry for each in every array.

    Attributes:
        about: what `results.json` says of the run beside the results; with `failures`, `scores` and
            `calibration`.
        indices: places of the inputs in the dataset.
        labels: true classes.
        calibrated_on: which of them calibrated the surrogates; none under the protocol `held-out`.
        reference: their votes at the largest budget.
        voting: what the methods that vote certified; bounds hold what a float32 can, rounded down.
        surrogates: predictions of each surrogate, of these inputs and of the calibration inputs.
        calibration_votes: votes of the calibration inputs.
        fewer_votes: the first so many of these votes, to tell what calibrating with fewer would do.
        pass_times: measured time of a pass by the surrogate's variant; under "" that of the base classifier.
        query: the first so many votes, of these inputs and of the calibration inputs, to tell what votes at
            query time would do; empty in earlier evidence.
    """

    about: Json
    indices: NDArray[np.int64]
    labels: NDArray[np.int64]
    calibrated_on: NDArray[np.bool_]
    reference: Votes
    voting: tuple[Outcome, ...]
    surrogates: tuple[SurrogateEvidence, ...]
    calibration_votes: Votes
    fewer_votes: dict[int, Votes]
    pass_times: dict[str, PassTime]
    query: dict[int, tuple[Votes, Votes]] = field(default_factory=dict)

    def outcomes(self) -> list[Outcome]:
        """Return what every method gave: surrogates at every failure with every score, then the others."""
        found: list[Outcome] = []
        for surrogate in self.surrogates:
            found += surrogate_outcomes(
                surrogate,
                self.calibration_votes,
                self.about["failures"],
                how=self.calibrated_by,
                scores=self.about.get("scores", _FORMER_SCORES),
            )
        return [self._timed(outcome) for outcome in (*found, *self.voting)]

    @property
    def calibrated_by(self) -> Json:
        """How surrogates are calibrated; earlier evidence names `beta` alone and means the paper's rule."""
        found: Json = self.about.get("calibration") or {"rule": PAPER_RULE.name, "beta": self.about["beta"]}
        if (threat := found.get("threat")) is None:
            return found
        return {**found, "threat": Threat(**threat)}

    def _timed(self, outcome: Outcome) -> Outcome:
        found = self.pass_times.get(outcome.setting.variant, self.pass_times.get(""))
        if found is None or found.problem:
            return outcome
        return replace(outcome, seconds=outcome.certificates.mean_passes * found.seconds)

    def results(self, outcomes: list[Outcome]) -> Json:
        """Return what `results.json` holds of these outcomes."""
        about = {name: value for name, value in self.about.items() if name not in _NOT_SHOWN}
        method, variant, score = about["certifier"]
        curve = passes_curve(self)
        times = {name: found.to_json() for name, found in self.pass_times.items() if found.turns is not None}
        return {
            **about,
            "test_inputs": len(self.labels),
            **({"passes_curve": curve} if curve else {}),
            **({"pass_times": times} if times else {}),
            "results": measure(
                outcomes,
                self.labels,
                self.reference,
                about["thresholds"],
                main_budget=about["main_budget"],
                main_failure=about["main_failure"],
                main_surrogate=(method, variant, score),
                paper_counting=about["protocol"] == PAPER,
                calibrated_on=self.calibrated_on,
                noise=None if self.reference.smoothing is None else self.reference.smoothing.noise,
            ),
        }

    def held_out(self) -> "Evidence":
        """Return the same without the inputs that calibrated the surrogates: the protocol `held-out`."""
        new = ~self.calibrated_on
        picked = {name: getattr(self, name)[new] for name in ("indices", "labels", "calibrated_on")}
        return replace(
            self,
            about={**self.about, "protocol": HELD_OUT},
            reference=self.reference[new],
            voting=tuple(replace(outcome, certificates=outcome.certificates[new]) for outcome in self.voting),
            surrogates=tuple(replace(one, test=one.test[new]) for one in self.surrogates),
            query={n: (tests[new], held) for n, (tests, held) in self.query.items()},
            **picked,
        )

    def keeping(self, wanted: Callable[[MethodSetting], bool]) -> "Evidence":
        """Return the same with those settings alone of the methods that vote."""
        return replace(self, voting=tuple(one for one in self.voting if wanted(one.setting)))

    def for_tables(self) -> "Evidence":
        """Return what the tables need: methods that vote at the main failure, and Monte Carlo at all of them.

        The latter at the main budget; the sequential method at the main budget alone.
        """
        budget, failure = self.about["main_budget"], self.about["main_failure"]

        def wanted(setting: MethodSetting) -> bool:
            if setting.budget == budget and setting.method in (ONE_STAGE.name, TWO_STAGE.name):
                return True
            small = setting.method == SEQUENTIAL.name and setting.budget != budget
            return setting.failure == failure and not small

        return self.keeping(wanted)


def rounded_down(outcome: Outcome) -> Outcome:
    """Return an outcome whose bounds a float32 holds, none of them larger than it was."""
    certificates = outcome.certificates
    bound = float32_below(certificates.lower_bound).astype(np.float64)
    return replace(
        outcome,
        certificates=Certificates.from_bound(
            certificates.label,
            bound,
            guarantee=certificates.guarantee,
            passes=certificates.passes,
        ),
    )
