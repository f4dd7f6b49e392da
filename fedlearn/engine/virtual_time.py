"""Virtual time: a grid around an engine's own, whose replies come when the nodes' devices have done their work.

The engine runs nodes as fast as it can and in any order; their replies are held back until the clock says that they
have arrived. That clock moves when the server waits, to the next arrival, and never by itself: no number of a run
depends on how fast the machine is.

A training is run when time would else pass its end, together with the next ones that end after it: so all workers have
something to do even where the server writes to one node at a time. What a node keeps changes when its reply arrives,
whenever it was run; a node that is stopped before keeps what it kept.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedlearn import flower, wire
from fedlearn.config import RunConfig
from fedlearn.data.partitioning import partition_table
from fedlearn.devices import Fleet, load_devices
from fedlearn.devices.fleet import SLOT
from fedlearn.flower import Run
from fedlearn.folding.offers import NodeIds, Offers, offers_of
from fedlearn.models import model_spec
from fedlearn.models.loaded import dataset_of
from fedlearn.words.clock import ManualClock
from fedlearn.words.cohort import At
from fedlearn.words.errors import SettingError

PATIENCE = 7 * 86400.0  # seconds of real time for the nodes that are run together: it ends nobody that still works
TOGETHER = 64  # trainings run ahead at most: enough for many workers, and no more replies than that are kept waiting


AT_ONCE = (wire.ROUND_OVER, MessageType.EVALUATE)
"""Notices, and what is measured: neither takes virtual time, so that nobody's choice what to measure alters a run."""


REPORT_BYTES = 1024
"""By which a report may be longer than the message that its node was sent: its own record, beside the arrays."""


