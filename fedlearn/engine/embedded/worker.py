"""A worker's life: load the client app once, then do task after task until the engine is gone."""

from __future__ import annotations

import logging
import math
import os
import resource
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import connection, current_process, parent_process
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, Message, MessageType, RecordDict

from fedlearn import flower
from fedlearn.aggregation import Fold, Sums
from fedlearn.config.load import forget_last
from fedlearn.core.state import Array
from fedlearn.core.stopping import deaf_to_signals
from fedlearn.engine.apps import load_client_app, load_many, load_seeded_client
from fedlearn.engine.embedded.sharing import Directory, NewSharedMemory, SharedMemory, SharedSlots, hand_over
from fedlearn.engine.embedded.tasks import (
    NOBODY,
    TOGETHER,
    Answer,
    Begin,
    BlockDone,
    BlockTask,
    Broken,
    CallDone,
    CallTask,
    Done,
    MessagesDone,
    MessagesTask,
    NewPlan,
    NewRecords,
    PackedMessage,
    PackedRecord,
    Task,
)
from fedlearn.engine.node_calls import ClientCall, run_node, run_nodes
from fedlearn.plugins import objects
from fedlearn.plugins.registry import load_reference

Ran = tuple[PackedMessage, RecordDict, bytes, tuple[Message, bytes]]
"""A message, its content, what its node kept before, and its reply with what the node keeps now."""
LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)

log = logging.getLogger(__name__)


