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

from fedlearn.engine.embedded.forkserver import WORKER, may_have_children
from fedlearn.engine.embedded.sharing import Directory, NewSharedMemory, SharedMemory, hand_over
from fedlearn.engine.embedded.tasks import NOBODY, Begin, Done, Task
from fedlearn.words.state import Array

PATIENCE = 30  # seconds that a worker may let us wait in the middle of a message; it may have been stopped
NICE_TO_JOIN = 1.0  # seconds that a killed process has to disappear
SMALL = 4096  # bytes of a task; what a pipe takes at least, on any system, while nobody reads
RUN = "run"  # key of the announcement that a new run begins
IN_VAIN = 10.0  # seconds that a worker may do what another has done for it; then it was stopped, and is replaced

Work = Callable[[Connection], None]


class WorkerProcess:
    """One worker process, seen from the engine.

    Parameters
    ----------
    work
        What the process runs, with its end of the pipe.
    begin
        The first message that it gets.
    start_method
        Of `multiprocessing`.
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
        self.tasks: deque[Task] = deque()  # the one that it does, and at most one ahead
        self.taken: Task | None = None  # one of these that another worker does in its place
        self.began = time.monotonic()  # the first of these
        self.heard: dict[Hashable, object] = {}
        self._shared: dict[int, SharedMemory] = {}  # those it has handed over, by slot
        status = SharedMemory(0, 8)
        self._running = np.ndarray((1,), np.int64, status.memory)
        self._running[0] = NOBODY
        with self._sending():
            hand_over(status, self.pipe, self._pid)
            self.pipe.send(begin)
        self.heard[RUN] = begin

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Send; whoever waits for a worker that has died, or does not read, will find the closed pipe."""
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
        """The place of the node that it runs, in the cohort or among a task's messages; or NOBODY."""
        return int(self._running[0])

    def give(self, task: Task, announcements: dict[Hashable, object]) -> None:
        """Send a task, and before it what the worker has not heard yet."""
        self.tasks.append(task)
        self.began = time.monotonic()
        with self._sending():
            for key, message in announcements.items():
                if self.heard.get(key) is not message:
                    self._tell(message)
                    self.heard[key] = message
            self.heard = dict(announcements)  # nothing of an earlier run
            self.pipe.send(task)

    def give_ahead(self, task: Task, announcements: dict[Hashable, object]) -> bool:
        """Send a task to one that is busy.

        Not if it could fill the pipe, as both sides might then wait for each other, nor if it needs an announcement.
        """
        packed = ForkingPickler.dumps(task)
        if len(packed) > SMALL or any(self.heard.get(key) is not message for key, message in announcements.items()):
            return False
        self.tasks.append(task)
        with self._sending():
            self.pipe.send_bytes(packed)
        return True

    def finished(self) -> Task | None:
        """Return the task that has ended; None if another worker does it."""
        task = self.tasks.popleft()
        self.began = time.monotonic()
        if task is not self.taken:
            return task
        self.taken = None
        return None

    @property
    def is_needed(self) -> bool:
        """Whether it does anything that counts."""
        return any(task is not self.taken for task in self.tasks)

    @property
    def is_stopped(self) -> bool:
        """Whether it does nothing that counts, and has not ended that for long: it was stopped."""
        return bool(self.tasks) and not self.is_needed and time.monotonic() - self.began > IN_VAIN

    def _tell(self, message: object) -> None:
        if isinstance(message, SharedMemory):
            hand_over(message, self.pipe, self._pid)
        else:
            self.pipe.send(message)

    def hear(self) -> Done | NewSharedMemory | None:
        """Return what it has sent; None if it has died or been stopped, were it in the middle of a word."""
        try:
            message: Done | NewSharedMemory = self.pipe.recv()
            if isinstance(message, NewSharedMemory):
                self._shared[message.slot] = message.receive(self.pipe)
            return message
        except (EOFError, OSError):
            return None

    def read(self, directory: Directory) -> dict[str, Array]:
        """Return what it has written, as views of its shared memory."""
        return self._shared[directory.slot].read(directory)

    def kill(self) -> None:
        """End it at once; it holds nothing that has to be saved."""
        self.process.kill()
        self.process.join(NICE_TO_JOIN)
        self.pipe.close()


def _give_up_after(seconds: int, pipe: Connection) -> None:
    """Have sending and receiving fail with BlockingIOError when the other side does nothing for so long."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as same:
        for direction in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            same.setsockopt(socket.SOL_SOCKET, direction, struct.pack("ll", seconds, 0))  # a timeval
