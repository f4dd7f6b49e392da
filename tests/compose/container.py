"""Let a container live: wait for other services, run the command, check its health, start it again, stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tests.compose.plain import MARK, Surroundings

TICK = 0.05  # seconds between two looks at what other containers have become
BACKOFF = 0.1, 60.0  # seconds before the first restart, and the most; doubled each time, as Docker does
STEADY = 10.0  # seconds that a container must have run for its back-off to start anew


class Container:
    """One of a service's containers.

    `status` is waiting, running or exited. `healthy`: the check has succeeded since the start, or there is none.
    """

    def __init__(self, name: str, surroundings: Surroundings, log: Path, note: Callable[[str], None]) -> None:
        self.name = name
        self.service = surroundings.service
        self.address = surroundings.address
        self.status = "waiting"
        self.healthy = self.service.health is None
        self.code: int | None = None
        self.starts = 0
        self._log = log
        self._surroundings = surroundings
        self._note = lambda text: note(f"{name} {text}")
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._dependencies: list[tuple[Container, str]] = []

    def begin(self, dependencies: list[tuple[Container, str]]) -> None:
        """Start the container's life, which waits by itself for its dependencies: (container, condition)."""
        self._dependencies = dependencies
        self._thread.start()

    def is_ready(self, condition: str) -> bool:
        """Say whether a service that depends on this container may start."""
        match condition:
            case "service_completed_successfully":
                return self.status == "exited" and self.code == 0
            case "service_healthy":
                return self.status == "running" and self.healthy
        return self.starts > 0

    def read_log(self) -> str:
        """Return all that the container has printed."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Return the container's living processes whose command line holds `word`, the oldest first."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._process is not None:
                first = psutil.Process(self._process.pid)
                family = sorted([first, *first.children(recursive=True)], key=psutil.Process.create_time)
                return [process for process in family if word in _command_line(process)]
        return []

    def execute(self, words: Sequence[str], seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as ``docker exec`` does."""
        line, env, cwd = self._surroundings.process(words)
        return subprocess.run(line, env=env, cwd=cwd, timeout=seconds, capture_output=True, text=True)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the container; after SIGKILL its restart policy applies."""
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def stop(self) -> None:
        """Send SIGTERM and, after the grace period, SIGKILL; the container is not started again."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.service.grace)
        if self._thread.is_alive():
            self._thread.join(self.service.grace)
        self._end_all()

    def _live(self) -> None:
        try:
            if not self._waited():
                return
            backoff = BACKOFF[0]
            while not self._stopping.is_set():
                begin = time.monotonic()
                self._run()
                if self._stopping.is_set() or not self._starts_again():
                    return
                backoff = BACKOFF[0] if time.monotonic() - begin > STEADY else min(2 * backoff, BACKOFF[1])
                self._note(f"is started again in {backoff:g} s")
                self._stopping.wait(backoff)
        except Exception as error:
            self._note(f"cannot be run: {type(error).__name__}: {error}")
        finally:
            self.status = "exited"

    def _waited(self) -> bool:
        """Wait for all dependencies; say whether they became what they should."""
        for other, condition in self._dependencies:
            while not other.is_ready(condition):
                if other.status == "exited":
                    self._note(f"is not started: {other.name} has ended, and should be {condition}")
                    return False
                if self._stopping.wait(TICK):
                    return False
        return True

    def _run(self) -> None:
        """Run the command once, with its health checks, to its end."""
        line, env, cwd = self._surroundings.process(self.service.command)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                line, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.status, self.starts = "running", self.starts + 1
        self._note("started")
        if self.service.health is not None:
            self._check_until_healthy(self._process)
        self.code = self._process.wait()
        self._end_all()
        self.healthy = self.service.health is None
        self._note(f"exited with {self.code}")
        self.status = "running" if self._starts_again() else "exited"

    def _check_until_healthy(self, process: subprocess.Popen[bytes]) -> None:
        assert self.service.health is not None
        while not self.healthy:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.service.health.every)
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.healthy = self.execute(self.service.health.command, self.service.health.timeout).returncode == 0
        self._note("is healthy")

    def _starts_again(self) -> bool:
        return self.service.restart == "unless-stopped" or (self.service.restart == "on-failure" and self.code != 0)

    def _end_all(self) -> None:
        """Kill what is left of the container, orphans included, as the end of a container does."""
        self.send(signal.SIGKILL)
        psutil.wait_procs(self._all(), timeout=5)

    def _all(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and process.environ().get(MARK) == str(self._surroundings.folder)
        except (psutil.Error, OSError):
            return False


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
