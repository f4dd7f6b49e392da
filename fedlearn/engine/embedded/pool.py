"""The worker processes: started, given tasks, watched, replaced when they die, stopped.

Workers are forked from a small server process that has imported torch and the client app but has never run anything
(`multiprocessing`'s forkserver): a worker starts in milliseconds, shares those pages with all others, and inherits no
lock of the engine's threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from fedlearn.engine.embedded.sharing import NewSharedMemory
from fedlearn.engine.embedded.tasks import NOBODY, Begin, Broken, Done, Task
from fedlearn.engine.embedded.worker_process import RUN, Work, WorkerProcess
from fedlearn.words.errors import RunFailed, UsageError

LONGEST_WAIT = 3600.0  # seconds; the operating system takes no infinity
VAIN_DEATHS = 5  # in a row, of workers that ran no node: then it is the machine or the program, and no node


class WorkerPool:
    """Hands tasks to workers, in order, each to the first that is free.

    Parameters
    ----------
    size
        Number of workers.
    begin
        The first message that every worker gets.
    work
        What every worker process runs, with its end of a pipe.
    start_method
        Of `multiprocessing`; with ``"spawn"`` every worker imports torch for itself.
    """

    def __init__(self, size: int, begin: Begin, work: Work, *, start_method: str = "forkserver") -> None:
        self.size = size
        self.spares = 0  # workers that may be started beside those
        self._begin = begin
        self._work = work
        self._start_method = start_method
        self._workers: list[WorkerProcess] = []
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
    def busy(self) -> list[WorkerProcess]:
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

    def _started(self) -> WorkerProcess:
        try:
            return WorkerProcess(self._work, self._begin, self._start_method)
        except (EOFError, OSError) as error:
            why = str(error) or "the process that they are forked from has died"
            raise RunFailed(f"no worker process can be started: {why}; see the lines above") from None

    def _give(self, worker: WorkerProcess) -> None:
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

    def wait(self, seconds: float) -> list[tuple[Task, Done | None, WorkerProcess]]:
        """Return tasks that have ended, at most one of each worker; wait for one at most `seconds`.

        ``None`` in place of a result says that the worker died over one of the task's nodes; it has been replaced. The
        worker stands beside the result for the shared memory that the result may lie in.
        """
        ended: list[tuple[Task, Done | None, WorkerProcess]] = []
        by_pipe: dict[Any, WorkerProcess] = {worker.pipe: worker for worker in self._workers}
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

    def _replace_dead(self, dead: WorkerProcess) -> Task | None:
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
