"""Complete settings, and the names that they take, at the tab key of a shell; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable

from fedlearn.config.names import names_of, setting_names


def settings_like(incomplete: str) -> list[str]:
    """Return the settings whose names begin with a text.

    >>> settings_like("compression.k")
    ['compression.keep_ratio']
    """
    return [name for name in setting_names() if name.startswith(incomplete)]


def assignments_like(incomplete: str) -> list[str]:
    """Return how an argument of ``--set`` can go on: with a setting; behind its "=", with the names that it takes.

    >>> assignments_like("compression.s"), assignments_like("compression.send=u")
    (['compression.send='], ['compression.send=update'])
    """
    setting, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in settings_like(setting)]
    names = names_of(setting) if setting in setting_names() else ()
    return [f"{setting}={name}" for name in names if name.startswith(value)]


def names_like(setting: str) -> Callable[[str], list[str]]:
    """Return a function that completes the value of a setting; in a chain of codecs it completes the last stage."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names_of(setting) if name.startswith(last)]

    return complete
