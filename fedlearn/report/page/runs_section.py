"""The section of runs: their settings and results; the script chooses, filters, groups and sorts them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedlearn.report import words
from fedlearn.report.choosing import choice_of
from fedlearn.report.page.settings_lookup import meaning
from fedlearn.report.points import Point, differing
from fedlearn.report.run_tables import points_table, runs_table
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column

MOST_GROUPS = 30  # settings to group by


def heading(runs: Sequence[StoredRun]) -> str:
    """Return the heading of several runs with its tools, which change only if another setting begins to differ."""
    if len(runs) < 2 or not any(run.rounds for run in runs):
        return ""
    names = differing(runs)[:MOST_GROUPS]
    options = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in names)
    return (
        f'{words.heading("choose")}<div class="tools">'
        '<label>find <input type="search" name="filter" placeholder="words, name=value" autocomplete="off"></label>'
        '<label>one line for each <select name="group"><option value="">choice of settings, over seeds</option>'
        f'<option value="*">run</option>{options}</select></label></div>'
    )


def results(runs: Sequence[StoredRun], points: Sequence[Point]) -> str:
    """Return the tables of several runs: means over seeds, if there are any, and every run."""
    repeated = [point for point in points if len(point.runs) > 1]
    means = f"<h3>Means over seeds</h3>{points_table(repeated).as_html()}{_choice(repeated)}" if repeated else ""
    return f"{means}{'<h3>Every run</h3>' if repeated else ''}{_every_run(runs, points)}"


def _choice(points: Sequence[Point]) -> str:
    """Return the sentences on the best point and its distance to the next one; empty where none is chosen."""
    if (found := choice_of(points)) is None:
        return ""
    labels = [point.label for point in points]
    apart = found.next_best(labels)
    lines = [f"{found.sentence(found.best.label)}.", *([f"{apart} ({found.how})."] if apart else ())]
    return "".join(f'<p class="note">{escape(line)}</p>' for line in lines)


def _every_run(runs: Sequence[StoredRun], points: Sequence[Point]) -> str:
    table = runs_table(runs)
    notes = any(run.notes for run in runs)
    heads = "".join(_head(column) for column in table.columns) + ("<th>notes</th>" if notes else "")
    pick = '<th class="pick"><input type="checkbox" name="all" checked aria-label="all of these runs"></th>'
    rows = "".join(_row(run, table.columns, cells, notes=notes) for run, cells in zip(runs, table.rows, strict=True))
    head = f"<thead><tr>{pick}{heads}</tr></thead>"
    return f'<div class="wide held"><table class="runs">{head}<tbody>{rows}</tbody></table></div>'


def _head(column: Column) -> str:
    about = f' title="{escape(meaning(column.name))}"' if meaning(column.name) else ""
    kind = ' class="num"' if column.numeric else ""
    return f"<th{kind}{about}>{escape(column.title)}</th>"


def _row(run: StoredRun, columns: Sequence[Column], cells: Sequence[object], *, notes: bool) -> str:
    texts = [column.text(cell) for column, cell in zip(columns, cells, strict=True)]
    words = (f"{column.name}={text}" for column, text in zip(columns, texts, strict=True) if not column.numeric)
    found, name = " ".join([*words, run.notes]).lower(), escape(run.name)
    drawn = "".join(
        f'<td{_kind(column)} data-sort="{escape(_key(cell))}">{escape(text)}</td>'
        for column, cell, text in zip(columns, cells, texts, strict=True)
    )
    note = f'<td class="note">{escape(run.notes)}</td>' if notes else ""
    box = f'<td class="pick"><input type="checkbox" checked aria-label="{escape(run.label)}"></td>'
    return f'<tr data-run="{name}" data-find="{escape(found)}">{box}{drawn}{note}</tr>'


def _kind(column: Column) -> str:
    return ' class="num"' if column.numeric else ""


def _key(cell: object) -> str:
    return "" if cell is None else str(cell)
