"""Run a sweep, or go on with it: ``python -m experiments.sweep PLAN.toml --out FOLDER``.

All runs share one engine whose workers stay (`WarmEngine`), so that a run begins within a tenth of a second. A run that
has ended is not run again; one that was killed goes on from its latest round; so the same command, given again after a
kill at any moment, ends with the same tables. More seeds, points or rounds may be added to a sweep that has run.

```text
FOLDER/
├── sweep.toml      what was asked for; itself a plan that --out FOLDER goes on with
├── runs.csv        one row a run, in the order of the plan
├── rounds.csv      one row a run and round
├── points.csv      one row a point: mean and sample standard deviation over seeds
└── runs/NAME/      the run folders
```
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from experiments.plan import Plan, Run
from experiments.results import Result, write_tables
from fedlearn.checkpoint import CHECKPOINT, write_atomically
from fedlearn.config import RunConfig, flat_from_assignments
from fedlearn.engine import ENGINES
from fedlearn.engine.embedded.engine import WarmEngine
from fedlearn.engine.prepare import prepared
from fedlearn.errors import FedlearnError, RunFailed, UsageError
from fedlearn.run_folder import RunFolder

CONFIGS = Path(__file__).with_name("configs")
INTERRUPTED = 130  # what a shell expects of a command that was ended by Ctrl-C

console = Console(highlight=False, soft_wrap=True)
Results = Sequence[Result]
Draw = Callable[[Results, Path], None]


def run_sweep(plan: Plan, folder: Path, *, wanted: Callable[[Run], bool] = lambda run: True) -> list[Result]:
    """Run what is missing; return all results in the order of the plan, those of runs that have failed among them.

    Parameters
    ----------
    wanted
        Which runs are to be run now; of the others, those that have ended before are returned all the same.

    Raises
    ------
    UsageError
        If a setting is wrong, or the folder holds something else.
    """
    if (folder / CHECKPOINT).exists():
        raise UsageError(f"--out {folder}: it holds a single run; name another folder")
    runs = list(plan.runs())
    with ExitStack() as stack:
        stack.enter_context(RunFolder(folder).locked())
        engine = stack.enter_context(WarmEngine())
        write_atomically(folder / "sweep.toml", plan.to_toml().encode())
        results = {run.name: stored for run in runs if (stored := _stored(run, folder)) is not None}
        missing = [run for run in runs if run.name not in results and wanted(run)]
        begin = time.monotonic()
        for done, run in enumerate(missing, start=1):
            results[run.name] = _result_of(run, folder, engine)
            seconds_left = (time.monotonic() - begin) / done * (len(missing) - done)
            _tell(results[run.name], f"{done}/{len(missing)}", seconds_left)
            write_tables([results[run.name] for run in runs if run.name in results], folder)
    ordered = [results[run.name] for run in runs if run.name in results]
    write_tables(ordered, folder)
    return ordered


def _stored(run: Run, folder: Path) -> Result | None:
    """Return the result of a run that has ended as it should; refuse a folder that is another run's."""
    place = RunFolder(folder / "runs" / run.name)
    if not (place.path / CHECKPOINT).exists():
        return None
    place.check_settings(prepared(run.config))
    result = Result.read(run, place.path)
    if result is None or not result.completed:
        return None
    rounds, wanted = result.summary["rounds"], run.config.rounds.total
    if rounds > wanted:
        raise UsageError(f"{place.path} has {rounds} rounds, more than rounds.total = {wanted}; name another folder")
    return result if rounds == wanted else None


def _result_of(run: Run, folder: Path, engine: WarmEngine) -> Result:
    place = folder / "runs" / run.name
    config = run.config.model_copy(update={"out": str(place.resolve())})
    try:
        _engine_for(config, engine)(config)
    except RunFailed as error:
        result = Result.read(run, place)
        if result is None or result.completed:  # it had no time to say so in its folder
            raise RunFailed(f"{run.name}: {error}") from None
        return result
    except UsageError as error:
        raise UsageError(f"{run.name}: {error}") from None
    result = Result.read(run, place)
    assert result is not None
    return result


def _engine_for(config: RunConfig, warm: WarmEngine) -> Callable[[RunConfig], None]:
    return warm if config.engine.name == "embedded" else ENGINES.load(config.engine.name)


def _tell(result: Result, count: str, seconds_left: float) -> None:
    summary = result.summary
    score = next((f"{name} {summary[name]:.4f}" for name in ("accuracy", "mae") if summary.get(name) is not None), "")
    what = score if result.completed else f"[red]failed: {escape(summary['reason'])}[/]"
    left = f", about {seconds_left / 60:.0f} min left" if seconds_left >= 30 else ""
    console.print(f"{count:>7} {result.run.name}  {what}  [dim]{summary['seconds']:.1f} s{left}[/]")


def experiment(name: str, text: str | None, draw: Draw, arguments: Sequence[str] | None = None) -> None:
    """Run the sweep that configs/NAME.toml describes, then draw it: the main program of an experiment.

    Parameters
    ----------
    text
        The experiment's docstring; its first line goes into --help.
    """
    parser = _parser(name, text)
    parser.add_argument("--plan", type=Path, default=CONFIGS / f"{name}.toml", help="another file, with the same axes")
    _main(parser, draw, name, arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run any plan; draw nothing."""
    parser = _parser("sweep", __doc__)
    parser.add_argument("plan", type=Path, help="TOML file; experiments/plan.py says what it holds")
    _main(parser, lambda results, folder: None, "", arguments)


def _parser(name: str, text: str | None) -> argparse.ArgumentParser:
    about = (text or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="a small version: minutes on two cores")
    parser.add_argument("--out", type=Path, help="folder; goes on with what it holds; default runs/NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="instead of the plan's")
    parser.add_argument(
        "--only", action="append", default=[], metavar="AXIS=LABEL", help="run these points now; may be repeated"
    )
    parser.add_argument("--draw", action="store_true", help="run nothing: tables and figures of what has ended")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, of all runs")
    return parser


def _main(parser: argparse.ArgumentParser, draw: Draw, name: str, arguments: Sequence[str] | None) -> None:
    """Run, draw, and end the process: 0 done, 1 a run failed, 2 it was asked for wrongly."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = parser.parse_args(arguments)
    folder = options.out or Path("runs") / ((name or options.plan.stem) + ("-quick" if options.quick else ""))
    try:
        plan = Plan.from_file(options.plan, quick=options.quick)
        plan = plan.with_other(base=flat_from_assignments(options.set), seeds=options.seeds)
        wanted = plan.chosen(options.only)
        results = run_sweep(plan, folder, wanted=lambda run: not options.draw and wanted(run))
        if any(result.completed for result in results):
            draw(results, folder)
        console.print(f"results in {os.path.relpath(folder)}, {_minutes(results):.1f} minutes of running")
        _refuse_failures(results)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except FedlearnError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _minutes(results: Results) -> float:
    return sum(float(result.summary["seconds"]) for result in results) / 60


def _refuse_failures(results: Results) -> None:
    failed = [result for result in results if not result.completed]
    if failed:
        first = f"{failed[0].run.name}: {failed[0].summary['reason']}"
        raise RunFailed(f"{len(failed)} of {len(results)} runs failed: {first}; the same command tries them again")


if __name__ == "__main__":
    main()
