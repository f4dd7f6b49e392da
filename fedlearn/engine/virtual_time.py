"""Virtual time: a grid around an engine's own, whose replies come when the nodes' devices have done their work.

The engine runs nodes as fast as it can and in any order; their replies are held back until the clock says that they
have arrived. That clock moves when the server waits, to the next arrival, and never by itself: no number of a run
depends on how fast the machine is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedlearn import flower, wire
from fedlearn.clock import ManualClock
from fedlearn.config import RunConfig
from fedlearn.data.partitioning import held_out, partition_table
from fedlearn.devices import Fleet, load_devices
from fedlearn.errors import SettingError
from fedlearn.exchange import Offers, offers_of
from fedlearn.flower import Run
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of

PATIENCE = 7 * 86400.0  # seconds of real time for the nodes that are run together: it ends nobody that still works


AT_ONCE = (wire.ROUND_OVER, MessageType.EVALUATE)
"""Notices, and what is measured: neither takes virtual time, so that nobody's choice what to measure alters a run."""


class Trip(NamedTuple):
    """A message on its way to a node and back.

    Parameters
    ----------
    done
        When the node begins to send its reply.
    until
        When its time is over: no reply comes after it.
    is_run
        Whether the node does anything; one that cannot be in time, or is lost, does not.
    occupies
        Whether the node can do nothing else meanwhile.
    """

    message: Message
    partition: int
    done: float
    until: float
    is_run: bool = True
    occupies: bool = False


class Arrival(NamedTuple):
    """A reply on its way: when it arrives, and its place among those that arrive then."""

    at: float
    number: int
    reply: Message

    @property
    def message_id(self) -> str:
        """The message that it answers."""
        return self.reply.metadata.reply_to_message_id


