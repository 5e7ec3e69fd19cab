"""Methods that vote: on stored votes, or bound to a base classifier that votes on inputs."""

import copy
import secrets
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier, check_base, typical_inputs
from rrise.certifiers.guarantee import Guarantee
from rrise.data.inputs import InputRange
from rrise.errors import InputError, MismatchError, SettingError
from rrise.models.checks import check_module
from rrise.models.evaluating import evaluating
from rrise.models.logits import logits_of
from rrise.progress import OnProgress
from rrise.votes.array import Votes, check_same_inputs
from rrise.votes.inputs import ShardedInputs
from rrise.votes.live import LiveVotes
from rrise.votes.noise import Noise, as_noise
from rrise.votes.plan import VotePlan, whole_number
from rrise.votes.sequence import VoteSequence
from rrise.votes.smoothing import Smoothing

SELECTION = "selection"
"""Suffix of a split's name that gives its selection votes their own noise."""
SELECTION_VOTES = 100


class VoteMethod(ABC):
    """A way to certify inputs from their votes, either stored or drawn on demand.

    `certify_votes` works on votes; `bind` returns a certifier that draws them from a base classifier.
    """

    n: int
    """The most votes per input, without selection votes."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in tables: method and settings."""

    @abstractmethod
    def guarantee(self, smoothing: Smoothing, selection_votes: int = SELECTION_VOTES) -> Guarantee:
        """Return the guarantee of its certificates; only methods with selection votes use the number."""

    @abstractmethod
    def certify_votes(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:
        """Return one certificate per input from its votes, with the number of passes.

        `selection` holds further votes of the same inputs, with separate noise. They choose the class.
        """

    def bind(
        self,
        base: nn.Module,
        *,
        sigma: float | Noise,
        input_range: InputRange = (0.0, 1.0),
        precision: str | None = None,
        input_shape: tuple[int, ...] | None = None,
        class_names: tuple[str, ...] | None = None,
        seed: int | None = None,
        split: str = "inputs",
        selection_votes: int = SELECTION_VOTES,
        batch_size: int | None = None,
    ) -> "VotingCertifier":
        """Return the certifier that draws votes of a base classifier and certifies by this method.

        Args:
            base: the base classifier; certificates are about its smoothed version.
            sigma: the level of Gaussian noise, or a `Noise`.
            input_range: the range that noisy inputs are clipped to; None: no clipping.
            precision: the number type the base classifier computes in; None: its own.
            input_shape: the shape of one input. Default: that of the first call.
            class_names: names of the classes. Default: their numbers.
            seed: makes the noise reproducible. Without a seed, every call draws fresh, unpredictable noise:
                nobody can choose an input to suit it.
            split: with `seed`, names the random stream. The votes then equal those of `collect_votes`.
            selection_votes: votes that choose the class, for methods that need them.
            batch_size: noisy inputs per forward pass. Default: chosen automatically.

        Returns:
            A `Certifier`: `certify(inputs)` returns certificates.

        Raises:
            InputError: the base classifier is not a module.
            SettingError: a setting is invalid.
        """
        return VotingCertifier(
            self,
            base,
            noise=as_noise(sigma),
            input_range=input_range,
            precision=precision,
            input_shape=input_shape,
            class_names=class_names,
            seed=seed,
            split=split,
            selection_votes=selection_votes,
            batch_size=batch_size,
        )

    def bind_like(
        self, base: nn.Module, certifier: Certifier, *, batch_size: int | None = None
    ) -> "VotingCertifier":
        """Return a certifier for the smoothed classifier of another certifier; the noise is always fresh.

        Raises:
            MismatchError: `base` is not the base classifier of that certifier.
        """
        smoothing, shape = certifier.smoothing, certifier.input_shape
        check_base(base, smoothing, typical_inputs(shape, smoothing.input_range))
        return self.bind(
            base,
            sigma=smoothing.noise,
            input_range=smoothing.input_range,
            precision=smoothing.precision,
            input_shape=shape,
            class_names=certifier.class_names,
            batch_size=batch_size,
        )


class VotingCertifier:
    """A voting method bound to its base classifier; made by `VoteMethod.bind`.

    The base classifier stays in evaluation mode, because several threads may use it at the same time.
    """

    runtime = "torch"

    def __init__(
        self,
        method: VoteMethod,
        base: nn.Module,
        *,
        noise: Noise,
        input_range: InputRange,
        precision: str | None,
        input_shape: tuple[int, ...] | None,
        class_names: tuple[str, ...] | None,
        seed: int | None,
        split: str,
        selection_votes: int,
        batch_size: int | None,
    ) -> None:
        check_module(base, "base classifier")
        self.method, self.base = method, base.eval()
        self.selection_votes = whole_number(selection_votes, "selection_votes")
        if self.selection_votes < 1:
            raise SettingError(f"expected selection_votes to be at least 1, got {selection_votes}")
        self._plan = VotePlan(noise, method.n, 0 if seed is None else seed, split, input_range, precision)
        self._fresh, self._batch_size = seed is None, batch_size
        self._shape = None if input_shape is None else tuple(input_shape)
        self._class_names = class_names
        self._smoothing: Smoothing | None = None

    def __repr__(self) -> str:
        return f"VotingCertifier({self.method.name}, sigma={self._plan.noise.sigma:g})"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        if self._shape is None:
            raise SettingError("the input shape is not known yet: pass input_shape= to bind, or certify once")
        return self._shape

    @property
    def smoothing(self) -> Smoothing:
        """The smoothed classifier that certificates are about."""
        if self._smoothing is None:
            sample = typical_inputs(self.input_shape, self._plan.input_range)
            self._smoothing = self._plan.smoothing(self.base, sample)
        return self._smoothing

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in order."""
        if self._class_names is None:
            sample = typical_inputs(self.input_shape, self._plan.input_range, 1)
            with evaluating(self.base):
                classes = logits_of(self.base, sample, "base classifier").shape[1]
            self._class_names = tuple(map(str, range(classes)))
        return self._class_names

    @property
    def guarantee(self) -> Guarantee:
        """What every certificate promises."""
        return self.method.guarantee(self.smoothing, self.selection_votes)

    @property
    def most_passes(self) -> int:
        """The most passes per input."""
        return self.method.n + self.selection_votes

    def certify(self, inputs: Any, *, on_progress: OnProgress | None = None) -> Certificates:
        """Draw the votes that the method asks for, and certify each input from them.

        Args:
            inputs: a batch `[inputs, *input_shape]` of floating-point numbers in the input range.
            on_progress: called with the number of passes of the base classifier since the last call.

        Returns:
            Certificates with the number of passes per input; `probabilities` are shares of the votes.

        Raises:
            InputError: the base classifier does not accept an input, or returns NaN.
        """
        if self._shape is not None and getattr(inputs, "shape", None) == (0, *self._shape):
            return self._no_certificates()
        sharded = ShardedInputs(inputs, self._plan.input_range)
        if self._shape is None:
            self._shape = sharded.shape
        if sharded.shape != self._shape:
            raise InputError(f"expected inputs of shape {self._shape}, got {sharded.shape}")
        votes = self.live(sharded, on_progress=on_progress)
        selection = votes.in_stream(self._stream(f"{self._plan.split}-{SELECTION}", self.selection_votes))
        found = self.method.certify_votes(votes, selection)
        return _with_shares(found, votes)

    def _no_certificates(self) -> Certificates:
        nothing, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
        shares = np.zeros((0, len(self.class_names)), dtype=np.float32)
        return Certificates.from_bound(
            whole, nothing, guarantee=self.guarantee, passes=0, probabilities=shares
        )

    def using(self, method: VoteMethod) -> "VotingCertifier":
        """Return the same binding with another method."""
        other = copy.copy(self)
        other.method, other._plan = method, replace(self._plan, n=method.n)
        return other

    def live(
        self,
        inputs: Any,
        split: str | None = None,
        n: int | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> LiveVotes:
        """Return votes of inputs, drawn on demand, with fresh noise unless seeded."""
        plan = self._stream(split or self._plan.split, self._plan.n if n is None else n)
        return LiveVotes(self.base, inputs, plan, batch_size=self._batch_size, on_progress=on_progress)

    def _stream(self, split: str, n: int) -> VotePlan:
        """Return the plan of `n` votes, with fresh noise unless seeded."""
        seed = secrets.randbits(63) if self._fresh else self._plan.seed
        return replace(self._plan, n=n, seed=seed, split=split)


def _with_shares(found: Certificates, votes: LiveVotes) -> Certificates:
    """Add the shares of the drawn votes as probabilities."""
    drawn = np.minimum(found.passes, votes.length)
    shares = votes.counts(0, drawn) / np.maximum(drawn, 1)[:, None]
    return replace(found, probabilities=shares.astype(np.float32))


def check_whole_number(settings: Any, name: str) -> None:
    """Require a setting of a frozen dataclass to be a whole number, and store it as an int."""
    object.__setattr__(settings, name, whole_number(getattr(settings, name), name))


def check_enough_votes(votes: VoteSequence, n: int) -> None:
    """Refuse fewer than `n` votes per input."""
    if not isinstance(votes, VoteSequence):
        raise InputError(
            f"expected votes in the order of their draws, from read_sequence; got a {type(votes).__name__}"
        )
    if votes.length < n:
        raise InputError(f"expected at least {n} votes of each input, got {votes.length}")


def check_selection(votes: VoteSequence | Votes, selection: VoteSequence | Votes) -> Smoothing:
    """Return the smoothed classifier of both.

    Refuses selection votes of other inputs, of another smoothed classifier, or with the same noise.
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
            f"the selection votes and the votes share their noise (seed and split {votes.stream}): collect "
            f"the selection votes with another seed or split"
        )
    return smoothing


def _smoothing_of(votes: Any) -> Smoothing:
    smoothing: Smoothing | None = getattr(votes, "smoothing", None)
    if smoothing is None:
        raise InputError(
            "expected votes from collect_votes, with their base classifier and sigma; got a plain array"
        )
    return smoothing


def _classes_of(votes: VoteSequence | Votes) -> int:
    return votes.shape[1] if isinstance(votes, Votes) else votes.classes
