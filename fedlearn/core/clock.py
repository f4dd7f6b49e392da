"""Time as a parameter.

The round protocol never calls `time` itself: it asks a `Clock`. A deployment and a simulation have the wall clock; a
test has a clock that it moves by hand, so that a deadline of an hour is tested in a millisecond.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time for the protocol."""

    def now(self) -> float:
        """Return seconds since some fixed moment; the value never decreases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class WallClock:
    """Real time."""

    def now(self) -> float:
        """Return the monotonic clock's seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`."""
        time.sleep(seconds)


class ManualClock:
    """A clock that only `sleep` and `move_to` move: the clock of tests, and of virtual time.

    >>> clock = ManualClock()
    >>> clock.sleep(30.0)
    >>> clock.now()
    30.0
    """

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Return the seconds slept so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move the clock by `seconds`, at once."""
        self._now += seconds

    def move_to(self, now: float) -> None:
        """Move the clock forward to a moment, at once; an earlier moment changes nothing."""
        self._now = max(self._now, now)
