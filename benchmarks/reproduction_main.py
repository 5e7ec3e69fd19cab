"""Accuracies and the main comparison beside the paper's: tables of docs/reproduction."""

from collections.abc import Callable
from functools import partial

from published import Columns, Entry, Results, column, percent, table, text
from reproduction_names import entry_name
from rrise.certifiers.methods import ONE_STAGE, RRISE
from rrise.evaluation.measure.known import is_surrogate


def accuracy(everything: list[Results]) -> str:
    """Set accuracies of the smoothed classifier and of the surrogate beside the paper's."""
    rows = []
    for results in everything:
        for method, words in ((ONE_STAGE.name, "smoothed classifier"), (RRISE.name, "surrogate")):
            (entry,) = results.entries("paper", method=method, main=True)
            paper = results.paper("main_cert_boundary", method, "CertAcc@0 (%)")
            difference = 100 * entry["mean"]["accuracy"] - paper
            more = {"dataset": results.dataset, "of": words, "paper": paper, "difference": difference}
            rows.append({**entry, **more})
    columns: Columns = {
        "dataset": lambda row: row["dataset"],
        "classifier": lambda row: row["of"],
        "paper: accuracy (%)": lambda row: text(row["paper"]),
        "ours: accuracy (%)": percent("accuracy"),
        "difference (points)": lambda row: f"{row['difference']:+.2f}",
        "within 1.5 points": lambda row: "yes" if abs(row["difference"]) <= 1.5 else "no",
        "ours: CertAcc@0 (%)": percent("certified_accuracy"),
        "ours: average certified radius": column("average_certified_radius", digits=3),
    }
    return table(columns, rows, words=2)


def main_comparison(protocol: str, results: Results) -> str:
    """Set one protocol's numbers of every method beside the paper's."""

    def paper(metric: str, key: str, scale: float, of: str = "main_cert_boundary") -> Callable[[Entry], str]:
        """Return the paper's number and, behind it, ours minus it."""

        def words(entry: Entry) -> str:
            theirs = results.paper(of, entry["method"], metric)
            if theirs is None:
                return "–"
            return f"{theirs:,.2f} ({scale * entry['mean'][key] - theirs:+,.2f})"

        return words

    columns: Columns = {
        "method": entry_name,
        "accuracy (%)": percent("accuracy"),
        "CertAcc@0 (%)": percent("certified_accuracy"),
        "paper: CertAcc@0 (difference)": lambda entry: paper("CertAcc@0 (%)", _printed(entry), 100)(entry),
        "OCA (%)": percent("boundary_accuracy"),
        "paper: OCA (difference)": paper("OCA (%)", "boundary_accuracy", 100),
        "boundary mass (%)": percent("boundary_mass"),
        "paper: boundary mass (difference)": paper("Boundary Mass", "boundary_mass", 100),
        "average certified radius": column("average_certified_radius", digits=3),
        "passes per query": column("mean_passes", digits=0),
        "paper: passes (difference)": paper("Test Cost", "mean_passes", 1, "main_compute"),
    }
    return table(columns, results.entries(protocol, main=True), words=1)


def _printed(entry: Entry) -> str:
    """Return what the paper prints as CertAcc@0: of surrogates it is their accuracy."""
    return "accuracy" if is_surrogate(entry["method"]) else "certified_accuracy"


held_out = partial(main_comparison, "held-out")
papers_protocol = partial(main_comparison, "paper")
