"""What a grid can do beyond passing messages on.

A grid declares it by an attribute ``offers``. Flower's own grids have none: they pass messages on, in real time, and
the server does the rest itself. `server/exchange.py` is the only reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedlearn.folding.plan import BlockResult, FoldPlan
from fedlearn.words.clock import Clock, WallClock
from fedlearn.words.cohort import Member

NodeIds = Sequence[int] | NDArray[np.int64]
"""Of a million nodes an array is kept in an eighth of the memory, and looked through in a hundredth of the time."""

Compute = Callable[..., list[Any]]  # of a reference, a state, arguments, and ``seconds=`` in which one call ends
"""Of ``"module:function"``, state, arguments: return ``function(settings, state, *each)`` for each of the arguments."""


class Folding(Protocol):
    """A grid that checks and adds up reports where they are made."""

    def start_blocks(
        self, messages: Sequence[Message], members: Sequence[Member], plan: FoldPlan, *, seconds: float
    ) -> None:
        """Begin to run the cohort's instructions, block by block, for at most `seconds`."""
        ...

    def pull_blocks(self, *, seconds: float) -> list[BlockResult]:
        """Return the blocks that have ended; wait for one at most `seconds`. Their arrays hold until the next call."""
        ...

    def stop_blocks(self) -> list[BlockResult]:
        """Stop all running blocks; return the finished part of blocks in which a node hangs."""
        ...


class Keeping(Protocol):
    """A grid that keeps the nodes' memories for them, as simulations do."""

    def kept_by(self, node_id: int) -> bytes:
        """Return the memory of a node now; empty if it has none."""
        ...

    def keep(self, kept: Mapping[int, bytes]) -> None:
        """Have nodes keep something else from now on."""
        ...

    def node_states(self) -> bytes:
        """Return the memories of all nodes between rounds."""
        ...

    def changed_node_states(self, *, settled: bool = True) -> bytes:
        """Return the memories, also emptied ones, of the nodes whose memory has changed since the last call.

        `settled`: when all nodes have read what was sent to them; else at once.
        """
        ...

    def restore_node_states(self, data: bytes) -> None:
        """Put it back, with what has changed since appended to it, after a resume."""
        ...


class Timed(Protocol):
    """A grid on virtual time: its nodes have devices, and replies come when these have done their work."""

    def wait(self, seconds: float) -> None:
        """Let time pass until the next reply comes, at most so many seconds."""
        ...

    def arrived(self) -> Collection[str]:
        """Return the messages whose replies have come and were not asked for yet."""
        ...

    def reachable(self) -> NodeIds:
        """Return the ids of the nodes that can be written to now, in the order of their partitions."""
        ...

    def is_reachable(self, node_id: int) -> bool:
        """Return whether one node is among them."""
        ...

    def push_again(self, messages: Sequence[Message], begun: Sequence[float]) -> Sequence[str]:
        """Have messages under way that were sent before the run was stopped, each at its time; return their ids."""
        ...

    def group_of(self, node_id: int) -> str:
        """Return the name of a node's kind of device."""
        ...

    @property
    def groups(self) -> Sequence[str]:
        """The names of all kinds."""
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
        The time by which its replies come.
    partitions
        Returns the ids of all nodes, in the order of their partitions: it knows what its virtual nodes hold.
    compute
        Calls functions on workers.
    fold
        Checks and adds up reports on workers.
    keep
        Keeps what nodes keep between rounds.
    timed
        Its clock is virtual; None in real time.
    stacks
        Whether it trains several nodes together (``training.stack``).
    """

    clock: Clock = field(default_factory=WallClock)
    partitions: Callable[[], Sequence[int]] | None = None
    compute: Compute | None = None
    fold: Folding | None = None
    keep: Keeping | None = None
    timed: Timed | None = None
    stacks: bool = False


def offers_of(grid: Grid) -> Offers:
    """Return the offers of a grid; for one of Flower's, no offers and real time."""
    declared: Offers | None = getattr(grid, "offers", None)
    return Offers() if declared is None else declared
