"""Answers of analyses: tables and curves, with texts, frames, LaTeX and plain values of them; and analysis.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlearn.core.errors import printable
from fedlearn.runs.file_names import ANALYSIS, WORTH
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.safe_reading import read_as, schema_of

if TYPE_CHECKING:
    import pandas as pd

Cell = str | float | int | None
GAP = "  "
WIDTH = 78
INTERCEPT = "(Intercept)"
WORTH_COLUMN = "Shapley value"  # of the table of worth.json
MOST_LINES = 40  # of a table in a summary
LATEX = {"\\": r"\textbackslash{}"} | {letter: rf"\{letter}" for letter in "{}$&#_%"}


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A table of an answer.

    Parameters
    ----------
    name
        Short name, of its file.
    columns
        Titles; the first is that of the rows' names.
    rows
        Cells: texts, numbers, or None for one that there is not.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def texts(self) -> list[list[str]]:
        """Return the cells as people read them, with the titles first."""
        return [list(self.columns), *([text_of(cell) for cell in row] for row in self.rows)]

    def __str__(self) -> str:
        """Return the table with its columns below one another, numbers to the right."""
        lines = self.texts()
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        return "\n".join(GAP.join(_filled(cells, widths)).rstrip() for cells in lines)

    def cut(self) -> list[str]:
        """Return a line for the rows that a summary leaves out, if it leaves any out."""
        more = len(self.rows) + 1 - MOST_LINES
        return [f"and {more:,} more rows: table({self.name!r})"] if more > 0 else []

    def to_latex(self) -> str:
        """Return the table as LaTeX, with the rules of booktabs."""
        head, *rows = (" & ".join(map(_latex, line)) + r" \\" for line in self.texts())
        kinds = "l" + "r" * (len(self.columns) - 1)
        opening = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head, r"\midrule"]
        return "\n".join([*opening, *rows, r"\bottomrule", r"\end{tabular}", ""])

    def frame(self) -> pd.DataFrame:
        """Return the table as a data frame, whose index are the names of the rows."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(self.columns)).set_index(self.columns[0])


@dataclass(frozen=True, slots=True)
class Curve:
    """A step function with its band, by time.

    Parameters
    ----------
    name
        Of the group; empty without groups.
    times, values, lower, upper
        Points of the grid, and from each on the value and its band.
    """

    name: str
    times: tuple[float, ...]
    values: tuple[float, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of an analysis.

    Parameters
    ----------
    title
        What was computed, and of what.
    facts
        Name -> value of single numbers: records, log-likelihood, AIC.
    tables
        Tables, in the order in which people read them.
    curves
        Curves of survival.
    forest
        Name of the column of the first table whose intervals a forest plot shows; empty for none.
    notes
        Lines on what was left out, moved or assumed.
    """

    title: str
    facts: Mapping[str, Cell]
    tables: tuple[AnswerTable, ...]
    curves: tuple[Curve, ...] = ()
    forest: str = ""
    notes: tuple[str, ...] = ()

    def table(self, name: str) -> pd.DataFrame:
        """Return a table as a data frame."""
        return next(each for each in self.tables if each.name == name).frame()

    def intervals(self) -> list[tuple[str, float, float, float]]:
        """Return name, estimate and both ends of each interval of a forest plot, without the intercept."""
        if not self.forest:
            return []
        titles, rows = self.tables[0].columns, self.tables[0].rows
        ends = [title for title in titles if title.endswith("%") and (self.forest in title or self.forest == "coef")][
            :2
        ]
        places = [titles.index(title) for title in (self.forest, *ends)]
        found = [(str(row[0]), *(row[place] for place in places)) for row in rows if row[0] != INTERCEPT]
        return [row for row in found if all(isinstance(value, float | int) for value in row[1:])]  # type: ignore[misc]

    def summary(self) -> str:
        """Return all tables as text, with facts above and notes below."""
        facts = [f"{name}: {text_of(value)}" for name, value in self.facts.items() if value is not None]
        parts = [self.title, "=" * WIDTH, *_in_two(facts), "-" * WIDTH]
        for table in self.tables:
            parts += [*str(table).splitlines()[:MOST_LINES], *table.cut(), "-" * WIDTH]
        return "\n".join([*parts, *self.notes])

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def to_plain(self) -> dict[str, object]:
        """Return the answer as plain values, with None for a number that is not finite."""
        plain: dict[str, object] = _plain(asdict(self))
        return plain

    def to_json(self) -> str:
        """Return the answer as JSON."""
        return json.dumps(self.to_plain(), ensure_ascii=False)

    def to_latex(self) -> str:
        """Return all tables as LaTeX, with the rules of booktabs."""
        return "\n".join(table.to_latex() for table in self.tables)


def text_of(cell: Cell) -> str:
    """Return a number as people read it: five figures, and all digits of a whole number.

    >>> [text_of(each) for each in (0.123456, 1234567, 1234567.8, 3e-9, "a", None, 2.0)]
    ['0.12346', '1,234,567', '1.2346e+06', '3e-09', 'a', '', '2']
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.5g}" if isfinite(cell) else ""


def _filled(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = zip(cells, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]


def _in_two(facts: Sequence[str]) -> list[str]:
    """Return facts in two columns."""
    half = WIDTH // 2
    return ["".join(each.ljust(half) for each in facts[at : at + 2]).rstrip() for at in range(0, len(facts), 2)]


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float():
            return value if isfinite(value) else None
    return value


def write_answer(folder: Path, plain: Mapping[str, object]) -> None:
    """Write analysis.json from what a model says of its state (`fedlearn.models.model.Analyzing`)."""
    found = schema_of(Answer).validate_python(plain)
    with storing(folder):
        write_atomically(folder / ANALYSIS, found.to_json().encode())


def write_worth(folder: Path, found: Answer) -> None:
    """Write worth.json, which `fedlearn worth` makes of a run."""
    with storing(folder):
        write_atomically(folder / WORTH, found.to_json().encode())


def read_answer(folder: Path, name: str = ANALYSIS) -> Answer | None:
    """Return the content of analysis.json, or of another file, its texts printable; None if there is no such file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        In one line, if its content is not what a run writes.
    """
    if (found := read_as(Answer, folder / name)) is None:
        return None
    if any(len(row) != len(table.columns) for table in found.tables for row in table.rows):
        raise ValueError("each row of a table should have a cell for each of its columns")
    if any(len({len(c.times), len(c.values), len(c.lower), len(c.upper)}) > 1 for c in found.curves):
        raise ValueError("each curve should have a value and a band for each of its times")
    cleaned: Answer = schema_of(Answer).validate_python(_printable(asdict(found)))
    return cleaned


def _printable(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(name): _printable(each) for name, each in value.items()}
        case list() | tuple():
            return [_printable(each) for each in value]
    return value