class VirtualTimeGrid(Grid):
    """Passes messages on to an engine's grid, and gives its replies back in virtual time.

    Parameters
    ----------
    grid
        Runs the nodes; it knows what they hold.
    fleet
        Their devices, by partition.
    examples
        How many examples each node looks at in one training, by partition.
    """

    def __init__(self, grid: Grid, fleet: Fleet, examples: NDArray[np.int64]) -> None:
        self._grid = grid
        self._fleet = fleet
        self._examples = examples
        self._clock = ManualClock()
        partitions = offers_of(grid).partitions
        assert partitions is not None  # every simulation knows them
        self._nodes = partitions()
        self._numbers = count()
        self._on_their_way: list[Arrival] = []  # a heap
        self._arrived: dict[str, Message] = {}  # by message id, in the order of arrival
        self._busy: dict[int, tuple[str, float]] = {}  # node -> the training that it is at, and when that is over

    # --- what the server asks -----------------------------------------------------------------------------------------

    @property
    def offers(self) -> Offers:
        """What the engine's grid can do, on virtual time; sums are made by the server, which sees what is in time."""
        return replace(offers_of(self._grid), clock=self._clock, timed=self, fold=None)

    def wait(self, seconds: float) -> None:
        """Move the clock to the next arrival, at most by `seconds`."""
        self._take_in()
        until = self._clock.now() + seconds
        self._clock.move_to(min(self._on_their_way[0].at, until) if self._on_their_way else until)

    def reachable(self) -> Sequence[int]:
        """Return the nodes whose devices can be reached now and are not training."""
        now = self._clock.now()
        self._busy = {node: task for node, task in self._busy.items() if task[1] > now}
        if self._fleet.is_always_reachable and not self._busy:
            return self._nodes
        mask = self._fleet.reachable(now)
        mask[[self._partition_of(node) for node in self._busy]] = False
        return [self._nodes[place] for place in np.flatnonzero(mask).tolist()]

    def group_of(self, node_id: int) -> str:
        """Return the name of a node's kind of device."""
        return self._fleet.group_of(self._partition_of(node_id))

    @property
    def groups(self) -> Sequence[str]:
        """The names of all kinds."""
        return self._fleet.groups

    def described(self) -> Mapping[str, Any]:
        """Return how many nodes each kind has, and the medians of their numbers."""
        return self._fleet.described()

    # --- messages -----------------------------------------------------------------------------------------------------

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Have those nodes run whose replies can come; return the messages' ids, empty where there is no such node."""
        given = list(messages)
        sent = [wire.with_ttl(message, PATIENCE) for message in given]  # real time has no say in it
        trips = []
        for message, copy, size in zip(given, sent, wire.bytes_of_each(given), strict=True):
            flower.with_id(copy)
            if message.metadata.dst_node_id in self._nodes:
                trips.append(self._trip(copy, size, ttl=message.metadata.ttl))
        ran = [trip.message for trip in trips if trip.is_run]
        replies = self._grid.send_and_receive(ran) if ran else ()
        by_id = {reply.metadata.reply_to_message_id: reply for reply in replies}
        for trip in trips:
            about = trip.message.metadata
            over = self._send_home(trip, by_id.get(about.message_id))
            if trip.occupies:
                self._busy[about.dst_node_id] = (about.message_id, over)
        return [copy.metadata.message_id if copy.metadata.dst_node_id in self._nodes else "" for copy in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that have arrived, in the order of their arrival."""
        self._take_in()
        wanted = set(message_ids)
        return [self._arrived.pop(key) for key in list(self._arrived) if key in wanted]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages; return the replies that arrive within `timeout` virtual seconds."""
        ids = list(self.push_messages(messages))
        until = math.inf if timeout is None else self._clock.now() + timeout
        while self._on_their_way and self._on_their_way[0].at <= until:
            self.wait(self._on_their_way[0].at - self._clock.now())
        return self.pull_messages(ids)

    def _trip(self, message: Message, size: int, *, ttl: float) -> Trip:
        """Return what a message takes until its node begins to answer, and whether the node is run at all."""
        now, kind = self._clock.now(), message.metadata.message_type
        node = message.metadata.dst_node_id
        partition = self._partition_of(node)
        if kind == wire.ROUND_OVER:
            self._release(node)
        if kind in AT_ONCE:
            return Trip(message, partition, now, math.inf)
        if kind != MessageType.TRAIN:
            return Trip(message, partition, now + self._fleet.download(partition, size), now + ttl)
        seconds = self._fleet.until_trained(partition, examples=self._examples[partition], bytes_down=size)
        is_lost = self._fleet.is_lost(partition, wire.read_instruction(message.content).at)
        return Trip(message, partition, now + seconds, now + ttl, is_run=seconds < ttl and not is_lost, occupies=True)

    def _send_home(self, trip: Trip, reply: Message | None) -> float:
        """Have a reply arrive after its upload, or be cut off when its message's time is over; return when it ends."""
        if reply is None:
            return trip.until
        at = trip.done
        if reply.has_content() and trip.message.metadata.message_type not in AT_ONCE:
            at += self._fleet.upload(trip.partition, _size(reply))
        if at <= trip.until:
            heapq.heappush(self._on_their_way, Arrival(at, next(self._numbers), reply))
        return min(at, trip.until)

    def _release(self, node: int) -> None:
        """Have a node stop what it is at: nobody waits for it."""
        key, _ = self._busy.pop(node, ("", 0.0))
        if key:
            self._on_their_way = [arrival for arrival in self._on_their_way if arrival.message_id != key]
            heapq.heapify(self._on_their_way)

    def _take_in(self) -> None:
        """Take in the replies that have arrived by now."""
        while self._on_their_way and self._on_their_way[0].at <= self._clock.now():
            arrival = heapq.heappop(self._on_their_way)
            self._arrived[arrival.message_id] = arrival.reply

    def _partition_of(self, node: int) -> int:
        return self._nodes.index(node)

    # --- passed on ----------------------------------------------------------------------------------------------------

    def set_run(self, run: Run) -> None:
        """Pass on."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The engine's run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Pass on."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Pass on."""
        return self._grid.get_node_ids()


def _size(reply: Message) -> int:
    """Return the bytes of a reply without what its node has measured, which takes no time either."""
    measured = RecordDict(dict(reply.content.metric_records))
    return wire.bytes_of(reply.content) - wire.bytes_of(measured)


def with_devices(grid: Grid, config: RunConfig) -> Grid:
    """Return the grid on virtual time, if the run's nodes have devices; else the grid as it is.

    Raises
    ------
    SettingError
        If no node can ever report.
    """
    if not config.devices.name:
        return grid
    held = _held(config)
    fleet = load_devices(config.devices, clients=config.clients, seed=config.seed, examples=held)
    passes = config.training.local_epochs if model_spec(config.model.name).preload == "torch" else 1
    examples = held * passes
    _check(fleet, examples, config)
    return VirtualTimeGrid(grid, fleet, examples)


def _held(config: RunConfig) -> NDArray[np.int64]:
    """Return how many examples each node trains on."""
    table = partition_table(dataset_of(config), config.data, num_partitions=config.clients, seed=config.seed)
    held = np.diff(table.offsets)
    return held - [held_out(int(number), table.test_share) for number in held] if table.test_share else held


def _check(fleet: Fleet, examples: NDArray[np.int64], config: RunConfig) -> None:
    """Refuse devices of which none can ever report."""
    settings, deadline = config.devices, config.rounds.reporting_deadline
    if (fleet.available == 0).all():
        raise SettingError(
            "devices.name", settings.name, "no device can ever be reached: available is 0 for all of them"
        )
    if (fleet.dropout == 1).all():
        raise SettingError(
            "devices.name", settings.name, "every training ends in nothing: dropout is 1 for all of them"
        )
    seconds = fleet.startup + examples * fleet.seconds_per_example
    fastest = float(seconds[examples > 0].min(initial=math.inf))
    if deadline <= fastest < math.inf:
        raise SettingError(
            "rounds.reporting_deadline", deadline,
            f"the fastest of the devices {settings.name!r} trains for {fastest:.4g} s: wait longer, or give it less",
        )  # fmt: skip
