"""Keep what a process makes once for a run and uses for every message of the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from fedlearn.config.schema import RunConfig

T = TypeVar("T")


def per_run(make: Callable[[RunConfig], T]) -> Callable[[RunConfig], T]:
    """Return `make` with a memory of one result: that for the settings of the last run.

    Settings are told apart by identity, which `from_flower` preserves from message to message: comparing eighty
    settings would cost more than some messages do.
    """
    last: tuple[RunConfig, T] | None = None

    @wraps(make)
    def kept(config: RunConfig) -> T:
        nonlocal last
        if last is None or last[0] is not config:
            last = (config, make(config))
        return last[1]

    return kept
