"""Errors of a command line in our words: the flag or the command as it was typed, what is expected, what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click
from pydantic import Field

from fedlearn.config.names import flags, meant_by
from fedlearn.core.errors import said
from fedlearn.plugins.ranges import in_words
from fedlearn.plugins.registry import did_you_mean

TYPES = {"integer": int, "float": float, "boolean": bool}  # click's names of what we ask for; any other is a text
VALUE = re.compile(r"'(.*?)' is not")
EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)")


def in_our_words(error: click.ClickException, given: Sequence[str], program: str) -> str:
    """Return what is wrong with a command line.

    Parameters
    ----------
    error
        As click has raised it.
    given
        The arguments as they were typed.
    program
        The name of the program, for an error that knows no command.
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else " ".join([program, *given[:1]])
    help_of = f"{command} --help lists what there is"
    if isinstance(error, click.NoSuchOption):
        return f"{said(error.option_name)}: there is no such flag{_flag_meant(error)}; {help_of}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{command} needs {_shown(error.param)}: {_meaning(error.param)}; {help_of}"
    if isinstance(error, click.BadOptionUsage):
        return f"{_as_given(error.option_name, given)}: write a value behind it; {help_of}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_with_value(error.param, error.message, given)}: expected {_expected(error.param)}; {help_of}"
    if found := EXTRA.search(error.message):
        return f"{said(found[1])}: {command} takes no such argument: values are given by flags; {help_of}"
    if context is not None and isinstance(context.command, click.Group) and error.message.startswith("No such command"):
        name = next((each for each in given if not each.startswith("-")), "")
        return f"{said(name)}: there is no such command{did_you_mean(name, context.command.commands)}; {help_of}"
    return f"{error.format_message().rstrip('.')}; {help_of}"


def _flag_meant(error: click.NoSuchOption) -> str:
    """Return the flag, or the setting without one, that a wrong flag may stand for."""
    name = error.option_name.lstrip("-").replace("-", "_")
    own = [opt for each in error.ctx.command.params for opt in each.opts] if error.ctx else []
    near = did_you_mean(error.option_name, own)
    if "--set" in own and not near and (setting := meant_by(name)):
        flag = flags().get(setting)
        return f"; did you mean {flag.name if flag else f'--set {setting}=VALUE'}?"
    return near


def _shown(parameter: click.Parameter) -> str:
    shown = parameter.metavar or (parameter.name or "").upper()
    return f"{parameter.opts[0]} {shown}" if isinstance(parameter, click.Option) else shown.strip("[]")


def _meaning(parameter: click.Parameter) -> str:
    text = (getattr(parameter, "help", None) or "write it").split(". ")[0].rstrip(".")
    return f"{text[0].lower()}{text[1:]}"


def _as_given(option: str, given: Sequence[str]) -> str:
    return next((each for each in given if each.partition("=")[0] == option), option)


def _with_value(parameter: click.Parameter, message: str, given: Sequence[str]) -> str:
    """Return a flag with the value that was typed for it, or the value of an argument."""
    for place, each in enumerate(given):
        flag, equals, _ = each.partition("=")
        if flag in parameter.opts:
            return said(each if equals else " ".join(given[place : place + 2]))
    found, variable = VALUE.match(message), getattr(parameter, "envvar", None)
    value = said(found[1]) if found else _shown(parameter)
    return f"{variable}={value}" if found and variable else value


def _expected(parameter: click.Parameter) -> str:
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return " or ".join(map(str, kind.choices))
    limits = Field(ge=getattr(kind, "min", None), le=getattr(kind, "max", None))
    return in_words(TYPES.get(kind.name.removesuffix(" range"), str), [limits])
