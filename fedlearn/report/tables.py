"""Show tables on the page (HTML), in a terminal, and in files (CSV, Markdown, LaTeX)."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import starmap
from typing import Any, Literal

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table as RichTable

from fedlearn.report.numbers import MeanSd, number_spread

MANY = 100  # rows; rich lays out no more, as a thousand take it longer than reading their runs does
GAP = "   "  # between columns
WIDTH = 190  # columns of a table that is not printed to a terminal
FORMULA = "=+-@\t\n＝＋－＠"  # noqa: RUF001  letters with which a formula begins
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "ε": r"$\varepsilon$",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name in files, its title for people, and the form of its cells for people."""

    name: str
    title: str
    form: Callable[[Any], str] = str
    numeric: bool = True
    spread_form: Callable[[float, float], str] = number_spread  # of a mean and its deviation, in one unit

    def text(self, cell: object) -> str:
        """Return the text of a cell for people: a dash for an empty one, mean ± deviation for a `MeanSd`."""
        if cell is None:
            return "-"
        if isinstance(cell, MeanSd):
            return self.form(cell.mean) if cell.sd is None else self.spread_form(cell.mean, cell.sd)
        return self.form(cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values under columns that know how to show them."""

    key: str  # name of its files
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]
    foot: tuple[tuple[object, ...], ...] = ()  # rows below a rule

    @classmethod
    def of_texts(
        cls,
        key: str,
        title: str,
        heads: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        words: int = 0,
        foot: Iterable[Sequence[str]] = (),
    ) -> Table:
        """Return a table whose cells are texts.

        Parameters
        ----------
        words
            How many columns, from the first, hold words; the others hold numbers.
        """  # fmt: skip
        columns = (Column(head, head, numeric=place >= words) for place, head in enumerate(heads))
        return cls(key, title, tuple(columns), tuple(map(tuple, rows)), tuple(map(tuple, foot)))

    def with_columns(self, names: Sequence[str]) -> Table:
        """Return the table with these columns alone, by name or title, in this order; the first column stays first."""
        order = [place for name in names for place, each in enumerate(self.columns) if name in (each.name, each.title)]
        return self._at(list(dict.fromkeys([0, *order])))

    def without_columns(self, names: Iterable[str]) -> Table:
        """Return the table without the columns of these names."""
        left_out = set(names)
        return self._at([place for place, each in enumerate(self.columns) if each.name not in left_out])

    def _at(self, places: Sequence[int]) -> Table:
        rows, foot = (tuple(tuple(row[p] for p in places) for row in part) for part in (self.rows, self.foot))
        return replace(self, columns=tuple(self.columns[p] for p in places), rows=rows, foot=foot)

    def as_html(self, about: Callable[[str], str] | None = None) -> str:
        """Return a ``<table>``; every text is escaped.

        Parameters
        ----------
        about
            Returns the text that is shown on hover over a row, given its first cell.
        """
        head = "".join(f"<th{_kind(column)}>{escape(column.title)}</th>" for column in self.columns)
        said = [f' title="{escape(about(str(row[0])))}"' if about and about(str(row[0])) else "" for row in self.rows]
        body = "".join(f"<tr{title}>{self._html_cells(row)}</tr>" for title, row in zip(said, self.rows, strict=True))
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

    def _html_cells(self, row: Sequence[object]) -> str:
        cells = zip(self.columns, row, strict=True)
        return "".join(f"<td{_kind(column)}>{escape(column.text(cell))}</td>" for column, cell in cells)

    def as_csv(self) -> str:
        """Return the table as CSV with plain values; a spread takes two columns. No cell is a spreadsheet formula."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        doubled = [any(isinstance(row[place], MeanSd) for row in self.rows) for place in range(len(self.columns))]
        names = [(c.name, f"{c.name}_sd") if two else (c.name,) for c, two in zip(self.columns, doubled, strict=True)]
        writer.writerow([_no_formula(name) for pair in names for name in pair])
        for row in self.rows:
            cells = zip(row, doubled, strict=True)
            writer.writerow([_no_formula(v) for cell, two in cells for v in (_two(cell) if two else (cell,))])
        return text.getvalue()

    def as_markdown(self) -> str:
        """Return the table as Markdown, with numbers as people read them."""
        titles = [column.title.replace("\n", " ") for column in self.columns]
        lines = [titles, ["---"] * len(titles), *self._texts(self.rows + self.foot)]
        escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
        return "".join(f"| {' | '.join(line)} |\n" for line in escaped)

    def as_latex(self, caption: str = "") -> str:
        """Return the table as LaTeX with the booktabs package; with a caption as a floating table."""
        kinds = "".join("r" if column.numeric else "l" for column in self.columns)
        heads = [_latex_head(column.title) for column in self.columns]
        body = [[_latex(cell) for cell in line] for line in self._texts(self.rows)]
        foot = [[_latex(cell) for cell in line] for line in self._texts(self.foot)]
        head_row, *rows = map(_latex_row, [heads, *body])
        last = [r"\midrule", *map(_latex_row, foot)] if foot else []
        lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head_row, r"\midrule", *rows, *last, r"\bottomrule"]
        lines.append(r"\end{tabular}")
        if caption:
            opening = [r"\begin{table}", r"\centering\small", rf"\caption{{{_latex(caption)}}}"]
            lines = [*opening, *lines, r"\end{table}"]
        return "\n".join([*lines, ""])

    def show(self) -> None:
        """Print the table; numbers are never broken into two lines."""
        body, foot = self._texts(self.rows), self._texts(self.foot)
        console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDTH)
        if len(body) > MANY and not foot and (text := self._laid_out(body, console)):
            print(text, end="")
            return
        table = self._headed([max(map(len, cells), default=0) for cells in zip(*body, *foot, strict=True)])
        for line in body:
            table.add_row(*map(escape_markup, line))
        table.add_section()
        for line in foot:
            table.add_row(*map(escape_markup, line))
        console.print(table)

    def _headed(self, widths: Sequence[int], *, as_wide: bool = False) -> RichTable:
        """Return the table without rows; numbers, or with `as_wide` all columns, get at least these widths."""
        table = RichTable(title=self.title, title_justify="left", box=SIMPLE, pad_edge=False)
        for column, width in zip(self.columns, widths or [0] * len(self.columns), strict=True):
            justify: Literal["left", "right"] = "right" if column.numeric else "left"
            least = width if column.numeric or as_wide else None
            table.add_column(escape_markup(column.title), justify=justify, min_width=least, overflow="fold")
        return table

    def _laid_out(self, body: Sequence[Sequence[str]], console: Console) -> str:
        """Return what `show` prints, laid out here, which takes a tenth of rich's time; empty if a row is too wide."""
        heads = [column.title for column in self.columns]
        widths = [max(map(cell_len, cells)) for cells in zip(heads, *body, strict=True)]
        if sum(widths) + len(GAP) * len(widths) > console.width or any(
            "\n" in cell for line in (heads, *body) for cell in line
        ):
            return ""
        with console.capture() as above:
            console.print(self._headed(widths, as_wide=True))
        *head, last = above.get().splitlines(keepends=True)
        fill = [(width, column.numeric) for width, column in zip(widths, self.columns, strict=True)]
        rows = (f" {GAP.join(starmap(_filled, zip(line, fill, strict=True)))} \n" for line in body)
        return "".join([*head, *rows, last])

    def _texts(self, rows: Iterable[tuple[object, ...]]) -> list[list[str]]:
        """Return the texts of cells for people."""
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in rows]


