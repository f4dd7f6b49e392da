"""Flags that fill settings: a command lists them in its help, and gets what was given as one table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from fedlearn.commands.completing import assignments_like, names_like
from fedlearn.config.marks import Flag, Panel
from fedlearn.config.names import described, names_of
from fedlearn.core.errors import as_typed, said

ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Settings as TOML, JSON or YAML; may be repeated; flags win over them.",
        rich_help_panel=Panel.RUNNING,
    ),
]  # fmt: skip
"""The option ``config`` of a command that makes no run."""
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any setting by its dotted name; may be repeated.",
        rich_help_panel=Panel.RUNNING, autocompletion=assignments_like,
    ),
]  # fmt: skip
"""The option ``set_`` of a command that makes no run."""


def with_flags(
    flags: Mapping[str, Flag], *, first: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that puts flags before the options of a command, or behind them.

    The command gets the settings that were given as its first parameter: dotted name -> text.

    Parameters
    ----------
    flags
        Setting -> flag, as `fedlearn.config.names.flags` returns them.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def flagged(**options: Any) -> None:
            values = {setting: options.pop(flag.parameter) for setting, flag in flags.items()}
            given = {setting: value for setting, value in values.items() if value is not None}
            assigned = {each.partition("=")[0].strip() for each in options.get("set_") or ()}  # which win over flags
            typed = {name: f"{flags[name].name} {quote(said(given[name]))}" for name in given.keys() - assigned}
            with as_typed(typed):
                command(dict(given), **options)

        signature = inspect.signature(command, eval_str=True)
        _, *own = signature.parameters.values()
        ours = [_option(setting, flag) for setting, flag in flags.items()]
        parameters = [*ours, *own] if first else [*own, *ours]
        flagged.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return flagged

    return decorate


def _option(setting: str, flag: Flag) -> inspect.Parameter:
    """Return a flag as a parameter that typer reads; its help and its default are those of the setting.

    Every value is read as text: the schema checks it, so that a bad value gives the same line wherever it comes from.
    """
    text, default = described(setting)
    shown = f"{text} \\[default: {default}]" if default != "" else text
    complete = names_like(setting) if names_of(setting) else None
    option = typer.Option(
        flag.name, metavar=flag.metavar, help=shown, rich_help_panel=flag.panel, autocompletion=complete
    )
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(flag.parameter, keyword, default=None, annotation=Annotated[str | None, option])
