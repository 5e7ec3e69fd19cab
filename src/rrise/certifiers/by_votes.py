"""What the certifiers that vote have in common."""

from abc import ABC, abstractmethod
from typing import Any

from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.data.inputs import InputRange
from rrise.errors import InputError, MismatchError
from rrise.models.checks import check_module
from rrise.votes.array import Smoothing, Votes, check_same_inputs
from rrise.votes.inputs import ShardedInputs
from rrise.votes.live import LiveVotes
from rrise.votes.plan import VotePlan, whole_number
from rrise.votes.sequence import VoteSequence

SELECTION = "selection"
"""What is appended to a split's name for the noise of its selection votes."""
SELECTION_VOTES = 100


class VoteCertifier(ABC):
    """Certifies inputs from their votes, which are stored or drawn as it asks for them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in tables: method and settings."""

    @property
    @abstractmethod
    def budget(self) -> int:
        """The most votes it asks for of one input, selection votes not counted."""

    @abstractmethod
    def certify(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:
        """Return one certificate per input, with the passes it took.

        `selection` are more votes of the same inputs, with noise of their own, to choose the class by.
        """

    def certify_inputs(
        self,
        base: nn.Module,
        images: Any,
        *,
        sigma: float,
        seed: int = 0,
        split: str = "inputs",
        input_range: InputRange = (0.0, 1.0),
        precision: str | None = None,
        selection_votes: int = SELECTION_VOTES,
        batch_size: int | None = None,
    ) -> Certificates:
        """Certify inputs live: the base classifier answers as many noisy copies as this certifier asks for.

        The votes are those that `collect_votes` draws with the same `seed` and `split`, and the selection
        votes, where they are asked for, those of the split `<split>-selection`. The other settings are as
        there.
        """
        check_module(base, "base classifier")
        inputs = ShardedInputs(images, input_range)

        def live(n: int, name: str) -> LiveVotes:
            plan = VotePlan(sigma, n, seed, name, input_range, precision)
            return LiveVotes(base, inputs, plan, batch_size=batch_size)

        return self.certify(live(self.budget, split), live(selection_votes, f"{split}-{SELECTION}"))


def check_whole_number(settings: Any, name: str) -> None:
    """Refuse a setting of a frozen dataclass that is no whole number, and keep it as an int."""
    object.__setattr__(settings, name, whole_number(getattr(settings, name), name))


def check_enough_votes(votes: VoteSequence, n: int) -> None:
    """Refuse votes of which there are fewer than `n` for each input."""
    if votes.length < n:
        raise InputError(f"expected at least {n} votes of each input, and there are {votes.length}")


def check_selection(votes: VoteSequence | Votes, selection: VoteSequence | Votes) -> Smoothing:
    """Return the smoothed classifier of both.

    Refuses selection votes of other inputs or another smoothed classifier, or with the same noise.
    """
    smoothing, other = _smoothing_of(votes), _smoothing_of(selection)
    smoothing.check_same(other, "the votes", "the selection votes")
    for what, mine, theirs in (
        ("inputs", len(votes), len(selection)),
        ("classes", _classes_of(votes), _classes_of(selection)),
    ):
        if mine != theirs:
            raise InputError(f"expected selection votes for the same {mine} {what}, got {theirs}")
    if selection.digests is not None:
        check_same_inputs(votes, selection.digests)
    if votes is selection or (votes.stream is not None and votes.stream == selection.stream):
        raise MismatchError(
            f"the selection votes share their noise with the votes (seed and split {votes.stream}): collect "
            f"them with another seed or split"
        )
    return smoothing


def _smoothing_of(votes: Any) -> Smoothing:
    smoothing: Smoothing | None = getattr(votes, "smoothing", None)
    if smoothing is None:
        raise InputError(
            "expected votes from collect_votes, which know their base classifier and sigma; got a plain array"
        )
    return smoothing


def _classes_of(votes: VoteSequence | Votes) -> int:
    return votes.shape[1] if isinstance(votes, Votes) else votes.classes
