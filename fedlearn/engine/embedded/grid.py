"""EmbeddedGrid: Flower messages in, replies out, nodes run by worker processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Error, Message, RecordDict

from fedlearn import flower
from fedlearn.clock import WallClock
from fedlearn.engine.embedded.pool import Worker, WorkerPool
from fedlearn.engine.embedded.sharing import Boards, Directory
from fedlearn.engine.embedded.tasks import (
    Answer,
    BlockDone,
    BlockTask,
    CallDone,
    CallTask,
    Done,
    Letter,
    LettersDone,
    LettersTask,
    NewPlan,
    NewRecord,
    Task,
)
from fedlearn.engine.virtual_nodes import VirtualNodes
from fedlearn.errors import RunFailed
from fedlearn.folding import BlockResult, FoldPlan, Member, blocks_of
from fedlearn.rounds import Fate, NodeReport
from fedlearn.state import Array, State

LETTERS = 16  # messages in one task; a ready query takes a tenth of a millisecond, a task's way there and back as much
DIED = 8  # Flower's error code for a client that stopped responding
EXPIRED = 3  # and for a message that nobody answered in time
STATE_SLOT = -1


class EmbeddedGrid(VirtualNodes):
    """A grid whose nodes are run by a pool of workers."""

    def __init__(self, pool: WorkerPool, num_nodes: int, settings: dict[str, Any]) -> None:
        super().__init__(num_nodes, settings)
        self._pool = pool
        self._clock = WallClock()
        self._boards = Boards()

    # --- any message --------------------------------------------------------------------------------------------------

    def answer(self, messages: list[Message]) -> Iterable[Message]:
        """Have workers run the nodes; a node that has not answered when its message expires answers with an error."""
        letters = self._letters(messages)
        tasks = [LettersTask(tuple(letters[i : i + LETTERS])) for i in range(0, len(letters), LETTERS)]
        seconds = max((message.metadata.ttl for message in messages), default=0.0)
        open_letters = {letter.message_id: letter for letter in letters}
        for task, done, _ in self._ended(tasks, seconds):
            assert isinstance(task, LettersTask)
            if not isinstance(done, LettersDone):
                for letter in task.letters:
                    del open_letters[letter.message_id]
                    yield _error(letter, DIED, "the worker process died")
                continue
            self._keep(done.kept)
            for answer in done.answers:
                del open_letters[answer.message_id]
                yield _reply(answer)
        for letter in open_letters.values():
            yield _error(letter, EXPIRED, f"no answer within {seconds:g} s")

    def _ended(self, tasks: Sequence[Task], seconds: float) -> Iterable[tuple[Task, Done | None, Worker]]:
        """Run tasks to their end, at most `seconds`; give them back as they end."""
        end = self._clock.now() + seconds
        self._pool.submit(tasks)
        missing = len(tasks)
        while missing:
            left = end - self._clock.now()
            if left <= 0:
                self._pool.cancel()
                return
            for ended in self._pool.wait(left):
                missing -= 1
                yield ended

    def _letters(self, messages: Sequence[Message]) -> list[Letter]:
        """Return the messages in a form that goes through a pipe; ArrayRecords go once, by shared memory."""
        numbers: dict[int, int] = {}
        letters = []
        for message in messages:
            arrays = None
            records = RecordDict()
            for key, record in message.content.items():
                if isinstance(record, ArrayRecord):
                    if id(record) not in numbers:
                        numbers[id(record)] = self._announce(record, slot=len(numbers))
                    arrays = (key, numbers[id(record)])
                else:
                    records[key] = record
            about = message.metadata
            letters.append(
                Letter(
                    node_id=about.dst_node_id,
                    message_id=about.message_id,
                    message_type=about.message_type,
                    ttl=about.ttl,
                    arrays=arrays,
                    records=flower.to_bytes(records),
                    kept=self.kept.get(about.dst_node_id, b""),
                )
            )
        return letters

    def _announce(self, record: ArrayRecord, *, slot: int) -> int:
        """Put an ArrayRecord on a board and tell the workers; return its number."""
        packed = tuple((name, a.dtype, a.shape, a.stype) for name, a in record.items())
        lying = {name: np.frombuffer(array.data, np.uint8) for name, array in record.items()}
        self._pool.announce(("record", slot), NewRecord(slot, packed, self._put(slot, lying)))
        return slot

    def _put(self, slot: int, arrays: Mapping[str, Array]) -> Directory:
        board, directory = self._boards.write(slot, arrays)
        self._pool.announce(("board", slot), board)
        return directory

    def _keep(self, kept: Mapping[int, bytes]) -> None:
        self.kept.update(kept)

    # --- blocks of a cohort -------------------------------------------------------------------------------------------

    def start_blocks(
        self, messages: Sequence[Message], members: Sequence[Member], plan: FoldPlan, *, seconds: float
    ) -> None:
        """Begin to run a cohort, block by block."""
        letters = self._letters([flower.with_id(message) for message in messages])
        self._pool.announce("plan", NewPlan(plan))
        self._pool.submit(
            BlockTask(index, tuple(members[p] for p in block), tuple(letters[p] for p in block))
            for index, block in enumerate(blocks_of(len(members)))
        )

    def pull_blocks(self, *, seconds: float) -> list[BlockResult]:
        """Return the blocks that have ended; wait for one at most `seconds`."""
        results = []
        for task, done, worker in self._pool.wait(seconds):
            assert isinstance(task, BlockTask)
            if not isinstance(done, BlockDone):
                self._pool.submit([_without_the_lost(task, worker)])
                continue
            self._keep(done.kept)
            arrays = worker.boards[done.total.board].read(done.total)
            results.append(BlockResult(task.block, done.reports, arrays))
        return results

    def stop_blocks(self) -> None:
        """Give up what is still running."""
        if not self._pool.is_idle:
            self._pool.cancel()

    # --- computing for the server -------------------------------------------------------------------------------------

    def call(self, reference: str, state: State, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the function's results in the order of the arguments."""
        lying = self._put(STATE_SLOT, state)
        tasks = [CallTask(index, reference, lying, each) for index, each in enumerate(arguments)]
        results: dict[int, Any] = {}
        for task, done, _ in self._ended(tasks, float("inf")):
            assert isinstance(task, CallTask)
            if not isinstance(done, CallDone):
                raise RunFailed(f"the worker process died in {reference}")
            results[task.index] = done.result
        return [results[index] for index in range(len(tasks))]


def _without_the_lost(task: BlockTask, worker: Worker) -> BlockTask:
    """Return a block without the node whose run killed the worker; the others are run again, to the same end."""
    lost = worker.running
    kept = [i for i, member in enumerate(task.members) if member.position != lost]
    reports = list(task.lost)
    if len(kept) < len(task.members):
        code = worker.process.exitcode
        reports.append(NodeReport(lost, Fate.FAILED, reason=f"its worker process died (exit code {code})"))
    members = tuple(task.members[i] for i in kept)
    return BlockTask(task.block, members, tuple(task.letters[i] for i in kept), tuple(reports))


def _reply(answer: Answer) -> Message:
    return flower.reply_from(
        node_id=answer.node_id,
        message_type=answer.message_type,
        reply_to=answer.message_id,
        content=None if answer.error else flower.from_bytes(answer.records),
        error=Error(*answer.error) if answer.error else None,
    )


def _error(letter: Letter, code: int, reason: str) -> Message:
    return _reply(Answer(letter.message_id, letter.node_id, letter.message_type, b"", (code, reason)))
