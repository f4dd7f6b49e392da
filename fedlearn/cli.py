"""The command line: the commands of `commands/` behind one name."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import click
import typer

from fedlearn.commands.admit import admit, request
from fedlearn.commands.agree import agree
from fedlearn.commands.audit import audit
from fedlearn.commands.backup import backup, restore
from fedlearn.commands.brief import Brief
from fedlearn.commands.check import check
from fedlearn.commands.client import client
from fedlearn.commands.declare import declare
from fedlearn.commands.doctor import doctor
from fedlearn.commands.forget import forget
from fedlearn.commands.keys import keys
from fedlearn.commands.last_words import as_json, asks_for_json
from fedlearn.commands.ledger import ledger
from fedlearn.commands.new import new
from fedlearn.commands.partitions import partitions
from fedlearn.commands.peers import peers
from fedlearn.commands.plan import EXAMPLES as PLANS
from fedlearn.commands.plan import plan
from fedlearn.commands.predict import predict
from fedlearn.commands.report import DEFAULT_PORT, compare, dashboard, report
from fedlearn.commands.run import run
from fedlearn.commands.runs import runs
from fedlearn.commands.server import server
from fedlearn.commands.settings import settings
from fedlearn.commands.shared import Interrupted
from fedlearn.commands.simulate import EXAMPLES, simulate
from fedlearn.commands.status import status
from fedlearn.commands.stop import stop
from fedlearn.commands.submit import submit
from fedlearn.commands.sweep import EXAMPLES as SWEEPS
from fedlearn.commands.sweep import sweep
from fedlearn.commands.usage import in_our_words
from fedlearn.commands.verify import verify
from fedlearn.commands.worth import worth
from fedlearn.core.errors import FedlearnError, RunFailed, as_given, printable, said
from fedlearn.core.stopping import interrupted_code
from fedlearn.engine.processes import say_warnings

TYPER_INTERRUPTED = 130  # what typer returns for a stop outside of our own handlers
LONGEST_LINE = 2000  # letters of an error

DOCUMENTATION = "A setting: fedlearn settings WORD. This machine: fedlearn doctor. Documentation: docs/index.md."

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=DOCUMENTATION)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedlearn {import_module('fedlearn').__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def fedlearn(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Federated learning for PyTorch: simulate clients on this machine, or run the same over a network."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


RUN, LOOK, NETWORK, PRIVACY, DEVELOP = "Run", "Look at runs", "Over a network", "Privacy", "Develop"
_GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    RUN: (simulate, sweep, plan, run, stop, settings),
    LOOK: (partitions, runs, report, dashboard, compare, predict, verify, forget, worth),
    NETWORK: (server, client, submit, status, keys, request, admit, peers, backup, restore),
    PRIVACY: (declare, ledger, agree, audit),
    DEVELOP: (new, check, doctor),
}
_EPILOGS: dict[Callable[..., None], str] = {simulate: EXAMPLES, sweep: SWEEPS, plan: PLANS}
_OF_MANY_FLAGS = {simulate, sweep, plan, settings, client}

for _group, _commands in _GROUPS.items():
    for _command in _commands:
        _kind = Brief if _command in _OF_MANY_FLAGS else None
        app.command(cls=_kind, epilog=_EPILOGS.get(_command), rich_help_panel=_group)(_command)


def with_default_port(arguments: list[str]) -> list[str]:
    """Add a port to each ``--dashboard`` without one: typer has no options with optional values.

    >>> with_default_port(["--dashboard", "--clients", "5"])
    ['--dashboard', '8765', '--clients', '5']
    """
    filled = []
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=False):
        filled.append(argument)
        if argument == "--dashboard" and following.startswith("-"):
            filled.append(DEFAULT_PORT)
    return filled


def _look_in_the_current_folder() -> None:
    """Find modules in the current folder, as ``python -m`` does; last, so that no file there replaces a library."""
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)


def main(arguments: list[str] | None = None, program: str = "fedlearn") -> None:
    """Run a command and end the process, with exit code 0; 1 if the run failed, 2 if the command line is wrong.

    A signal that has ended it adds 128 to its number, as a shell says it: 130 of Ctrl-C, 143 of SIGTERM, 129 of SIGHUP.

    An error is printed as one line; the environment variable FEDLEARN_TRACEBACK adds the traceback.
    """
    say_warnings()
    _look_in_the_current_folder()
    given = with_default_port(sys.argv[1:] if arguments is None else arguments)
    is_of_client = given[:1] == ["client"] and given[1:2] in (["declare"], ["request"], ["peers"])
    given = given[1:] if is_of_client else given  # the command client takes no arguments
    try:
        code = app(args=given, prog_name=program, standalone_mode=False)
    except Interrupted as error:
        _end(str(error), error.exit_code, given, error.folder)
    except FedlearnError as error:
        line = as_given(_in_one_line(str(error)), " ".join(given))
        _end(f"error: {line}", error.exit_code, given, error.folder)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", interrupted_code(), given)
    except click.ClickException as error:
        _end(f"error: {_in_one_line(in_our_words(error, given, program))}", error.exit_code, given)
    except OSError as error:
        where = f"{said(error.filename)}: " if error.filename is not None else ""
        _end(f"error: {where}{error.strerror or type(error).__name__}", RunFailed.exit_code, given)
    if code == TYPER_INTERRUPTED:
        _end("interrupted", interrupted_code(), given)
    sys.exit(code if isinstance(code, int) else 0)


def _end(line: str, code: int, given: list[str], folder: Path | None = None) -> NoReturn:
    if os.environ.get("FEDLEARN_TRACEBACK"):
        traceback.print_exc()
    print(printable(line), file=sys.stderr)
    if asks_for_json(given):
        print(as_json(code, printable(line.removeprefix("error: ")), folder))
    sys.exit(code)


def _in_one_line(text: str) -> str:
    r"""Return the first and the last line of an error as one line of at most `LONGEST_LINE` letters.

    >>> _in_one_line("a worker failed:\n  File x\nTypeError: no")
    'a worker failed: TypeError: no'
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    shown = " ".join(dict.fromkeys((lines[0], lines[-1]))) if lines else ""
    return shown if len(shown) <= LONGEST_LINE else shown[:LONGEST_LINE] + "..."
