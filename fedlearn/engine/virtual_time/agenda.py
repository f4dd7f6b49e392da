"""What is to come on virtual time: trainings that are still to be run, and trips that will end."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection

from fedlearn.engine.virtual_time.trips import Arrival, Trip

RUN_AHEAD = 64  # trainings at most: enough for many workers, and no more replies than that are kept waiting


class Agenda:
    """Trainings by the time at which they are done, arrivals by the time at which they come."""

    def __init__(self) -> None:
        self._trainings: list[tuple[float, int, Trip]] = []  # a heap
        self._arrivals: list[Arrival] = []  # a heap

    def add_training(self, trip: Trip) -> None:
        """Have a training wait until it is run."""
        heapq.heappush(self._trainings, (trip.done, trip.number, trip))

    def take_trainings(self, by: float) -> list[Trip]:
        """Take out trainings, those that are done first, if one is done by a time; of two of one node the first."""
        if not self._trainings or self._trainings[0][0] > by:
            return []
        taken: dict[int, Trip] = {}
        while self._trainings and len(taken) < RUN_AHEAD and self._trainings[0][2].node not in taken:
            _, _, trip = heapq.heappop(self._trainings)
            taken[trip.node] = trip
        return list(taken.values())

    def add_arrival(self, arrival: Arrival) -> None:
        """Have an arrival come at its time."""
        heapq.heappush(self._arrivals, arrival)

    @property
    def next_arrival(self) -> float:
        """When the next arrival comes; infinity where none is to come."""
        return self._arrivals[0].at if self._arrivals else math.inf

    def take_arrival(self, by: float) -> Arrival | None:
        """Take out the next arrival, if it comes by a time."""
        return heapq.heappop(self._arrivals) if self._arrivals and self._arrivals[0].at <= by else None

    def take_lost(self, by: float) -> Arrival | None:
        """Take out the next arrival, if it comes by a time and brings no reply."""
        return self.take_arrival(by) if self._arrivals and self._arrivals[0].reply is None else None

    def forget(self, keys: Collection[str]) -> None:
        """Forget the trips of these messages."""
        self._trainings = [waiting for waiting in self._trainings if waiting[2].key not in keys]
        self._arrivals = [arrival for arrival in self._arrivals if arrival.trip.key not in keys]
        heapq.heapify(self._trainings)
        heapq.heapify(self._arrivals)
