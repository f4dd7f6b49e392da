"""Read a text in TOML, JSON or YAML; an error says in our words which line is wrong and how such a line is written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from fedlearn.core.errors import said

HOW = {
    "TOML": "write NAME = VALUE, with texts in quotes and each name once",
    "JSON": 'write {"NAME": VALUE, ...}, with names and texts in double quotes',
    "YAML": "write NAME: VALUE, each name in its own line",
}
OF_TOML = re.compile(r"at line (\d+), column \d+")


def _from_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise json.JSONDecodeError("", text, min(mark.index, len(text)) if mark else len(text)) from None


PARSERS: Mapping[str, Callable[[str], Any]] = {"TOML": tomllib.loads, "JSON": json.loads, "YAML": _from_yaml}


def parsed(data: bytes | str, kind: str = "TOML") -> Any:
    """Return what a text holds.

    Raises
    ------
    ValueError
        With the first wrong line, as ``not valid TOML: line 3, `lr 0.1`: write NAME = VALUE, ...``.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"not valid {kind}: it is no text in UTF-8: save it as UTF-8") from None
    try:
        return PARSERS[kind](text)
    except RecursionError:
        raise ValueError(f"not valid {kind}: it is nested too deeply: write fewer levels") from None
    except ValueError as error:
        raise ValueError(f"not valid {kind}: {_line_of(error, text)}{HOW[kind]}") from None


def _line_of(error: ValueError, text: str) -> str:
    """Return the line at which a parser stopped, with its number; the last one for the end of the text."""
    lines = text.rstrip().splitlines() or [""]
    found = OF_TOML.search(str(error))
    number = error.lineno if isinstance(error, json.JSONDecodeError) else int(found[1]) if found else len(lines)
    number = min(number, len(lines))
    return f"line {number}, `{said(lines[number - 1])[:80]}`: "
