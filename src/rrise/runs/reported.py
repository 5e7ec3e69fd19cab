"""Which inputs an evaluation reports on, and their votes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.predictions import Predictions
from rrise.runs.run import Run
from rrise.votes.sequence import StoredVotes


class Reported:
    """The inputs that an evaluation reports on, in the order of the dataset.

    Protocol "held-out" excludes the calibration inputs; "paper" includes them. The run may have collected
    the votes of its test inputs under either protocol.
    """

    def __init__(self, run: Run) -> None:
        splits = run.data.splits
        self.protocol = protocol = run.recipe.evaluation.protocol or run.recipe.data.protocol
        both = np.concatenate([splits.test, splits.calibration])
        wanted = np.setdiff1d(splits.test, splits.calibration)
        if protocol == "paper":
            wanted = np.union1d(splits.test, splits.calibration)
        everything, first = np.unique(both, return_index=True)
        kept = np.isin(everything, wanted)
        self.indices, self.rows = everything[kept], first[kept]
        self.calibrated_on = np.isin(self.indices, splits.calibration)
        self._tests = len(splits.test)

    @property
    def only_test_inputs(self) -> bool:
        """Whether every input is in the test split."""
        return bool((self.rows < self._tests).all())

    def pick(self, test: NDArray[Any], calibration: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of the reported inputs from the arrays of both splits."""
        if self.only_test_inputs:
            return test[self.rows]
        return np.concatenate([test, calibration])[self.rows]

    def predictions(self, of: dict[str, Predictions]) -> Predictions:
        """Return a surrogate's predictions for the reported inputs."""
        test, calibration = of["test"], of["calibration"]
        return Predictions(
            self.pick(test.label, calibration.label),
            self.pick(test.top_probability, calibration.top_probability),
        )

    def votes(self, test: StoredVotes, calibration: StoredVotes) -> StoredVotes:
        """Return the votes of the reported inputs in order, from those of both splits."""
        assert test.digests is not None
        assert calibration.digests is not None
        return StoredVotes(
            self.pick(test.answers, calibration.answers),
            test.classes,
            test.smoothing,
            test.stream if self.only_test_inputs else None,
            self.pick(test.digests, calibration.digests),
        )


def collect_reported(run: Run, base: nn.Module) -> dict[str, str]:
    """Collect separate votes for calibration inputs that are reported on, and return the store names.

    The votes that calibrated the surrogate must not judge it. If only test inputs are reported on, the
    stores are those of the test inputs.
    """
    if Reported(run).only_test_inputs:
        return {"votes": "test", "selection": "test-selection"}
    budgets = {"reported-selection": run.recipe.votes.selection, "reported": run.recipe.votes.test}
    for purpose, n in budgets.items():
        run.votes("calibration", base, n, purpose=purpose)
    return {"votes": "calibration-reported", "selection": "calibration-reported-selection"}
