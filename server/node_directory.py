"""The roll: which partition each node holds.

All draws of nodes go over partitions in their order, so that the same seed draws the same cohort on every engine. A
simulation knows what its nodes hold. On a network node ids are random and say nothing: there the server asks each node
once, when it sees it first, by the ready query that brings the partition id anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.clock import Clock
from fedlearn.config import RunConfig
from fedlearn.engine.base import VirtualGrid
from fedlearn.runs.log import EventLog
from server.polling import pause


class Roll:
    """What is known of the nodes of a run."""

    def __init__(self, grid: Grid, config: RunConfig, events: EventLog) -> None:
        self._grid = grid
        self._config = config
        self._events = events
        self._partitions: dict[int, int] = {}  # node id -> partition id
        self._open: dict[str, int] = {}  # message id -> node id
        self._bytes_sent = 0
        self.unknown: dict[int, str] = {}  # nodes that did not say what they hold since `forgive`, and why

    def call(self, clock: Clock) -> None:
        """Ask all nodes, before the first round: until all are known, or a selection window has passed."""
        if isinstance(self._grid, VirtualGrid):
            return
        begin, window = clock.now(), self._config.rounds.selection_window
        while True:
            known = len(self.nodes(ttl=window))
            waited = clock.now() - begin
            all_have_answered = not self._open and known + len(self.unknown) >= self._config.clients
            if known >= self._config.clients or all_have_answered or waited >= window:
                break
            clock.sleep(pause(waited=waited, left=window - waited))
        self._events.write("roll-called", known=known, clients=self._config.clients, seconds=round(waited, 3))

    def nodes(self, *, ttl: float) -> Sequence[int]:
        """Return the connected nodes whose partition is known, in the order of partitions; ask the others."""
        if isinstance(self._grid, VirtualGrid):
            return self._grid.nodes_by_partition()
        connected = set(self._grid.get_node_ids())
        self._ask(sorted(connected - {*self._partitions, *self._open.values(), *self.unknown}), ttl=ttl)
        self._hear()
        return sorted(connected & self._partitions.keys(), key=lambda node: (self._partitions[node], node))

    def learn(self, node_id: int, partition_id: int) -> None:
        """Note what a node holds."""
        self._partitions[node_id] = partition_id

    def forgive(self) -> None:
        """Ask again those who did not say what they hold."""
        self.unknown.clear()

    def take_bytes(self) -> int:
        """Return the size of all questions and answers since the last call."""
        size, self._bytes_sent = self._bytes_sent, 0
        return size

    def _ask(self, node_ids: Sequence[int], *, ttl: float) -> None:
        queries = [wire.ready_query(node_id, round_number=0, attempt=0, ttl=max(ttl, 1.0)) for node_id in node_ids]
        self._bytes_sent += wire.bytes_of_all(queries)
        ids = self._grid.push_messages(queries) if queries else ()
        self._open |= {message_id: node for message_id, node in zip(ids, node_ids, strict=True) if message_id}

    def _hear(self) -> None:
        for reply in self._grid.pull_messages(list(self._open)) if self._open else ():
            node_id = self._open.pop(reply.metadata.reply_to_message_id, None)
            if node_id is None:
                continue
            partition_id, why = -1, reply.error.reason if reply.has_error() else ""
            if not reply.has_error():
                self._bytes_sent += wire.bytes_of(reply.content)
                partition_id, why = wire.read_ready_answer(reply)
            if partition_id >= 0:
                self.learn(node_id, partition_id)
            else:
                self.unknown[node_id] = why or "no reason given"
                self._events.write("unknown-node", node=node_id, reason=self.unknown[node_id])
