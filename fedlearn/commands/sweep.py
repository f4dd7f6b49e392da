"""``fedlearn sweep``: many runs, one for each choice of settings and each seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedlearn.commands.completing import assignments_like
from fedlearn.commands.flags import with_flags
from fedlearn.commands.shared import Interrupted
from fedlearn.config import flat_from_assignments
from fedlearn.config.fields import as_duration, seconds_in
from fedlearn.config.names import flags
from fedlearn.core.errors import UsageError, printable, said
from fedlearn.runs.safe_reading import check_path

if TYPE_CHECKING:
    from fedlearn.sweeps.sweep_plan import Plan, Run

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
            metavar="[PLAN.toml]", help="File with base settings, axes and seeds; flags win over its base settings.",
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
        typer.Option(metavar="N,N", help="Seeds of each point \\[default: 1].", rich_help_panel=SWEEP),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder; resumes a sweep in it \\[default: runs/NAME of the plan].",
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
        bool, typer.Option("--quick", help="Use the plan's \\[quick] table.", rich_help_panel=SWEEP)
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
    """Run every combination of some settings with every seed, and report on them.

    PLAN.toml holds base settings, axes and seeds; or use only flags.
    The folder gets runs.csv, rounds.csv and points.csv (means and deviations over seeds), a page, and the run folders.
    The same command resumes a stopped sweep; you may add seeds or values.
    """
    from fedlearn.commands.sweep_once import folder_of, planned_sweep, sweep_once
    from fedlearn.sweeps.sweep_plan import axes_in

    limit = as_duration(given.pop("stop.time_limit", ""))  # of all runs together
    planned = planned_sweep(
        plan, base=given | flat_from_assignments(set_ or []), axes=axes_in(vary or []), seeds=_numbers(seeds),
        configs=config or [], quick=quick,
    )  # fmt: skip
    folder = out or folder_of(plan, planned, quick=quick)
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
        sweep_once(planned, folder, wanted=wanted, limit=seconds, halving=halving)
    except KeyboardInterrupt as stop:
        raise Interrupted(stop, "; the same command resumes from here") from None


def _write_array(planned: Plan, folder: Path, wanted: Callable[[Run], bool]) -> None:
    from fedlearn.sweeps.slurm import write_array

    script = write_array(planned, folder, wanted=wanted)
    if script is None:
        print(printable(f"{folder}: all runs are there; the command without --slurm writes their tables"))
    else:
        print(printable(f"sbatch {script}   # the same runs what is missing; the last task writes tables and page"))


def _one_task(planned: Plan, folder: Path, task: int, limit: float) -> None:
    """Make one run; where no run is left, write tables and page, unless another task is at it."""
    from fedlearn.commands.sweep_once import show
    from fedlearn.runs.folder import RunFolder
    from fedlearn.runs.stop_requests import is_running
    from fedlearn.sweeps.results import write_tables
    from fedlearn.sweeps.slurm import run_task
    from fedlearn.sweeps.sweep_runs import refuse_failures

    done = run_task(planned, folder, task, limit=limit)
    if done.results and not is_running(folder):
        with RunFolder(folder).locked():
            write_tables(done.results, folder)
            show(planned, done.results, folder)
    refuse_failures([done.result])


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(each) for each in text.split(",")] if text is not None else []
    except ValueError:
        raise UsageError(f"--seeds {said(text)}: write integers with commas, such as 1,2,3") from None
