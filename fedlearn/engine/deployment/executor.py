"""The executor of a client: it takes the place of ``flower-superexec``, and keeps libraries and data loaded.

Flower starts a new Python for every message to a client, which then imports torch and loads the data: seconds for each
message. Here one process has loaded both, and forks for every message; the child is as isolated as Flower's process,
and runs Flower's own code. The executor runs beside a SuperNode that was started with ``--isolation process``:

    python -m fedlearn.engine.deployment.executor --insecure --runtime-api-address 127.0.0.1:9094

With ``--server`` it does the same for the server app of a SuperLink, which then gives signs of life from its first
second on: Flower takes a Python that still imports after a minute, on a busy machine, for dead, and starts another.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from fedlearn.engine.deployment import proxies, warm
from fedlearn.engine.deployment.healthy import Health
from fedlearn.engine.deployment.programs import Pauses, read_secret, start_logging
from fedlearn.engine.deployment.task import Task, start_server_task, start_task
from fedlearn.engine.processes import die_with
from fedlearn.flower.pulling import pull_impatiently
from fedlearn.flower.runtime import (
    CLIENT_TASK,
    SERVER_TASK,
    Endpoint,
    NotTrusted,
    Tasks,
    Unreachable,
    available,
    give_signs_of_life_later,
)

SHORTEST_POLL, LONGEST_POLL = 0.05, 0.5  # seconds between questions for tasks; the longest while one is running
UNRUNG_POLL = 2.0  # seconds between questions where a bell signals tasks, in case that a signal is lost
TICK = 0.02  # seconds between looks at running tasks
PATIENCE = 5.0  # seconds that tasks have to end when the executor stops

log = logging.getLogger("executor")


class Executor:
    """Takes the tasks of a SuperNode or SuperLink, each in a process of its own."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        server: bool,
        only_ours: bool = False,
        bell: int | None = None,
        health: Health | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._server = server
        self._only_ours = only_ours
        self._health = health
        self._tasks: dict[int, Task] = {}
        self._source = Tasks(endpoint, SERVER_TASK if server else CLIENT_TASK)
        self._bell = bell
        self._rung = 0  # signals of the bell for whose tasks the executor has not asked yet
        self._away = False
        self._ask_at = 0.0  # monotonic seconds
        self._pauses = Pauses(SHORTEST_POLL, LONGEST_POLL)
        self._learned = warm.Learned()

    def run(self) -> None:
        """Take and run tasks for ever.

        Raises
        ------
        NotTrusted
            If the SuperNode refuses this executor, as the secrets differ.
        """
        while True:
            self._look_after_tasks()
            if not self._rung and time.monotonic() < self._ask_at:
                self._wait()
            elif token := self._acquire():
                task = self._start(token)
                self._tasks[task.pid] = task
                self._pauses.reset()
                self._rung = max(self._rung - 1, 0)
                self._ask_at = 0.0 if self._bell is None else time.monotonic() + UNRUNG_POLL
            else:
                self._ask_at = time.monotonic() + self._pause()
                self._rung = 0

    def stop(self) -> None:
        """End all running tasks."""
        for task in self._tasks.values():
            task.kill(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        while self._tasks and time.monotonic() < end:
            self._reap()
            time.sleep(TICK)
        for task in self._tasks.values():
            task.kill(signal.SIGKILL)
        self._source.close()

    def _pause(self) -> float:
        """Return the seconds until the next question, when there was no task."""
        if self._away:
            return LONGEST_POLL
        if self._bell is not None:
            return UNRUNG_POLL
        return LONGEST_POLL if self._tasks else self._pauses.next()

    def _wait(self) -> None:
        """Wait for a tick, or until the bell rings."""
        if self._bell is None:
            time.sleep(TICK)
        elif select.select([self._bell], [], [], TICK)[0]:
            self._rung += len(os.read(self._bell, 4096))

    def _start(self, token: str) -> Task:
        if self._server:
            return start_server_task(self._endpoint, token)
        return start_task(self._endpoint, token, self._learned, only_ours=self._only_ours)

    def _acquire(self) -> str:
        try:
            token = self._source.acquire()
        except Unreachable as error:
            if not self._away:
                log.warning("%s is away: %s", self._endpoint.address, error)
                if through := proxies.remark(self._endpoint.address):
                    log.warning("%s", through)
            self._away = True
            return ""
        if self._away:
            log.info("%s is back", self._endpoint.address)
        self._away = False
        return token

    def _look_after_tasks(self) -> None:
        """Read the reports of tasks, end late tasks, and answer in place of dead ones."""
        for task in self._tasks.values():
            # With `only_ours`, a task loads data and model, as the node's policy must allow the settings first.
            if task.read_reports(self._learned) and not self._only_ours and self._learned.warm_up():
                gc.freeze()  # so that children do not copy all pages when they look for garbage
            task.end_if_late()
        self._reap()
        if self._health:
            self._health.look()

    def _reap(self) -> None:
        """Collect every child that has ended, also those that answer in place of dead tasks."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if self._health:
                    self._health.has_ended(pid)
                if task := self._tasks.pop(pid, None):
                    task.read_reports(self._learned)
                    task.report_death(status)
                    if self._bell is None:
                        self._ask_at = 0.0  # its answer may bring the next message


def main(arguments: list[str] | None = None) -> None:
    """Run until SIGTERM or SIGINT."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _options(given)
    start_logging()
    moved = available()
    if moved and options.only_our_app:
        sys.exit(
            f"error: Flower has moved {moved}: --only-our-app cannot be checked; install flwr as fedlearn asks for it"
        )
    if moved:
        log.warning("Flower has moved %s: running flower-superexec, which starts a Python for every message", moved)
        os.execvp("flower-superexec", ["flower-superexec", *_words_of_flower(given)])
    die_with(options.parent_pid)
    health = Health(options.health_server_address) if options.health_server_address else None
    signal.signal(signal.SIGTERM, _stop)
    warm.import_libraries(server=options.server)
    pull_impatiently()  # tasks inherit it, and this:
    give_signs_of_life_later()
    gc.freeze()
    executor = Executor(
        _endpoint(options), server=options.server, only_ours=options.only_our_app, bell=options.bell, health=health
    )
    log.info("takes the tasks of %s", options.runtime_api_address)
    try:
        executor.run()
    except KeyboardInterrupt:
        log.info("ends")
    except NotTrusted as error:
        sys.exit(f"error: {options.runtime_api_address} refuses this executor: {error}; do both have the same "
                 "--superexec-auth-secret-file?")  # fmt: skip
    finally:
        executor.stop()


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _words_of_flower(given: list[str]) -> list[str]:
    """Return the arguments that ``flower-superexec`` has, too."""
    ours = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    ours.add_argument("--server", action="store_true")
    ours.add_argument("--bell")
    return ours.parse_known_args(given)[1]


def _endpoint(options: argparse.Namespace) -> Endpoint:
    certificates = options.root_certificates.read_bytes() if options.root_certificates else None
    secret = read_secret(options.superexec_auth_secret_file)
    return Endpoint(options.runtime_api_address, options.insecure, certificates, secret)


def _options(arguments: list[str]) -> argparse.Namespace:
    """Read the options, which are named as those of ``flower-superexec``."""
    parser = argparse.ArgumentParser(prog="python -m fedlearn.engine.deployment.executor", description=__doc__)
    parser.add_argument(
        "--runtime-api-address", required=True, metavar="HOST:PORT", help="Runtime API of the SuperNode or SuperLink."
    )
    parser.add_argument("--insecure", action="store_true", help="Without TLS.")
    parser.add_argument("--root-certificates", type=Path, metavar="FILE", help="Certificate authority, PEM.")
    parser.add_argument(
        "--superexec-auth-secret-file",
        type=Path,
        metavar="FILE",
        help="The same secret as the SuperNode or SuperLink has.",
    )
    parser.add_argument("--server", action="store_true", help="Run server apps of a SuperLink, not clients.")
    parser.add_argument("--only-our-app", action="store_true", help="Run no app but the one that is installed here.")
    parser.add_argument("--health-server-address", metavar="HOST:PORT", help="Address of the gRPC health service.")
    parser.add_argument(
        "--bell", type=int, metavar="FD", help="File descriptor of a pipe with a byte for each new task."
    )
    parser.add_argument("--parent-pid", type=int, metavar="PID", help="End when this process ends.")
    options = parser.parse_args(arguments)
    if options.insecure and options.root_certificates:
        parser.error("--insecure and --root-certificates exclude each other")
    return options


if __name__ == "__main__":
    main()
