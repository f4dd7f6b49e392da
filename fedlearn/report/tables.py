"""Tables: on the page as HTML, in a terminal, and in files as CSV, Markdown and LaTeX; and what is in those of runs."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table as RichTable

from fedlearn.report.numbers import (
    number,
    number_spread,
    plain,
    ratio,
    ratio_spread,
    seconds,
    seconds_spread,
    size,
    size_spread,
)
from fedlearn.report.points import (
    Measure,
    Point,
    Spread,
    best_value,
    compression_ratio,
    counts_in,
    differing,
    metrics_of,
    seconds_of,
    shown,
)
from fedlearn.report.stored import StoredRun
from fedlearn.words.metrics import COUNTS_IN

WIDTH = 190  # columns, where it is not a terminal that is printed to
SHA_SHOWN = 10  # digits of a SHA-256 on the page; files have all of them
FORMULA = "=+-@\t\n＝＋－＠"  # noqa: RUF001  what a formula begins with
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "ε": r"$\varepsilon$",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name in files, its title for people, and how its cells are written for them."""

    name: str
    title: str
    form: Callable[[Any], str] = str
    numeric: bool = True
    spread_form: Callable[[float, float], str] = number_spread  # of a mean and its deviation, in one unit

    def text(self, cell: object) -> str:
        """Return a cell for people: a dash where it is empty, mean ± deviation of a `Spread`."""
        if cell is None:
            return "-"
        if isinstance(cell, Spread):
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
        """Return a table of cells that are written already.

        Parameters
        ----------
        words
            So many columns, the first ones, hold words; the others numbers.
        """  # fmt: skip
        columns = (Column(head, head, numeric=place >= words) for place, head in enumerate(heads))
        return cls(key, title, tuple(columns), tuple(map(tuple, rows)), tuple(map(tuple, foot)))

    def as_html(self, about: Callable[[str], str] | None = None) -> str:
        """Return a ``<table>``; every text is escaped.

        Parameters
        ----------
        about
            What is said on hover of the first cell of a row.
        """
        head = "".join(f"<th{_kind(column)}>{escape(column.title)}</th>" for column in self.columns)
        said = [f' title="{escape(about(str(row[0])))}"' if about and about(str(row[0])) else "" for row in self.rows]
        body = "".join(f"<tr{title}>{self._html_cells(row)}</tr>" for title, row in zip(said, self.rows, strict=True))
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'

    def _html_cells(self, row: Sequence[object]) -> str:
        cells = zip(self.columns, row, strict=True)
        return "".join(f"<td{_kind(column)}>{escape(column.text(cell))}</td>" for column, cell in cells)

    def as_csv(self) -> str:
        """Return the values themselves; a spread takes two columns. No cell is a formula for a spreadsheet."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        doubled = [any(isinstance(row[place], Spread) for row in self.rows) for place in range(len(self.columns))]
        names = [(c.name, f"{c.name}_sd") if two else (c.name,) for c, two in zip(self.columns, doubled, strict=True)]
        writer.writerow([_no_formula(name) for pair in names for name in pair])
        for row in self.rows:
            cells = zip(row, doubled, strict=True)
            writer.writerow([_no_formula(v) for cell, two in cells for v in (_two(cell) if two else (cell,))])
        return text.getvalue()

    def as_markdown(self) -> str:
        """Return it as Markdown, numbers as people read them."""
        titles = [column.title.replace("\n", " ") for column in self.columns]
        lines = [titles, ["---"] * len(titles), *self._texts(self.rows + self.foot)]
        escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
        return "".join(f"| {' | '.join(line)} |\n" for line in escaped)

    def as_latex(self, caption: str = "") -> str:
        """Return a tabular for the booktabs package, with a caption as a floating table; a title may have two lines."""
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
        """Print it; numbers are never broken into two lines."""
        body, foot = self._texts(self.rows), self._texts(self.foot)
        table = RichTable(title=self.title, title_justify="left", box=SIMPLE, pad_edge=False)
        by_column = list(zip(*body, *foot, strict=True)) or [()] * len(self.columns)
        for column, cells in zip(self.columns, by_column, strict=True):
            width = max(map(len, cells)) if column.numeric else None
            justify: Literal["left", "right"] = "right" if column.numeric else "left"
            table.add_column(escape_markup(column.title), justify=justify, min_width=width, overflow="fold")
        for line in body:
            table.add_row(*map(escape_markup, line))
        table.add_section()
        for line in foot:
            table.add_row(*map(escape_markup, line))
        Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH).print(table)

    def _texts(self, rows: Iterable[tuple[object, ...]]) -> list[list[str]]:
        """Return cells for people."""
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in rows]


def _kind(column: Column) -> str:
    return ' class="num"' if column.numeric else ""


def _two(cell: object) -> tuple[object, object]:
    return (cell.mean, cell.sd) if isinstance(cell, Spread) else (cell, None)


def _no_formula(cell: object) -> object:
    """Return a cell as a spreadsheet is to take it: a text that it would run begins with a quote; numbers stay.

    >>> [_no_formula(cell) for cell in ("=cmd|' /C calc'!A0", "@SUM(1)", "-0.5", "+1e3", "a=b", -2.0, None)]
    ["'=cmd|' /C calc'!A0", "'@SUM(1)", '-0.5', '+1e3', 'a=b', -2.0, None]
    """
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", " ")  # which the csv module does not quote: readers take it for the end of the row
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


# --- what is in them --------------------------------------------------------------------------------------------------


def _measures(runs: Sequence[StoredRun]) -> list[tuple[Column, Measure]]:
    """Return what a run comes to: the columns that all tables of runs share."""
    metrics = metrics_of(runs)
    measures: list[tuple[Column, Measure]] = []
    for metric in metrics.results:
        measures.append((Column(metric.name, metric.title, number), partial(StoredRun.latest, name=metric.name)))
        if metric is metrics.headline:
            column = Column(f"best_{metric.name}", f"best {metric.title}", number)
            measures.append((column, partial(best_value, metric=metric)))
    return [
        *measures,
        (Column("bytes_up", "uploaded", size, spread_form=size_spread), lambda run: run.total("bytes_up")),
        (Column("compression_ratio", "smaller", ratio, spread_form=ratio_spread), compression_ratio),
        (Column("bytes_down", "downloaded", size, spread_form=size_spread), lambda run: run.total("bytes_down")),
        (Column("seconds", "time", seconds, spread_form=seconds_spread), seconds_of),
    ]


def _words_of_losses(runs: Sequence[StoredRun]) -> list[Column]:
    """Return the column of what a privacy loss counts in, if any of the runs has one: no table says it without."""
    loss = metrics_of(runs).privacy_loss
    return [Column(f"{loss.name}{COUNTS_IN}", f"{loss.title} counts in", str, numeric=False)] if loss else []


def runs_table(runs: Sequence[StoredRun]) -> Table:
    """Return one row a run: the settings that tell it apart, and what came of it."""
    names, measures = differing(runs), _measures(runs)
    lost = [name for name in ("failed", "refused", "late") if any(run.total(name) for run in runs)]
    said = _words_of_losses(runs)
    columns = (
        Column("run", "run", str, numeric=False),
        *(Column(name, name.rpartition(".")[2], shown, numeric=False) for name in names),
        *(column for column, _ in measures),
        *said,
        Column("rounds", "rounds", str),
        *(Column(name, name, lambda value: f"{value:.0f}") for name in lost),
        Column("status", "status", str, numeric=False),
        Column("model_sha256", "SHA-256", lambda sha: sha[:SHA_SHOWN], numeric=False),
    )
    rows = [
        (
            run.name,
            *(run.settings.get(name) for name in names),
            *(measure(run) for _, measure in measures),
            *(counts_in([run]) or None for _ in said),
            len(run.rounds),
            *(run.total(name) for name in lost),
            run.status,
            sha_of(run),
        )
        for run in runs
    ]
    return Table("runs", "Runs", columns, tuple(rows))


def sha_of(run: StoredRun) -> str | None:
    """Return the SHA-256 of the final model; None of a run that has not ended."""
    return str(run.summary["model_sha256"]) if run.status != "unfinished" and "model_sha256" in run.summary else None


def points_table(points: Sequence[Point]) -> Table:
    """Return one row for each choice of settings: means over its seeds."""
    runs = [run for point in points for run in point.runs]
    measures, said = _measures(runs), _words_of_losses(runs)
    columns = (
        Column("point", "settings", str, numeric=False),
        Column("seeds", "seeds", str),
        *(c for c, _ in measures),
        *said,
    )
    rows = [
        (p.label, len(p.counted), *(p.spread(measure) for _, measure in measures), *(counts_in(p.runs) for _ in said))
        for p in points
    ]
    return Table("points", "Means over seeds", columns, tuple(rows))


def rounds_table(runs: Sequence[StoredRun]) -> Table:
    """Return one row a run and round: all of metrics.csv."""
    names = list(dict.fromkeys(name for run in runs for row in run.rounds for name in row))
    of = metrics_of(runs).of
    said = _words_of_losses(runs)
    columns = (Column("run", "run", str, numeric=False), *(Column(name, of(name).title, str) for name in names), *said)
    rows = [
        (run.name, *(plain(row.get(name)) for name in names), *(counts_in([run]) for _ in said))
        for run in runs
        for row in run.rounds
    ]
    return Table("rounds", "Rounds", columns, tuple(rows))
