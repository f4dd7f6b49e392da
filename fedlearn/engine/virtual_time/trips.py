"""A message on its way to a node and back, and how long its device takes for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flwr.app import Message, MessageType, MetricRecord
from numpy.typing import NDArray

from fedlearn import wire
from fedlearn.core.cohort import At
from fedlearn.devices.fleet import Fleet

PATIENCE = 7 * 86400.0  # seconds of real time for nodes that are run together, so that no working node is ended


AT_ONCE = (wire.ROUND_OVER, MessageType.EVALUATE)
"""Types of messages that take no virtual time: notices, and evaluations, so that no measurement alters a run."""


REPORT_BYTES = 1024
"""Bytes by which a report may be longer than the message that its node was sent: its own record, beside the arrays."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches in which nodes go through their examples.

    Parameters
    ----------
    held
        Examples of each node, by partition.
    size
        Examples in a batch; the last batch of a pass has what is left.
    """

    held: NDArray[np.int64]
    size: int

    def within(self, partition: int, most: float) -> int:
        """Return how many examples a node looks at in as many whole steps as have no more than `most` together.

        >>> batches = Batches(np.array([25]), size=10)
        >>> [batches.within(0, most) for most in (9, 10, 24.9, 25, 44, 46)]
        [0, 10, 20, 25, 35, 45]
        """
        held = int(self.held[partition])
        passes, left = divmod(int(most), held)
        return passes * held + left // self.size * self.size


class Trip(NamedTuple):
    """A message on its way to a node and back.

    Parameters
    ----------
    key
        The id by which the server knows the message; the engine gives it another one when it is run.
    number
        The trip's place among all trips.
    done
        When the node begins to send its reply.
    until
        When the trip's time is over: no reply comes after it.
    is_run
        Whether the node is run; a node that cannot be in time, or is lost, is not.
    occupies
        Whether the node cannot be reached meanwhile, as it trains.
    """

    message: Message
    node: int
    key: str
    partition: int
    number: int
    done: float
    until: float
    is_run: bool = True
    occupies: bool = False


class Arrival(NamedTuple):
    """The end of a trip.

    Parameters
    ----------
    at
        When the trip ends.
    number
        The trip's place among those that end at the same time.
    reply
        The reply, if it has come in time.
    kept
        What the node keeps from then on; None where that does not change.
    """

    at: float
    number: int
    trip: Trip
    reply: Message | None
    kept: bytes | None = None


class TripPlanner:
    """Computes how long trips take on the devices of a fleet.

    Parameters
    ----------
    fleet
        The nodes' devices, by partition.
    examples
        How many examples each node looks at in one training, by partition.
    batches
        Lets a node that would be late take as many steps as fit (``training.partial``); None: all of them, or none.
    """

    def __init__(self, fleet: Fleet, examples: NDArray[np.int64], batches: Batches | None) -> None:
        self._fleet = fleet
        self._examples = examples
        self._batches = batches

    def trip(self, given: Message, size: int, *, partition: int, number: int, since: float) -> Trip:
        """Return the trip of a message of `size` bytes that is sent at `since`.

        The trip tells when the node begins to answer, and whether the node is run at all.
        """
        message = wire.with_ttl(given, PATIENCE)  # real time must not end it
        kind, node, ttl = message.metadata.message_type, message.metadata.dst_node_id, given.metadata.ttl
        key = f"trip-{number}"
        if kind in AT_ONCE:
            return Trip(message, node, key, partition, number, since, math.inf)
        if kind != MessageType.TRAIN:
            arrives = since + self._fleet.download(partition, size)
            return Trip(message, node, key, partition, number, arrives, since + ttl)
        wanted, effort = int(self._examples[partition]), wire.read_effort(message.content)
        examples = self._work_of(partition, size, ttl, effort)
        if examples < wanted:
            message = wire.with_most_examples(message, examples)
        seconds = self._fleet.until_trained(partition, examples=examples * effort, bytes_down=size)
        is_run = (
            seconds < ttl
            and (examples > 0 or not wanted)
            and not (self._fleet.dropout[partition] and self._fleet.is_lost(partition, _at_of(message)))
        )
        return Trip(message, node, key, partition, number, since + seconds, since + ttl, is_run, occupies=True)

    def _work_of(self, partition: int, size: int, ttl: float, effort: float) -> int:
        """Return at how many examples a node looks that has `ttl` seconds in all and a report as long as `size`.

        The true length is known when the report has been made: a codec makes it shorter, and time is left.
        """
        wanted, fleet = int(self._examples[partition]), self._fleet
        if self._batches is None:
            return wanted
        before = fleet.until_trained(partition, examples=0, bytes_down=size)
        spare = ttl - before - fleet.upload(partition, size + REPORT_BYTES)
        needed = wanted * effort * float(fleet.seconds_per_example[partition])
        if needed <= spare:
            return wanted
        return self._batches.within(partition, wanted * max(spare, 0.0) / needed) if needed else 0

    def arrival(self, trip: Trip, reply: Message | None, kept: bytes | None) -> Arrival:
        """Return the end of a trip: after the reply's upload, or cut off when the trip's time is over."""
        at = trip.done
        if reply is not None and reply.has_content() and trip.message.metadata.message_type not in AT_ONCE:
            at += self._fleet.upload(trip.partition, _size(reply))
        if reply is None or at > trip.until:
            at, reply = trip.until, None
        return Arrival(at, trip.number, trip, reply, kept)


def _at_of(message: Message) -> At:
    return wire.read_instruction(message.content).at


def _size(reply: Message) -> int:
    """Return the bytes of a reply without the node's measurements, which take no time either."""
    others = {key: record for key, record in reply.content.items() if not isinstance(record, MetricRecord)}
    return wire.bytes_of(others)
