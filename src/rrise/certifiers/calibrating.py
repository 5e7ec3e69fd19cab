"""Calibration: the one-time fit that turns a surrogate into a certifier."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from rrise.certifiers.advice import advice_on
from rrise.certifiers.guarantee import surrogate_guarantee
from rrise.certifiers.held_out import HeldOut
from rrise.certifiers.probe import Probe
from rrise.certifiers.query_noise import QueryNoise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.with_votes import query_evidence
from rrise.data.inputs import InputRange, as_inputs, check_input_range, input_digests
from rrise.defaults import FAILURE, SCORE
from rrise.errors import InputError, LittleIssuedWarning, MismatchError, RriseError, SettingError
from rrise.models.checks import check_is_function, check_module
from rrise.models.evaluating import evaluating
from rrise.models.export import NotAProgramError, write_program
from rrise.models.inference import BATCH_SIZE, top_prediction
from rrise.models.inspection import precision_name, precision_of, uncompiled
from rrise.models.logits import logits_of
from rrise.models.precision import identity_at
from rrise.models.program import Program
from rrise.statistics import FLOORED, Level, Promise, Rule, Score, Threat, fit_calibration, threat_of
from rrise.training.surrogate import Surrogate
from rrise.votes.array import Votes, check_same_inputs, check_votes, votes_for
from rrise.votes.noise import Gaussian, Noise, as_noise
from rrise.votes.sequence import VoteSequence
from rrise.votes.smoothing import Smoothing

Grouping = Literal["class"] | Sequence[Sequence[int | str]] | None
"""How classes are grouped: `class` for each its own, or lists of classes by number or name."""


def calibrate(
    surrogate: nn.Module,
    images: Any,
    votes: Any,
    *,
    sigma: float | Noise | None = None,
    failure: Level = FAILURE,
    promise: str | Promise = Promise.MARGINAL,
    confidence: Level | None = None,
    per: Grouping = None,
    beta: Level | None = None,
    score: str | Score = SCORE,
    rule: str | Rule = FLOORED,
    input_range: InputRange | Literal["of the votes"] = "of the votes",
    base: nn.Module | None = None,
    class_names: tuple[str, ...] | list[str] | None = None,
    allow_seen: bool = False,
    batch_size: int = BATCH_SIZE,
    query_votes: Any = None,
    attack_radius: float = 0.0,
    query_noise: float | None = None,
    tries: int = 1,
    noise_seed: int | None = None,
) -> SurrogateCertifier:
    """Calibrate a surrogate once, on held-out inputs and their votes.

    `failure` bounds the probability of issuing a wrong radius. What that probability is about is the promise:

    - `marginal`: new input, calibration inputs and noise together;
    - `pac`: new inputs, given these calibration inputs, with a confidence;
    - `issued`: the share of wrong radii among the issued ones, given these calibration inputs, with a
      confidence.

    Args:
        surrogate: a module from inputs to K logits, such as `train_surrogate` returns.
        images: calibration inputs. They must be drawn like those to be certified later, and must not have
            been used to train the surrogate.
        votes: their votes, by the base classifier that the surrogate approximates: from `collect_votes`, or
            in their order from `read_sequence`. The latter prepare `with_votes` too.
        sigma: the noise of the votes; needed only if the votes do not record it.
        failure: the allowed probability of issuing a wrong radius.
        promise: what `failure` is about: `marginal`, `pac` or `issued`.
        confidence: the confidence of `pac` and `issued` over the calibration inputs. Default: 0.95.
        per: keep the promise for each class that the surrogate answers (`class`), or for each of these
            groups of classes. Default: for all inputs together.
        beta: the failure at which votes are bounded. Default: 0.2, or 0.001 under the rule `paper`.
        score: `tapered`, `probit`, `additive` as in the paper, or a `Score`.
        rule: `floored` charges only for issued bounds and splits the failure as `gamma / (1 - beta)`; `paper`
            charges for all bounds and splits it as `beta + gamma`.
        input_range: lowest and highest value of an input. Default: that of the votes, or (0, 1).
        base: the base classifier, to check that the votes belong to it. Needed if the surrogate is not from
            `train_surrogate` and the votes do not record their origin.
        class_names: names of the classes. Default: their numbers.
        allow_seen: accept calibration inputs that equal training inputs, if equal inputs occur naturally in
            this data.
        batch_size: inputs per forward pass.
        query_votes: a few further votes of the calibration inputs, with noise of their own. They prepare
            `with_votes` for that number of votes.
        attack_radius: keep the promise also if somebody moved the input by up to this L2 distance before it
            was certified. `failure` is then that under attack, and every radius is shorter by this much.
        query_noise: the level of the secret noise that the surrogate sees each query with. Default: none
            without `attack_radius`; with it, what the surrogate was trained with.
        tries: how many certificates somebody may ask for on behalf of one input, and use the best.
        noise_seed: makes the query noise of the calibration inputs reproducible. Queries stay secret.

    Returns:
        The certifier.

    Raises:
        InputError: the inputs or the votes are invalid.
        MismatchError: surrogate, votes and base do not belong together, or calibration inputs were used in
            training.
        SettingError: there are too few calibration inputs or votes for this failure; the error says how many
            it needs.

    Example:
        >>> import numpy as np, torch, rrise
        >>> base, inputs = torch.nn.Linear(4, 3), np.random.default_rng(0).random((400, 4))
        >>> votes = rrise.collect_votes(base, inputs, sigma=0.25, n=100)
        >>> surrogate = rrise.train_surrogate(base, inputs[:200], votes[:200], epochs=20)
        >>> certifier = rrise.calibrate(surrogate, inputs[200:], votes[200:], failure=0.1)
        >>> certifier.guarantee.failure_text
        '0.1'
    """
    check_module(surrogate, "surrogate")
    ordered, votes = votes, votes.votes(votes.length) if isinstance(votes, VoteSequence) else votes
    of_votes = votes.smoothing if isinstance(votes, Votes) else None
    limits = _input_range(input_range, of_votes)
    inputs = as_inputs(images, input_range=limits)
    if len(inputs) == 0:
        raise InputError("the calibration set is empty: expected held-out inputs and their votes")
    digests = input_digests(inputs)
    precision = None if of_votes is None else of_votes.precision
    given = None if base is None else identity_at(base, precision, inputs, "base classifier")
    plain = precision_name(surrogate if base is None else base)
    smoothing = _common_smoothing(surrogate, votes, given, sigma, limits, plain_precision=plain)
    trained_on = _seen_in_training(surrogate, digests, allow_seen)
    network, program = _frozen(surrogate, inputs)
    threat = _threat(surrogate, attack_radius, query_noise, tries, smoothing.noise)
    seen = QueryNoise(threat, limits, seed=noise_seed).seen(inputs)
    label, top_probability = top_prediction(network, seen, batch_size)
    probe = Probe.of(network, inputs)
    classes = probe.logits.shape[1]
    counts, n = check_votes(votes, len(inputs), classes)
    check_same_inputs(votes, digests)
    names = _class_names(class_names, classes)
    calibration, evidence = fit_calibration(
        top_probability,
        votes_for(counts, label),
        n,
        failure=failure,
        beta=beta,
        score=score,
        rule=rule,
        promise=promise,
        confidence=confidence,
        label=label,
        groups=class_groups(per, names),
        threat=threat,
    )
    certifier = SurrogateCertifier(
        network=network,
        program=program,
        probe=probe,
        input_shape=tuple(inputs.shape[1:]),
        smoothing=smoothing,
        calibration=calibration,
        evidence=evidence,
        guarantee=surrogate_guarantee(calibration, evidence, smoothing, trained_on),
        class_names=names,
        query=None if threat else query_evidence(ordered, votes, query_votes, label),
        held_out=HeldOut.kept(inputs, counts),
    )
    if (advice := advice_on(certifier)) is not None:
        warnings.warn(advice, LittleIssuedWarning, stacklevel=2)
    return certifier


def _threat(
    surrogate: nn.Module, radius: float, query_noise: float | None, tries: int, noise: Noise
) -> Threat | None:
    """Return what may happen to inputs before they are certified; None without query noise."""
    if query_noise is None and (radius or tries != 1) and isinstance(surrogate, Surrogate):
        query_noise = surrogate.query_noise or None
    found = threat_of(radius, query_noise, tries, noise.sigma)
    if found is not None and not isinstance(noise, Gaussian):
        raise SettingError(f"query noise needs votes with Gaussian noise, got {noise.name} noise")
    return found


def _input_range(given: InputRange | str, of_votes: Smoothing | None) -> InputRange:
    if given == "of the votes":
        return (0.0, 1.0) if of_votes is None else of_votes.input_range
    if isinstance(given, str):
        raise SettingError(f"expected input_range to be a pair such as (0, 1), or None; got {given!r}")
    return check_input_range(given)


def _frozen(surrogate: nn.Module, inputs: torch.Tensor) -> tuple[nn.Module, Program | None]:
    """Return the surrogate in its saved form; if it has none, warn and return a copy."""
    network = surrogate.network if isinstance(surrogate, Surrogate) else uncompiled(surrogate)
    network = copy.deepcopy(network)
    network = network.cpu().eval().requires_grad_(False)
    sample = torch.cat([inputs[:4], inputs[:1]])
    with evaluating(network):
        check_is_function(network, inputs, "surrogate")
        expected = logits_of(network, sample, "surrogate")
    try:
        program = write_program(network, sample.to(precision_of(network), copy=True))
        return _module_of(program, inputs, sample, expected), program
    except NotAProgramError as reason:
        warnings.warn(
            f"the surrogate cannot be written as a program ({reason}). It works here; to load it from a "
            f"folder, use load_certifier(folder, surrogate=a module of its class)",
            stacklevel=3,
        )
        return network, None


def _module_of(
    program: Program, inputs: torch.Tensor, sample: torch.Tensor, expected: torch.Tensor
) -> nn.Module:
    """Build the module of a program and check that it computes what the surrogate computes."""
    name = "program of the surrogate"
    try:
        module = program.module()
        with evaluating(module):
            check_is_function(module, inputs, name)
            got = logits_of(module, sample, name)
    except RriseError as error:
        raise NotAProgramError(str(error)) from error
    same_type = got.dtype == expected.dtype
    if not same_type or not torch.allclose(got, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise NotAProgramError("its graph does not compute what the module computes")
    return module


def _common_smoothing(
    surrogate: nn.Module,
    votes: Any,
    base: str | None,
    sigma: float | Noise | None,
    input_range: InputRange,
    *,
    plain_precision: str,
) -> Smoothing:
    """Return the smoothed classifier that surrogate, votes and base have in common, or refuse."""
    of_votes = votes.smoothing if isinstance(votes, Votes) else None
    if sigma is None and of_votes is None:
        raise SettingError("these votes do not record their noise: pass sigma=, or votes from collect_votes")
    noise = of_votes.noise if sigma is None and of_votes is not None else as_noise(sigma or 0.0)
    if base is not None:
        identity = base
    elif isinstance(surrogate, Surrogate):
        identity = surrogate.base_fingerprint
    elif of_votes is not None:
        identity = of_votes.base
    else:
        raise MismatchError(
            "these votes do not record their base classifier: pass base=, or votes from collect_votes"
        )
    precision = of_votes.precision if of_votes else plain_precision
    wanted = Smoothing(identity, noise, check_input_range(input_range), precision)
    if of_votes is not None:
        wanted.check_same(of_votes, "this calibration", "the votes")
    if isinstance(surrogate, Surrogate):
        if surrogate.base_fingerprint != identity:
            raise MismatchError(
                "the surrogate was trained for another base classifier: pass the one it was trained for"
            )
        if surrogate.smoothing is not None:
            wanted.check_same(surrogate.smoothing, "this calibration", "the surrogate's training votes")
    return wanted


def _seen_in_training(surrogate: nn.Module, digests: list[bytes], allow_seen: bool) -> int | None:
    """Return how many calibration inputs the surrogate was trained on; refuse any unless allowed.

    It is not known, hence None, for a surrogate that `train_surrogate` did not make.
    """
    if not isinstance(surrogate, Surrogate):
        return None
    seen = sum(digest in surrogate.seen for digest in digests)
    if seen and not allow_seen:
        raise MismatchError(
            f"{seen} of {len(digests)} calibration inputs were used to train the surrogate: the guarantee "
            f"needs held-out inputs (pass allow_seen=True if equal inputs occur naturally in this data)"
        )
    return seen


def _class_names(names: tuple[str, ...] | list[str] | None, classes: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(index) for index in range(classes))
    if len(names) != classes:
        raise SettingError(f"expected {classes} class names, got {len(names)}")
    return tuple(str(name) for name in names)


def class_groups(per: Grouping, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the group of each class, or None if all inputs are one group.

    >>> class_groups([["cat", "dog"], ["truck"]], ["cat", "truck", "dog"])
    (0, 1, 0)
    """
    if per is None:
        return None
    if isinstance(per, str):
        if per != "class":
            raise SettingError(f"expected per to be 'class' or lists of classes, got {per!r}")
        return tuple(range(len(names)))
    places = {name: number for number, name in enumerate(names)}
    found: dict[int, int] = {}
    for group, members in enumerate(per):
        for member in members:
            number = places.get(member, -1) if isinstance(member, str) else int(member)
            if not 0 <= number < len(names) or number in found:
                raise SettingError(
                    f"expected each class once in the groups of per, by number or name; got {member!r}, "
                    f"which is {'no class' if number not in found else 'in two groups'}"
                )
            found[number] = group
    missing = [name for number, name in enumerate(names) if number not in found]
    if missing:
        raise SettingError(f"expected every class in a group of per; {', '.join(missing)} are in none")
    return tuple(found[number] for number in range(len(names)))
