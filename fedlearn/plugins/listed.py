"""Plugins that a setting lists: each by its name alone, or in a table of one name and its options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from fedlearn.core.errors import SettingError, quoted
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import load_plugin

T = TypeVar("T")


def pairs_in(text: str) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Return the names in a list of plugins, each with its options; None where it stands alone.

    >>> pairs_in('["a:b", {"a:C": {"norm": 1.0}}]')
    [('a:b', None), ('a:C', {'norm': 1.0})]
    """
    entries = json.loads(text or "[]")
    return [pair for entry in entries for pair in ([(entry, None)] if isinstance(entry, str) else entry.items())]


def listed(setting: str, text: str, *, of: type[T]) -> list[partial[T]]:
    """Return what makes each plugin of a list, with its options.

    Raises
    ------
    SettingError
        If one cannot be loaded, does not derive from the class `of`, or does not take its options.
    """
    return [_made(setting, name, options or {}, of) for name, options in pairs_in(text)]


def _made(setting: str, name: str, options: Mapping[str, Any], of: type[T]) -> partial[T]:
    kind = load_plugin(setting, name)
    if not (isinstance(kind, type) and issubclass(kind, of)):
        raise SettingError(setting, name, f"it is of {quoted(type(kind))}: name a class derived from {of.__name__}")
    return partial(kind, **options_for(kind, options, setting=f"{setting}.{name}"))
