"""What results name, and what is known about it: methods, and the scores of calibrated surrogates."""

from rrise.certifiers.methods import METHODS, Method, methods
from rrise.looks import UNKNOWN, Look
from rrise.statistics import SCORES, Score

FACE_VALUE = "none"
"""What results call the score of a surrogate that is not calibrated."""


def is_surrogate(method: str) -> bool:
    """Whether a method takes one pass per query and was trained before; one that nobody registered votes.

    >>> is_surrogate("Baseline 4"), is_surrogate("Baseline 3"), is_surrogate("mine")
    (True, False, False)
    """
    return method in METHODS and not METHODS[method].votes


def surrogates() -> list[Method]:
    """Return the methods that take one pass per query, RRISE first."""
    return [method for method in methods() if not method.votes]


def voting_methods() -> list[Method]:
    """Return the methods that vote on every input."""
    return [method for method in methods() if method.votes]


def paper_score() -> Score:
    """Return the score that the paper calibrates with."""
    return next(score for score in SCORES.values() if score.in_paper)


def is_papers_score(score: str) -> bool:
    """Whether a result has the paper's score, or comes from a method that votes and has none.

    >>> is_papers_score("additive"), is_papers_score(""), is_papers_score("probit"), is_papers_score("none")
    (True, True, False, False)
    """
    return score == "" or (score in SCORES and SCORES[score].in_paper)


def look_of_score(score: str) -> Look:
    """Return how a score is drawn."""
    return SCORES[score].look if score in SCORES else UNKNOWN
