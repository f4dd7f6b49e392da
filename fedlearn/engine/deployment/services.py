"""Processes that are started again whenever they end: what `client.py` and `server.py` keep alive."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType

from fedlearn.engine.deployment.programs import copy_as_json

PAUSES = (2.0, 3.0, 5.0, 10.0)  # seconds before a process that has died again and again is started once more
LONG = 60.0  # seconds of life after which a death is no longer counted with the deaths before
LOOK = 0.2  # seconds between looks at the processes
PATIENCE = 10.0  # seconds that the processes have to end after SIGTERM


class Service:
    """A process that is started again whenever it ends, and that ends with this process.

    Parameters
    ----------
    name
        Name of a module of this folder, which takes ``--parent-pid``.
    log
        Where deaths are logged.
    pass_fds
        File descriptors that the process inherits.
    may_start
        Says whether the process can be started yet.
    json_lines
        Whether what it prints becomes JSON objects.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        log: logging.Logger,
        *,
        pass_fds: Sequence[int] = (),
        may_start: Callable[[], bool] = lambda: True,
        json_lines: bool = False,
    ) -> None:
        self.name = name
        self._log = log
        self._may_start = may_start
        self._json_lines = json_lines
        self._pass_fds = tuple(pass_fds)
        self._command = [sys.executable, "-m", f"fedlearn.engine.deployment.{name}", *words]
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self._deaths = 0

    def look_after(self) -> None:
        """Start the process if it does not run; after a death, only when a pause is over."""
        if self._process is not None and self._process.poll() is not None:
            if time.monotonic() - self._start_at > LONG:
                self._deaths = 0
            pause = PAUSES[min(self._deaths, len(PAUSES) - 1)]
            self._deaths += 1
            code = self._process.returncode
            self._log.warning("%s ended (exit code %d): starting it again in %g s", self.name, code, pause)
            self._process, self._start_at = None, time.monotonic() + pause
        if self._process is None and time.monotonic() >= self._start_at and self._may_start():
            words = ["--parent-pid", str(os.getpid())]
            self._process = self._started([*self._command, *words])

    def _started(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        if not self._json_lines:
            return subprocess.Popen(command, pass_fds=self._pass_fds)
        begun = subprocess.Popen(command, pass_fds=self._pass_fds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert begun.stdout is not None
        threading.Thread(target=copy_as_json, args=(self.name, begun.stdout), daemon=True).start()
        return begun

    def stop(self) -> None:
        """Send SIGTERM to the process."""
        if self._process is not None:
            self._process.terminate()

    def wait(self, *, until: float) -> None:
        """Wait for the end of the process, and kill it at the time `until`."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout=max(until - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def keep_alive(services: Sequence[Service], log: logging.Logger) -> None:
    """Keep processes alive until SIGTERM or SIGINT, then end them."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        while True:
            for service in services:
                service.look_after()
            time.sleep(LOOK)
    except KeyboardInterrupt:
        log.info("ends")
    finally:
        for service in services:
            service.stop()
        end = time.monotonic() + PATIENCE
        for service in services:
            service.wait(until=end)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
