"""Which nodes can be reached: those whose devices are there and are not training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedlearn.aggregation.offers import NodeIds
from fedlearn.core.clock import Clock
from fedlearn.devices.fleet import SLOT, Fleet
from fedlearn.engine.virtual_time.trips import Trip

FREE = ("", 0.0)  # in place of a training and its end


class Reach:
    """The nodes that can be reached at the present time of a clock.

    Parameters
    ----------
    fleet
        The nodes' devices, by partition.
    nodes
        The ids of all nodes, in the order of their partitions.
    """

    def __init__(self, fleet: Fleet, nodes: Sequence[int], clock: Clock) -> None:
        self._fleet = fleet
        self._nodes = nodes
        self._clock = clock
        self._busy: dict[int, tuple[str, float]] = {}  # node -> (key of its training, when the training is over)
        self._mask: tuple[float, NDArray[np.bool_]] = (
            -1.0,
            np.zeros(0, bool),
        )  # (an hour, which devices are there in that hour)

    def nodes(self) -> NodeIds:
        """Return the ids of the nodes that can be reached now, in the order of their partitions."""
        now = self._clock.now()
        self._busy = {node: task for node, task in self._busy.items() if task[1] > now}
        if self._fleet.is_always_reachable and not self._busy:
            return self._nodes
        mask = self._in_this_hour().copy()
        mask[[self._nodes.index(node) for node in self._busy]] = False
        places = np.flatnonzero(mask)
        return places + self._nodes[0] if isinstance(self._nodes, range) else np.asarray(self._nodes)[places]

    def includes(self, node: int) -> bool:
        """Return whether a node can be reached now."""
        _, over = self._busy.get(node, FREE)
        return over <= self._clock.now() and bool(self._in_this_hour()[self._nodes.index(node)])

    def _in_this_hour(self) -> NDArray[np.bool_]:
        """Return which devices are there now; drawn once for each hour."""
        slot = self._clock.now() // SLOT
        if self._mask[0] != slot:
            self._mask = slot, self._fleet.reachable(self._clock.now())
        return self._mask[1]

    def occupy(self, trip: Trip) -> None:
        """Mark a node as busy until its trip's time is over, or until `end` sets another time."""
        self._busy[trip.node] = (trip.key, trip.until)

    def end(self, trip: Trip, at: float) -> None:
        """Set the time at which a node is free again, if it is still at this training."""
        if self._busy.get(trip.node, FREE)[0] == trip.key:
            self._busy[trip.node] = (trip.key, at)

    def release(self, nodes: Iterable[int]) -> set[str]:
        """Mark nodes as free; return the keys of the trainings that they were at."""
        return {self._busy.pop(node)[0] for node in nodes if node in self._busy}
