"""What a shell is offered at the tab key: settings and the names that they take; nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable

from fedlearn.config.names import names_of, setting_names


def settings_like(incomplete: str) -> list[str]:
    """Return the settings that begin so, or their tables.

    >>> settings_like("compression.k")
    ['compression.keep_ratio']
    """
    return [name for name in setting_names() if name.startswith(incomplete)]


def assignments_like(incomplete: str) -> list[str]:
    """Return what can follow ``--set``: a setting, and behind its "=" the names that it takes.

    >>> assignments_like("compression.s"), assignments_like("compression.send=u")
    (['compression.send='], ['compression.send=update'])
    """
    setting, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in settings_like(setting)]
    names = names_of(setting) if setting in setting_names() else ()
    return [f"{setting}={name}" for name in names if name.startswith(value)]


def names_like(setting: str) -> Callable[[str], list[str]]:
    """Return what completes the value of a setting; of a chain of codecs, its last stage."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names_of(setting) if name.startswith(last)]

    return complete
