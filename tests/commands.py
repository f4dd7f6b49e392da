"""Command lines of fedlearn, read as the command itself reads them, but not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import typer

from fedlearn.cli import app
from fedlearn.engine.deployment.client_processes import ClientOptions

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def parsed(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what the options of a command say; raise click.UsageError if it does not know one."""
    context = COMMANDS[name].make_context(name, list(words))
    return dict(context.params)


def client_options(command: Sequence[str]) -> ClientOptions:
    """Return the options with which ``fedlearn client ...`` would run its client."""
    with patch("fedlearn.engine.deployment.client_processes.run") as run:
        COMMANDS["client"].main(list(command[2:]), standalone_mode=False)
    options: ClientOptions = run.call_args.args[0]
    return options
