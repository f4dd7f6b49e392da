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

from fedlearn.core.errors import RunFailed, error_of
from fedlearn.engine.embedded.sharing import NewSharedMemory
from fedlearn.engine.embedded.tasks import NOBODY, Begin, Broken, Done, Task
from fedlearn.engine.embedded.worker_process import RUN, Work, WorkerProcess

LONGEST_WAIT = 3600.0  # seconds; the operating system takes no infinity
VAIN_DEATHS = 5  # deaths in a row of workers that ran no node: the machine or the program is at fault, not a node


class WorkerPool:
    """Hands tasks to workers, in order, each to the first that is free.

    Parameters
    ----------
    size
        Number of workers.
    begin
        The first message to every worker.
    work
        The function that every worker process runs, called with its end of a pipe.
    start_method
        The start method of `multiprocessing`; with ``"spawn"`` every worker imports torch for itself.
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
        """Whether no task is queued or running, but for those that are done a second time."""
        return not self._queue and not any(worker.is_needed for worker in self._workers)

    @property
    def is_quiet(self) -> bool:
        """Whether no task is queued or running at all."""
        return not self._queue and not any(worker.tasks for worker in self._workers)

    @property
    def busy(self) -> list[WorkerProcess]:
        """The workers with a task that no other worker does."""
        return [worker for worker in self._workers if worker.is_needed]

    def begin(self, begin: Begin) -> None:
        """Make the workers serve another run, after the run before has ended, and forget that run's announcements."""
        self._begin = begin
        self._announced.clear()
        self.announce(RUN, begin)

    def announce(self, key: Hashable, message: object) -> None:
        """Send a message to every worker before its next task; the message replaces the one of the same key."""
        self._announced.pop(key, None)  # announcements are sent in the order of their last change
        self._announced[key] = message

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks."""
        self._queue.extend(tasks)
        self._hand_out()

    def start_spare(self) -> None:
        """Start one more worker, which serves until `end_spares`."""
        self.spares += 1
        self._hand_out()

    def end_spares(self) -> None:
        """Go back to the number of workers at the beginning, by ending idle workers."""
        self.spares = 0
        for worker in [worker for worker in self._workers if not worker.tasks][self.size :]:
            self._workers.remove(worker)
            worker.kill()

    def _hand_out(self) -> None:
        """Start workers in place of those that are gone, and give every free worker its next task."""
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
        """Give a worker a task, and one ahead as long as there are enough for all workers, so that it need not wait."""
        task = None if worker.tasks else self._next()
        if task is not None:
            worker.give(task, self._announced)
        is_free_for_one = len(worker.tasks) == 1 and worker.is_needed
        ahead = self._queue[0] if len(self._queue) > self.size and is_free_for_one else None
        if ahead is not None and worker.give_ahead(ahead, self._announced):
            self._queue.popleft()

    def _next(self) -> Task | None:
        """Return the next task: at the end, a task that waits behind another one that takes long or hangs."""
        if self._queue:
            return self._queue.popleft()
        for worker in self._workers:
            if len(worker.tasks) > 1 and worker.taken is None:
                worker.taken = worker.tasks[-1]
                return worker.taken
        return None

    def wait(self, seconds: float) -> list[tuple[Task, Done | None, WorkerProcess]]:
        """Return (task, result, worker) of tasks that have ended, at most one for each worker; wait at most `seconds`.

        The result is ``None`` where the worker died over one of the task's nodes; that worker has been replaced. The
        worker is returned as the result may lie in its shared memory.
        """
        ended: list[tuple[Task, Done | None, WorkerProcess]] = []
        by_pipe: dict[Any, WorkerProcess] = {worker.pipe: worker for worker in self._workers}
        for pipe in connection.wait(list(by_pipe), min(max(seconds, 0.0), LONGEST_WAIT)):
            worker = by_pipe[pipe]
            if worker not in self._workers:
                continue  # it was stopped, and replaced just now
            message = worker.receive()
            if isinstance(message, NewSharedMemory):
                continue
            counts = not worker.tasks or worker.tasks[0] is not worker.taken
            if isinstance(message, Broken) and counts:
                raise error_of(message.exit_code, message.text)
            if message is None:
                task = self._replace_dead(worker)
            else:
                task, self._vain_deaths = worker.finished(), 0
                self._give(worker)  # before the result is looked at, so that the worker need not wait
            if task is not None:
                ended.append((task, message, worker))
        return ended

    def _replace_dead(self, dead: WorkerProcess) -> Task | None:
        """Replace a dead worker; return its task if the worker died over a node, else queue the task again."""
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
        """Forget all queued tasks, and end the workers that are still busy; others are started with the next task."""
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
