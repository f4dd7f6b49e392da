"""One worker process, seen from the engine: its pipe, its shared memories, the tasks that it has."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from fedlearn.core.state import Array
from fedlearn.engine.embedded.forkserver import WORKER, may_have_children
from fedlearn.engine.embedded.sharing import Directory, NewSharedMemory, SharedMemory, hand_over
from fedlearn.engine.embedded.tasks import NOBODY, Begin, Done, Task

PATIENCE = 30  # seconds without a byte in the middle of a message, after which a worker was stopped and is replaced
NICE_TO_JOIN = 1.0  # seconds that a killed process has to disappear
SMALL = 4096  # bytes of a task; any system's pipe takes as many without a reader
RUN = "run"  # key of the announcement that a new run begins
IN_VAIN = 10.0  # seconds for a task that another worker has done; then the worker was stopped, and is replaced

Work = Callable[[Connection], None]


class WorkerProcess:
    """One worker process, seen from the engine.

    Parameters
    ----------
    work
        The function that the process runs, called with its end of the pipe.
    begin
        The first message that it gets.
    start_method
        The start method of `multiprocessing`.
    """

    def __init__(self, work: Work, begin: Begin, start_method: str) -> None:
        context: Any = get_context(start_method)
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=work, args=(theirs,), name=WORKER, daemon=True)
        with may_have_children():
            self.process.start()
        theirs.close()
        _give_up_after(PATIENCE, self.pipe)
        self.tasks: deque[Task] = deque()  # the task that the worker does, and at most one ahead
        self.taken: Task | None = None  # one of these tasks, if another worker does it in this one's place
        self.began = time.monotonic()  # the first of these tasks
        self._announced: dict[Hashable, object] = {}
        self._shared: dict[int, SharedMemory] = {}  # the worker's shared memories, by slot
        status = SharedMemory(0, 8)
        self._running = np.ndarray((1,), np.int64, status.memory)
        self._running[0] = NOBODY
        with self._sending():
            hand_over(status, self.pipe, self._pid)
            self.pipe.send(begin)
        self._announced[RUN] = begin

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Send; a worker that does not read is killed, and waiting for a dead worker finds the closed pipe."""
        try:
            yield
        except BlockingIOError:
            self.process.kill()
        except ConnectionError:
            pass

    @property
    def _pid(self) -> int:
        pid = self.process.pid
        assert pid is not None
        return pid

    @property
    def running(self) -> int:
        """The place of the running node, in the cohort or among a task's messages; or NOBODY, or TOGETHER."""
        return int(self._running[0])

    def give(self, task: Task, announcements: dict[Hashable, object]) -> None:
        """Send a task, and before it the announcements that the worker has not got yet."""
        self.tasks.append(task)
        self.began = time.monotonic()
        with self._sending():
            for key, message in announcements.items():
                if self._announced.get(key) is not message:
                    self._tell(message)
                    self._announced[key] = message
            self._announced = dict(announcements)  # without those of an earlier run
            self.pipe.send(task)

    def give_ahead(self, task: Task, announcements: dict[Hashable, object]) -> bool:
        """Send a task to a busy worker; return whether it was sent.

        A task is not sent if it could fill the pipe, as both sides might then wait for each other, or if it needs an
        announcement.
        """
        packed = ForkingPickler.dumps(task)
        if len(packed) > SMALL or any(
            self._announced.get(key) is not message for key, message in announcements.items()
        ):
            return False
        self.tasks.append(task)
        with self._sending():
            self.pipe.send_bytes(packed)
        return True

    def finished(self) -> Task | None:
        """Take out and return the task that has ended; None if another worker does the task."""
        task = self.tasks.popleft()
        self.began = time.monotonic()
        if task is not self.taken:
            return task
        self.taken = None
        return None

    @property
    def is_needed(self) -> bool:
        """Whether the worker has a task that no other worker does."""
        return any(task is not self.taken for task in self.tasks)

    @property
    def is_stopped(self) -> bool:
        """Whether the worker has only tasks that others do, and has not ended them for long: it was stopped."""
        return bool(self.tasks) and not self.is_needed and time.monotonic() - self.began > IN_VAIN

    def _tell(self, message: object) -> None:
        if isinstance(message, SharedMemory):
            hand_over(message, self.pipe, self._pid)
        else:
            self.pipe.send(message)

    def receive(self) -> Done | NewSharedMemory | None:
        """Return the worker's next message; None if the worker has died or been stopped, even amid a message."""
        try:
            message: Done | NewSharedMemory = self.pipe.recv()
            if isinstance(message, NewSharedMemory):
                self._shared[message.slot] = message.receive(self.pipe)
            return message
        except (EOFError, OSError):
            return None

    def read(self, directory: Directory) -> dict[str, Array]:
        """Return the arrays of a directory, as views of the worker's shared memory."""
        return self._shared[directory.slot].read(directory)

    def kill(self) -> None:
        """End the process at once; it has no state that must be saved."""
        self.process.kill()
        self.process.join(NICE_TO_JOIN)
        self.pipe.close()


def _give_up_after(seconds: int, pipe: Connection) -> None:
    """Make sending and receiving fail with BlockingIOError when the other side does not react for `seconds`."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as same:
        for direction in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            same.setsockopt(socket.SOL_SOCKET, direction, struct.pack("ll", seconds, 0))  # a timeval
