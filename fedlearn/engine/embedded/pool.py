"""The worker processes: started, given tasks, watched, replaced when they die, stopped.

Workers are forked from a small server process that has imported torch and the client app but has never run anything
(`multiprocessing`'s forkserver): a worker starts in milliseconds, shares those pages with all others, and inherits no
lock of the engine's threads.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from fedlearn.engine.embedded.forkserver import WORKER, may_have_children
from fedlearn.engine.embedded.sharing import Directory, NewSharedMemory, SharedMemory, hand_over
from fedlearn.engine.embedded.tasks import Begin, Broken, Done, Task
from fedlearn.engine.embedded.worker import NOBODY, work
from fedlearn.words.errors import RunFailed, UsageError
from fedlearn.words.state import Array

LONGEST_WAIT = 3600.0  # seconds; the operating system takes no infinity
PATIENCE = 30  # seconds that a worker may let us wait in the middle of a message; it may have been stopped
NICE_TO_JOIN = 1.0  # seconds that a killed process has to disappear
SMALL = 4096  # bytes of a task; what a pipe takes at least, on any system, while nobody reads
RUN = "run"  # key of the announcement that a new run begins
IN_VAIN = 10.0  # seconds that a worker may do what another has done for it; then it was stopped, and is replaced
VAIN_DEATHS = 5  # in a row, of workers that ran no node: then it is the machine or the program, and no node


class Worker:
    """One worker process, seen from the engine.

    Parameters
    ----------
    begin
        What it is told first.
    start_method
        Of `multiprocessing`.
    """

    def __init__(self, begin: Begin, start_method: str) -> None:
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


class WorkerPool:
    """Hands tasks to workers, in order, each to the first that is free.

    Parameters
    ----------
    size
        Number of workers.
    begin
        What every worker is told first.
    start_method
        Of `multiprocessing`; with ``"spawn"`` every worker imports torch for itself.
    """

    def __init__(self, size: int, begin: Begin, *, start_method: str = "forkserver") -> None:
        self.size = size
        self.spares = 0  # workers that may be started beside those
        self._begin = begin
        self._start_method = start_method
        self._workers: list[Worker] = []
        self._queue: deque[Task] = deque()
        self._announced: dict[Hashable, object] = {}
        self._vain_deaths = 0
        self._hand_out()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued or running."""
        return not self._queue and not any(worker.is_needed for worker in self._workers)

    @property
    def is_quiet(self) -> bool:
        """Whether no worker does anything, not even in vain."""
        return not self._queue and not any(worker.tasks for worker in self._workers)

    @property
    def busy(self) -> list[Worker]:
        """The workers that do something that counts."""
        return [worker for worker in self._workers if worker.is_needed]

    def begin(self, begin: Begin) -> None:
        """Have the workers serve another run, when the one before has ended; what was announced for it is forgotten."""
        self._begin = begin
        self._announced.clear()
        self.announce(RUN, begin)

    def announce(self, key: Hashable, message: object) -> None:
        """Have every worker hear a message before its next task; it replaces the one of the same key."""
        self._announced.pop(key, None)  # what is announced later is heard later
        self._announced[key] = message

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks."""
        self._queue.extend(tasks)
        self._hand_out()

    def start_spare(self) -> None:
        """Have one more worker, until `end_spares`."""
        self.spares += 1
        self._hand_out()

    def end_spares(self) -> None:
        """Have as many workers as at the beginning: of the others, those end that do nothing."""
        self.spares = 0
        for worker in [worker for worker in self._workers if not worker.tasks][self.size :]:
            self._workers.remove(worker)
            worker.kill()

    def _hand_out(self) -> None:
        """Start workers in place of those that are gone, and give every free one its next task."""
        for worker in [worker for worker in self._workers if worker.is_stopped]:
            self._workers.remove(worker)
            worker.kill()
        while len(self._workers) < self.size + self.spares:
            self._workers.append(self._started())
        for worker in self._workers:
            self._give(worker)

    def _started(self) -> Worker:
        try:
            return Worker(self._begin, self._start_method)
        except (EOFError, OSError) as error:
            why = str(error) or "the process that they are forked from has died"
            raise RunFailed(f"no worker process can be started: {why}; see the lines above") from None

    def _give(self, worker: Worker) -> None:
        """Give it a task, and one ahead as long as there are enough for all: it need not wait for us then."""
        task = None if worker.tasks else self._next()
        if task is not None:
            worker.give(task, self._announced)
        is_free_for_one = len(worker.tasks) == 1 and worker.is_needed
        ahead = self._queue[0] if len(self._queue) > self.size and is_free_for_one else None
        if ahead is not None and worker.give_ahead(ahead, self._announced):
            self._queue.popleft()

    def _next(self) -> Task | None:
        """Return what is to be done next: at the end, what waits behind a task that takes long or hangs."""
        if self._queue:
            return self._queue.popleft()
        for worker in self._workers:
            if len(worker.tasks) > 1 and worker.taken is None:
                worker.taken = worker.tasks[-1]
                return worker.taken
        return None

    def wait(self, seconds: float) -> list[tuple[Task, Done | None, Worker]]:
        """Return tasks that have ended, at most one of each worker; wait for one at most `seconds`.

        ``None`` in place of a result says that the worker died over one of the task's nodes; it has been replaced. The
        worker stands beside the result for the shared memory that the result may lie in.
        """
        ended: list[tuple[Task, Done | None, Worker]] = []
        by_pipe: dict[Any, Worker] = {worker.pipe: worker for worker in self._workers}
        for pipe in connection.wait(list(by_pipe), min(max(seconds, 0.0), LONGEST_WAIT)):
            worker = by_pipe[pipe]
            if worker not in self._workers:
                continue  # it was stopped, and replaced just now
            message = worker.hear()
            if isinstance(message, NewSharedMemory):
                continue
            counts = not worker.tasks or worker.tasks[0] is not worker.taken
            if isinstance(message, Broken) and counts:
                raise (UsageError if message.exit_code == UsageError.exit_code else RunFailed)(message.text)
            if message is None:
                task = self._replace_dead(worker)
            else:
                task, self._vain_deaths = worker.finished(), 0
                self._give(worker)  # before anybody looks at the result: the worker should not wait for that
            if task is not None:
                ended.append((task, message, worker))
        return ended

    def _replace_dead(self, dead: Worker) -> Task | None:
        """Replace a dead worker; return its task if it died over a node, else have another one do it."""
        dead.kill()
        self._workers.remove(dead)
        lost = dead.finished() if dead.tasks else None
        self._queue.extendleft(task for task in dead.tasks if task is not dead.taken)
        if dead.running == NOBODY:
            self._vain_deaths += 1
            if self._vain_deaths == VAIN_DEATHS:
                code = dead.process.exitcode
                raise RunFailed(f"{VAIN_DEATHS} worker processes in a row died (exit code {code}); see the lines above")
            self._queue.extendleft([] if lost is None else [lost])
            lost = None
        self._hand_out()
        return lost

    def cancel(self) -> None:
        """Forget what is queued, and end the workers that are still busy; others are started with the next task."""
        self._queue.clear()
        busy = [worker for worker in self._workers if worker.tasks]
        self._workers = [worker for worker in self._workers if not worker.tasks]
        for worker in busy:
            worker.kill()
        self.end_spares()

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            with suppress(OSError):
                worker.process.kill()
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._announced.clear()


def _give_up_after(seconds: int, pipe: Connection) -> None:
    """Have sending and receiving fail with BlockingIOError when the other side does nothing for so long."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as same:
        for direction in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            same.setsockopt(socket.SOL_SOCKET, direction, struct.pack("ll", seconds, 0))  # a timeval
