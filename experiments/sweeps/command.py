"""Share the command line of experiments that run a sweep and draw it."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments import pages
from experiments.ending import exit_codes
from fedlearn.config import flat_from_assignments
from fedlearn.core.errors import UsageError
from fedlearn.sweeps.results import Result
from fedlearn.sweeps.sweep_plan import Plan
from fedlearn.sweeps.sweep_runs import minutes_of, refuse_failures, run_sweep

CONFIGS = Path(__file__).parents[1] / "configs"
NO_PLANS = ("compose", "flowertune", "pfl_cifar10")  # files in configs/ that are settings of single runs

Results = Sequence[Result]
Draw = Callable[[Results, Path], None]


def experiment(name: str, text: str | None, draw: Draw, arguments: Sequence[str] | None = None) -> None:
    """Run the sweep of configs/NAME.toml, then draw it: the main program of an experiment.

    The exit code is 0 when all is done, 1 if a run failed, 2 if an argument or setting is wrong.

    Parameters
    ----------
    text
        The experiment's docstring; its first line goes into --help.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    options = _parser_of(name, text).parse_args(arguments)
    folder = options.out or Path("runs") / (name + ("-quick" if options.quick else ""))
    with exit_codes():
        plan = Plan.from_file(options.plan, quick=options.quick)
        plan = plan.with_other(base=flat_from_assignments(options.set), seeds=options.seeds)
        wanted = plan.chosen(options.only)
        results = _ended(plan, folder) if options.draw else run_sweep(plan, folder, wanted=wanted)
        if any(result.completed for result in results):
            draw(results, folder)
            if options.page is not None:
                _write_into(options.page, name + " --quick" * options.quick, plan, results, folder)
        print(f"results in {os.path.relpath(folder)}, {minutes_of(results):.1f} minutes of running")
        refuse_failures(results)


def _write_into(page: Path, command: str, plan: Plan, results: Results, folder: Path) -> None:
    """Put the section of a sweep into a page: when and where its runs were made, its figures and its tables."""
    name, maker = command.replace(" --", "-"), f"experiments.sweeps.{command}"
    runs, planned = [result.stored for result in results if result.completed], len(list(plan.runs()))
    said = f"Commits: {pages.commit_of(runs)}. ± is the standard deviation over seeds."
    figures, tables = (sorted(path.stem for path in folder.glob(f"*.{end}")) for end in ("svg", "md"))
    drawn = [f"![{each.replace('_', ' ').capitalize()}]({pages.figures_of(name)}{each}.svg)" for each in figures]
    texts = [(folder / f"{each}.md").read_text(encoding="utf-8").rstrip() for each in tables]
    section = "\n\n".join(
        [f"## {plan.title}", f"{pages.about(f'python -m {maker}', runs, planned)} {said}", *drawn, *texts]
    )
    pages.write_into(page, name, f"{section}\n", maker=maker, figures=figures, folder=folder)


def _ended(plan: Plan, folder: Path) -> Results:
    """Return the results of the runs in a folder, which may be parts of a sweep from several machines.

    Raises
    ------
    UsageError
        If a run has another setting than the plan, apart from how it was computed (``engine.*``).
    """
    found = [result for run in plan.runs() if (result := Result.read(run, folder / "runs" / run.name)) is not None]
    for result in found:
        wanted = dict(plan.base)
        for axis, label in result.run.labels.items():
            wanted |= plan.axes[axis][label]
        for name, value in wanted.items():
            if not name.startswith("engine.") and (theirs := result.stored.settings.get(name, value)) != value:
                raise UsageError(f"{result.run.name} in {folder} has {name} = {theirs!r}, the plan {value!r}")
    return found


def _parser_of(name: str, text: str | None) -> argparse.ArgumentParser:
    """Return the parser of the options of all these experiments; the docstring's first line describes the command."""
    about = (text or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"python -m experiments.sweeps.{name}", description=about)
    parser.add_argument("--plan", type=Path, default=CONFIGS / f"{name}.toml", help="another file, with the same axes")
    parser.add_argument("--quick", action="store_true", help="a small version: minutes on two cores")
    parser.add_argument("--out", type=Path, help="folder; goes on with what it holds; default runs/NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="instead of the plan's")
    parser.add_argument(
        "--only", action="append", default=[], metavar="AXIS=LABEL", help="run these points now; may be repeated"
    )
    parser.add_argument("--draw", action="store_true", help="run nothing; draw what has ended, anywhere")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put figures and table into a page, too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, of all runs")
    return parser
