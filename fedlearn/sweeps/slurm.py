"""A sweep as an array job of Slurm: each task makes one run; whichever ends last joins them into the tables.

Tasks share no lock but those of their run folders. A task that was killed is made again by the same ``sbatch``, as is a
run whose folder is not complete: it goes on from what is stored.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fedlearn.core.errors import UsageError
from fedlearn.engine.session import session
from fedlearn.runs.files import write_atomically
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.stop_requests import stoppable
from fedlearn.sweeps.results import Result
from fedlearn.sweeps.sweep_plan import Plan, Run
from fedlearn.sweeps.sweep_runs import PLAN, ended, place_of, refuse_single_run, result_of, stored, tell

SCRIPT, LOGS = "array.sbatch", "slurm"
TEXT = """\
#!/bin/sh
#SBATCH --job-name={name}
#SBATCH --array={array}
#SBATCH --output={logs}
#SBATCH --signal=B:TERM@60
# {count} of the {runs} runs of a sweep, one a task; options of sbatch win over these lines. Seconds before a time limit
# SIGTERM stores a run's rounds, and the same sbatch goes on from there. The last task writes the tables and the page.
cd {here} || exit 1
exec {python} -m fedlearn sweep {plan} --out {folder} --task "$SLURM_ARRAY_TASK_ID"
"""


class Done(NamedTuple):
    """What a task has done: the result of its run, and all results, if no run of the sweep is left; else none."""

    result: Result
    results: list[Result]


def write_array(plan: Plan, folder: Path, *, wanted: Callable[[Run], bool]) -> Path | None:
    """Write the array job of the runs that are missing, and the plan; return its path, or None if none is missing."""
    refuse_single_run(folder)
    runs = list(plan.runs())
    with RunFolder(folder).locked():
        missing = [place for place, run in enumerate(runs) if wanted(run) and stored(run, folder) is None]
        write_atomically(folder / PLAN, plan.to_toml().encode())
        if not missing:
            return None
        (folder / LOGS).mkdir(exist_ok=True)
        write_atomically(folder / SCRIPT, _script(folder.resolve(), missing, len(runs)).encode())
    return folder / SCRIPT


def _script(folder: Path, missing: list[int], runs: int) -> str:
    quoted = {"plan": folder / PLAN, "folder": folder, "here": Path.cwd(), "python": sys.executable}
    return TEXT.format(
        name=shlex.quote(folder.name), array=_ranges(missing), logs=shlex.quote(f"{folder / LOGS}/%a.log"),
        count=len(missing), runs=runs, **{key: shlex.quote(str(path)) for key, path in quoted.items()},
    )  # fmt: skip


def _ranges(places: list[int]) -> str:
    """Return places in rising order as Slurm writes them.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    begins = [place for place in places if place - 1 not in places]
    ends = [place for place in places if place + 1 not in places]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(begins, ends, strict=True))


def run_task(plan: Plan, folder: Path, place: int, *, limit: float = 0.0) -> Done:
    """Make one run of a sweep, by its place in the plan, from 0; a run that is complete is not made again.

    Raises
    ------
    UsageError
        If there is no such run, or a setting is wrong.
    """
    runs = list(plan.runs())
    if not 0 <= place < len(runs):
        raise UsageError(f"--task {place}: the sweep has {len(runs)} runs, counted from 0")
    run = runs[place]
    if (result := stored(run, folder)) is None:
        with session(), stoppable(folder, limit):
            ((_, error),) = ended([run], folder)
        result = result_of(run, folder, error)
        tell(result, f"{place + 1}/{len(runs)}", 0.0)
    found = [Result.read(each, place_of(each, folder)) for each in runs]
    whole = [each for each in found if each is not None]
    return Done(result, whole if len(whole) == len(runs) else [])
