"""Nodes that exist only as an id and what they keep: what all simulation engines share.

A million nodes cost no more than a `range`; only nodes that have kept something take memory.
"""

from __future__ import annotations

import logging
import math
import os
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from fedlearn import flower, wire
from fedlearn.config.policy import SIMULATED
from fedlearn.config.tables.running import DEVICE_SETTING
from fedlearn.flower import ErrorCode, Run
from fedlearn.folding.offers import Offers
from fedlearn.plugging.tracebacks import shortened
from fedlearn.runs.kept_tracebacks import keep
from fedlearn.runs.memories import packed, unpacked
from fedlearn.words.errors import CheckpointError, said

FIRST_NODE_ID = 2  # Flower's server is node 1
ClientCall = Callable[[Message, Context], Message]
Many = Callable[[Sequence[tuple[Message, Context]]], Iterator[Message | BaseException]]

log = logging.getLogger(__name__)


def partition_of(node_id: int) -> int:
    """Return the partition that a virtual node holds."""
    return node_id - FIRST_NODE_ID


def run_node(
    client_app: ClientCall, message: Message, kept: bytes, *, num_nodes: int, settings: dict[str, Any]
) -> tuple[Message, bytes]:
    """Let a virtual node handle a message; return its reply, and what it keeps now.

    What it had kept until it failed is kept, too; what it kept before, where that cannot be read or stored.
    """
    try:
        context = context_of(message.metadata.dst_node_id, kept, num_nodes=num_nodes, settings=settings)
        reply = handled(client_app, message, context)
        return reply, kept_in(context)
    except Exception as error:
        return _failed(message, error, str(settings.get("out", ""))), kept


def run_nodes(
    handle_many: Many, messages: Sequence[tuple[Message, bytes]], *, num_nodes: int, settings: dict[str, Any]
) -> Iterator[tuple[Message, bytes]]:
    """Let several virtual nodes handle a message each, together; yield what `run_node` returns of each.

    Parameters
    ----------
    messages
        To each node, with what it has kept.
    """
    process = os.getpid()
    contexts: list[Context | Exception] = []
    for message, kept in messages:
        try:
            node = message.metadata.dst_node_id
            contexts.append(context_of(node, kept, num_nodes=num_nodes, settings=settings))
        except Exception as error:
            contexts.append(error)
    calls = [
        (message, context)
        for (message, _), context in zip(messages, contexts, strict=True)
        if isinstance(context, Context)
    ]
    replies = handle_many(calls)
    folder = str(settings.get("out", ""))
    for (message, kept), context in zip(messages, contexts, strict=True):
        if not isinstance(context, Context):
            yield _failed(message, context, folder), kept
            continue
        try:
            reply = next(replies)
        finally:
            if os.getpid() != process:  # of a client that forks: its child ends here
                os._exit(1)
        try:
            yield _sound(message, reply, folder), kept_in(context)
        except Exception as error:
            yield _failed(message, error, folder), kept


def context_of(node_id: int, kept: bytes, *, num_nodes: int, settings: dict[str, Any]) -> Context:
    """Return what a virtual node's client app is called with beside the message."""
    return Context(
        run_id=flower.RUN_ID,
        node_id=node_id,
        node_config={"partition-id": partition_of(node_id), "num-partitions": num_nodes, **_said_to_ours(settings)},
        state=flower.from_bytes(kept) if kept else RecordDict(),
        run_config=settings,
    )


