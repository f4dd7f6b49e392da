"""Run the missing runs of a sweep: side by side in lanes or on machines, or one after another in one session."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from fedlearn.config import RunConfig
from fedlearn.core.errors import FedlearnError, RunFailed, UsageError
from fedlearn.core.metrics import KNOWN, declared
from fedlearn.engine import load_engine
from fedlearn.engine.prepare import prepared
from fedlearn.engine.session import engine_of, session
from fedlearn.runs.file_names import CHECKPOINT
from fedlearn.runs.files import write_atomically
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.kept_objects import objects_kept
from fedlearn.runs.stop_requests import stoppable
from fedlearn.sweeps.machines import can_spread, on_machines
from fedlearn.sweeps.parallel import Ended, lanes_for, side_by_side
from fedlearn.sweeps.results import Result, write_tables
from fedlearn.sweeps.sweep_plan import Plan, Run

PLAN = "sweep.toml"  # the plan of a sweep, in its folder


def run_sweep(
    plan: Plan, folder: Path, *, wanted: Callable[[Run], bool] = lambda run: True, limit: float = 0.0
) -> list[Result]:
    """Run the missing runs; return all results in the order of the plan, those of failed runs included.

    Parameters
    ----------
    wanted
        Returns whether a run is to be run now; results of other runs that have ended before are returned, too.
    limit
        Seconds within which the sweep is stopped; 0: none.

    Raises
    ------
    UsageError
        If a setting is wrong, or the folder holds a single run or runs with other settings.
    """
    refuse_single_run(folder)
    runs = list(plan.runs())
    with RunFolder(folder).locked(), session(), stoppable(folder, limit):
        write_atomically(folder / PLAN, plan.to_toml().encode())
        results = {run.name: found for run in runs if (found := stored(run, folder)) is not None}
        missing = [run for run in runs if run.name not in results and wanted(run)]
        if there := sum(wanted(run) for run in runs) - len(missing):
            Console(highlight=False, soft_wrap=True).print(f"{there} of {there + len(missing)} runs were there already")
        begin = time.monotonic()
        with closing(ended(missing, folder)) as those:
            for done, (run, error) in enumerate(those, start=1):
                results[run.name] = result_of(run, folder, error)
                seconds_left = (time.monotonic() - begin) / done * (len(missing) - done)
                tell(results[run.name], f"{done}/{len(missing)}", seconds_left)
                write_tables([results[run.name] for run in runs if run.name in results], folder)
    ordered = [results[run.name] for run in runs if run.name in results]
    write_tables(ordered, folder)
    return ordered


def refuse_single_run(folder: Path) -> None:
    """Refuse a folder that holds a single run."""
    if (folder / CHECKPOINT).exists():
        raise UsageError(f"--out {folder}: it holds a single run; name another folder")


def stored(run: Run, folder: Path) -> Result | None:
    """Return the result of a run if it has completed, else None; refuse a folder with other settings."""
    place = RunFolder(place_of(run, folder))
    if not (place.path / CHECKPOINT).exists():
        return None
    place.check_settings(prepared(run.config))
    result = Result.read(run, place.path)
    if result is None or not result.completed:
        return None
    rounds, wanted = result.summary["rounds"], run.config.rounds.total
    if rounds > wanted:
        raise UsageError(f"{place.path} has {rounds} rounds, more than rounds.total = {wanted}; name another folder")
    return result if rounds == wanted or _has_stopped(run, result) else None


def _has_stopped(run: Run, result: Result) -> bool:
    """Return whether a run has stopped early, by the settings of early stopping that it has now."""
    stop = {f"stop.{name}": value for name, value in run.config.stop.model_dump().items()}
    return "stopped_early" in result.summary and all(result.stored.settings.get(k) == v for k, v in stop.items())


def ended(missing: Sequence[Run], folder: Path) -> Generator[tuple[Run, FedlearnError | None], None, None]:
    """Make runs; yield each as it ends, with the error that has ended it."""
    configs = [run.config.model_copy(update={"out": str(place_of(run, folder).resolve())}) for run in missing]
    with ExitStack() as kept:
        for config in configs:
            kept.enter_context(objects_kept(config))
        if side := _side_by_side(configs):
            with closing(side) as those:
                yield from ((missing[place], error) for place, error in those)
            return
        for run, config in zip(missing, configs, strict=True):
            yield run, _error_of(config)


def _error_of(config: RunConfig) -> FedlearnError | None:
    """Make a run; return the error that has ended it."""
    try:
        engine_of(config.engine.name)(config)
    except FedlearnError as error:
        return error
    return None


def _side_by_side(configs: Sequence[RunConfig]) -> Generator[Ended, None, None] | None:
    """Return the runs as they end, made in lanes or on the machines of a cluster; None where they take turns."""
    if lanes := lanes_for(configs):
        return side_by_side(configs, lanes)
    if can_spread(configs):
        return on_machines(configs, **load_engine("ray").options(configs[0]))
    return None


def place_of(run: Run, folder: Path) -> Path:
    """Return the folder of a run below that of its sweep."""
    return folder / "runs" / run.name


def result_of(run: Run, folder: Path, error: FedlearnError | None) -> Result:
    """Return the result of a run that has ended, by the error that has ended it."""
    if isinstance(error, UsageError):
        raise UsageError(f"{run.name}: {error}")
    result = Result.read(run, place_of(run, folder))
    if error is not None and (result is None or result.completed):
        raise RunFailed(f"{run.name}: {error}")  # it ended before it could write the failure into its folder
    assert result is not None
    return result


def tell(result: Result, count: str, seconds_left: float) -> None:
    """Print the line of a run that has ended."""
    summary = result.summary
    metrics = declared(summary.get("metrics")) or KNOWN
    value = summary.get(metrics.best_by)
    score = f"{metrics.best_by} {value:.4f}" if value is not None else ""
    what = score if result.completed else f"[red]failed: {escape(summary['reason'])}[/]"
    left = f", about {seconds_left / 60:.0f} min left" if seconds_left >= 30 else ""
    Console(highlight=False, soft_wrap=True).print(
        f"{count:>7} {result.run.name}  {what}  [dim]{summary['seconds']:.1f} s{left}[/]"
    )


def refuse_failures(results: Sequence[Result]) -> None:
    """Raise RunFailed, with the first reason, if any run has failed."""
    failed = [result for result in results if not result.completed]
    if failed:
        first = f"{failed[0].run.name}: {failed[0].summary['reason']}"
        raise RunFailed(f"{len(failed)} of {len(results)} runs failed: {first}; the same command tries them again")


def minutes_of(results: Sequence[Result]) -> float:
    """Return how long all runs together have taken, in minutes."""
    return sum(float(result.summary["seconds"]) for result in results) / 60
