"""Flags that are short names of settings: a command lists them, and gets what was given as one table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from fedlearn.commands.completing import names_like
from fedlearn.config.load import described
from fedlearn.config.names import names_of


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the command line and the setting that it fills; help and default are the setting's own.

    Parameters
    ----------
    panel
        The heading under which ``--help`` lists it.
    """

    name: str
    setting: str
    metavar: str
    panel: str

    @property
    def parameter(self) -> str:
        """What typer calls its value."""
        return self.name.removeprefix("--").replace("-", "_")

    def as_option(self) -> inspect.Parameter:
        """Return it as typer reads it.

        All are read as text: the schema checks them, so that a bad value gives the same line from wherever it comes.
        """
        text, default = described(self.setting)
        shown = f"{text} \\[default: {default}]" if default != "" else text
        complete = names_like(self.setting) if names_of(self.setting) else None
        option = typer.Option(
            self.name, metavar=self.metavar, help=shown, rich_help_panel=self.panel, autocompletion=complete
        )
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(self.parameter, keyword, default=None, annotation=Annotated[str | None, option])


def with_flags(flags: Sequence[Flag], *, first: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that puts flags before a command's own options, or behind them.

    The command's first parameter gets the settings that were given: dotted name -> text.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def flagged(**options: Any) -> None:
            values = {flag.setting: options.pop(flag.parameter) for flag in flags}
            command({setting: value for setting, value in values.items() if value is not None}, **options)

        signature = inspect.signature(command, eval_str=True)
        _, *own = signature.parameters.values()
        ours = [flag.as_option() for flag in flags]
        parameters = [*ours, *own] if first else [*own, *ours]
        flagged.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return flagged

    return decorate
