"""The section of an analysis: its tables, the curves of survival, and a forest plot of coefficients or ratios."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from math import log

from fedlearn.report.charts.kinds import Line, LineChart
from fedlearn.report.numbers import written
from fedlearn.report.page.figures import figure
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Column, Table
from fedlearn.report.words import heading
from fedlearn.runs.analysis_answers import WORTH_COLUMN, Answer, Curve, read_answer, text_of
from fedlearn.runs.file_names import ANALYSIS, WORTH

MOST_RUNS = 3  # with more runs there is no section
MOST_ROWS = 400  # of a table on the page; its files have all
MOST_CURVES = 24
ROW, NAMES, PLOT = 22, 150, 230  # of a forest plot: height of a line, width of names and of intervals


def analysis(runs: Sequence[StoredRun]) -> str:
    """Return the section of up to three runs; empty where none has an analysis."""
    return _section(runs, "analysis", ANALYSIS)


def worth(runs: Sequence[StoredRun]) -> str:
    """Return the section of what each client is worth; empty where `fedlearn worth` has valued none."""
    return _section(runs, "worth", WORTH)


def _section(runs: Sequence[StoredRun], name: str, file: str) -> str:
    parts = [_of_run(run, file, named=len(runs) > 1) for run in runs] if len(runs) <= MOST_RUNS else []
    return f"{heading(name)}{''.join(parts)}" if any(parts) else ""


def tables_of(found: Answer) -> Iterator[Table]:
    """Yield the tables of an answer, whose files get names of letters."""
    for table in found.tables:
        kinds = [any(isinstance(row[place], int | float) for row in table.rows) for place in range(len(table.columns))]
        columns = [
            Column(title, title, text_of, numeric=kind) for title, kind in zip(table.columns, kinds, strict=True)
        ]
        key, title = re.sub(r"[^a-z0-9]", "_", table.name)[:40], table.name.replace("_", " ")
        yield Table(f"analysis_{key}", title, tuple(columns), table.rows)


def survival(found: Answer) -> LineChart | None:
    """Return the chart of the curves of survival, as steps with bands; None where there are none."""
    curves = [curve for curve in found.curves[:MOST_CURVES] if len(curve.times) > 1]
    lines = tuple(_steps(curve, slot) for slot, curve in enumerate(curves))
    return LineChart("survival", "Survival", "time", "survival", lines) if lines else None


def _of_run(run: StoredRun, file: str, *, named: bool) -> str:
    try:
        found = read_answer(run.folder, file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return f'<p class="problem">{escape(run.label)}: {file}: {escape(str(why))}</p>'
    if found is None:
        return ""
    name = f'<h3 class="run">{escape(run.label)}</h3>' if named else ""
    facts = "; ".join(f"{fact} {text_of(value)}" for fact, value in found.facts.items() if value is not None)
    curves = survival(found)
    drawn = [_forest(found), figure(curves, "Shaded: the band of each curve.") if curves else ""]
    figures = f'<div class="grid-2">{"".join(drawn)}</div>' if any(drawn) else ""
    tables = [f"<h3>{escape(shown.title)}</h3>{shown.as_html()}" for shown in map(_short, tables_of(found))]
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in found.notes)
    said = f"<p>{escape(found.title)}: {escape(facts)}.</p>"
    return f'<div data-of="{escape(run.name)}">{name}{said}{figures}{"".join(tables)}{notes}</div>'


def _short(table: Table) -> Table:
    return Table(table.key, table.title, table.columns, table.rows[:MOST_ROWS])


def _steps(curve: Curve, slot: int) -> Line:
    """Return a curve as a line that stays level from each time to the next."""
    times = [time for time in curve.times for _ in "12"][1:]
    level = [value for value in curve.values for _ in "12"][:-1]
    ends = zip(curve.lower, curve.upper, curve.values, strict=True)
    band = [(value if low is None else low, value if high is None else high) for low, high, value in ends]
    low, high = ([pair[side] for pair in band for _ in "12"][:-1] for side in (0, 1))
    return Line(curve.name or "all", slot, tuple(times), tuple(level), tuple(low), tuple(high))


def _forest(found: Answer) -> str:
    """Return estimates with their intervals, a line each; ratios on a logarithmic scale, with a rule at no effect."""
    rows, is_worth = found.intervals(), found.forest == WORTH_COLUMN
    is_ratio = not is_worth and found.forest != "coef"
    if is_ratio:
        rows = [row for row in rows if min(row[1:]) > 0]
    if not rows:
        return ""
    scale = log if is_ratio else float
    none = 1.0 if is_ratio else 0.0
    values = [*(scale(value) for row in rows for value in row[1:]), scale(none)]
    low, width = min(values), max(max(values) - min(values), 1e-300)

    def x(value: float) -> float:
        return NAMES + PLOT * (scale(value) - low) / width

    drawn = [f'<path class="ceiling" d="M{x(none):.1f} 0V{ROW * len(rows)}"/>']
    for place, (name, estimate, lower, upper) in enumerate(rows):
        y = ROW * place + ROW / 2
        drawn.append(f'<text x="{NAMES - 10}" y="{y + 4:g}" class="tick end">{escape(name[:24])}</text>')
        if is_worth:
            bar = f'x="{min(x(none), x(estimate)):.1f}" y="{y - 6:g}" width="{abs(x(estimate) - x(none)):.1f}"'
            drawn.append(f'<rect class="bar c1" {bar} height="12"/>')
        drawn.append(f'<path class="line c0 d0" d="M{x(lower):.1f} {y:g}H{x(upper):.1f}"/>')
        mark = f'class="dot c0 d0" cx="{x(estimate):.1f}" cy="{y:g}" r="3.5"'
        drawn.append(f"<circle {mark}><title>{estimate:.4g}</title></circle>")
    base = ROW * len(rows) + 14
    for value in dict.fromkeys((min(row[2] for row in rows), none, max(row[3] for row in rows))):
        drawn.append(f'<text x="{x(value):.1f}" y="{base}" class="tick mid">{escape(written(value))}</text>')
    drawn.append(f'<text x="{NAMES + PLOT}" y="{base + 15}" class="axis end">{escape(found.forest)}</text>')
    size = f"0 0 {NAMES + PLOT + 20} {base + 21}"
    svg = f'<svg viewBox="{size}" role="img" aria-label="{escape(found.forest)}">{"".join(drawn)}</svg>'
    return f"<figure><h3>{escape(found.forest)}, with intervals</h3>{svg}</figure>"
