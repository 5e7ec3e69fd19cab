"""Tables as text: CSV with every digit, Markdown and LaTeX (booktabs) as the paper prints them."""

import csv
import io
import re

from rrise.evaluation.tables.values import Table

_CSV = (
    "table",
    "dataset",
    "method",
    "variant",
    "budget",
    "total_failure",
    "metric",
    "mean",
    "std",
    "score",
    "runs",
)
_CSV_PAPER = ("paper_mean", "paper_std", "difference")

_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "…": r"\dots{}",
    "†": r"$^\dagger$",
    "δ": r"$\delta$",
}


def as_csv(table: Table) -> str:
    """Return one line for each number, unrounded, in the format of the paper's numbers (`paper.csv`).

    Score and number of runs follow and, where the table has them, the paper's number and the difference.
    """
    compared = any(table.beside_paper)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_CSV, *(_CSV_PAPER if compared else ())])
    for row in table.rows:
        setting = [row.setting[name] for name in ("dataset", "method", "variant", "budget", "failure")]
        for column, cell in zip(table.columns, row.cells, strict=True):
            ours = [column.name, cell.ours.mean, cell.ours.std, row.setting["score"], row.setting["runs"]]
            paper = [cell.paper and cell.paper.mean, cell.paper and cell.paper.std, cell.difference]
            writer.writerow([table.name, *setting, *ours, *(paper if compared else ())])
    return buffer.getvalue()


def as_markdown(table: Table) -> str:
    """Return the table with its title above and its notes below; groups are told apart by their labels."""
    left = len(table.headings)
    header = table.header()
    lines = [header, ["---"] * left + ["---:"] * (len(header) - left)]
    lines += [row for group in table.texts() for row in group]
    body = "\n".join(f"| {' | '.join(map(_markdown, line))} |" for line in lines)
    notes = "".join(f"\n{_markdown(note)}\n" for note in table.notes)
    return f"**{_markdown(table.name)}.** {_markdown(table.title)}\n\n{body}\n{notes}"


def as_latex(table: Table) -> str:
    r"""Return a `table` environment that stands alone; the document needs `booktabs` and `graphicx`.

    A table wider than the text is made as wide as the text; others keep their size.
    """
    header = table.header()
    shape = "l" * len(table.headings) + "c" * (len(header) - len(table.headings))
    groups = ["\n".join(_latex_row(row) for row in group) for group in table.texts()]
    notes = "".join(
        f"\\par\\smallskip\\parbox{{\\textwidth}}{{\\footnotesize {_latex(note)}}}\n" for note in table.notes
    )
    return "\n".join(
        [
            r"% The document needs \usepackage{booktabs} and \usepackage{graphicx}.",
            r"\begin{table}[t]",
            r"\centering",
            r"\small",
            rf"\caption{{{_latex(table.title)}}}",
            rf"\label{{tab:{table.name}}}",
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{shape}}}",
            r"\toprule",
            _latex_row(header),
            r"\midrule",
            "\n\\midrule\n".join(groups),
            r"\bottomrule",
            r"\end{tabular}%",
            "}",
            f"{notes}\\end{{table}}\n",
        ]
    )


def _latex_row(texts: list[str]) -> str:
    return f"{' & '.join(map(_latex, texts))} \\\\"


def _latex(text: str) -> str:
    r"""Return text with what LaTeX reads specially escaped, and thresholds as mathematics.

    >>> _latex("k500_decline0.01 & 5 %"), _latex("CRD(t_1)"), _latex("t=0.05")
    ('k500\\_decline0.01 \\& 5 \\%', 'CRD($t_1$)', '$t=0.05$')
    """
    parts = re.split(r"(\bt_\d\b|\bt=[\d.e-]+)", text)
    return "".join(
        f"${part}$" if odd % 2 else "".join(_LATEX.get(character, character) for character in part)
        for odd, part in enumerate(parts)
    )


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_<`])", r"\\\1", text.replace("\n", " "))
