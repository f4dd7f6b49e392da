"""The command line of a sweep, and of the experiments that run one and draw it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.sweeps.plan import Plan
from experiments.sweeps.results import Result
from experiments.sweeps.running import run_sweep
from fedlearn.commands.shared import INTERRUPTED
from fedlearn.config import flat_from_assignments
from fedlearn.errors import FedlearnError, RunFailed

CONFIGS = Path(__file__).parents[1] / "configs"

Results = Sequence[Result]
Draw = Callable[[Results, Path], None]


def experiment(name: str, text: str | None, draw: Draw, arguments: Sequence[str] | None = None) -> None:
    """Run the sweep that configs/NAME.toml describes, then draw it: the main program of an experiment.

    Parameters
    ----------
    text
        The experiment's docstring; its first line goes into --help.
    """
    parser = parser_of(f"experiments.sweeps.{name}", text)
    parser.add_argument("--plan", type=Path, default=CONFIGS / f"{name}.toml", help="another file, with the same axes")
    run_command(parser, draw, name, arguments)


def parser_of(module: str, text: str | None) -> argparse.ArgumentParser:
    """Return the options that all of them take; the first line of a docstring says what it is about."""
    about = (text or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--quick", action="store_true", help="a small version: minutes on two cores")
    parser.add_argument("--out", type=Path, help="folder; goes on with what it holds; default runs/NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="instead of the plan's")
    parser.add_argument(
        "--only", action="append", default=[], metavar="AXIS=LABEL", help="run these points now; may be repeated"
    )
    parser.add_argument("--draw", action="store_true", help="run nothing: tables and figures of what has ended")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, of all runs")
    return parser


def run_command(
    parser: argparse.ArgumentParser, draw: Draw | None = None, name: str = "", arguments: Sequence[str] | None = None
) -> None:
    """Run, draw, and end the process: 0 done, 1 a run failed, 2 it was asked for wrongly."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = parser.parse_args(arguments)
    folder = options.out or Path("runs") / ((name or options.plan.stem) + ("-quick" if options.quick else ""))
    try:
        plan = Plan.from_file(options.plan, quick=options.quick)
        plan = plan.with_other(base=flat_from_assignments(options.set), seeds=options.seeds)
        wanted = plan.chosen(options.only)
        results = run_sweep(plan, folder, wanted=lambda run: not options.draw and wanted(run))
        if draw is not None and any(result.completed for result in results):
            draw(results, folder)
        print(f"results in {os.path.relpath(folder)}, {_minutes(results):.1f} minutes of running")
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
