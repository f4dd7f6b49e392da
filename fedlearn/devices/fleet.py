"""The devices of a run: a row of numbers for each node, and the times and chances that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for, seed_for

DAY = 86400.0  # seconds
SLOT = 3600.0  # seconds that a device stays reachable, or not, at least
PEAK = 2 * 3600.0  # seconds after midnight; most devices idle and charge at night: Bonawitz et al. 2019, section 9
SEEDS = 2.0**63  # `seed_for` returns numbers below

Floats = NDArray[np.float64]
RANGES = {
    "seconds_per_example": (0.0, math.inf),
    "down": (0.0, math.inf),
    "up": (0.0, math.inf),
    "startup": (0.0, math.inf),
    "dropout": (0.0, 1.0),
    "available": (0.0, 1.0),
    "swing": (0.0, 1.0),
}
ABOVE_ZERO = ("down", "up")


@dataclass(frozen=True, eq=False)
class Fleet:
    """The devices of all nodes, arrays of shape (nodes,). Each method is a function of seed, node and time.

    Parameters
    ----------
    seed
        The run's seed.
    seconds_per_example
        Seconds of training for an example, each time that the example is looked at; from 0.
    down, up
        Bytes a second, above 0.
    startup
        Seconds before each training, from 0.
    dropout
        Probability that a training is lost and no report comes, 0 to 1.
    available
        Share of the time in which the node can be reached, mean over a day, 0 to 1.
    swing
        How far that share goes up at night and down at noon, 0 to 1: at time t of the day the share is
        available * (1 + swing * cos(2 pi (t - 2 h) / 24 h)), and 1 at most.
    group
        Index in `groups` of each node's kind of device.
    groups
        Names of the kinds of devices.
    begins_at
        The hour of the day at which a run begins, 0 to 24.
    """

    seed: int
    seconds_per_example: Floats
    down: Floats
    up: Floats
    startup: Floats
    dropout: Floats
    available: Floats
    swing: Floats
    group: NDArray[np.integer[Any]]
    groups: tuple[str, ...] = ("all",)
    begins_at: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for numbers that no device can have."""
        for name, (low, high) in RANGES.items():
            column = getattr(self, name)
            if column.shape != self.group.shape:
                raise ValueError(f"{name} has shape {column.shape}, there are {len(self.group)} clients")
            wrong = ~((column >= low) & (column <= high) & (column < math.inf))
            if name in ABOVE_ZERO:
                wrong |= column == 0
            if wrong.any():
                place = int(np.argmax(wrong))
                span = "above 0" if name in ABOVE_ZERO else f"from {low:g}" if high == math.inf else "from 0 to 1"
                raise ValueError(f"{name} of device {place} is {column[place]:g}: it must be finite, {span}")

    @classmethod
    def of(
        cls,
        clients: int,
        seed: int,
        *,
        seconds_per_example: ArrayLike = 0.0,
        down: ArrayLike = 1e9,
        up: ArrayLike = 1e9,
        startup: ArrayLike = 0.0,
        dropout: ArrayLike = 0.0,
        available: ArrayLike = 1.0,
        swing: ArrayLike = 0.0,
        group: ArrayLike = 0,
        groups: Sequence[str] = ("all",),
        begins_at: float = 0.0,
    ) -> Self:
        """Return a fleet of `clients` nodes; one number stands for all of them.

        >>> Fleet.of(3, 1, startup=2.0).startup.tolist()
        [2.0, 2.0, 2.0]
        """
        given = (seconds_per_example, down, up, startup, dropout, available, swing)
        columns = [np.broadcast_to(np.asarray(each, np.float64), (clients,)) for each in given]
        kinds = np.broadcast_to(np.asarray(group, np.min_scalar_type(len(groups))), (clients,))
        numbers = dict(zip(RANGES, columns, strict=True))
        return cls(seed, **numbers, group=kinds, groups=tuple(groups), begins_at=begins_at)

    def __len__(self) -> int:
        """Return how many nodes there are."""
        return len(self.group)

    def until_trained(self, node: int, *, examples: float, bytes_down: int) -> float:
        """Return the seconds from a message of `bytes_down` bytes until its node has trained on `examples` examples."""
        return float(self.startup[node] + self.download(node, bytes_down) + examples * self.seconds_per_example[node])

    def upload(self, node: int, size: int) -> float:
        """Return the seconds that the upload of a reply of `size` bytes takes."""
        return float(size / self.up[node])

    def download(self, node: int, size: int) -> float:
        """Return the seconds that the download of a message of `size` bytes takes."""
        return float(size / self.down[node])

    def is_lost(self, node: int, at: At) -> bool:
        """Return whether a training is lost: drawn anew for each round and attempt, and independent of the time."""
        if not self.dropout[node]:
            return False
        drawn = seed_for(self.seed, purpose="devices/lost", node=node, **at._asdict()) / SEEDS
        return bool(drawn < self.dropout[node])

    def reachable(self, now: float) -> NDArray[np.bool_]:
        """Return which nodes can be reached at a time, in seconds since the run began; drawn anew for each hour."""
        if self.is_always_reachable:
            return np.ones(len(self), bool)
        slot = int(now // SLOT)
        time_of_day = 2 * math.pi * (self.begins_at * 3600 + (slot + 0.5) * SLOT - PEAK) / DAY
        share = self.available * (1 + self.swing * math.cos(time_of_day))
        # Node i gets the i-th number of the stream, however many nodes there are.
        drawn: NDArray[np.bool_] = rng_for(self.seed, purpose=f"devices/reachable/{slot}").random(len(self)) < share
        return drawn

    @cached_property
    def is_always_reachable(self) -> bool:
        """Whether all nodes can be reached at any time."""
        return bool((self.available == 1).all() and (self.swing == 0).all())

    def group_of(self, node: int) -> str:
        """Return the name of a node's kind of device."""
        return self.groups[int(self.group[node])]

    def described(self) -> dict[str, Any]:
        """Return how many nodes each kind of device has, and the medians of their numbers, for the results."""
        found = {}
        for place, name in enumerate(self.groups):
            members = self.group == place
            if members.any():
                medians = {column: float(f"{np.median(getattr(self, column)[members]):.6g}") for column in RANGES}
                found[name] = {"nodes": int(members.sum()), **medians}
        return found
