"""Whether a container is healthy, after Docker's rules."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

from tests.compose.service import HealthCheck


class Checks:
    """When health checks are due, and what they say together."""

    def __init__(self, check: HealthCheck | None) -> None:
        self._check = check
        self._begin = self._last = time.monotonic()
        self._failures = 0
        self._healthy = False

    def due(self) -> bool:
        """Say whether it is time for the next check."""
        if self._check is None:
            return False
        starting = not self._healthy and time.monotonic() < self._begin + self._check.start_period
        pause = min(self._check.start_interval, self._check.interval) if starting else self._check.interval
        return time.monotonic() >= self._last + pause

    def run(self, execute: Callable[[Sequence[str], float], subprocess.CompletedProcess[str]]) -> bool | None:
        """Check by `execute`; return whether the container is healthy, None where a failure does not count yet."""
        assert self._check is not None
        try:
            good = execute(self._check.command, self._check.timeout).returncode == 0
        except subprocess.TimeoutExpired:
            good = False
        self._last = time.monotonic()
        starting = not self._healthy and self._last < self._begin + self._check.start_period
        if good:
            self._failures, self._healthy = 0, True
            return True
        self._failures += not starting
        return None if self._failures < self._check.retries else False