def _said_to_ours(settings: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return that a virtual node is one, and computes where the run does; nothing in a foreign app's settings."""
    return {"device": settings[DEVICE_SETTING], SIMULATED: True} if DEVICE_SETTING in settings else {}


def kept_in(context: Context) -> bytes:
    """Return what a node keeps, after its client app was called."""
    return flower.to_bytes(context.state) if context.state else b""


def handled(client_app: ClientCall, message: Message, context: Context) -> Message:
    """Return the client app's reply; Flower's error where it raises, asks to exit, or answers with what cannot be sent.

    This is the edge of a node: whatever comes from it is its failure, not the run's. Only Ctrl-C is not its own. A
    client that forks returns twice: what is its child ends here, as all else is its parent's.
    """
    process = os.getpid()
    folder = str(context.run_config.get("out", ""))
    try:
        return _sound(message, client_app(message, context), folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _failed(message, error, folder)
    finally:
        if os.getpid() != process:
            os._exit(1)


def _sound(message: Message, reply: object, folder: str) -> Message:
    """Return a reply that can be sent; an error in place of what was raised, or is no such reply."""
    try:
        if isinstance(reply, BaseException):
            raise reply
        if not isinstance(reply, Message):
            raise TypeError(f"the client app answered with {type(reply).__name__}, not with a Message")
        if reply.has_content():
            wire.bytes_of(reply.content)  # raises where a record cannot be serialised
        return reply
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _failed(message, error, folder)


_told: set[tuple[str, str, int]] = set()  # errors that this process has logged: kind, file, line


def _failed(message: Message, error: BaseException, folder: str) -> Message:
    """Return the error of a node that is being handled; of those that fail alike, the first is logged."""
    node_id = message.metadata.dst_node_id
    reason = shortened(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    kind = (type(error).__name__, last.filename, last.lineno or 0)
    if kind not in _told:
        _told.add(kind)
        about = (node_id, partition_of(node_id), message.metadata.message_type)
        kept = keep(error, folder)
        log.error("node=%d partition=%d type=%s: %s%s", *about, said(reason), kept, exc_info=None if kept else error)
    return error_reply(message, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason)


def error_reply(message: Message, code: int, reason: str) -> Message:
    """Return a node's answer that says what went wrong."""
    return Message(Error(code, reason), reply_to=message)


def expired(messages: Iterable[Message], seconds: float) -> list[Message]:
    """Return an error for each message that nobody has answered after `seconds`, if its time is over by then."""
    return [
        error_reply(message, ErrorCode.MESSAGE_UNAVAILABLE, f"no answer within {message.metadata.ttl:g} s")
        for message in messages
        if message.metadata.ttl <= seconds
    ]


class VirtualNodes(Grid):
    """The part of a Grid that does not depend on how nodes are run.

    Parameters
    ----------
    num_nodes
        How many nodes there are.
    settings
        The run's flat settings, which every node sees as its ``run_config``.
    """

    def __init__(self, num_nodes: int, settings: dict[str, Any]) -> None:
        self.num_nodes = num_nodes
        self.settings = settings
        self.kept: MutableMapping[int, bytes] = {}
        self._changed: set[int] = set()  # nodes, since the last commit
        self.replies: dict[str, Message] = {}
        self._run = flower.empty_run()

    def set_run(self, run: Run) -> None:
        """Set what `run` returns."""
        self._run = run

    @property
    def run(self) -> Run:
        """Flower's description of the run."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    @property
    def offers(self) -> Offers:
        """What it can do beyond Flower's Grid: it knows and keeps its nodes."""
        return Offers(partitions=self.nodes_by_partition, keep=self)

    def get_node_ids(self) -> range:
        """Return the ids of all nodes."""
        return range(FIRST_NODE_ID, FIRST_NODE_ID + self.num_nodes)

    def nodes_by_partition(self) -> range:
        """Return the ids of all nodes, in the order of their partitions."""
        return self.get_node_ids()

    @abstractmethod
    def deliver(self, messages: Sequence[Message], *, seconds: float) -> None:
        """Have messages handled, for at most `seconds`; their replies are put into `replies`, by the messages' ids."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Deliver the messages; return their ids, empty where there is no such node."""
        return self._push(messages, seconds=math.inf)

    def named(self, message: Message) -> Message:
        """Give a message the id by which its reply will be found."""
        return flower.with_id(message)

    def _push(self, messages: Iterable[Message], *, seconds: float) -> list[str]:
        nodes = self.get_node_ids()
        ids = []
        sent = []
        for message in messages:
            if message.metadata.dst_node_id in nodes:
                sent.append(self.named(message))
                ids.append(message.metadata.message_id)
            else:
                ids.append("")
        self.deliver(sent, seconds=seconds)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages, each once."""
        return [self.replies.pop(key) for key in message_ids if key in self.replies]

    def kept_by(self, node_id: int) -> bytes:
        """Return what a node keeps now; empty where it keeps nothing."""
        return self.kept.get(node_id, b"")

    def keep(self, kept: Mapping[int, bytes]) -> None:
        """Take over what nodes keep now."""
        for node_id, data in kept.items():
            if self.kept.get(node_id, b"") == data:
                continue
            if data:
                self.kept[node_id] = data
            else:
                del self.kept[node_id]
            self._changed.add(node_id)

    def node_states(self) -> bytes:
        """Return what all nodes keep, sorted by node id."""
        return packed(sorted(self.kept.items()))

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        """Return what those nodes keep, sorted by node id, that keep something else than at the last call."""
        changed = set(self._changed)
        self._changed -= changed  # before it is read: what a thread changes meanwhile is told at the next call
        return packed((node_id, self.kept.get(node_id, b"")) for node_id in sorted(changed))

    def restore_node_states(self, data: bytes) -> None:
        """Give the nodes back what `node_states` returned, and what `changed_node_states` did after that.

        Raises
        ------
        CheckpointError
            If they cannot have returned that.
        """
        self.kept.clear()
        self._changed.clear()
        try:
            self.kept.update(unpacked(data))
        except ValueError:
            raise CheckpointError(
                "what the nodes keep cannot be read back from the checkpoint: put back the file that was written, or "
                "begin another run"
            ) from None


class PromptNodes(VirtualNodes):
    """Nodes that have answered when `push_messages` returns."""

    @abstractmethod
    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Let the nodes handle the messages, for at most `seconds`, and return their replies.

        A message is over when the longest time to live among the messages has passed: it is answered with an error.
        """

    def deliver(self, messages: Sequence[Message], *, seconds: float) -> None:
        """Have the messages handled, now."""
        self.replies |= {reply.metadata.reply_to_message_id: reply for reply in self.answer(messages, seconds=seconds)}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Have the messages handled and return the replies that came within `timeout` seconds."""
        return self.pull_messages(self._push(messages, seconds=math.inf if timeout is None else timeout))
