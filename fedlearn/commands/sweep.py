"""``fedlearn sweep``: many runs, one for each choice of settings and each seed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedlearn.commands.completing import assignments_like
from fedlearn.commands.flags import with_flags
from fedlearn.commands.shared import Interrupted, all_layers
from fedlearn.config import flat_from_assignments
from fedlearn.config.fields import as_duration, seconds_in
from fedlearn.config.layers import merged
from fedlearn.config.names import flags
from fedlearn.core.errors import UsageError, printable, said
from fedlearn.runs.reading import check_path

if TYPE_CHECKING:
    from fedlearn.sweeps.plan import Plan, Run
    from fedlearn.sweeps.results import Result

EXAMPLES = """\
Examples:

fedlearn sweep --dataset digits --compression drop --vary compression.keep_ratio=1,0.5,0.1 --seeds 1,2,3

fedlearn sweep --vary 'compression.codec=["identity","drop:0.1,eden"]' --vary training.lr=0.05,0.1

fedlearn sweep plan.toml --quick"""

SWEEP = "Sweep"
OF_ONE_RUN = ("seed", "out")  # settings that differ from run to run


@with_flags({setting: flag for setting, flag in flags().items() if setting not in OF_ONE_RUN}, first=False)
def sweep(
    given: dict[str, str],
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN.toml]", help="Base settings, axes and seeds in a file; flags win over its base settings.",
            show_default=False,
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2", help="An axis: a setting and its values; may be repeated, and all are combined. "
            "Values with commas as a TOML list: KEY=\\[\"a,b\",\"c\"].", rich_help_panel=SWEEP,
            autocompletion=assignments_like,
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Each point is run with each seed \\[default: 1].", rich_help_panel=SWEEP),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where; goes on with what it holds \\[default: runs/NAME of the plan].",
            rich_help_panel=SWEEP,
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Settings of all runs as TOML, JSON or YAML; may be repeated; flags win over them.",
            rich_help_panel=SWEEP,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=LABEL", help="Run these points now; may be repeated.", rich_help_panel=SWEEP),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="What the plan's \\[quick] table says.", rich_help_panel=SWEEP)
    ] = False,
    slurm: Annotated[
        bool,
        typer.Option(
            "--slurm", help="Run nothing: write an array job, a run for each task, for sbatch.", rich_help_panel=SWEEP
        ),
    ] = False,
    halving: Annotated[
        bool,
        typer.Option(
            "--halving", help="Run all points for a few rounds, and the better half for twice as many, until one has "
            "all its rounds.", rich_help_panel=SWEEP,
        ),
    ] = False,
    task: Annotated[int | None, typer.Option(hidden=True)] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any setting, of all runs.", rich_help_panel=SWEEP,
            autocompletion=assignments_like,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Run every combination of some settings with every seed, in one warm engine, and report on them.

    PLAN.toml holds base settings, axes and seeds; without it, flags say all.
    The folder gets runs.csv, rounds.csv and points.csv (means and deviations over seeds), a page, and the run folders.
    Whatever had stopped it, the same command goes on with it; more seeds or values may be added.
    """
    from fedlearn.sweeps.halving import run_halving
    from fedlearn.sweeps.running import refuse_failures, run_sweep

    limit = as_duration(given.pop("stop.time_limit", ""))  # of all runs together
    planned = _plan_of(
        plan, config or [], given | flat_from_assignments(set_ or []), vary or [], _numbers(seeds), quick=quick
    )
    folder = out or Path("runs") / _name_of(plan, planned, quick=quick)
    check_path(folder, "--out")
    if halving and (slurm or only):
        raise UsageError("--halving compares all points in one process: leave out --slurm and --only")
    wanted, seconds = planned.chosen(only or []), seconds_in(limit)
    if slurm:
        _write_array(planned, folder, wanted)
        return
    try:
        if task is not None:
            _one_task(planned, folder, task, seconds)
            return
        if halving:
            results = run_halving(planned, folder, limit=seconds)
        else:
            results = run_sweep(planned, folder, wanted=wanted, limit=seconds)
    except KeyboardInterrupt as stop:
        raise Interrupted(stop, "; the same command goes on from here") from None
    _show(planned, results, folder)
    refuse_failures(results)


