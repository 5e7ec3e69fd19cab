"""What stands below a table: what its marks mean, and how its numbers compare with the paper's."""

from rrise.certifiers.methods import method_by_name
from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.known import FACE_VALUE, paper_score, surrogates
from rrise.evaluation.tables.columns import column_of
from rrise.evaluation.tables.comparison import CAUTION, UNCALIBRATED
from rrise.evaluation.tables.paper import BUDGET, FAILURE, targets_differ
from rrise.evaluation.tables.values import Table
from rrise.statistics import SCORES

_AT_FACE_VALUE = f"({UNCALIBRATED}): the surrogate's probability at face value, without any guarantee."
_BESIDE_PAPER = (
    "Columns paper and difference: what the paper prints for the same setting, and ours minus it; empty "
    "where it prints nothing. Where its tables do not say otherwise, they are at "
    f"budget {BUDGET} and total failure {FAILURE}."
)
_OTHER_TARGETS = (
    f"The paper's surrogates are trained on {BUDGET} votes per training input, ours here on {{}}; by its "
    "budget ablation the number hardly matters."
)
_OTHER_PROTOCOL = (
    "The paper also reports on inputs that it calibrated with, and counts costs in another way: protocol "
    "paper does as it does."
)
_CERTIFIED_ACCURACY = (
    "What the paper prints as CertAcc@0 of surrogates does not depend on their calibration: it is plain "
    "accuracy, and comparable with Accuracy (%) rather than with CertAcc@0 (%), which is by definition here."
)


def notes_of(table: Table, protocol: str, varied: frozenset[str]) -> tuple[str, ...]:
    """Return the notes that the rows and columns of a table call for."""
    compared = any(table.beside_paper)
    other = {
        int(row.setting["budget"])
        for row in table.rows
        if targets_differ(row.setting, varied) and any(cell.paper is not None for cell in row.cells)
    }
    accuracy = column_of(METRICS["accuracy"])
    return (
        *_cautions({row.setting["method"] for row in table.rows}),
        *_of_scores({row.setting["score"] for row in table.rows}),
        *(
            note
            for note, wanted in (
                (_BESIDE_PAPER, compared),
                (_OTHER_TARGETS.format(", ".join(map(str, sorted(other)))), bool(other)),
                (_OTHER_PROTOCOL, compared and protocol != "paper"),
                (_CERTIFIED_ACCURACY, compared and accuracy in table.columns),
            )
            if wanted
        ),
    )


def _cautions(shown: set[str]) -> list[str]:
    """Return the sentence of each method whose rows are marked."""
    marked = [method for method in map(method_by_name, sorted(shown)) if method.caution]
    if len(marked) == 1:
        return [f"{CAUTION} {marked[0].caution}"]
    return [f"{CAUTION} {method.name}: {method.caution}" for method in marked]


def _of_scores(shown: set[str]) -> list[str]:
    """Say which rows have the paper's score, and what the other scores are."""
    papers = paper_score()
    others = [score for score in SCORES.values() if score.name in shown and not score.in_paper]
    notes = [f"({score.name}): {score.note or f'the lower bound is {score.formula}.'}" for score in others]
    if others and papers.name in shown:
        names = " and ".join(method.name for method in surrogates() if method.in_paper)
        notes.insert(0, f"{names} without a mark have the {papers.name} score, as in the paper.")
    return [*notes, *([_AT_FACE_VALUE] if FACE_VALUE in shown else [])]
