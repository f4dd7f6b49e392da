"""The worker processes: started, given tasks, watched, replaced when they die, stopped.

Workers are forked from a small server process that has imported torch and the client app but has never run anything
(`multiprocessing`'s forkserver): a worker starts in milliseconds, shares those pages with all others, and inherits no
lock of the engine's threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Hashable, Iterable
from contextlib import suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from fedlearn.engine.embedded.sharing import Board, NewBoard, hand_over
from fedlearn.engine.embedded.tasks import Begin, Broken, Done, Task
from fedlearn.engine.embedded.worker import NOBODY, work
from fedlearn.errors import RunFailed, UsageError

LONGEST_WAIT = 3600.0  # seconds; the operating system takes no infinity
NICE_TO_JOIN = 1.0  # seconds that a killed process has to disappear


class Worker:
    """One worker process, seen from the engine."""

    def __init__(self, begin: Begin) -> None:
        context: Any = get_context("forkserver")
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.heard: dict[Hashable, int] = {}
        self.boards: dict[int, Board] = {}
        status = Board(0, 8)
        self._running = np.ndarray((1,), np.int64, status.memory)
        self._running[0] = NOBODY
        hand_over(status, self.pipe, self._pid)
        self.pipe.send(begin)

    @property
    def _pid(self) -> int:
        pid = self.process.pid
        assert pid is not None
        return pid

    @property
    def running(self) -> int:
        """The cohort position of the node that it runs, or NOBODY."""
        return int(self._running[0])

    def hear(self, announcements: dict[Hashable, tuple[int, object]]) -> None:
        """Send what it has not heard yet."""
        for key, (version, message) in announcements.items():
            if self.heard.get(key) == version:
                continue
            if isinstance(message, Board):
                hand_over(message, self.pipe, self._pid)
            else:
                self.pipe.send(message)
            self.heard[key] = version

    def kill(self) -> None:
        """End it at once; it holds nothing that has to be saved."""
        self.process.kill()
        self.process.join(NICE_TO_JOIN)
        self.pipe.close()


class WorkerPool:
    """Hands tasks to workers, in order, each to the first that is free.

    Parameters
    ----------
    size
        Number of workers.
    begin
        What every worker is told first.
    """

    def __init__(self, size: int, begin: Begin) -> None:
        self._begin = begin
        self._workers = [Worker(begin) for _ in range(size)]
        self._queue: deque[Task] = deque()
        self._announced: dict[Hashable, tuple[int, object]] = {}
        self._versions = 0

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._workers)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued or running."""
        return not self._queue and all(worker.task is None for worker in self._workers)

    def announce(self, key: Hashable, message: object) -> None:
        """Have every worker hear a message before its next task; it replaces the one of the same key."""
        self._versions += 1
        self._announced.pop(key, None)  # what is announced later is heard later
        self._announced[key] = (self._versions, message)

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks."""
        self._queue.extend(tasks)
        for worker in self._workers:
            self._give(worker)

    def _give(self, worker: Worker) -> None:
        """Give a free worker its next task."""
        if worker.task is not None or not self._queue:
            return
        worker.task = self._queue.popleft()
        try:
            worker.hear(self._announced)
            worker.pipe.send(worker.task)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has died: `wait` will find the closed pipe

    def wait(self, seconds: float) -> list[tuple[Task, Done | None, Worker]]:
        """Return tasks that have ended, at most one of each worker; wait for one at most `seconds`.

        ``None`` in place of a result says that the worker died over the task; it has been replaced. The worker stands
        beside the result for the boards that the result may lie on.
        """
        ended = []
        for pipe in connection.wait([worker.pipe for worker in self._workers], min(max(seconds, 0.0), LONGEST_WAIT)):
            index = next(i for i, worker in enumerate(self._workers) if worker.pipe is pipe)
            worker = self._workers[index]
            message = self._hear_from(worker)
            if isinstance(message, NewBoard):
                continue
            task = worker.task
            if message is None:
                self._replace(index)
            else:
                worker.task = None
                self._give(worker)  # before anybody looks at the result: the worker should not wait for that
            if isinstance(message, Broken):
                raise (UsageError if message.exit_code == 2 else RunFailed)(message.text)
            if task is not None:
                ended.append((task, message, worker))
        return ended

    def _hear_from(self, worker: Worker) -> Done | NewBoard | None:
        try:
            message: Done | NewBoard = worker.pipe.recv()
            if isinstance(message, NewBoard):
                worker.boards[message.number] = message.receive(worker.pipe)
            return message
        except (EOFError, ConnectionResetError):
            return None

    def _replace(self, index: int) -> None:
        dead = self._workers[index]
        dead.kill()
        if dead.task is None:
            code = dead.process.exitcode
            raise RunFailed(f"a worker process died without a task (exit code {code}); see the lines above")
        self._workers[index] = Worker(self._begin)
        self._give(self._workers[index])

    def cancel(self) -> None:
        """Forget what is queued, and replace the workers that are still busy."""
        self._queue.clear()
        for index, worker in enumerate(self._workers):
            if worker.task is not None:
                worker.kill()
                self._workers[index] = Worker(self._begin)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            with suppress(OSError):
                worker.process.kill()
        for worker in self._workers:
            worker.kill()


def default_size() -> int:
    """Return one worker for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