def _show(planned: Plan, results: list[Result], folder: Path) -> None:
    """Print the table and what is chosen, and write the page."""
    from fedlearn.report.writing import write_report
    from fedlearn.sweeps.choosing import write_choice
    from fedlearn.sweeps.running import minutes_of

    if not any(result.completed for result in results):
        return
    Console(highlight=False).print(_table(results))
    for line in write_choice(planned, results, folder):
        print(printable(line))
    page, problems = write_report([folder])
    for problem in problems:
        print(f"note: {problem}", file=sys.stderr)
    print(printable(f"results in {folder}, page {page}; {minutes_of(results):.1f} minutes of running"))


def _write_array(planned: Plan, folder: Path, wanted: Callable[[Run], bool]) -> None:
    from fedlearn.sweeps.slurm import write_array

    script = write_array(planned, folder, wanted=wanted)
    if script is None:
        print(printable(f"{folder}: all runs are there; the command without --slurm writes their tables"))
    else:
        print(printable(f"sbatch {script}   # the same runs what is missing; the last task writes tables and page"))


def _one_task(planned: Plan, folder: Path, task: int, limit: float) -> None:
    """Make one run; where no run is left, write tables and page, unless another task is at it."""
    from fedlearn.runs.folder import RunFolder
    from fedlearn.runs.stop_requests import is_running
    from fedlearn.sweeps.results import write_tables
    from fedlearn.sweeps.running import refuse_failures
    from fedlearn.sweeps.slurm import run_task

    done = run_task(planned, folder, task, limit=limit)
    if done.results and not is_running(folder):
        with RunFolder(folder).locked():
            write_tables(done.results, folder)
            _show(planned, done.results, folder)
    refuse_failures([done.result])


def _plan_of(
    file: Path | None, configs: Sequence[Path], given: dict[str, Any], vary: list[str], seeds: list[int], *, quick: bool
) -> Plan:  # fmt: skip
    from fedlearn.sweeps.plan import Plan

    if file is None and quick:
        raise UsageError("--quick takes the [quick] table of a plan: name the plan's file")
    planned = Plan.from_file(file, quick=quick) if file is not None else Plan("", (1,), {}, {})
    planned = planned.varied(vary)
    varying = (*OF_ONE_RUN, *planned.varying)
    layers = all_layers(configs)
    base = {name: value for name, value in merged(layers).items() if name not in varying}
    planned = replace(planned.with_other(base=base | given, seeds=seeds), validates=True)
    if not planned.axes and len(planned.seeds) == 1:
        raise UsageError(
            "no setting varies: add --vary KEY=VALUE,VALUE or --seeds N,N, or name a plan; for one run use simulate"
        )
    list(planned.runs())  # an error names a run whose settings are wrong
    return planned


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(each) for each in text.split(",")] if text is not None else []
    except ValueError:
        raise UsageError(f"--seeds {said(text)}: write whole numbers with commas between them, as 1,2,3") from None


def _name_of(file: Path | None, plan: Plan, *, quick: bool) -> str:
    """Return the name of the folder: that of the plan's file, else a hash of the flags without the seeds."""
    if file is not None:
        return file.stem + ("-quick" if quick else "")
    asked = json.dumps([dict(plan.base), {axis: dict(labels) for axis, labels in plan.axes.items()}], default=str)
    return f"sweep-{blake2b(asked.encode(), digest_size=4).hexdigest()}"


def _table(results: list[Result]) -> Table:
    """Return a table of one row a point: the metrics it is judged by and its upload, means over seeds."""
    from fedlearn.core.metrics import KNOWN, declared
    from fedlearn.report.choosing import BETTER_BY, choice_of
    from fedlearn.report.numbers import number_spread, size
    from fedlearn.report.points import counts_in
    from fedlearn.sweeps.results import points_of

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
