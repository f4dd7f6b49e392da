"""``fedlearn settings``: list the settings, or explain one."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated

import typer
from rich.console import Console

from fedlearn.commands.completing import settings_like
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.names import described, field_of, flags, hint_at, names_of, setting_names
from fedlearn.words.errors import UsageError, said

BOUNDS = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
NARROWEST = 40  # columns


def settings(
    key: Annotated[
        str,
        typer.Argument(
            metavar="[KEY]", help="A setting, a table of settings, or the last word of one; all unless given.",
            autocompletion=settings_like, show_default=False,
        ),
    ] = "",
) -> None:  # fmt: skip
    """Print all settings as a TOML template, or explain one.

    KEY is a setting, a table of settings, or the last word of one: its meaning, default, range and flag are told.
    """
    if not key:
        _list(setting_names())
        return
    names = _named(key.strip())
    if len(names) == 1:
        _explain(names[0])
    else:
        _list(names)


def _named(key: str) -> list[str]:
    """Return the settings that a key names: one, those of a table, or those that end in it."""
    names = setting_names()
    key = {flag.name.removeprefix("--"): setting for setting, flag in flags().items()}.get(key, key)
    found = [key] if key in names else [name for name in names if name.startswith(f"{key}.")]
    found = found or [name for name in names if name.rpartition(".")[2] == key]
    if not found:
        hint = hint_at(key) or "; fedlearn settings lists them"
        raise UsageError(f"{said(key)}: there is no such setting{hint}")
    return found


def _list(names: list[str]) -> None:
    """Print settings as a TOML file, with their meanings as comments."""
    table = ""
    defaults = to_flower(RunConfig())
    for name in names:
        section, _, key = name.rpartition(".")
        if section != table:
            table = section
            print(f"\n[{section}]")
        print(f"{key} = {_written(defaults[name])}  # {described(name)[0]}")


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else json.dumps(value)


def _explain(name: str) -> None:
    """Print the meaning of one setting, its default, its range and its flag."""
    text, default = described(name)
    table, _, key = name.rpartition(".")
    flag = flags().get(name)
    in_file = f"{key} = {_written(default)}" + (f" below [{table}]" if table else "")
    facts = {
        "default": _written(default),
        "allowed": allowed_of(name),
        "flag": f"{flag.name} {flag.metavar}" if flag else "",
        "or": f"--set {name}=VALUE; in a file for --config: {in_file}",
    }
    width = max(min(Console().width, 100), NARROWEST)
    print(f"{name}\n{textwrap.fill(text, width, initial_indent='  ', subsequent_indent='  ')}\n")
    for fact, value in facts.items():
        if value:
            print(textwrap.fill(value, width, initial_indent=f"  {fact:8} ", subsequent_indent=" " * 11))


def allowed_of(name: str) -> str:
    """Return the type and the range of a setting, or its words.

    >>> allowed_of("training.lr"), allowed_of("compression.keep_ratio"), allowed_of("compression.send")
    ('a number above 0', 'a number above 0 to 1', 'weights or update')
    """
    names = names_of(name)
    field = field_of(name)
    if name.endswith(("options", "steps", "mods")) or field.annotation not in KINDS:
        return " or ".join(names) if field.annotation not in KINDS else ""
    bounds = [
        f"{word} {bound:,}" if isinstance(bound, int) else f"{word} {bound:g}"
        for attribute, word in BOUNDS.items()
        for each in field.metadata
        if (bound := getattr(each, attribute, None)) is not None
    ]
    if names:
        return f"{', '.join(names)}; or module:name"
    return " ".join([KINDS[field.annotation], *bounds])
