"""The server looks for replies until the given time, and no longer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from server.exchange.exchange import Exchange


class Clock:
    """Virtual time in which no reply arrives."""

    def __init__(self, time):
        self.time = time

    def now(self):
        return self.time

    def wait(self, seconds):
        self.time += seconds


@pytest.mark.parametrize("begin", [0.0, 16.6, 1e9])
@pytest.mark.parametrize("steps", [0, 1, 3, 10**6])
def test_looks_end_however_short_the_wait(begin, steps):
    until = begin
    for _ in range(min(steps, 3)):
        until = float(np.nextafter(until, np.inf))
    until += steps // 4  # seconds
    clock = Clock(begin)
    exchange = object.__new__(Exchange)
    exchange.clock, exchange._offers = clock, SimpleNamespace(timed=clock)
    looks = [clock.time for _, _ in zip(exchange.looks(until=until), range(20), strict=False)]
    assert 1 <= len(looks) < 20
    assert looks[-1] == clock.time >= until
