"""A table as a value: what it says, before it is written as CSV, Markdown or LaTeX."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

UNDEFINED = "–"
"""What stands for a number that is undefined, as in the paper."""


@dataclass(frozen=True)
class Number:
    """A mean over runs and its standard deviation; None where undefined, or where there is one run."""

    mean: float | None = None
    std: float | None = None

    def text(self, digits: int = 2) -> str:
        """Return the number as the paper prints it.

        >>> Number(87.441, 0.012).text(), Number(1.0).text(), Number().text()
        ('87.44 ± 0.01', '1.00', '–')
        """
        if self.mean is None:
            return UNDEFINED
        mean = _rounded(self.mean, digits)
        return mean if self.std is None else f"{mean} ± {_rounded(self.std, digits)}"


@dataclass(frozen=True)
class Column:
    """A column of numbers; `paper` is its name in the paper's table, where that has it."""

    name: str
    paper: str | None = None
    digits: int = 2


@dataclass(frozen=True)
class Cell:
    """One number of ours and, where there is one, the paper's."""

    ours: Number
    paper: Number | None = None

    @property
    def difference(self) -> float | None:
        """Return ours minus the paper's; None where either is undefined."""
        if self.paper is None or self.paper.mean is None or self.ours.mean is None:
            return None
        return self.ours.mean - self.paper.mean

    def texts(self, digits: int, *, beside_paper: bool) -> Iterator[str]:
        """Give the number and, if wanted, the paper's and the difference; empty where the paper has none."""
        yield self.ours.text(digits)
        if beside_paper:
            yield "" if self.paper is None else self.paper.text(digits)
            yield "" if self.difference is None else _signed(self.difference, digits)


@dataclass(frozen=True)
class Row:
    """The setting that was measured, how the table names it, and its numbers."""

    setting: Mapping[str, Any]
    labels: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Rows in groups, with a rule between groups.

    `name` is a file name without its ending. Where `label_once`, the first label of a group is shown in
    its first row only.
    """

    name: str
    title: str
    headings: tuple[str, ...]
    columns: tuple[Column, ...]
    groups: tuple[tuple[Row, ...], ...]
    notes: tuple[str, ...] = ()
    label_once: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, without their groups."""
        return tuple(row for group in self.groups for row in group)

    @property
    def beside_paper(self) -> tuple[bool, ...]:
        """Return for each column whether any of its numbers has one of the paper's beside it."""
        return tuple(
            any(row.cells[index].paper is not None for row in self.rows) for index in range(len(self.columns))
        )

    def header(self) -> list[str]:
        """Return the headings of everything that is shown."""
        shown = list(self.headings)
        for column, beside in zip(self.columns, self.beside_paper, strict=True):
            shown += [column.name, *(["paper", "difference"] if beside else [])]
        return shown

    def texts(self) -> list[list[list[str]]]:
        """Return groups of rows of texts, one text for each heading."""
        beside = self.beside_paper
        shown = []
        for group in self.groups:
            lines = []
            for position, row in enumerate(group):
                labels = ["", *row.labels[1:]] if self.label_once and position else list(row.labels)
                for column, cell, both in zip(self.columns, row.cells, beside, strict=True):
                    labels += cell.texts(column.digits, beside_paper=both)
                lines.append(labels)
            shown.append(lines)
        return shown


def _rounded(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def _signed(value: float, digits: int) -> str:
    text = _rounded(value, digits)
    return text if value <= 0 or float(text) == 0 else f"+{text}"
