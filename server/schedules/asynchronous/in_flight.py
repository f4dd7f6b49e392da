"""Nodes in flight: those that were sent a state and have not answered yet, over all rounds.

What a commit stores of them (`InFlight.memory`) is enough to have them in flight again after a resume: each is sent
what it was sent, made anew of the state that it works on. On virtual time it then reports when it would have. Reports
that had come by then, and were not taken in, are stored themselves: what their nodes keep has changed with them.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Error, Message, RecordDict

from fedlearn import flower, wire
from fedlearn.core.cohort import At, Member, Typical
from fedlearn.core.state import Array, State
from server.attempt import Configuration
from server.exchange.exchange import Pending
from server.phases.configuration import written
from server.run import ServerRun

WHERE, WHEN, LANDED = "in_flight", "begun", "landed/"  # of the arrays of `memory`
NOT_LANDED = -1


@dataclass(slots=True, eq=False)
class Flight:
    """One node at work.

    Parameters
    ----------
    at
        Of which attempt its instruction is; it works on the state that was stored before that round.
    begun, until
        When its instruction was sent, and its reporting deadline.
    sent
        What it was sent; a simulated node may change its own.
    typical
        What was typical of reports at that time, or became known first after it.
    anchor
        The decoded anchor to which the state was sent as a correction; None without anchors.
    """

    member: Member
    at: At
    begun: float
    until: float
    sent: RecordDict
    typical: Typical | None
    anchor: State | None = None


class Landed(NamedTuple):
    """The reply to one flight; with `again`, a further reply to it."""

    flight: Flight
    reply: Message
    again: bool


class InFlight:
    """All nodes that are in flight, in the order in which they were sent what they work on."""

    def __init__(self, run: ServerRun) -> None:
        self._run = run
        self._pending: Pending[Flight] = run.exchange.send([], [], book="")
        self._flights: dict[int, Flight] = {}  # by partition: no node is in flight twice
        self._landed: deque[Landed] = deque()
        self._unknown: list[Flight] = []  # those that were sent out when nothing was known of reports

    def __len__(self) -> int:
        """Return how many nodes are in flight, also counting nodes whose report waits to be taken in."""
        return len(self._flights)

    def __contains__(self, partition: object) -> bool:
        """Return whether the node of a partition is in flight."""
        return partition in self._flights

    def __iter__(self) -> Iterator[Flight]:
        """Go through those of which nothing has come yet."""
        waiting = {landed.flight.member.partition_id for landed in self._landed}
        return iter([flight for partition, flight in self._flights.items() if partition not in waiting])

    @property
    def everyone(self) -> list[Flight]:
        """All of them."""
        return list(self._flights.values())

    @property
    def until(self) -> float | None:
        """The first reporting deadline of all; None if no node is in flight."""
        return next((flight.until for flight in self._flights.values()), None)

    @property
    def versions(self) -> frozenset[int]:
        """After which rounds the states were stored on which somebody works."""
        return frozenset(flight.at.round_number - 1 for flight in self._flights.values())

    def compare_with(self, typical: Typical | None) -> None:
        """Have the reports compared with this of those that were sent out when nothing was known."""
        if typical is not None:
            for flight in self._unknown:
                flight.typical = typical
            self._unknown.clear()

    # --- out and home -------------------------------------------------------------------------------------------------

    def send(self, configuration: Configuration, at: At) -> list[Flight]:
        """Send instructions now; return the flights whose node is no longer connected."""
        members, messages = configuration.members, configuration.messages
        flights = [self._flight(*each, at, configuration.anchor) for each in zip(members, messages, strict=True)]
        return self._send(flights, messages)

    def _flight(self, member: Member, message: Message, at: At, anchor: State | None) -> Flight:
        begun = self._run.clock.now()
        until = begun + self._run.rounds.reporting_deadline
        return Flight(member, at, begun, until, message.content.copy(), self._run.typical, anchor)

    def _send(
        self, flights: Sequence[Flight], messages: Sequence[Message], begun: Sequence[float] = ()
    ) -> list[Flight]:
        pending = self._run.exchange.send(messages, flights, book="", begun=begun)
        unsent = pending.unsent
        self._unknown += [flight for flight in flights if flight.typical is None]
        self._flights |= {flight.member.partition_id: flight for flight in flights if flight not in unsent}
        self._pending.join(pending)
        self._pending.unsent = []
        return unsent

    def hear(self) -> None:
        """Take note of the reports that have come."""
        self._landed.extend(Landed(*arrival) for arrival in self._pending.arrivals())

    @property
    def has_landed(self) -> bool:
        """Whether a report waits to be taken in."""
        return bool(self._landed)

    @property
    def landed(self) -> list[Landed]:
        """The reports that wait, in the order in which they have come."""
        return list(self._landed)

    def take(self) -> Landed:
        """Return the first report that waits; its node is in flight no more."""
        landed = self._landed.popleft()
        if not landed.again:
            del self._flights[landed.flight.member.partition_id]
        return landed

    def give_up(self, flights: Iterable[Flight]) -> None:
        """Wait for these no longer: what still comes of them is late."""
        given_up = {flight.member.partition_id: flight for flight in flights}
        for key, flight in list(self._pending.open.items()):
            if given_up.get(flight.member.partition_id) is flight:
                del self._pending.open[key]
                self._run.late.reports.expect({key: flight.member}, flight.at)
        for partition in given_up:
            del self._flights[partition]

    # --- what a resume needs ------------------------------------------------------------------------------------------

    def memory(self) -> dict[str, Array]:
        """Return who is in flight, in order: partition, round, attempt, position; begun, and what was typical.

        The last of the first table is the place among the reports that have come; these themselves follow.
        """
        flights = self.everyone
        landed = [landed for landed in self._landed if not landed.again]
        places = {each.flight.member.partition_id: place for place, each in enumerate(landed)}
        where = [
            (f.member.partition_id, *f.at, f.member.position, places.get(f.member.partition_id, NOT_LANDED))
            for f in flights
        ]
        typical = [(f.typical.norm, f.typical.num_examples) if f.typical else (math.nan, 0.0) for f in flights]
        when = [(f.begun, *each) for f, each in zip(flights, typical, strict=True)]
        return {
            WHERE: np.array(where, np.int64).reshape(-1, 5),
            WHEN: np.array(when, np.float64).reshape(-1, 3),
            **{f"{LANDED}{place}": _packed(each.reply) for place, each in enumerate(landed)},
        }

    def resume(self, memory: Mapping[str, Array], node_of: Callable[[int], int | None]) -> list[Flight]:
        """Restore the flights of a stopped run; return the flights whose node can no longer be reached.

        On virtual time nothing is counted as sent: it was counted before. On a network it is sent again, and has a
        whole reporting deadline.
        """
        is_timed = self._run.exchange.timed is not None
        packed: dict[int, ArrayRecord] = {}
        flights, messages, lost = [], [], []
        landed: dict[int, Landed] = {}
        rows = zip(memory[WHERE].tolist(), memory[WHEN].tolist(), strict=True)
        for (partition, number, attempt, position, place), (begun, norm, examples) in rows:
            at, version = At(number, attempt), number - 1
            if version not in packed:
                packed[version] = wire.pack_arrays(self._run.store.state_of(version))
            node = node_of(partition)
            member = Member(-1 if node is None else node, partition, position)
            typical = None if math.isnan(norm) else Typical(norm, int(examples))
            if node is None:
                lost.append(Flight(member, at, begun, begun, RecordDict(), typical))
                continue
            configuration = written(self._run, [member], at, packed[version], first=position, again=is_timed)
            (message,) = configuration.messages
            begun = begun if is_timed else self._run.clock.now()
            until = begun + self._run.rounds.reporting_deadline
            flight = Flight(member, at, begun, until, message.content.copy(), typical, configuration.anchor)
            self._flights[partition] = flight  # in their order
            if place != NOT_LANDED:
                self._unknown += [flight] if typical is None else []
                landed[place] = Landed(flight, _unpacked(memory[f"{LANDED}{place}"], node), again=False)
                continue
            flights.append(flight)
            messages.append(message)
        self._landed.extend(landed[place] for place in sorted(landed))
        if not is_timed:
            self._run.exchange.traffic.down += wire.bytes_of_all(messages)
        unsent = self._send(flights, messages, [flight.begun for flight in flights])
        for flight in unsent:
            del self._flights[flight.member.partition_id]
        return lost + unsent


def _packed(reply: Message) -> Array:
    """Return a report as bytes, or the error that came in its place."""
    if reply.has_content():
        with suppress(Exception):  # whatever a client has put there; the gate would refuse it
            return np.frombuffer(b"+" + flower.to_bytes(reply.content), np.uint8)
    code, reason = (reply.error.code, reply.error.reason) if reply.has_error() else (0, "it cannot be stored")
    return np.frombuffer(b"-" + json.dumps([code, reason]).encode(), np.uint8)


def _unpacked(packed: Array, node: int) -> Message:
    kind, data = packed[:1].tobytes(), packed[1:].tobytes()
    content = flower.from_bytes(data) if kind == b"+" else None
    error = None if content is not None else Error(*json.loads(data))
    return flower.reply_from(node_id=node, message_type="train", reply_to="", content=content, error=error)
