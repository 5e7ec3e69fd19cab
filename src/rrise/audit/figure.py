"""The figure of an audit: wrong certificates by attack and radius."""

from rrise.audit.attacks import ATTACKS
from rrise.audit.findings import NATURAL, Audit
from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.style import figure, legend_below
from rrise.looks import INK

_APART = 0.006
"""How far apart intervals at one radius are drawn, as a part of the largest radius."""


def attack_figure(audit: Audit) -> Drawing:
    """Draw the share of inputs with a wrong certificate against the radius of the attack."""
    natural, *others = audit.findings
    with figure(4.2) as (made, grid):
        axes = grid[0, 0]
        drawing = Drawing(
            made,
            "Wrong certificates under attack",
            "The radius of the attack across, the share of inputs with an issued and wrong certificate up, "
            "one line for each attack, with 95 % intervals; a dashed line is the promised failure.",
        )
        names = list(dict.fromkeys(finding.attack for finding in others))
        apart = _APART * max((finding.radius for finding in others), default=0.0)
        for place, name in enumerate(names):
            aside = (place - (len(names) - 1) / 2) * apart
            mine = [natural, *(finding for finding in others if finding.attack == name)]
            radii = [finding.radius + (aside if finding.radius else 0.0) for finding in mine]
            shares = [100 * finding.failure[0] for finding in mine]
            look = ATTACKS[name].look
            axes.plot(radii, shares, label=name, **look.line())
            for radius, finding in zip(radii[1:], mine[1:], strict=True):
                share, low, high = (100 * part for part in finding.failure)
                axes.plot([radius] * 2, [low, high], color=look.colour, linewidth=0.9, alpha=0.5)
                words = f"{name}, radius {finding.radius:g}: {share:.1f} % ({low:.1f} to {high:.1f} %)"
                drawing.mark(axes, radius, share, words)
        if audit.promised is not None:
            promised = 100 * audit.promised
            axes.axhline(
                promised,
                color=INK,
                linewidth=1.0,
                dashes=(5, 3),
                label="promised" if audit.attack_radius else "promised without attack",
            )
        share = 100 * natural.failure[0]
        drawing.mark(axes, 0.0, share, f"{NATURAL}: {share:.1f} %")
        axes.set(xlabel="radius of the attack", title="% of inputs with a wrong certificate")
        axes.set_ylim(bottom=0)
        legend_below(made, axes, 3)
    return drawing
