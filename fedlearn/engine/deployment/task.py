"""One task of a client or a server: a forked process, and its executor's view of it."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fedlearn.core.refusals import NOT_READY
from fedlearn.engine.deployment import warm
from fedlearn.engine.processes import how_it_ended
from fedlearn.flower.runtime import (
    Endpoint,
    Input,
    report_death,
    report_server_death,
    run_server_task,
    run_task,
)

APP_NOT_ALLOWED = "app-not-allowed"
SHORTEST_LIMIT = 30.0  # seconds that every task has: the first task of a run loads the data

log = logging.getLogger("executor")


@dataclass(slots=True)
class Task:
    """A process that handles one message."""

    pid: int
    endpoint: Endpoint
    token: str
    pipe: int  # through which the process reports on its message
    is_server: bool = False
    is_discreet: bool = False  # whether the node tells a server nothing that may depend on its data
    _unread: bytearray = field(default_factory=bytearray)
    _message: bytes = b""
    _ttl: float = 0.0
    _end: float = float("inf")  # monotonic seconds
    _is_late: bool = False

    def read_reports(self, learned: warm.Learned) -> bool:
        """Read the reports of the process; return whether they hold a new app or run."""
        with suppress(BlockingIOError):
            while data := os.read(self.pipe, 65536):
                self._unread += data
        whole, _, rest = self._unread.rpartition(b"\n")
        self._unread = rest
        return any([self._take_in(json.loads(line), learned) for line in whole.splitlines()])

    def _take_in(self, report: Mapping[str, Any], learned: warm.Learned) -> bool:
        if place := report.get("installed"):
            learned.installed[report["checksum"]] = place
            return False
        self._message = bytes.fromhex(report["message"])
        self._ttl = max(report["ttl"], SHORTEST_LIMIT)
        self._end = time.monotonic() + self._ttl
        return learned.learn(report["fab_hash"], is_ours=report["is_ours"], run_config=report["run_config"])

    def end_if_late(self) -> None:
        """Kill the process when its answer is no longer wanted, so that the node can take other messages."""
        if time.monotonic() > self._end and not self._is_late:
            self._is_late = True
            self.kill(signal.SIGKILL)

    def kill(self, number: signal.Signals) -> None:
        """Send a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def report_death(self, status: int) -> None:
        """Answer in place of a process that has ended without an answer."""
        os.close(self.pipe)
        if not os.WIFSIGNALED(status) or not (self._message or self.is_server):
            return
        reason = f"the process was {how_it_ended(status)}"
        if self._is_late:
            reason = f"the client hung: no answer {self._ttl:g} s after the message"
        log.error("task %d: %s", self.pid, reason)
        if self.is_discreet:
            reason = NOT_READY  # how much memory or time a task takes may depend on the data
        if os.fork() == 0:
            _alone(lambda: self._answer(reason))

    def _answer(self, reason: str) -> None:
        if self.is_server:
            report_server_death(self.endpoint, self.token, reason)
        else:
            report_death(self.endpoint, self.token, self._message, reason)


def start_server_task(endpoint: Endpoint, token: str) -> Task:
    """Fork a process that runs a server app: with the imported libraries, but the bundle's own code."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    pid = os.fork()
    if pid == 0:
        warm.forget_ours()
        _alone(lambda: run_server_task(endpoint, token))
    os.close(write_end)
    return Task(pid, endpoint, token, read_end, is_server=True)


def start_task(endpoint: Endpoint, token: str, learned: warm.Learned, *, only_ours: bool = False) -> Task:
    """Fork a process that runs a task; with `only_ours` it answers `APP_NOT_ALLOWED` to a bundle with another app."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    pid = os.fork()
    if pid == 0:

        def send(report: Mapping[str, Any]) -> None:
            os.write(write_end, json.dumps(report).encode() + b"\n")

        def prepare(given: Input) -> None:
            is_ours = learned.is_ours(given)
            report = {
                "fab_hash": given.fab_hash, "is_ours": is_ours, "run_config": dict(given.run_config),
                "message": given.message.hex(), "ttl": given.ttl,
            }  # fmt: skip
            send(report)
            if only_ours and not learned.is_nothing_else(given):
                report_death(endpoint, token, given.message, APP_NOT_ALLOWED)
                os._exit(0)
            if not is_ours:
                warm.forget_ours()

        def on_installed(checksum: str, place: str) -> None:
            send({"checksum": checksum, "installed": place})
            os.close(write_end)  # the app that is loaded next must not write into it

        _alone(
            lambda: run_task(endpoint, token, on_input=prepare, installed=learned.installed, on_installed=on_installed)
        )
    os.close(write_end)
    return Task(pid, endpoint, token, read_end, is_discreet=only_ours)


def _alone(work: Callable[[], None]) -> None:
    """Do the work of a forked process, and end the process."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        log.exception("task %d", os.getpid())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