def work(pipe: Connection) -> None:
    """Serve the engine at the other end of the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine answers Ctrl-C
    deaf_to_signals()
    threading.Thread(target=_die_with_the_engine, daemon=True).start()
    flower.enter_run()
    try:
        _Worker(pipe).serve()
    except (EOFError, ConnectionError):
        return  # the engine has closed the pipe: the run is over
    except Exception as error:
        with suppress(OSError):
            pipe.send(Broken.by(error))


def _die_with_the_engine() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _client_app(begin: Begin) -> ClientCall:
    if not begin.app_folder:
        flower.log_as_we_do()
        objects.look_in(begin.settings.get("out", ""))
        return load_client_app(begin.client_app)
    flower.log_by_itself()
    current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # its data loaders may start processes
    return load_seeded_client(begin.client_app, folder=Path(begin.app_folder), seed=begin.seed)


class _Worker:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        status, begin = pipe.recv().receive(pipe), pipe.recv()
        self._running = np.ndarray((1,), np.int64, status.memory)
        self._theirs: dict[int, SharedMemory] = {}  # by slot
        self._mine = SharedSlots(lambda memory: hand_over(memory, pipe, os.getppid()))
        self._slot = 0
        self._enter(begin)

    def _enter(self, begin: Begin) -> None:
        """Begin to serve a run, and forget the run before."""
        self._begin = begin
        forget_last()
        self._theirs.clear()
        os.environ.clear()
        os.environ.update(begin.environment)
        self._client_app = _client_app(begin)
        self._many = load_many() if begin.stack > 1 else None
        self._limits = _limits()
        self._packed: tuple[PackedRecord, ...] = ()
        self._records: dict[int, ArrayRecord] = {}  # the records of the last message
        self._fold: Fold | None = None
        self._sums: dict[int, Sums] = {}  # of the last task, by block in it, whose memory is used again

    def serve(self) -> None:
        """Do tasks until the pipe closes."""
        while True:
            message = self._pipe.recv()
            match message:
                case Begin():
                    self._enter(message)
                case NewSharedMemory():
                    self._theirs[message.slot] = message.receive(self._pipe)
                case NewPlan():
                    self._fold = Fold(message.plan)
                case NewRecords():
                    self._packed, self._records = message.records, {}
                case _:
                    self._pipe.send(self._done(message))

    def _done(self, task: Task) -> Done:
        try:
            match task:
                case BlockTask():
                    return self._block(task)
                case MessagesTask():
                    return self._messages(task)
                case CallTask():
                    state = self._theirs[task.state.slot].read(task.state)
                    function = load_reference(task.reference)
                    return CallDone(function(self._begin.settings, state, *task.arguments))
        except Exception as error:
            return Broken.by(error)

    def _block(self, task: BlockTask) -> BlockDone:
        assert self._fold is not None
        kept: dict[int, bytes] = {}
        places = [member.position for member in task.members]
        replies = self._replies(task.messages, places, kept, alone=task.alone)
        verdicts = [
            self._fold.gate.check(reply, member, sent)
            for member, (sent, reply) in zip(task.members, replies, strict=True)
        ]
        self._running[0] = NOBODY
        size, reports, blocks = self._fold.plan.block, [*task.lost, *(each.report for each in verdicts)], []
        for place, block in enumerate(dict.fromkeys(report.position // size for report in reports)):
            mine = [each for each in verdicts if each.report.position // size == block]
            self._sums[place] = self._fold.of(mine, self._sums.get(place))
            blocks.append([report for report in reports if report.position // size == block])
        sums = [self._fold.to_arrays(self._sums[place]) for place in range(len(blocks))]
        *totals, kept_lies = self._written(sums, kept)
        return BlockDone(list(zip(blocks, totals, strict=True)), kept_lies)

    def _messages(self, task: MessagesTask) -> MessagesDone:
        kept: dict[int, bytes] = {}
        replies = self._replies(task.messages, range(len(task.messages)), kept)
        answers = [_answer(message, reply) for message, (_, reply) in zip(task.messages, replies, strict=True)]
        self._running[0] = NOBODY
        return MessagesDone(answers, *self._written([], kept))

    def _replies(
        self, messages: Sequence[PackedMessage], places: Sequence[int], kept: dict[int, bytes], *, alone: bool = False
    ) -> Iterator[tuple[RecordDict, Message]]:
        """Yield the content sent to each node, and the node's reply; put changed memories into `kept`.

        Nodes that the run trains together are run together, unless they are to run `alone`.
        """
        several = len(messages) > 1 and messages[0].message_type == MessageType.TRAIN  # none, where all have died
        together = self._many is not None and several and not alone
        run = self._run_together if together else partial(self._run_one_by_one, places=places)
        for message, content, before, (reply, after) in run(messages):
            if any(now < least for now, least in zip(_limits(), self._limits, strict=True)):
                log.error(
                    "node=%d has lowered the limits of its worker, which ends: others could not run", message.node_id
                )
                os._exit(1)
            if after != before:
                kept[message.node_id] = after
            yield content, reply

    def _run_one_by_one(self, messages: Sequence[PackedMessage], *, places: Sequence[int]) -> Iterator[Ran]:
        for place, message in zip(places, messages, strict=True):
            self._running[0] = place
            content, before = self._content(message), self._kept_before(message)
            given = _received(message, content), before
            yield (
                message,
                content,
                before,
                run_node(self._client_app, *given, num_nodes=self._begin.num_nodes, settings=self._begin.settings),
            )

    def _run_together(self, messages: Sequence[PackedMessage]) -> Iterator[Ran]:
        assert self._many is not None
        self._running[0] = TOGETHER
        contents = [self._content(message) for message in messages]
        before = [self._kept_before(message) for message in messages]
        given = list(zip(map(_received, messages, contents), before, strict=True))
        outcomes = run_nodes(self._many, given, num_nodes=self._begin.num_nodes, settings=self._begin.settings)
        yield from zip(messages, contents, before, outcomes, strict=True)

    def _written(self, sums: Sequence[Mapping[str, Array]], kept: Mapping[int, bytes]) -> list[Directory]:
        """Write sums and the changed memories of nodes into shared memory; return where each lies, memories last."""
        # Three slots in turn: the engine may still be reading the result before the last, and has sent one task ahead.
        self._slot = (self._slot + 1) % 3
        by_node = {str(node_id): np.frombuffer(data, np.uint8) for node_id, data in kept.items()}
        return self._mine.write_groups(self._slot, [*sums, by_node])

    def _content(self, packed: PackedMessage) -> RecordDict:
        """Return the content of a message."""
        content = flower.from_bytes(packed.records)
        self._records = {number: self._record(number) for _, number in packed.arrays}
        for key, number in packed.arrays:
            content[key] = self._records[number]
        return content

    def _kept_before(self, packed: PackedMessage) -> bytes:
        return packed.kept.read(self._theirs[packed.kept.slot]) if packed.kept else b""

    def _record(self, number: int) -> ArrayRecord:
        """Return an ArrayRecord; the very same object as for the message before, if that message had it, too."""
        if number in self._records:
            return self._records[number]
        packed = self._packed[number]
        lying = self._theirs[packed.bytes_at.slot].read(packed.bytes_at)
        return ArrayRecord(
            {
                name: FlowerArray(dtype, shape, stype, data.tobytes())
                for (name, dtype, shape, stype), data in zip(packed.arrays, lying.values(), strict=True)
            }
        )


def _received(packed: PackedMessage, content: RecordDict) -> Message:
    """Return the message with a copy of this content."""
    return flower.received(
        content.copy(), node_id=packed.node_id, message_type=packed.message_type,
        message_id=packed.message_id, ttl=packed.ttl,
    )  # fmt: skip


def _limits() -> list[float]:
    """Return this process's soft limits, for each of `LIMITS`."""
    soft = [resource.getrlimit(each)[0] for each in LIMITS]
    return [math.inf if limit == resource.RLIM_INFINITY else limit for limit in soft]


def _answer(to: PackedMessage, reply: Message) -> Answer:
    error = (reply.error.code, reply.error.reason or "") if reply.has_error() else None
    records = b"" if error else flower.to_bytes(reply.content)
    return Answer(to.message_id, to.node_id, to.message_type, records, error)
