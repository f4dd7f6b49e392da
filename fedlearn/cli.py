"""The command line: the commands of `commands/` behind one name."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import typer

from fedlearn.commands.audit import audit
from fedlearn.commands.report import DEFAULT_PORT, compare, dashboard, report
from fedlearn.commands.run import run
from fedlearn.commands.settings import settings
from fedlearn.commands.shared import Interrupted
from fedlearn.commands.simulate import EXAMPLES, simulate
from fedlearn.commands.submit import submit
from fedlearn.errors import FedlearnError, RunFailed

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", no_args_is_help=True)


@app.callback()
def fedlearn() -> None:
    """Federated learning in rounds of selection, configuration and reporting."""


app.command(epilog=EXAMPLES)(simulate)
for _command in (run, report, compare, dashboard, submit, settings, audit):
    app.command()(_command)


def with_default_port(arguments: list[str]) -> list[str]:
    """Return the arguments with a port after every ``--dashboard`` that has none; typer knows no optional values.

    >>> with_default_port(["--dashboard", "--clients", "5"])
    ['--dashboard', '8765', '--clients', '5']
    """
    filled = []
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=True):
        filled.append(argument)
        if argument == "--dashboard" and following.startswith("-"):
            filled.append(DEFAULT_PORT)
    return filled


def _look_in_the_current_folder() -> None:
    """Find the user's own modules here, as ``python -m`` does; last, so that nothing here stands in for a library."""
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)


def main(arguments: list[str] | None = None, program: str = "fedlearn") -> None:
    """Run a command and end the process: 0 done, 1 the run failed, 2 it was asked for wrongly."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    _look_in_the_current_folder()
    try:
        app(args=with_default_port(sys.argv[1:] if arguments is None else arguments), prog_name=program)
    except FedlearnError as error:
        print(f"error: {error}" if not isinstance(error, Interrupted) else str(error), file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"error: {where}{error.strerror or type(error).__name__}", file=sys.stderr)
        sys.exit(RunFailed.exit_code)