def _filled(cell: str, to: tuple[int, bool]) -> str:
    """Return a cell as wide as its column, on the right of it if the column is numeric."""
    width, numeric = to
    space = " " * (width - cell_len(cell))
    return space + cell if numeric else cell + space


def _kind(column: Column) -> str:
    return ' class="num"' if column.numeric else ""


def _two(cell: object) -> tuple[object, object]:
    return (cell.mean, cell.sd) if isinstance(cell, MeanSd) else (cell, None)


def _no_formula(cell: object) -> object:
    """Return a cell that a spreadsheet does not run: a text that looks like a formula gets a quote before it.

    >>> [_no_formula(cell) for cell in ("=cmd|' /C calc'!A0", "@SUM(1)", "-0.5", "+1e3", "a=b", -2.0, None)]
    ["'=cmd|' /C calc'!A0", "'@SUM(1)", '-0.5', '+1e3', 'a=b', -2.0, None]
    """
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", " ")  # the csv module does not quote it, and readers take it for the end of the row
    begins = text.lstrip(" ")[:1]
    return f"'{text}" if begins and begins in FORMULA and not NUMBER.fullmatch(text) else text


def _latex_row(cells: Sequence[str]) -> str:
    r"""Return a row; what begins as an option of the row above, ``\\[2pt]`` or ``\\*``, is kept from being one."""
    row = " & ".join(cells)
    return f"{'{}' if row.lstrip().startswith(('[', '*')) else ''}{row} \\\\"


def _latex(text: str) -> str:
    return "".join(LATEX_SPECIAL.get(letter, letter) for letter in text)


def _latex_head(title: str) -> str:
    lines = [_latex(line) for line in title.split("\n")]
    return lines[0] if len(lines) == 1 else r"\shortstack{" + r"\\".join(lines) + "}"
