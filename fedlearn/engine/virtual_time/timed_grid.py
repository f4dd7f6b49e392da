"""The grid on virtual time: it runs nodes ahead of time, and gives their replies when the clock says so."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedlearn import flower, wire
from fedlearn.aggregation.offers import NodeIds, Offers, offers_of
from fedlearn.core.clock import ManualClock
from fedlearn.devices.fleet import Fleet
from fedlearn.engine.virtual_time.agenda import Agenda
from fedlearn.engine.virtual_time.reach import Reach
from fedlearn.engine.virtual_time.trips import Arrival, Batches, Trip, TripPlanner
from fedlearn.flower import Run


class VirtualTimeGrid(Grid):
    """Passes messages on to an engine's grid, and gives its replies back in virtual time.

    Parameters
    ----------
    grid
        Runs the nodes; it knows the partition of each.
    fleet
        The nodes' devices, by partition.
    examples
        How many examples each node looks at in one training, by partition.
    batches
        Lets a node that would be late take as many steps as fit (``training.partial``); None: all of them, or none.
    """

    def __init__(self, grid: Grid, fleet: Fleet, examples: NDArray[np.int64], batches: Batches | None = None) -> None:
        self._grid = grid
        self._fleet = fleet
        self._clock = ManualClock()
        partitions = offers_of(grid).partitions
        assert partitions is not None  # every simulation knows them
        self._nodes = partitions()
        self._keep = offers_of(grid).keep
        self._planner = TripPlanner(fleet, examples, batches)
        self._reach = Reach(fleet, self._nodes, self._clock)
        self._agenda = Agenda()
        self._numbers = count()
        self._arrived: dict[str, Message] = {}  # by message id, in the order of arrival

    # --- what the server asks -----------------------------------------------------------------------------------------

    @property
    def offers(self) -> Offers:
        """The abilities of the engine's grid, on virtual time; the server adds up, as it knows who is in time."""
        return replace(offers_of(self._grid), clock=self._clock, timed=self, fold=None)

    def wait(self, seconds: float) -> None:
        """Move the clock to the next arrival, at most by `seconds`."""
        self._take_in()
        self._clock.move_to(self._next(self._clock.now() + seconds))

    def reachable(self) -> NodeIds:
        """Return the nodes whose devices can be reached now and are not training."""
        self._take_in()
        return self._reach.nodes()

    def is_reachable(self, node_id: int) -> bool:
        """Return whether a node's device can be reached now and is not training."""
        self._take_in()
        return self._reach.includes(node_id)

    def group_of(self, node_id: int) -> str:
        """Return the name of a node's kind of device."""
        return self._fleet.group_of(self._partition_of(node_id))

    @property
    def groups(self) -> Sequence[str]:
        """The names of all kinds of devices."""
        return self._fleet.groups

    def described(self) -> Mapping[str, Any]:
        """Return how many nodes each kind of device has, and the medians of their numbers."""
        return self._fleet.described()

    # --- messages -----------------------------------------------------------------------------------------------------

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages out; return their ids, empty where there is no such node."""
        given = list(messages)
        return self._push(given, [self._clock.now()] * len(given))

    def push_again(self, messages: Sequence[Message], begun: Sequence[float]) -> Sequence[str]:
        """Send messages again that were under way when the run was stopped, each at its old time; return their ids."""
        return self._push(messages, begun)

    def _push(self, given: Sequence[Message], begun: Sequence[float]) -> list[str]:
        self._take_in()
        self._release([each.metadata.dst_node_id for each in given if each.metadata.message_type == wire.ROUND_OVER])
        trips = [
            self._trip(message, size, since=since)
            for message, size, since in zip(given, wire.bytes_of_each(given), begun, strict=True)
            if message.metadata.dst_node_id in self._nodes
        ]
        for trip in trips:
            if trip.occupies:
                self._reach.occupy(trip)
            if trip.occupies and trip.is_run:
                self._agenda.add_training(trip)
        self._run([trip for trip in trips if not trip.occupies])
        keys = iter(trips)
        return [next(keys).key if message.metadata.dst_node_id in self._nodes else "" for message in given]

    def _trip(self, message: Message, size: int, *, since: float) -> Trip:
        partition = self._partition_of(message.metadata.dst_node_id)
        return self._planner.trip(message, size, partition=partition, number=next(self._numbers), since=since)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that have arrived, in the order of their arrival."""
        self._take_in()
        wanted = set(message_ids)
        return [self._arrived.pop(key) for key in list(self._arrived) if key in wanted]

    def arrived(self) -> Collection[str]:
        """Return the ids of messages whose replies have arrived and were not pulled yet, in the order of arrival."""
        self._take_in()
        return self._arrived.keys()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages; return the replies that arrive within `timeout` virtual seconds."""
        ids = list(self.push_messages(messages))
        until = math.inf if timeout is None else self._clock.now() + timeout
        while (soonest := self._next(until)) < math.inf and self._agenda.next_arrival <= until:
            self._clock.move_to(soonest)
            self._take_in()
        return self.pull_messages(ids)

    # --- running ahead of time ----------------------------------------------------------------------------------------

    def _next(self, until: float) -> float:
        """Return when the next reply arrives, `until` at most; run all nodes whose replies could be the next."""
        while True:
            while (lost := self._agenda.take_lost(until)) is not None:
                self._end(lost)
            soonest = min(self._agenda.next_arrival, until)
            trainings = self._agenda.take_trainings(soonest)
            if not trainings:
                return soonest
            self._run(trainings)

    def _take_in(self) -> None:
        """End the trips of all replies that have arrived by now."""
        now = self._clock.now()
        while trainings := self._agenda.take_trainings(now):
            self._run(trainings)
        while (arrival := self._agenda.take_arrival(now)) is not None:
            self._end(arrival)

    def _run(self, trips: Sequence[Trip]) -> None:
        """Run the nodes of these trips, all at once, and plan when each reply arrives."""
        if not trips:
            return
        before = {trip.node: self._kept_by(trip.node) for trip in trips if trip.occupies}
        replies = self._grid.send_and_receive([trip.message for trip in trips])
        by_id = {reply.metadata.reply_to_message_id: reply for reply in replies}
        for trip in trips:
            kept = None
            reply = by_id.get(trip.message.metadata.message_id)
            if trip.occupies and self._keep is not None and (after := self._kept_by(trip.node)) != before[trip.node]:
                self._keep.keep({trip.node: before[trip.node]})
                kept = after
            arrival = self._planner.arrival(trip, reply, kept)
            if arrival.reply is not None or kept is not None:
                self._agenda.add_arrival(arrival)
            self._reach.end(trip, arrival.at)

    def _kept_by(self, node: int) -> bytes:
        return b"" if self._keep is None else self._keep.kept_by(node)

    def _end(self, arrival: Arrival) -> None:
        """End a trip: the server can pull its reply, and its node's memory changes."""
        trip, reply = arrival.trip, arrival.reply
        if reply is not None:
            self._arrived[trip.key] = flower.readdressed(reply, reply_to=trip.key)
        if arrival.kept is not None and self._keep is not None:
            self._keep.keep({trip.node: arrival.kept})

    def _release(self, nodes: Sequence[int]) -> None:
        """Stop the trainings of nodes whose replies are not waited for."""
        keys = self._reach.release(nodes)
        if keys:
            self._agenda.forget(keys)

    def _partition_of(self, node: int) -> int:
        return self._nodes.index(node)

    # --- passed on ----------------------------------------------------------------------------------------------------

    def set_run(self, run: Run) -> None:
        """Set the run of the engine's grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The engine's run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message to a node, made by the engine's grid."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return self._grid.get_node_ids()