@dataclass(frozen=True, slots=True)
class Batches:
    """In which steps nodes go through their examples.

    Parameters
    ----------
    held
        Examples of each node, by partition.
    size
        Of a batch; the last one of a pass has what is left.
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
        The id that the server knows it by; the engine gives it another when it is run.
    number
        Its place among all that were sent.
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
    node: int
    key: str
    partition: int
    number: int
    done: float
    until: float
    is_run: bool = True
    occupies: bool = False


class Arrival(NamedTuple):
    """The end of a trip: when, its place among those that end then, and the reply, if that has come in time.

    `kept` is what the node keeps from then on; None where that does not change.
    """

    at: float
    number: int
    trip: Trip
    reply: Message | None
    kept: bytes | None = None


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
    batches
        Lets a node that would be late take as many steps as fit (``training.partial``); None: all of them, or none.
    """

    def __init__(self, grid: Grid, fleet: Fleet, examples: NDArray[np.int64], batches: Batches | None = None) -> None:
        self._grid = grid
        self._fleet = fleet
        self._examples = examples
        self._batches = batches
        self._clock = ManualClock()
        partitions = offers_of(grid).partitions
        assert partitions is not None  # every simulation knows them
        self._nodes = partitions()
        self._keep = offers_of(grid).keep
        self._numbers = count()
        self._to_run: list[tuple[float, int, Trip]] = []  # a heap of trainings, by when they are done
        self._on_their_way: list[Arrival] = []  # a heap
        self._arrived: dict[str, Message] = {}  # by message id, in the order of arrival
        self._busy: dict[int, tuple[str, float]] = {}  # node -> the training that it is at, and when that is over
        self._mask: tuple[float, NDArray[np.bool_]] = (-1.0, np.zeros(0, bool))  # who can be reached in which hour

    # --- what the server asks -----------------------------------------------------------------------------------------

    @property
    def offers(self) -> Offers:
        """What the engine's grid can do, on virtual time; sums are made by the server, which sees what is in time."""
        return replace(offers_of(self._grid), clock=self._clock, timed=self, fold=None)

    def wait(self, seconds: float) -> None:
        """Move the clock to the next arrival, at most by `seconds`."""
        self._take_in()
        self._clock.move_to(self._next(self._clock.now() + seconds))

    def reachable(self) -> NodeIds:
        """Return the nodes whose devices can be reached now and are not training."""
        self._take_in()
        now = self._clock.now()
        self._busy = {node: task for node, task in self._busy.items() if task[1] > now}
        if self._fleet.is_always_reachable and not self._busy:
            return self._nodes
        mask = self._in_this_hour().copy()
        mask[[self._partition_of(node) for node in self._busy]] = False
        places = np.flatnonzero(mask)
        return places + self._nodes[0] if isinstance(self._nodes, range) else np.asarray(self._nodes)[places]

    def is_reachable(self, node_id: int) -> bool:
        """Return whether one node is among them."""
        self._take_in()
        _, over = self._busy.get(node_id, ("", 0.0))
        return over <= self._clock.now() and bool(self._in_this_hour()[self._partition_of(node_id)])

    def _in_this_hour(self) -> NDArray[np.bool_]:
        """Return which devices can be reached now; drawn once for each hour."""
        slot = self._clock.now() // SLOT
        if self._mask[0] != slot:
            self._mask = slot, self._fleet.reachable(self._clock.now())
        return self._mask[1]

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
        """Send messages out; return their ids, empty where there is no such node."""
        given = list(messages)
        return self._push(given, [self._clock.now()] * len(given))

    def push_again(self, messages: Sequence[Message], begun: Sequence[float]) -> Sequence[str]:
        """Have messages under way that were sent before the run was stopped, each at its time."""
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
                self._busy[trip.node] = (trip.key, trip.until)
            if trip.occupies and trip.is_run:
                heapq.heappush(self._to_run, (trip.done, trip.number, trip))
        self._run([trip for trip in trips if not trip.occupies])
        keys = iter(trips)
        return [next(keys).key if message.metadata.dst_node_id in self._nodes else "" for message in given]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that have arrived, in the order of their arrival."""
        self._take_in()
        wanted = set(message_ids)
        return [self._arrived.pop(key) for key in list(self._arrived) if key in wanted]

    def arrived(self) -> Collection[str]:
        """Return the messages whose replies have arrived and were not asked for yet, in the order of their arrival."""
        self._take_in()
        return self._arrived.keys()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages; return the replies that arrive within `timeout` virtual seconds."""
        ids = list(self.push_messages(messages))
        until = math.inf if timeout is None else self._clock.now() + timeout
        while (soonest := self._next(until)) < math.inf and self._on_their_way and self._on_their_way[0].at <= until:
            self._clock.move_to(soonest)
            self._take_in()
        return self.pull_messages(ids)

    def _trip(self, given: Message, size: int, *, since: float) -> Trip:
        """Return what a message takes until its node begins to answer, and whether the node is run at all."""
        message = wire.with_ttl(given, PATIENCE)  # real time has no say in it
        kind, node, ttl = message.metadata.message_type, message.metadata.dst_node_id, given.metadata.ttl
        number, partition = next(self._numbers), self._partition_of(node)
        key = f"trip-{number}"
        if kind in AT_ONCE:
            return Trip(message, node, key, partition, number, since, math.inf)
        if kind != MessageType.TRAIN:
            arrives = since + self._fleet.download(partition, size)
            return Trip(message, node, key, partition, number, arrives, since + ttl)
        wanted, examples = int(self._examples[partition]), self._work_of(partition, size, ttl)
        if examples < wanted:
            message = wire.with_most_examples(message, examples)
        seconds = self._fleet.until_trained(partition, examples=examples, bytes_down=size)
        is_run = (
            seconds < ttl
            and (examples > 0 or not wanted)
            and not (self._fleet.dropout[partition] and self._fleet.is_lost(partition, _at_of(message)))
        )
        return Trip(message, node, key, partition, number, since + seconds, since + ttl, is_run, occupies=True)

    def _work_of(self, partition: int, size: int, ttl: float) -> int:
        """Return at how many examples a node looks that has so many seconds for all: its report is as long as `size`.

        How long it really is, is known when it has been made: a codec makes it shorter, and time is left.
        """
        wanted, fleet = int(self._examples[partition]), self._fleet
        if self._batches is None:
            return wanted
        before = fleet.until_trained(partition, examples=0, bytes_down=size)
        spare = ttl - before - fleet.upload(partition, size + REPORT_BYTES)
        needed = wanted * float(fleet.seconds_per_example[partition])
        if needed <= spare:
            return wanted
        return self._batches.within(partition, wanted * max(spare, 0.0) / needed) if needed else 0

    # --- running ahead of time ----------------------------------------------------------------------------------------

    def _next(self, until: float) -> float:
        """Return when the next reply arrives, `until` at most; have all nodes run whose replies could be the next."""
        while True:
            while self._on_their_way and self._on_their_way[0].reply is None and self._on_their_way[0].at <= until:
                self._end(heapq.heappop(self._on_their_way))
            soonest = min(self._on_their_way[0].at, until) if self._on_their_way else until
            if not self._to_run or self._to_run[0][0] > soonest:
                return soonest
            self._run(self._first_to_run())

    def _take_in(self) -> None:
        """Take in the replies that have arrived by now."""
        now = self._clock.now()
        while self._to_run and self._to_run[0][0] <= now:
            self._run(self._first_to_run())
        while self._on_their_way and self._on_their_way[0].at <= now:
            self._end(heapq.heappop(self._on_their_way))

    def _first_to_run(self) -> list[Trip]:
        """Take out the trainings that are done first; of two of one node the first alone."""
        taken: dict[int, Trip] = {}
        while self._to_run and len(taken) < TOGETHER and self._to_run[0][2].node not in taken:
            _, _, trip = heapq.heappop(self._to_run)
            taken[trip.node] = trip
        return list(taken.values())

    def _run(self, trips: Sequence[Trip]) -> None:
        """Have nodes run, all at once, and their replies set out."""
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
            self._send_home(trip, reply, kept)

    def _kept_by(self, node: int) -> bytes:
        return b"" if self._keep is None else self._keep.kept_by(node)

    def _send_home(self, trip: Trip, reply: Message | None, kept: bytes | None) -> None:
        """Have a reply arrive after its upload, or be cut off when its message's time is over."""
        at = trip.done
        if reply is not None and reply.has_content() and trip.message.metadata.message_type not in AT_ONCE:
            at += self._fleet.upload(trip.partition, _size(reply))
        if reply is None or at > trip.until:
            at, reply = trip.until, None
        if reply is not None or kept is not None:
            heapq.heappush(self._on_their_way, Arrival(at, trip.number, trip, reply, kept))
        if self._busy.get(trip.node, ("", 0.0))[0] == trip.key:
            self._busy[trip.node] = (trip.key, at)

    def _end(self, arrival: Arrival) -> None:
        """Have a trip be over: the reply is there, and the node keeps what it has kept since."""
        trip, reply = arrival.trip, arrival.reply
        if reply is not None:
            self._arrived[trip.key] = flower.readdressed(reply, reply_to=trip.key)
        if arrival.kept is not None and self._keep is not None:
            self._keep.keep({trip.node: arrival.kept})

    def _release(self, nodes: Sequence[int]) -> None:
        """Have nodes stop what they are at: nobody waits for them."""
        keys = {self._busy.pop(node)[0] for node in nodes if node in self._busy}
        if keys:
            self._to_run = [waiting for waiting in self._to_run if waiting[2].key not in keys]
            self._on_their_way = [arrival for arrival in self._on_their_way if arrival.trip.key not in keys]
            heapq.heapify(self._to_run)
            heapq.heapify(self._on_their_way)

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


def _at_of(message: Message) -> At:
    return wire.read_instruction(message.content).at


def _size(reply: Message) -> int:
    """Return the bytes of a reply without what its node has measured, which takes no time either."""
    others = {key: record for key, record in reply.content.items() if not isinstance(record, MetricRecord)}
    return wire.bytes_of(others)


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
    passes = config.training.local_epochs if model_spec(config.model.name).trains_in_steps else 1
    examples = held * passes
    partial, size = config.training.partial, config.training.batch_size
    _check(fleet, np.minimum(held, size) if partial else examples, config)
    batches = Batches(held, size) if partial else None
    return VirtualTimeGrid(grid, fleet, examples, batches)


def _held(config: RunConfig) -> NDArray[np.int64]:
    """Return how many examples each node trains on."""
    table = partition_table(dataset_of(config), config.data, num_partitions=config.clients, seed=config.seed)
    return table.sizes()


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
