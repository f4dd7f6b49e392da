"""Virtual nodes, which exist only as an id and a memory: the common part of all simulation engines.

A million nodes cost no more than a `range`; only nodes with a memory take space.
"""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedlearn import flower, wire
from fedlearn.aggregation.offers import Offers
from fedlearn.core.errors import CheckpointError
from fedlearn.engine.node_calls import FIRST_NODE_ID, error_reply
from fedlearn.flower import ErrorCode, Run
from fedlearn.runs.memories import packed, unpacked

log = logging.getLogger(__name__)


def expired(messages: Iterable[Message], seconds: float) -> list[Message]:
    """Return an error for each unanswered message whose time to live is over after `seconds`."""
    return [
        error_reply(message, ErrorCode.MESSAGE_UNAVAILABLE, f"no answer within {message.metadata.ttl:g} s")
        for message in messages
        if message.metadata.ttl <= seconds
    ]


def without_secrets(kept: bytes) -> bytes:
    """Return a node's memory as a run folder may hold it: without the keys of a secure sum."""
    if wire.SECRETS.encode() not in kept:
        return kept
    records = flower.from_bytes(kept)
    if records.pop(wire.SECRETS, None) is None:
        return kept
    return flower.to_bytes(records) if records else b""


class VirtualNodes(Grid):
    """The part of a Grid that does not depend on how nodes are run.

    Parameters
    ----------
    num_nodes
        The number of nodes.
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
        """The grid's abilities beyond Flower's Grid: it knows its nodes and keeps their memories."""
        return Offers(partitions=self.nodes_by_partition, keep=self)

    def get_node_ids(self) -> range:
        """Return the ids of all nodes."""
        return range(FIRST_NODE_ID, FIRST_NODE_ID + self.num_nodes)

    def nodes_by_partition(self) -> range:
        """Return the ids of all nodes, in the order of their partitions."""
        return self.get_node_ids()

    @abstractmethod
    def deliver(self, messages: Sequence[Message], *, seconds: float) -> None:
        """Let nodes handle messages, for at most `seconds`; put the replies into `replies`, by the messages' ids."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Deliver the messages; return their ids, empty where there is no such node."""
        return self._push(messages, seconds=math.inf)

    def named(self, message: Message) -> Message:
        """Give a message the id by which its reply is found."""
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
        """Return a node's memory; empty where the node has none."""
        return self.kept.get(node_id, b"")

    def keep(self, kept: Mapping[int, bytes]) -> None:
        """Replace the memories of nodes: node id -> memory."""
        for node_id, data in kept.items():
            if self.kept.get(node_id, b"") == data:
                continue
            if data:
                self.kept[node_id] = data
            else:
                del self.kept[node_id]
            self._changed.add(node_id)

    def node_states(self) -> bytes:
        """Return the memories of all nodes without their secrets, sorted by node id."""
        return packed((node_id, without_secrets(data)) for node_id, data in sorted(self.kept.items()))

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        """Return the memories that have changed since the last call, without secrets, sorted by node id."""
        changed = set(self._changed)
        self._changed -= changed  # first: what a thread changes meanwhile is returned by the next call
        return packed((node_id, without_secrets(self.kept.get(node_id, b""))) for node_id in sorted(changed))

    def restore_node_states(self, data: bytes) -> None:
        """Restore the nodes' memories from `node_states`, followed by what `changed_node_states` has returned since.

        Raises
        ------
        CheckpointError
            If the data cannot come from these two.
        """
        self.kept.clear()
        self._changed.clear()
        try:
            self.kept.update(unpacked(data))
        except ValueError:
            raise CheckpointError(
                "the clients' memories cannot be read back from the checkpoint: put back the file that was written, or "
                "begin another run"
            ) from None


class PromptNodes(VirtualNodes):
    """Virtual nodes that have answered when `push_messages` returns."""

    @abstractmethod
    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        """Let the nodes handle the messages, for at most `seconds`, and return their replies.

        When the longest time to live among the messages has passed, each message that is left is answered by an error.
        """

    def deliver(self, messages: Sequence[Message], *, seconds: float) -> None:
        """Let the nodes handle the messages, and wait for their replies."""
        self.replies |= {reply.metadata.reply_to_message_id: reply for reply in self.answer(messages, seconds=seconds)}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver the messages; return the replies that came within `timeout` seconds."""
        return self.pull_messages(self._push(messages, seconds=math.inf if timeout is None else timeout))
