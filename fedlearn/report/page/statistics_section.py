"""The section of statistics: what a model that counts the clients' records has found, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.report.words import heading
from fedlearn.runs.statistics_json import ColumnStatistics, TableStatistics, read_statistics

MOST_RUNS = 3  # with more runs there is no section
MOST_COLUMNS = 200
MOST_CELLS = 2000
BARS = "▁▂▃▄▅▆▇█"


def statistics(runs: Sequence[StoredRun]) -> str:
    """Return the section: for each of up to three runs a table of its columns, and one of all cells, folded away."""
    if len(runs) > MOST_RUNS:
        return ""
    parts = [_of_run(run, named=len(runs) > 1) for run in runs]
    return f"{heading('statistics')}{''.join(parts)}" if any(parts) else ""


def _of_run(run: StoredRun, *, named: bool) -> str:
    try:
        found = read_statistics(run.folder)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return f'<p class="problem">{escape(run.label)}: statistics.json: {escape(str(why))}</p>'
    if found is None:
        return ""
    name = f'<h3 class="run">{escape(run.label)}</h3>' if named else ""
    said = f"<p>{escape(found.lines()[0])}.</p>"
    folded = f'<details id="cells-{escape(run.name)}"><summary>Every cell</summary>{_cells(found).as_html()}</details>'
    return f'<div data-of="{escape(run.name)}">{name}{said}{_columns(found).as_html()}{folded}</div>'


def _columns(found: TableStatistics) -> Table:
    """Return the table of columns: mean, deviation, most frequent cell, missing values, and the histogram as bars."""
    columns = (
        Column("column", "column", numeric=False),
        Column("mean", "mean", lambda mean: f"{mean:.6g}"),
        Column("std", "deviation", lambda std: f"{std:.6g}"),
        Column("most_frequent", "most frequent", numeric=False),
        Column("records", "records there", _records),
        Column("missing", "missing", _records),
        Column("histogram", "histogram", numeric=False),
    )
    rows = tuple(
        (name, each.mean, each.std, each.labels[place], each.counts[place], each.counts[-1], bars(each))
        for name, each in list(found.columns.items())[:MOST_COLUMNS]
        for place in (each.most_frequent,)
    )
    return Table("statistics", "Statistics", columns, rows)


def _cells(found: TableStatistics) -> Table:
    columns = (
        Column("column", "column", numeric=False),
        Column("cell", "cell", numeric=False),
        Column("records", "records", _records),
    )
    rows = [
        (name, label, count)
        for name, each in found.columns.items()
        for label, count in zip(each.labels, each.counts, strict=True)
    ]
    return Table("cells", "Cells", columns, tuple(rows[:MOST_CELLS]))


def _records(count: float) -> str:
    """Return a number of records, which noise may have made a fraction or negative."""
    return f"{count:.0f}" if float(count).is_integer() else f"{count:.1f}"


def bars(column: ColumnStatistics) -> str:
    """Return the cells of a column, without that of missing values, as bars up to the most frequent one.

    >>> bars(ColumnStatistics(["a", "b", "c", "missing"], [8.0, 4.0, -1.0, 9.0]))
    '█▅▁'
    """
    counts = column.counts[:-1]
    most = max([*counts, 1e-9])
    return "".join(BARS[round((len(BARS) - 1) * min(max(count, 0) / most, 1))] for count in counts)
