"""``fedlearn settings``: list the settings, or explain one."""

from __future__ import annotations

import json
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedlearn.commands.brief import first_words
from fedlearn.commands.completing import assignments_like, settings_like
from fedlearn.commands.flags import with_flags
from fedlearn.config import RunConfig, flat_from_assignments, to_flower
from fedlearn.config.config_sources import INCLUDE, Layer, merged, source_of
from fedlearn.config.names import described, field_of, flags, hint_at, names_of, setting_names, words_of
from fedlearn.core.errors import UsageError, printable, said
from fedlearn.plugins.ranges import KINDS

NARROWEST = 40  # columns

_filled = partial(textwrap.fill, break_on_hyphens=False)  # names of plugins have hyphens


@with_flags(flags(), first=False)
def settings(
    given: dict[str, Any],
    key: Annotated[
        str,
        typer.Argument(
            metavar="[WORD]", help="A setting, a table, the last word of a setting, or a word of its meaning.",
            autocompletion=settings_like, show_default=False,
        ),
    ] = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the values of a run with their sources.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print a JSON Schema for settings files: types, ranges, meanings.")
    ] = False,
    config: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="With --explain: as in simulate.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="With --explain: as in simulate.",
                     autocompletion=assignments_like),
    ] = None,
) -> None:  # fmt: skip
    """Print all settings as a TOML template, explain one, or search them.

    WORD is a setting, a table of settings, or the last word of a setting: prints meaning, default, range and flag.
    Any other word is searched in names and meanings.
    With --explain and the flags of simulate: the source of each value that is not the default.
    """
    given = given | flat_from_assignments(set_ or [])
    if schema:
        print(json.dumps(json_schema(), indent=2))
        return
    if explain:
        _explain_sources(_named(key.strip()) if key else [], config or [], given)
        return
    if given or config:
        raise UsageError("settings explains values of a run with --explain: add it")
    if not key:
        _list(setting_names())
        return
    word = key.strip()
    if (names := _found(word)) is None:
        names = _searched(word)
        print("\n".join(f"{name}  {first_words(described(name)[0])}" for name in names))
        return
    if len(names) > 1:
        _list(names)
        return
    _explain(names[0])
    if others := [name for name in _mentioning(word) if name not in names] if word not in setting_names() else []:
        print(_filled(", ".join(others), _width(), initial_indent="  see also ", subsequent_indent=" " * 11))


def _explain_sources(names: list[str], configs: list[Path], given: dict[str, Any]) -> None:
    """Print the values of settings with their sources; without names those of all that are not the default."""
    from fedlearn.commands.shared import all_layers
    from fedlearn.models.presets import settings_from

    layers = [*all_layers(configs), Layer("command line", given)]
    flat = merged(layers)
    found = to_flower(settings_from(flat, source=lambda name: source_of(name, layers)))
    defaults = to_flower(RunConfig())
    for name in names or found:
        source = source_of(name, layers) or ("default" if found[name] == defaults[name] else "goes with the model or "
                                             "the strategy")  # fmt: skip
        if names or source != "default":
            print(printable(f"{name} = {_written(found[name])}  # {source}"))


def json_schema() -> dict[str, Any]:
    """Return a JSON Schema of a file of settings, with the meaning of each."""
    schema = RunConfig.model_json_schema()
    for name in setting_names():
        table, _, key = name.rpartition(".")
        kind = type(getattr(RunConfig(), table)).__name__ if table else ""
        properties = schema["$defs"][kind]["properties"] if table else schema["properties"]
        properties[key]["description"] = described(name)[0]
    schema["properties"][INCLUDE] = {
        "description": "Settings files to include, relative to this one; this one wins.",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _named(key: str) -> list[str]:
    """Return the settings that a key names, or raise UsageError with the one that was meant."""
    if (found := _found(key)) is not None:
        return found
    raise UsageError(f"{said(key)}: there is no such setting{hint_at(key)}")


def _searched(word: str) -> list[str]:
    """Return the settings whose name or meaning has a word in it, or raise UsageError."""
    return _mentioning(word) or _named(word)


def _mentioning(word: str) -> list[str]:
    pattern = re.compile(rf"(?<![a-z]){re.escape(word)}", re.IGNORECASE)
    in_names = [name for name in setting_names() if pattern.search(name.replace("_", " ").replace(".", " "))]
    return [*in_names, *(n for n in setting_names() if n not in in_names and pattern.search(described(n)[0]))]


def _found(key: str) -> list[str] | None:
    """Return the settings that a key names: one, those of a table, or those that end in it; None if none does."""
    names = setting_names()
    key = {flag.name.removeprefix("--"): setting for setting, flag in flags().items()}.get(key, key)
    found = [key] if key in names else [name for name in names if name.startswith(f"{key}.")]
    return found or [name for name in names if name.rpartition(".")[2] == key] or None


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
    width = _width()
    print(f"{name}\n{_filled(text, width, initial_indent='  ', subsequent_indent='  ')}\n")
    for fact, value in facts.items():
        if value:
            print(_filled(value, width, initial_indent=f"  {fact:8} ", subsequent_indent=" " * 11))


def _width() -> int:
    return max(min(Console().width, 100), NARROWEST)


def allowed_of(name: str) -> str:
    """Return the type and the range of a setting, or its words.

    >>> allowed_of("training.lr"), allowed_of("compression.keep_ratio"), allowed_of("compression.send")
    ('a number above 0', 'a number above 0 and at most 1', 'weights or update')
    """
    names = names_of(name)
    field = field_of(name)
    if name.endswith(("options", "steps", "mods")) or field.annotation not in KINDS:
        return " or ".join(names) if field.annotation not in KINDS else ""
    if names:
        return f"{', '.join(names)}; or module:name"
    return words_of(name)
