"""EmbeddedGrid: Flower messages in, replies out, nodes run by worker processes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from flwr.app import Message, MessageType

from fedlearn import flower
from fedlearn.aggregation import BLOCK, BlockResult, FoldPlan, blocks_of, parts_of
from fedlearn.aggregation.offers import Offers
from fedlearn.core.clock import WallClock
from fedlearn.core.cohort import Fate, Member, NodeReport
from fedlearn.core.errors import RunFailed
from fedlearn.core.state import State
from fedlearn.engine.embedded.node_store import NodeStore
from fedlearn.engine.embedded.packing import Packer, kept_in, reply_of
from fedlearn.engine.embedded.pool import WorkerPool
from fedlearn.engine.embedded.sharing import SharedMemory, SharedSlots
from fedlearn.engine.embedded.stuck_nodes import Watch
from fedlearn.engine.embedded.tasks import (
    TOGETHER,
    BlockDone,
    BlockTask,
    CallDone,
    CallTask,
    Done,
    MessagesDone,
    MessagesTask,
    NewPlan,
    Task,
)
from fedlearn.engine.embedded.worker_process import WorkerProcess
from fedlearn.engine.node_calls import error_reply
from fedlearn.engine.virtual_nodes import PromptNodes, expired
from fedlearn.flower import ErrorCode

CALL_PATIENCE = 600.0  # seconds for a function to end, doubled in each try
LEAST_PATIENCE = 8.0  # seconds; a part of a test set takes a few
CALL_TRIES = 3  # two where the caller gives the seconds of a call
RECORDS, STATE, NODES = range(3)  # slots of the engine's shared memories; those from NODES on hold the nodes' memories

log = logging.getLogger(__name__)


class EmbeddedGrid(PromptNodes):
    """A grid whose nodes are run by a pool of workers, which train `stack` of them together."""

    messages_in_task = 16  # a ready query takes a tenth of a millisecond, as the transport of a task does

    def __init__(self, pool: WorkerPool, num_nodes: int, settings: dict[str, Any], *, stack: int = 1) -> None:
        super().__init__(num_nodes, settings)
        self._pool = pool
        self._clock = WallClock()
        self._stack = stack
        self._shared = SharedSlots(self._announce)
        self.kept = self._store = NodeStore(NODES, self._announce)
        self._packer = Packer(pool, self._shared, RECORDS, self._store)
        self._watch = Watch(pool, seconds=0.0)
        self._ended_blocks: set[int] = set()
        self._rests: dict[int, tuple[list[BlockResult], dict[int, bytes]]] = {}  # by task not ended: stuck_nodes.py

    def _announce(self, memory: SharedMemory) -> None:
        self._pool.announce(("shared memory", memory.slot), memory)

    def close(self) -> None:
        """Close the shared memories and their files now, as they would be open until Python looks for cycles."""
        self._shared.close()
        self._store.close()

    @property
    def offers(self) -> Offers:
        """The grid's abilities beyond Flower's Grid: it also has workers."""
        return replace(super().offers, compute=self.call, fold=self, stacks=True)

    # --- any message --------------------------------------------------------------------------------------------------

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Run the nodes in workers; a node over which a worker dies answers with an error."""
        by_id = {message.metadata.message_id: message for message in messages}
        packed = list(self._packer.packed(messages))
        is_training = any(message.metadata.message_type == MessageType.TRAIN for message in messages[:1])
        size = min(BLOCK, self.messages_in_task) if is_training else self.messages_in_task
        parts = blocks_of(len(packed), size)
        if is_training and self._stack > 1:
            block = max(BLOCK, self.settings["training.stack"])
            parts = [part for _, part in parts_of(len(packed), self._pool.size, block=block, stack=self._stack)]
        tasks = [MessagesTask(tuple(packed[part.start : part.stop])) for part in parts]
        seconds = min(seconds, max((message.metadata.ttl for message in messages), default=0.0))
        for task, done, worker in self._ended(tasks, seconds):
            assert isinstance(task, MessagesTask)
            if isinstance(done, MessagesDone):
                self.keep(kept_in(done.kept, worker))
                yield from (reply_of(answer) for answer in done.answers if by_id.pop(answer.message_id, None))
                continue
            if worker.running == TOGETHER:  # one by one it is found which node has ended the worker
                self._pool.submit(
                    [MessagesTask((message,)) for message in task.messages if message.message_id in by_id]
                )
                continue
            lost = by_id.pop(task.messages[worker.running].message_id, None)
            others = tuple(message for message in task.messages if message.message_id in by_id)
            self._pool.submit([MessagesTask(others)])  # they are run again, with the same result
            if lost is not None:
                yield error_reply(lost, ErrorCode.CLIENT_APP_CRASHED, _how(worker))
        yield from expired(by_id.values(), seconds)

    def _ended(
        self, tasks: Sequence[Task], seconds: float, *, each: bool = False
    ) -> Iterable[tuple[Task, Done | None, WorkerProcess]]:
        """Run tasks and yield them as they end, for at most `seconds`; with `each`, since the last task ended."""
        end = self._clock.now() + seconds
        watch = Watch(self._pool, seconds=seconds)
        self._pool.submit(tasks)
        while not self._pool.is_idle:
            left = end - self._clock.now()
            if left <= 0:
                self._pool.cancel()
                return
            for ended in self._pool.wait(min(left, watch.seconds_left)):
                yield ended
                if each:
                    end = self._clock.now() + seconds
            watch.look()
        self._pool.end_spares()

    # --- blocks of a cohort -------------------------------------------------------------------------------------------

    def start_blocks(
        self, messages: Sequence[Message], members: Sequence[Member], plan: FoldPlan, *, seconds: float
    ) -> None:
        """Begin to run a cohort, block by block."""
        self._watch = Watch(self._pool, seconds=seconds)
        self._ended_blocks.clear()
        packed = self._packer.packed([flower.with_id(message) for message in messages])
        self._pool.announce("plan", NewPlan(plan))
        parts = parts_of(len(members), self._pool.size, stack=self._stack, block=plan.block)
        for index, part in parts:  # one by one: workers begin while we write the rest
            theirs = tuple(islice(packed, len(part)))
            self._pool.submit([BlockTask(index, tuple(members[p] for p in part), theirs)])

    def pull_blocks(self, *, seconds: float) -> list[BlockResult]:
        """Return the blocks that have ended; wait for one at most `seconds`."""
        results = []
        for task, done, worker in self._pool.wait(min(seconds, self._watch.seconds_left)):
            assert isinstance(task, BlockTask)
            if not isinstance(done, BlockDone):
                self._pool.submit([_without_the_lost(task, worker)])
                continue
            kept = kept_in(done.kept, worker)
            found = [BlockResult(reports, worker.read(total)) for reports, total in done.parts]
            if not task.is_rest:
                self._ended_blocks.add(task.block)
                self.keep(kept)
                results += found
            elif task.block not in self._ended_blocks:
                self._rests[task.block] = list(map(_copied, found)), kept
        self._watch.look()
        return results

    def stop_blocks(self) -> list[BlockResult]:
        """Stop all running blocks; return the finished part of blocks in which a node hangs."""
        results = []
        for block, (rest, kept) in self._rests.items():
            if block not in self._ended_blocks:
                self.keep(kept)
                results += rest
        self._rests.clear()
        if not self._pool.is_idle:
            self._pool.cancel()
        self._pool.end_spares()
        return results

    # --- computing for the server -------------------------------------------------------------------------------------

    def call(
        self,
        reference: str,
        state: State,
        arguments: Sequence[tuple[Any, ...]],
        *,
        seconds: float | None = None,
    ) -> list[Any]:
        """Return the function's results in the order of the arguments.

        Where no call has ended for `seconds`, other workers begin the calls again, with twice the time. Without
        `seconds` there are three tries, from `CALL_PATIENCE` on.

        Raises
        ------
        RunFailed
            If a call hangs in each try.
        """
        lying = self._shared.write(STATE, state)
        tasks = [CallTask(index, reference, lying, each) for index, each in enumerate(arguments)]
        results: dict[int, Any] = {}
        first, count = (CALL_PATIENCE, CALL_TRIES) if seconds is None else (max(seconds, LEAST_PATIENCE), 2)
        tries = [first * 2**n for n in range(count)]
        for patience in tries:
            left = [task for task in tasks if task.index not in results]
            for task, done, _ in self._ended(left, patience, each=True):
                assert isinstance(task, CallTask)
                assert isinstance(done, CallDone)  # it runs no node, so the pool itself has it done again
                results[task.index] = done.result
            if len(results) == len(tasks):
                return [results[index] for index in range(len(tasks))]
            log.warning("function=%s seconds=%g done=%d of=%d hung", reference, patience, len(results), len(tasks))
        more = "" if seconds is None else "; if it needs so long, raise rounds.reporting_deadline"
        raise RunFailed(
            f"{reference} has not ended on a worker within {tries[-1]:g} s, nor in the tries before that{more}"
        )


def _without_the_lost(task: BlockTask, worker: WorkerProcess) -> BlockTask:
    """Return a block without the node whose run killed the worker; the others are run again, with the same result.

    Where all nodes were trained together, return the whole block, to be run one by one, which finds that node.
    """
    if worker.running == TOGETHER:
        return replace(task, alone=True)
    report = NodeReport(worker.running, Fate.FAILED, reason=_how(worker))
    kept = [i for i, member in enumerate(task.members) if member.position != worker.running]
    members = tuple(task.members[i] for i in kept)
    messages = tuple(task.messages[i] for i in kept)
    return replace(task, members=members, messages=messages, lost=(*task.lost, report))


def _copied(result: BlockResult) -> BlockResult:
    """Return a result whose arrays the worker does not write over."""
    return replace(result, arrays={name: array.copy() for name, array in result.arrays.items()})


def _how(worker: WorkerProcess) -> str:
    return f"its worker process died (exit code {worker.process.exitcode})"
