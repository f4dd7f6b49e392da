"""The abilities of a grid beyond passing messages on.

A grid declares them by an attribute ``offers``. Flower's own grids have no such attribute: they pass messages on, in
real time, and the server does the rest itself. `server/exchange/exchange.py` is the only reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedlearn.aggregation.fold_plan import BlockResult, FoldPlan
from fedlearn.core.clock import Clock, WallClock
from fedlearn.core.cohort import Member

NodeIds = Sequence[int] | NDArray[np.int64]
"""Ids of nodes; a million of them take an eighth of the memory as an array, and a hundredth of the time to search."""

Compute = Callable[..., list[Any]]
"""Called with ``"module:function"``, a state, a list of arguments, and ``seconds=`` in which one call must end.

Returns ``function(settings, state, *each)`` for each of the arguments."""


class Folding(Protocol):
    """A grid that checks and adds up reports in the workers that make them."""

    def start_blocks(
        self, messages: Sequence[Message], members: Sequence[Member], plan: FoldPlan, *, seconds: float
    ) -> None:
        """Begin to run the cohort's instructions, block by block, for at most `seconds`."""
        ...

    def pull_blocks(self, *, seconds: float) -> list[BlockResult]:
        """Return the blocks that have ended; wait for one at most `seconds`. Arrays are valid until the next call."""
        ...

    def stop_blocks(self) -> list[BlockResult]:
        """Stop all running blocks; return the finished part of blocks in which a node hangs."""
        ...


class Keeping(Protocol):
    """A grid that keeps the nodes' memories for them, as simulations do."""

    def kept_by(self, node_id: int) -> bytes:
        """Return a node's memory; empty if the node has none."""
        ...

    def keep(self, kept: Mapping[int, bytes]) -> None:
        """Replace the memories of nodes: node id -> memory."""
        ...

    def node_states(self) -> bytes:
        """Return the memories of all nodes between rounds."""
        ...

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        """Return the memories, also emptied ones, of the nodes whose memory has changed since the last call.

        If `settled`, the grid waits until all nodes have read their messages; else it returns at once.
        """
        ...

    def restore_node_states(self, data: bytes) -> None:
        """Restore the memories of all nodes, from `node_states` followed by later changes, after a resume."""
        ...


class Timed(Protocol):
    """A grid on virtual time: its nodes have devices, and a reply arrives when the device has done its work."""

    def wait(self, seconds: float) -> None:
        """Let time pass until the next reply arrives, at most `seconds`."""
        ...

    def arrived(self) -> Collection[str]:
        """Return the ids of messages whose replies have arrived and were not pulled yet."""
        ...

    def reachable(self) -> NodeIds:
        """Return the ids of the nodes that can be reached now, in the order of their partitions."""
        ...

    def is_reachable(self, node_id: int) -> bool:
        """Return whether a node can be reached now."""
        ...

    def push_again(self, messages: Sequence[Message], begun: Sequence[float]) -> Sequence[str]:
        """Send messages again that were under way when the run was stopped, each at its old time; return their ids."""
        ...

    def group_of(self, node_id: int) -> str:
        """Return the name of a node's kind of device."""
        ...

    @property
    def groups(self) -> Sequence[str]:
        """The names of all kinds of devices."""
        ...

    def described(self) -> Mapping[str, Any]:
        """Return the description of the devices that every result contains."""
        ...


@dataclass(frozen=True, slots=True)
class Offers:
    """The abilities of one grid; None for each that it lacks.

    Parameters
    ----------
    clock
        The time by which replies arrive.
    partitions
        Returns the ids of all nodes, in the order of their partitions, for virtual nodes.
    compute
        Calls functions in workers.
    fold
        Checks and adds up reports in workers.
    keep
        Keeps the nodes' memories between rounds.
    timed
        The grid on virtual time; None in real time.
    stacks
        Whether the grid trains several nodes together (``training.stack``).
    """

    clock: Clock = field(default_factory=WallClock)
    partitions: Callable[[], Sequence[int]] | None = None
    compute: Compute | None = None
    fold: Folding | None = None
    keep: Keeping | None = None
    timed: Timed | None = None
    stacks: bool = False


def offers_of(grid: Grid) -> Offers:
    """Return the offers of a grid; for a grid of Flower's, no offers and real time."""
    declared: Offers | None = getattr(grid, "offers", None)
    return Offers() if declared is None else declared
