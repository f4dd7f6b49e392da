"""The life of one container: wait for others, run the command, check its health, start it again, stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from tests.compose.health import Checks
from tests.compose.image import Image
from tests.compose.service import Service

TICK = 0.05  # seconds between looks at a process
BACKOFF = 0.1, 60.0  # seconds before the first restart, and the most; doubled each time, as Docker does
STEADY = 10.0  # seconds that a container must have run for its back-off to start anew


class Wiring(Protocol):
    """How a container is set apart from others: where its files lie, what its addresses are."""

    wrappers: int  # processes that stand between ours and the container's first

    def place(self, container: Container) -> None:
        """Make its folders and addresses; those of all are made before the first is started."""

    def command(self, container: Container, words: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        """Return command line, environment and working directory of the container's own process."""

    def visit(self, container: Container, words: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        """Return the same of a process that joins a running container, as ``docker exec`` does."""

    def address(self, container: Container, seen_from: Container) -> str:
        """Return a container's IP address; empty where the two share no network."""

    def close(self) -> None:
        """Take down what was made for all."""


class Container:
    """One of a service's containers. `status`: waiting, running, exited; `healthy` as its check last said."""

    def __init__(
        self, service: Service, number: int, image: Image, folder: Path, wiring: Wiring, note: Callable[[str], None]
    ) -> None:
        self.service = service
        self.number = number
        self.image = image
        self.folder = folder
        self.name = f"{service.name}-{number}"
        self.log = folder.parent.parent / "logs" / f"{self.name}.log"
        self.status = "waiting"
        self.healthy = service.health is None
        self.code: int | None = None
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._wiring = wiring
        self._tell = note
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name=self.name, daemon=True)
        self._dependencies: list[tuple[Container, str]] = []

    def begin(self, dependencies: list[tuple[Container, str]]) -> None:
        """Start its life; it waits by itself for those that it depends on."""
        self._dependencies = dependencies
        self._thread.start()

    def is_ready(self, condition: str) -> bool:
        """Say whether a service that depends on this one may start."""
        match condition:
            case "service_completed_successfully":
                return self.status == "exited" and self.code == 0
            case "service_healthy":
                return self.status == "running" and self.healthy
        return self.starts > 0

    def read_log(self) -> str:
        """Return all that it has printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Return its living processes whose command line holds `word`, the oldest first."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self.process is not None:
                me = psutil.Process(self.process.pid)
                family = sorted([me, *me.children(recursive=True)], key=psutil.Process.create_time)
                return [p for p in family if word in _command_line(p)]
        return []

    def execute(self, words: Sequence[str], seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as ``docker exec`` does."""
        line, env, cwd = self._wiring.visit(self, words)
        return subprocess.run(line, env=env, cwd=cwd, timeout=seconds, capture_output=True, text=True)

    def stop(self) -> None:
        """Send SIGTERM and, after the grace period, SIGKILL; it is not started again."""
        self._stopping.set()
        if self.process is not None and self.process.poll() is None:
            for process in self.processes()[self._wiring.wrappers :][:1]:
                with contextlib.suppress(psutil.NoSuchProcess):  # it may end by itself just now
                    process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.service.grace)
        if self._thread.is_alive():
            self._thread.join(self.service.grace)
        self._end_all()

    def kill(self) -> None:
        """Kill all its processes at once, as if the machine had lost them; the restart policy then applies."""
        self._end_all()

    def _note(self, text: str) -> None:
        self._tell(f"{self.name} {text}")

    def _live(self) -> None:
        try:
            if not self._wait():
                return
            backoff = BACKOFF[0]
            while not self._stopping.is_set():
                begin = time.monotonic()
                self._run()
                if self._stopping.is_set() or not self._again():
                    return
                backoff = BACKOFF[0] if time.monotonic() - begin > STEADY else min(2 * backoff, BACKOFF[1])
                self._note(f"is started again in {backoff:g} s")
                self._stopping.wait(backoff)
        except Exception as error:
            self._note(f"cannot be run: {type(error).__name__}: {error}")
        finally:
            self.status = "exited"

    def _wait(self) -> bool:
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
        line, env, cwd = self._wiring.command(self, self._words())
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                line, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.status, self.starts = "running", self.starts + 1
        self._note("started")
        checks = Checks(self.service.health)
        while self.process.poll() is None:
            if checks.due():
                self._take(checks.run(self.execute))
            time.sleep(TICK)
        self.code = self.process.returncode
        self._end_all()
        self.healthy = self.service.health is None
        self._note(f"exited with {self.code}")
        self.status = "exited" if not self._again() else "running"

    def _take(self, healthy: bool | None) -> None:
        if healthy is not None and healthy != self.healthy:
            self.healthy = healthy
            self._note("is healthy" if healthy else "is unhealthy")

    def _words(self) -> list[str]:
        """Return the words to run: the service's, else the image's; a new entrypoint takes no command of the image."""
        entrypoint, command = self.service.entrypoint, self.service.command
        if entrypoint is None:
            entrypoint = self.image.entrypoint
            command = self.image.command if command is None else command
        return [*entrypoint, *(command or ())]

    def _again(self) -> bool:
        policy, _, most = self.service.restart.partition(":")
        if policy == "on-failure":
            return self.code != 0 and (not most or self.starts <= int(most))
        return policy in ("always", "unless-stopped")

    def _end_all(self) -> None:
        """Kill what is left of it, grandchildren included, as the end of a container does."""
        left = [p for p in psutil.process_iter() if self._is_mine(p)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=5)

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and process.environ().get(MARK) == str(self.folder)
        except (psutil.Error, OSError):
            return False


MARK = "COMPOSE_CONTAINER"  # in the environment of every process of a container: how those that left it are found


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
