"""Nodes that hang: another worker runs the other nodes of the same task, so that a hanging node costs only itself.

A node that hangs cannot be told from a node that takes long. So eight times in the given time the engine looks which
workers still run the node that they ran at the look before. Such a worker goes on, as its node may yet answer; but the
other nodes of its task are given to another worker, and one more worker is started. If the task ends in time after all,
its result counts as usual, and the second result is forgotten: a run without hanging nodes does not change by a byte.
"""

from __future__ import annotations

import time
from dataclasses import replace

from fedlearn.engine.embedded.pool import WorkerPool
from fedlearn.engine.embedded.tasks import NOBODY, TOGETHER, BlockTask, MessagesTask, Task
from fedlearn.engine.embedded.worker_process import WorkerProcess

LOOKS = 8  # in the given time
SPARES = 8  # workers at most beside the usual ones: that many nodes may hang at the same time


class Watch:
    """Watches the workers of a pool for nodes that hang.

    Parameters
    ----------
    seconds
        The time for all tasks.
    """

    def __init__(self, pool: WorkerPool, *, seconds: float) -> None:
        self._pool = pool
        self._pause = seconds / LOOKS
        self._next = time.monotonic() + self._pause
        self._ran: dict[WorkerProcess, tuple[Task, int]] = {}  # at the look before
        self._shared_out: list[Task] = []

    @property
    def seconds_left(self) -> float:
        """Seconds until the next look."""
        return max(self._next - time.monotonic(), 0.0)

    def look(self) -> None:
        """Submit again the tasks of workers that still run the same node; before the next look is due, do nothing."""
        if self.seconds_left:
            return
        self._next = time.monotonic() + self._pause
        runs = {worker: (worker.tasks[0], worker.running) for worker in self._pool.busy}
        for worker, (task, place) in runs.items():
            before, place_before = self._ran.get(worker, (None, NOBODY))
            if task is not before or place != place_before or any(task is other for other in self._shared_out):
                continue
            self._shared_out.append(task)
            self._pool.submit(_rest_of(task, place))
            if self._pool.spares < SPARES:
                self._pool.start_spare()
        self._ran = runs


def _rest_of(task: Task, place: int) -> list[Task]:
    """Return the tasks for the other nodes of a task, beside the node at `place`, which hangs.

    Messages become one task each, as other nodes may hang, too; the rest of a block stays one task with one sum.
    """
    match task:
        case MessagesTask() if place == TOGETHER:
            return []  # trained alone they would answer differently, and the clock would decide which answer counts
        case MessagesTask() if place != NOBODY:
            return [MessagesTask((message,)) for i, message in enumerate(task.messages) if i != place]
        case BlockTask() if len(task.members) > 1 and place != NOBODY:
            kept = [i for i, member in enumerate(task.members) if member.position != place]
            members, messages = tuple(task.members[i] for i in kept), tuple(task.messages[i] for i in kept)
            return [replace(task, members=members, messages=messages, is_rest=True, alone=True)]
    return []
