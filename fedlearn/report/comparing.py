"""Compare two runs for ``fedlearn compare A B``: settings, environment and results, printed or as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from fedlearn.core.errors import UsageError, printable
from fedlearn.report.charts.curves import curves
from fedlearn.report.folders import is_run
from fedlearn.report.numbers import count, ratio, seconds, size
from fedlearn.report.page.curves_section import grid_of, heading
from fedlearn.report.page.document import page_of
from fedlearn.report.page.settings_lookup import meaning
from fedlearn.report.points import (
    Point,
    best_value,
    compression_ratio,
    counts_in,
    differing,
    is_compressed,
    metrics_of,
    seconds_of,
    shown,
)
from fedlearn.report.run_tables import column_of, sha_of
from fedlearn.report.run_traffic import measured_in
from fedlearn.report.stored import StoredRun, read_run
from fedlearn.report.tables import Column, Table
from fedlearn.report.words import word
from fedlearn.runs.files import write_atomically
from fedlearn.runs.safe_reading import check_path

MEASURED_TIME = "_seconds"  # the end of names of columns that differ between any two runs
NAMES = ("A", "B")


def stored_runs(first: Path, second: Path) -> list[StoredRun]:
    """Return the runs in two folders.

    Raises
    ------
    UsageError
        If one of the folders does not exist or holds no run.
    """
    return [_read(path) for path in (first, second)]


def compared(first: Path, second: Path) -> RenderableType:
    """Return the differences between two runs, to be printed.

    Raises
    ------
    UsageError
        If one of the folders does not exist or holds no run.
    """
    runs = stored_runs(first, second)
    parts: list[RenderableType] = [
        Text(printable(f"{name}  {run.folder}")) for name, run in zip(NAMES, runs, strict=True)
    ]
    parts += [Text(f"   {problem}", style="yellow") for run in runs for problem in run.problems]
    for table in _tables(runs):
        parts += [Text(), _as_rich(table) if table.rows else Text(f"{table.title} are the same")]
    return Group(*parts, Text(), *(Text(line) for line in verdicts(*runs)))


def write_comparison(first: Path, second: Path, out: Path) -> Path:
    """Write the differences between two runs as one page, with the curves of both in each chart; return its path.

    Raises
    ------
    UsageError
        If one of the folders does not exist or holds no run, or the page cannot be written.
    """
    runs = stored_runs(first, second)
    check_path(out, "--html")
    if out.is_dir():
        raise UsageError(f"--html {out}: it is a folder: name a file")
    title = " and ".join(run.label for run in runs)
    try:
        write_atomically(out, page_of(_sections(runs), title=title).encode())
    except OSError as error:
        raise UsageError(f"--html {out}: {error.strerror}: name a file that can be written") from None
    return out


def _sections(runs: Sequence[StoredRun]) -> dict[str, str]:
    a, b = (replace(run, name=f"{name} {run.label}") for name, run in zip(NAMES, runs, strict=True))
    points = [Point(run.name, slot, (run,)) for slot, run in enumerate((a, b))]
    problems = "".join(f'<p class="problem">{escape(problem)}</p>' for run in runs for problem in run.problems)
    lines = "".join(f'<p class="verdict">{escape(line)}</p>' for line in verdicts(*runs))
    folders = "".join(f'<p class="about">{escape(printable(str(run.folder)))}</p>' for run in runs)
    tables = {table.key: _html(table) for table in _tables(runs)}
    return {
        "head": f'<p class="brand">fedlearn compare</p><h1>{escape(a.name)}, {escape(b.name)}</h1>{folders}{problems}',
        "verdicts": lines,
        "unlike": tables["settings"],
        "outcome": tables["results"],
        "learning": heading((a, b)),
        "curves": grid_of(points, curves(points, by=["rounds"]), parted=parting_round(*runs)),
        "environment": tables.get("environment", ""),
    }


def _html(table: Table) -> str:
    if not table.rows:
        return f"<h2>{escape(table.title.capitalize())}</h2><p>They are the same.</p>"
    return f"<h2>{escape(table.title.capitalize())}</h2>{table.as_html(meaning)}"


def _read(path: Path) -> StoredRun:
    check_path(path)
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such folder: name a run folder")
    if not is_run(path):
        raise UsageError(f"{path}: it is no run folder; compare takes two runs")
    return read_run(path.resolve().name, path)


def _as_rich(table: Table) -> RichTable:
    rich = RichTable(
        title=table.title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim"
    )
    for place, column in enumerate(table.columns):
        rich.add_column(column.title, justify="right" if place else "left", overflow="fold" if place else "ellipsis")
    for row in table.rows:
        rich.add_row(*(Text(str(cell)) for cell in row))
    return rich


def _tables(runs: Sequence[StoredRun]) -> list[Table]:
    """Return the tables of settings and environment that differ, and the table of all results."""
    settings = [(name, *(shown(run.settings.get(name)) for run in runs)) for name in differing(runs)]
    flat = [_flat(run.environment) for run in runs]
    names = [name for name in dict.fromkeys((*flat[0], *flat[1])) if flat[0].get(name) != flat[1].get(name)]
    environment = [(name, *(shown(each.get(name)) for each in flat)) for name in names]
    heads = ("", *NAMES)
    tables = [Table.of_texts("settings", "settings", heads, settings, words=1)]
    if environment:
        tables.append(Table.of_texts("environment", "environment", heads, environment, words=1))
    return [*tables, Table.of_texts("results", "results", (*heads, "B - A"), _results(runs), words=1)]


def _flat(environment: Any) -> dict[str, Any]:
    packages = environment.get("packages")
    return {k: v for k, v in environment.items() if k != "packages"} | (packages if isinstance(packages, dict) else {})


def _results(runs: Sequence[StoredRun]) -> Iterator[tuple[str, ...]]:
    for column, values in _measured(runs):
        a, b = values
        if not a and not b:
            continue
        difference = "" if a is None or b is None else ("-" if b < a else "+") + column.form(abs(b - a))
        words = [counts_in([run]) if run.metrics.of(column.name).is_privacy_loss else "" for run in runs]
        yield column.title, column.text(a), column.text(b), difference if words[0] == words[1] else "of unlike kinds"
        if any(words):
            yield f"{column.title} counts in", *(each or "-" for each in words), ""
    yield "rounds", *(str(len(run.rounds)) for run in runs), ""
    yield "status", *(run.status for run in runs), ""
    yield "SHA-256", *((sha_of(run) or "-")[:16] for run in runs), ""


def _measured(runs: Sequence[StoredRun]) -> Iterator[tuple[Column, list[float | None]]]:
    metrics = metrics_of(runs)
    for metric in (*metrics.by_interest, *metrics.tested):
        yield column_of(metric), [run.latest(metric.name) for run in runs]
        if metric is metrics.headline:
            yield column_of(metric, best=True), [best_value(run, metric) for run in runs]
    for name, title in (("bytes_up", "uploaded"), ("bytes_down", "downloaded")):
        yield Column(name, title, size), [_total(run, name) for run in runs]
    for column, measure in measured_in(runs):
        if column.name not in metrics.columns:
            yield column, [measure(run) for run in runs]
    if any(map(is_compressed, runs)):
        yield Column("compression_ratio", "smaller", ratio), [compression_ratio(run) for run in runs]
    yield Column("seconds", "time", seconds), [seconds_of(run) for run in runs]
    for name in ("failed", "refused", "late"):
        yield Column(name, word(name), count), [_total(run, name) for run in runs]


def _total(run: StoredRun, name: str) -> float | None:
    """Return the sum of a column over all rounds; None where it is secret, as who took part is."""
    return None if run.log.hides else run.total(name)


def verdicts(a: StoredRun, b: StoredRun) -> list[str]:
    """Return in words in which round the curves part, and whether the models are the same."""
    return [_parting(a, b), _same_bytes(a, b)]


def parting_round(a: StoredRun, b: StoredRun) -> float | None:
    """Return the first round in which any column but times differs; None if there is none."""
    return next((one.get("round_number") for one, _ in _unlike(a, b)), None)


def _unlike(a: StoredRun, b: StoredRun) -> Iterator[tuple[Any, list[str]]]:
    """Yield the rounds in which any column but times differs, each with the names of these columns."""
    for one, other in zip(a.rounds, b.rounds, strict=False):
        names = [name for name in dict.fromkeys((*one, *other)) if not name.endswith(MEASURED_TIME)]
        unlike = [name for name in names if one.get(name) != other.get(name)]
        if unlike:
            yield one, unlike


def _parting(a: StoredRun, b: StoredRun) -> str:
    for row, unlike in _unlike(a, b):
        of = metrics_of([a, b]).of
        columns = ", ".join(of(name).title for name in unlike)
        return f"the curves part in round {row.get('round_number') or 0:.0f}: {columns}"
    if not a.rounds or not b.rounds:
        return "there are no rounds to compare"
    if len(a.rounds) != len(b.rounds):
        return f"the curves are the same for {min(len(a.rounds), len(b.rounds))} rounds; then only one continues"
    return f"the curves are the same in all {len(a.rounds)} rounds"


def _same_bytes(a: StoredRun, b: StoredRun) -> str:
    one, other = sha_of(a), sha_of(b)
    if one is None or other is None:
        return "at least one run has not ended: there are no two final models to compare"
    return f"same model, SHA-256 {one}" if one == other else f"other models: SHA-256 {one[:16]} and {other[:16]}"
