"""A sweep from its arguments to its page, as ``fedlearn sweep`` and `fedlearn.sweep` both make it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedlearn.commands.shared import all_layers
from fedlearn.config.config_sources import merged
from fedlearn.core.errors import UsageError, printable
from fedlearn.core.metrics import KNOWN, declared
from fedlearn.report.choosing import BETTER_BY, choice_of
from fedlearn.report.numbers import number_spread, size
from fedlearn.report.points import counts_in
from fedlearn.sweeps.best_settings import write_choice
from fedlearn.sweeps.halving import run_halving
from fedlearn.sweeps.results import Result, points_of
from fedlearn.sweeps.sweep_plan import Axes, Plan, Run
from fedlearn.sweeps.sweep_runs import minutes_of, refuse_failures, run_sweep

RUNS = Path("runs")
OF_ONE_RUN = ("seed", "out")  # settings that differ from run to run


def planned_sweep(
    file: Path | None,
    *,
    base: Mapping[str, Any],
    axes: Axes,
    seeds: Sequence[int] = (),
    configs: Sequence[Path] = (),
    quick: bool = False,
) -> Plan:
    """Return the plan of a file, or an empty one, with what was given beside it.

    Parameters
    ----------
    base
        Settings of all runs, which win over those of the plan and of `configs`.
    axes
        Further axes, or others in place of those of the plan.
    seeds
        In place of those of the plan, if any are given.

    Raises
    ------
    UsageError
        If a setting is wrong, or nothing varies.
    """
    if file is None and quick:
        raise UsageError("--quick takes the [quick] table of a plan: name the plan's file")
    planned = Plan.from_file(file, quick=quick) if file is not None else Plan("", (1,), {}, {})
    planned = planned.with_axes(axes)
    varying = (*OF_ONE_RUN, *planned.varying)
    beside = {name: value for name, value in merged(all_layers(configs)).items() if name not in varying}
    planned = replace(planned.with_other(base=beside | dict(base), seeds=seeds), validates=True)
    if not planned.axes and len(planned.seeds) == 1:
        raise UsageError(
            "no setting varies: add --vary KEY=VALUE,VALUE or --seeds N,N, or name a plan; for one run use simulate"
        )
    list(planned.runs())  # an error names a run whose settings are wrong
    return planned


def folder_of(file: Path | None, plan: Plan, *, quick: bool = False) -> Path:
    """Return the usual folder: named by the plan's file, else by a hash of the arguments without the seeds."""
    if file is not None:
        return RUNS / (file.stem + ("-quick" if quick else ""))
    asked = json.dumps([dict(plan.base), {axis: dict(labels) for axis, labels in plan.axes.items()}], default=str)
    return RUNS / f"sweep-{blake2b(asked.encode(), digest_size=4).hexdigest()}"


def sweep_once(
    plan: Plan,
    folder: Path,
    *,
    wanted: Callable[[Run], bool] = lambda run: True,
    limit: float = 0.0,
    halving: bool = False,
) -> None:
    """Make the missing runs of a sweep, as `run_sweep` does; write and show the results of all.

    Raises
    ------
    RunFailed
        If a run has failed; the others are made before.
    """
    results = run_halving(plan, folder, limit=limit) if halving else run_sweep(plan, folder, wanted=wanted, limit=limit)
    show(plan, results, folder)
    refuse_failures(results)


def show(plan: Plan, results: list[Result], folder: Path) -> None:
    """Print the table and what is chosen, and write the page."""
    from fedlearn.report.writing import write_report

    if not any(result.completed for result in results):
        return
    Console(highlight=False).print(_table(results))
    for line in write_choice(plan, results, folder):
        print(printable(line))
    page, problems = write_report([folder])
    for problem in problems:
        print(f"note: {problem}", file=sys.stderr)
    print(printable(f"results in {folder}, page {page}; {minutes_of(results):.1f} minutes of running"))


def _table(results: list[Result]) -> Table:
    """Return a table of one row a point: the metrics it is judged by and its upload, means over seeds."""
    points = points_of(results)
    choice = choice_of(points)
    apart = choice.differences if choice is not None and any(choice.differences) else ()
    summary = (points[0] if choice is None else points[choice.place]).runs[0].summary
    metrics = declared(summary.get("metrics")) or KNOWN
    shown = [metric for metric in metrics.results if isinstance(summary.get(metric.name), int | float)][:2]
    table = Table(title="means over seeds", title_justify="left", title_style="bold")
    for axis in points[0].labels:
        table.add_column(escape(axis), overflow="fold")
    for title in ("seeds", *(metric.axis_title for metric in shown), "upload"):
        table.add_column(escape(title), justify="right")
    if apart:
        table.add_column(BETTER_BY)
    for place, point in enumerate(points):
        scores = []
        for metric in shown:
            if not isinstance(point.runs[0].summary.get(metric.name), int | float):
                scores.append("-")
                continue
            words = f" ({counts_in(point.runs)})" if metric.is_privacy_loss else ""
            scores.append(number_spread(*point.over_seeds(metric.name)) + words)
        is_sent = all("baseline" not in run.summary and "bytes_up" in run.summary for run in point.runs)
        upload = size(point.over_seeds("bytes_up").mean) if is_sent else "-"
        difference = apart[place] if apart else None
        cells = [escape(difference.text()) if difference else "-"] if apart else []
        table.add_row(*map(escape, point.labels.values()), str(len(point.runs)), *scores, upload, *cells)
    return table
