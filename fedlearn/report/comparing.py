"""``fedlearn compare A B``: what tells two runs apart, in settings, environment and results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedlearn.errors import UsageError, printable
from fedlearn.report.numbers import number, ratio, seconds, size
from fedlearn.report.points import best_value, compression_ratio, differing, metrics_of, seconds_of, shown
from fedlearn.report.stored import StoredRun, is_run, read_run
from fedlearn.report.tables import Column, sha_of
from fedlearn.runs.reading import check_path

MEASURED_TIME = "_seconds"  # ends the names of columns that no two runs have alike


def compared(first: Path, second: Path) -> RenderableType:
    """Return the difference of two runs, to be printed.

    Raises
    ------
    UsageError
        If one of the folders is not there or holds no run.
    """
    runs = [_read(path) for path in (first, second)]
    names = ["A", "B"]
    parts: list[RenderableType] = [
        Text(printable(f"{name}  {run.folder}")) for name, run in zip(names, runs, strict=True)
    ]
    parts += [Text(f"   {problem}", style="yellow") for run in runs for problem in run.problems]
    for part in (_settings(runs), *_environment(runs), _results(runs)):
        parts += [Text(), part]
    return Group(*parts, Text(), *(Text(line) for line in verdicts(*runs)))


def _read(path: Path) -> StoredRun:
    check_path(path)
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such folder")
    if not is_run(path):
        raise UsageError(f"{path}: it is no run folder; compare takes two runs")
    return read_run(path.resolve().name, path)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.add_column()
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _settings(runs: list[StoredRun]) -> RenderableType:
    names = differing(runs)
    if not names:
        return Text("settings are the same")
    table = _table("settings", "A", "B")
    for name in names:
        table.add_row(*map(Text, (name, *(shown(run.settings.get(name)) for run in runs))))
    return table


def _environment(runs: list[StoredRun]) -> Iterator[RenderableType]:
    flat = [_flat(run.environment) for run in runs]
    names = [name for name in dict.fromkeys((*flat[0], *flat[1])) if flat[0].get(name) != flat[1].get(name)]
    if names:
        table = _table("environment", "A", "B")
        for name in names:
            table.add_row(*map(Text, (name, *(shown(each.get(name)) for each in flat))))
        yield table


def _flat(environment: Any) -> dict[str, Any]:
    packages = environment.get("packages")
    return {k: v for k, v in environment.items() if k != "packages"} | (packages if isinstance(packages, dict) else {})


def _results(runs: list[StoredRun]) -> Table:
    table = _table("results", "A", "B", "B - A")
    for column, values in _measured(runs):
        a, b = values
        if not a and not b:
            continue
        difference = "" if a is None or b is None else ("-" if b < a else "+") + column.form(abs(b - a))
        table.add_row(column.title, column.text(a), column.text(b), difference)
    table.add_row("rounds", *(str(len(run.rounds)) for run in runs))
    table.add_row("status", *(Text(run.status) for run in runs))
    return table


def _measured(runs: list[StoredRun]) -> Iterator[tuple[Column, list[float | None]]]:
    metrics = metrics_of(runs)
    for metric in metrics.by_interest:
        yield Column(metric.name, metric.title, number), [run.latest(metric.name) for run in runs]
        if metric is metrics.headline:
            best = Column(f"best_{metric.name}", f"best {metric.title}", number)
            yield best, [best_value(run, metric) for run in runs]
    for name, title in (("bytes_up", "uploaded"), ("bytes_down", "downloaded")):
        yield Column(name, title, size), [run.total(name) for run in runs]
    yield Column("compression_ratio", "smaller", ratio), [compression_ratio(run) for run in runs]
    yield Column("seconds", "time", seconds), [seconds_of(run) for run in runs]
    for name in ("failed", "refused", "late"):
        yield Column(name, name, lambda value: f"{value:.0f}"), [run.total(name) for run in runs]


def verdicts(a: StoredRun, b: StoredRun) -> list[str]:
    """Return, in words, where the curves part and whether the models are the same."""
    return [_parting(a, b), _same_bytes(a, b)]


def _parting(a: StoredRun, b: StoredRun) -> str:
    """Return the first round in which anything but time differs."""
    for one, other in zip(a.rounds, b.rounds, strict=False):
        names = [name for name in dict.fromkeys((*one, *other)) if not name.endswith(MEASURED_TIME)]
        unlike = [name for name in names if one.get(name) != other.get(name)]
        if unlike:
            of = metrics_of([a, b]).of
            columns = ", ".join(of(name).title for name in unlike)
            return f"the curves part in round {one.get('round_number') or 0:.0f}: {columns}"
    if not a.rounds or not b.rounds:
        return "there are no rounds to compare"
    if len(a.rounds) != len(b.rounds):
        return f"the curves are the same for {min(len(a.rounds), len(b.rounds))} rounds; then one goes on alone"
    return f"the curves are the same in all {len(a.rounds)} rounds"


def _same_bytes(a: StoredRun, b: StoredRun) -> str:
    one, other = sha_of(a), sha_of(b)
    if one is None or other is None:
        return "at least one run has not ended: there are no two final models to compare"
    return f"same model, SHA-256 {one}" if one == other else f"other models: SHA-256 {one[:16]} and {other[:16]}"
