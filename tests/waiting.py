"""Wait until something has become true: the one bounded poll of the tests, for what sends no event."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds that a loaded machine may take for what should take one or two


def wait_until(
    condition: Callable[[], object],
    what: str | Callable[[], str],
    seconds: float = PATIENCE,
    *,
    every: float = 0.01,
) -> None:
    """Look at a condition every few hundredths of a second until it holds; after `seconds`, fail and say `what`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s for {what() if callable(what) else what}")
        time.sleep(every)
