"""A worker's life: load the client app once, then do task after task until the engine is gone."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from fedlearn import flower
from fedlearn.components import load_client_app
from fedlearn.engine.embedded.sharing import Board, Boards, NewBoard, hand_over
from fedlearn.engine.embedded.tasks import (
    Answer,
    Begin,
    BlockDone,
    BlockTask,
    Broken,
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
from fedlearn.engine.virtual_nodes import run_node
from fedlearn.folding import FoldPlan, Gate
from fedlearn.registry import load_reference

NOBODY = -1  # no node is running


def work(pipe: Connection) -> None:
    """Serve the engine at the other end of the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to answer
    threading.Thread(target=_die_with_the_engine, daemon=True).start()
    flower.enter_run()
    try:
        _Worker(pipe).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the engine has closed the pipe: the run is over
    except BaseException as error:
        pipe.send(Broken.by(error))
        raise


def _die_with_the_engine() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


class _Worker:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._client_app = load_client_app()
        self._theirs: dict[int, Board] = {}
        self._records: dict[int, ArrayRecord] = {}
        self._mine = Boards()
        self._handed_over: set[int] = set()
        self._slot = 0
        self._plan: FoldPlan | None = None
        self._gate: Gate | None = None

    def serve(self) -> None:
        """Do tasks until the pipe closes."""
        status = self._pipe.recv()
        assert isinstance(status, NewBoard)
        self._running = np.ndarray((1,), np.int64, status.receive(self._pipe).memory)
        begin = self._pipe.recv()
        assert isinstance(begin, Begin)
        self._begin = begin
        while True:
            message = self._pipe.recv()
            match message:
                case NewBoard():
                    self._theirs[message.number] = message.receive(self._pipe)
                case NewPlan():
                    self._plan, self._gate = message.plan, message.plan.build_gate()
                case NewRecord():
                    self._records[message.number] = self._record(message)
                case _:
                    self._pipe.send(self._done(message))

    def _done(self, task: Task) -> Done:
        try:
            match task:
                case BlockTask():
                    return self._block(task)
                case LettersTask():
                    return self._letters(task)
                case CallTask():
                    state = self._theirs[task.state.board].read(task.state)
                    function = load_reference(task.reference)
                    return CallDone(function(self._begin.settings, state, *task.arguments))
        except Exception as error:
            return Broken.by(error)

    def _block(self, task: BlockTask) -> BlockDone:
        assert self._gate is not None
        assert self._plan is not None
        verdicts = []
        kept: dict[int, bytes] = {}
        for member, letter in zip(task.members, task.letters, strict=True):
            self._running[0] = member.position
            reply = self._run(letter, kept)
            verdicts.append(self._gate.check(reply, member))
        self._running[0] = NOBODY
        total = self._plan.fold(verdicts)
        # Two slots in turn: the engine may still be reading the block before this one.
        self._slot = 1 - self._slot
        board, directory = self._mine.write(self._slot, total.to_arrays())
        if board.number not in self._handed_over:
            hand_over(board, self._pipe, os.getppid())
            self._handed_over.add(board.number)
        return BlockDone([*task.lost, *(verdict.report for verdict in verdicts)], directory, kept)

    def _letters(self, task: LettersTask) -> LettersDone:
        kept: dict[int, bytes] = {}
        answers = [_answer(letter, self._run(letter, kept)) for letter in task.letters]
        return LettersDone(answers, kept)

    def _run(self, letter: Letter, kept: dict[int, bytes]) -> Message:
        """Run one node; put what it keeps into `kept` if that has changed."""
        content = flower.from_bytes(letter.records)
        if letter.arrays is not None:
            key, number = letter.arrays
            content[key] = self._records[number]
        message = flower.received(
            content, node_id=letter.node_id, message_type=letter.message_type,
            message_id=letter.message_id, ttl=letter.ttl,
        )  # fmt: skip
        reply, now_kept = run_node(
            self._client_app, message, letter.kept,
            num_nodes=self._begin.num_nodes, settings=self._begin.settings,
        )  # fmt: skip
        if now_kept != letter.kept:
            kept[letter.node_id] = now_kept
        return reply

    def _record(self, message: NewRecord) -> ArrayRecord:
        lying = self._theirs[message.bytes_at.board].read(message.bytes_at)
        return ArrayRecord(
            {
                name: Array(dtype, shape, stype, data.tobytes())
                for (name, dtype, shape, stype), data in zip(message.packed, lying.values(), strict=True)
            }
        )


def _answer(letter: Letter, reply: Message) -> Answer:
    error = (reply.error.code, reply.error.reason or "") if reply.has_error() else None
    records = b"" if error else flower.to_bytes(reply.content)
    return Answer(letter.message_id, letter.node_id, letter.message_type, records, error)
