"""The node directory: which partition each node holds.

All draws of nodes go over partitions in their order, so that the same seed draws the same cohort on every engine. A
simulation knows what its nodes hold. On a network node ids are random and say nothing: there the server asks each node
once, when it sees it first, by the ready query that brings the partition id anyway. What it says must be what its key
is registered for, where the deployment has registered keys by partition (`fedlearn submit --nodes`): the SuperLink
tells the names of keys, and no node can change its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from fedlearn import wire
from fedlearn.aggregation.offers import NodeIds
from fedlearn.core.cohort import At
from fedlearn.flower.network import partition_of_key
from fedlearn.runs.log import EventLog
from server.exchange.exchange import Exchange, Pending
from server.exchange.frozen_arrays import Unsent

BEFORE = At(0, 0)  # the first round


class NodeDirectory:
    """The known nodes of a run.

    Parameters
    ----------
    clients
        How many nodes the run has.
    window
        Seconds that `fill` waits at most.
    unsent
        The arrays that a node is sent once, if it lacks them.
    absent
        The partitions whose nodes take no part in the run, and are asked for nothing.
    """

    def __init__(
        self, exchange: Exchange, events: EventLog, unsent: Unsent, *, clients: int, window: float,
        absent: Collection[int] = (),
    ) -> None:  # fmt: skip
        self._exchange = exchange
        self._unsent = unsent
        self._events = events
        self._clients = clients
        self._window = window
        self._absent = absent
        self._partitions: dict[int, int] = {}  # node id -> partition id
        self._registered: dict[int, int] = {}  # the same, as keys are registered
        self._pending: Pending[int] = exchange.send([], [])  # about node ids
        self._answer_by: dict[int, float] = {}  # node id -> when the window of its last query ends
        self._left_out: dict[int, str] = {}  # partition id -> why its node takes part in no further attempt
        self.unknown: dict[int, str] = {}  # nodes that did not say what they hold since `forgive`, and why

    def fill(self) -> None:
        """Ask all nodes, before the first round: until all are known, or a selection window has passed."""
        if self._exchange.is_virtual:
            return
        clock = self._exchange.clock
        begin = clock.now()
        known = 0
        for _ in self._exchange.looks(until=begin + self._window):
            known = len(self.nodes(ttl=self._window))
            all_have_answered = not self._pending.open and known + len(self.unknown) >= self._clients
            if known >= self._clients or all_have_answered:
                break
        seconds = round(clock.now() - begin, 3)
        self._events.write("roll-called", known=known, clients=self._clients, seconds=seconds)

    def nodes(self, *, ttl: float) -> NodeIds:
        """Return the connected nodes whose partition is known, in the order of partitions; ask the others."""
        if (virtual := self._exchange.reachable()) is not None:
            return self._present(virtual) if self._absent else virtual
        names = self._exchange.connected()
        connected = names.keys()
        self._registered |= {
            node: partition for node, name in names.items() if (partition := partition_of_key(name)) is not None
        }
        now = self._exchange.clock.now()
        asked = {node for node in self._pending.open.values() if now < self._answer_by[node]}
        self._ask(sorted(connected - {*self._partitions, *asked, *self.unknown}), ttl=ttl)
        self._hear()
        present = (node for node in connected & self._partitions.keys() if self._partitions[node] not in self._absent)
        return sorted(present, key=lambda node: (self._partitions[node], node))

    def _present(self, virtual: NodeIds) -> NodeIds:
        known = self._exchange.nodes_by_partition() or ()
        return without(virtual, {known[each] for each in self._absent})

    def holders(self, *, ttl: float) -> Callable[[int], int | None]:
        """Return a function from partition to the node that holds it; None if that node cannot be reached now."""
        virtual = self._exchange.nodes_by_partition()
        if virtual is not None:
            known, is_reachable = virtual, self._exchange.is_reachable
            return lambda each: known[each] if each not in self._absent and is_reachable(known[each]) else None
        by_partition: dict[int, int] = {}
        for node in self.nodes(ttl=ttl):
            by_partition.setdefault(self._partitions[node], node)
        return by_partition.get

    def partition_of(self, node_id: int) -> int:
        """Return the partition of a node that `nodes` has named."""
        virtual = self._exchange.nodes_by_partition()
        return self._partitions[node_id] if virtual is None else virtual.index(node_id)

    def partitions_of(self, nodes: NodeIds) -> NDArray[np.int64]:
        """Return the partitions of nodes that `nodes` has named, in their order."""
        virtual = self._exchange.nodes_by_partition()
        if isinstance(virtual, range):
            return (np.asarray(nodes, np.int64) - virtual.start) // virtual.step
        return np.array([self.partition_of(int(node)) for node in nodes], np.int64)

    def learn(self, node_id: int, partition_id: int) -> str:
        """Note what a node says it holds; return why that cannot be, or nothing.

        A node's partition names its random streams: one that could choose it anew in each round, or any number, would
        choose which entries it sends, and one that names another's could keep it out. So the first word stands, and
        none that its key was not registered for.
        """
        says = f"it says that it holds partition {partition_id}"
        if not 0 <= partition_id < self._clients:
            return f"{says}, of {self._clients} from 0"
        virtual = self._exchange.nodes_by_partition()
        if virtual is not None and virtual[partition_id] != node_id:
            return f"{says}, which client {virtual[partition_id]} holds"
        if partition_id in self._left_out:
            return self._left_out[partition_id]
        registered = self._registered.get(node_id, partition_id)
        if registered != partition_id:
            return f"{says}, and its key is registered for {registered}"
        known = self._partitions.setdefault(node_id, partition_id)
        return "" if known == partition_id else f"{says}, and said {known} before"

    def leave_out(self, partition_id: int, why: str) -> None:
        """Take a node into no further attempt of this run, as others refuse to take part with it."""
        self._left_out[partition_id] = why

    def forgive(self) -> None:
        """Ask again those who did not say what they hold."""
        self.unknown.clear()

    def _ask(self, node_ids: Sequence[int], *, ttl: float) -> None:
        if node_ids:
            self._answer_by |= dict.fromkeys(node_ids, self._exchange.clock.now() + ttl)
            self._pending.join(self._unsent.ask(node_ids, BEFORE, ttl=ttl))

    def _hear(self) -> None:
        for node_id, reply, again in self._pending.arrivals():
            if again:
                continue
            if sent := self._unsent.sent_after(node_id, reply, BEFORE, ttl=self._window):
                self._pending.join(sent)
                continue
            partition_id, why_not = wire.read_ready_answer(reply)
            if partition_id < 0 or (why_not := self.learn(node_id, partition_id)):
                self.unknown[node_id] = why_not or "no reason given"
                self._events.write("unknown-node", node=node_id, reason=self.unknown[node_id])


def without(nodes: NodeIds, others: Collection[int]) -> NodeIds:
    """Return the nodes that are not among others, in their order."""
    if isinstance(nodes, Sequence):
        return [node for node in nodes if node not in others]
    return nodes[~np.isin(nodes, list(others))]
