"""Attacks on a certifier: ways to move an input within an L2 ball such that its certificate becomes wrong.

A certificate is wrong if its bound is above the smoothed probability of its class. So an attack raises what
the surrogate says about a class, and lowers what the base classifier answers under noise. Libraries of
attacks change the answer of one classifier. They do not play two networks off against each other, so the
ascent is written here.

To add an attack, call `register_attack(Attack(...))`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from rrise.audit.victim import Best, Effort, Moved, Victim, length
from rrise.certifiers.certificates import Certificates
from rrise.looks import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, UNKNOWN, VERMILLION, Look
from rrise.registry import register

Objective = Callable[[torch.Tensor], torch.Tensor]
_STRIDE = 2.5
"""All steps together are so many radii long."""
_PRICE = 4.0
"""What a missing logit up to the threshold costs, in logits of the gap."""


Move = Callable[[Victim, torch.Tensor, float, Effort], Moved]


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: its name in settings, files and tables.
        about: what it does, in one sentence.
        move: `move(victim, inputs, radius, effort)` returns the inputs, each moved within the radius.
        needs_gradients: whether it needs the surrogate's gradients.
        look: how it is drawn.
    """

    name: str
    about: str
    move: Move
    needs_gradients: bool = True
    look: Look = UNKNOWN


ATTACKS: dict[str, Attack] = {}
"""All attacks by name."""


def register_attack(attack: Attack) -> Attack:
    """Register an attack under its name, which must be new."""
    return register(ATTACKS, attack.name, attack, "attack")


def ascend(
    victim: Victim,
    inputs: torch.Tensor,
    radius: float,
    effort: Effort,
    objective_of: Callable[[int], Objective],
) -> Moved:
    """Return the best points of projected gradient ascents, one from each start.

    `objective_of(start)` is the objective of a start. The first start is the input itself; the others lie at
    the radius, in random directions.
    """
    best, stride = Best(inputs), _STRIDE * radius / effort.steps
    for start in range(effort.restarts):
        objective = objective_of(start)
        moved = victim.towards_anywhere(inputs, inputs, radius, radius) if start else inputs
        for step in range(effort.steps + 1):
            moved = moved.detach().requires_grad_(True)
            with torch.enable_grad():
                value = objective(moved)
                (gradient,) = torch.autograd.grad(value.sum(), moved)
            best.take(moved.detach(), value.detach())
            if step < effort.steps:
                onwards = moved.detach() + stride * gradient / length(gradient).clamp_min(1e-12)
                moved = victim.within(inputs, onwards, radius)
    return Moved(best.points)


def _surrogate(victim: Victim) -> nn.Module:
    assert victim.surrogate is not None
    return victim.surrogate


def _raising(
    victim: Victim, network: nn.Module, inputs: torch.Tensor, place: int, copies: int
) -> Callable[[int], tuple[torch.Tensor, Objective]]:
    """Return by start the class to raise, and what the network says about it.

    The class is the network's own (`place` 0), or the next ones in turn.
    """
    ranked = victim.ranked(network, inputs, copies)

    def of_start(start: int) -> tuple[torch.Tensor, Objective]:
        label = ranked[:, min(place * (1 + start), ranked.shape[1] - 1)]
        return label, lambda moved: victim.said(network, moved, label, copies)

    return of_start


def _raise(place: int) -> Move:
    """Raise what the surrogate says about a class."""

    def move(victim: Victim, inputs: torch.Tensor, radius: float, effort: Effort) -> Moved:
        of_start = _raising(victim, _surrogate(victim), inputs, place, effort.copies)
        return ascend(victim, inputs, radius, effort, lambda start: of_start(start)[1])

    return move


def _play_off(network_of: Callable[[Victim], nn.Module], place: int) -> Move:
    """Raise what a network says about a class, and lower its smoothed probability.

    A gap between both counts for little where no radius is issued.
    """

    def move(victim: Victim, inputs: torch.Tensor, radius: float, effort: Effort) -> Moved:
        of_start = _raising(victim, network_of(victim), inputs, place, effort.copies)
        issued = torch.tensor(victim.threshold).clamp(1e-4, 1 - 1e-4).logit()

        def gap_of(start: int) -> Objective:
            label, says = of_start(start)

            def gap(moved: torch.Tensor) -> torch.Tensor:
                said = says(moved)
                missing = (issued - said).clamp_min(0.0)
                return said - victim.smoothed(moved, label, effort.copies) - _PRICE * missing

            return gap

        return ascend(victim, inputs, radius, effort, gap_of)

    return move


def _queries(victim: Victim, inputs: torch.Tensor, radius: float, effort: Effort) -> Moved:
    """Search at random for the largest bound, from the certifier's answers alone; use the best of them."""
    best, tried = Best(inputs), inputs
    kept: Certificates | None = None
    for _ in range(effort.queries):
        found = victim.certifier.certify(tried.cpu())
        shown = found.lower_bound if found.probabilities is None else found.probabilities.max(axis=1)
        value = torch.from_numpy(found.lower_bound + 1e-3 * shown)  # where nothing is issued, what is shown
        better = best.take(tried, value.to(inputs.device)).cpu().numpy()
        kept = found if kept is None else kept.where(~better, found)
        tried = victim.towards_anywhere(inputs, best.points, radius, 0.5 * radius)
    return Moved(best.points, kept, effort.queries)


def _random(victim: Victim, inputs: torch.Tensor, radius: float, effort: Effort) -> Moved:  # noqa: ARG001
    return Moved(victim.towards_anywhere(inputs, inputs, radius, radius))


RANDOM = register_attack(
    Attack("random", "Moves in a random direction.", _random, False, Look(GREY, (1, 1), "x"))
)
QUERIES = register_attack(
    Attack(
        "queries",
        "Searches for the largest bound at random, from the certifier's answers alone, and uses the best.",
        _queries,
        False,
        Look(ORANGE, (2, 1.5), "v"),
    )
)
TRANSFER = register_attack(
    Attack(
        "transfer",
        "Does what `mislead` does, with the base classifier in place of an unknown surrogate.",
        _play_off(lambda victim: victim.base, 0),
        False,
        Look(SKY, (8, 2, 2, 2), "X"),
    )
)
INFLATE = register_attack(
    Attack("inflate", "Raises the surrogate's top probability.", _raise(0), look=Look(GREEN, (6, 2), "^"))
)
MISLEAD = register_attack(
    Attack(
        "mislead",
        "Raises the surrogate's top probability and lowers the smoothed one.",
        _play_off(_surrogate, 0),
        look=Look(VERMILLION, (), "o"),
    )
)
OTHER_CLASS = register_attack(
    Attack(
        "other-class",
        "Makes the surrogate answer another class.",
        _raise(1),
        look=Look(PURPLE, (6, 1.5, 1.5, 1.5), "D"),
    )
)
OTHER_MISLED = register_attack(
    Attack(
        "other-class-misled",
        "Makes the surrogate answer another class, and keeps its smoothed probability low.",
        _play_off(_surrogate, 1),
        look=Look(BLUE, (4, 1.5, 1, 1.5), "s"),
    )
)
