"""What a surrogate certifies at every total failure: tables of docs/reproduction."""

from published import HEAD, LEVELS, Columns, Results, column, percent, table
from reproduction_spread import spread
from rrise.certifiers.methods import RRISE, TWO_STAGE


def levels(results: Results) -> str:
    """Tell what each total failure costs, with both scores, and what Monte Carlo certifies at the same."""
    own = results.entries(method=RRISE.name, main=True)[0]["budget"]
    largest = max(entry["budget"] for entry in results.entries(method=TWO_STAGE.name))
    rows = []
    for level in LEVELS:
        for score in ("additive", "probit"):
            (entry,) = results.entries(variant=f"{HEAD}{own}", failure=level, score=score)
            other = spread(results.evidence[0].held_out(), own, level, score)
            rows.append({**entry, "other images": other})
        rows += results.entries(method=TWO_STAGE.name, budget=largest, failure=level)
    columns: Columns = {
        "total failure": lambda entry: entry["failure"],
        "method": lambda entry: f"{entry['method']} {entry['score']}".strip(),
        "offset": column("offset", digits=3),
        "issued (%)": percent("issued"),
        "CertAcc@0 (%)": percent("certified_accuracy"),
        "average certified radius": column("average_certified_radius", digits=3),
        "± with other images (points / radius)": lambda entry: entry.get("other images", "–"),
        "bound too high (%)": percent("violation_rate"),
        "issued and too high (%)": percent("issued_violation_rate"),
        "too high among issued (%)": percent("violation_rate_among_issued"),
    }
    return table(columns, rows, words=2)
