"""What an engine is, and what a grid with workers of its own can do beyond Flower's Grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from flwr.app import Message

from fedlearn.config import RunConfig
from fedlearn.folding import BlockResult, FoldPlan, Member
from fedlearn.state import State


class Engine(Protocol):
    """One way to execute a run."""

    def __call__(self, config: RunConfig) -> None:
        """Run ``server.app:app`` and ``client.app:app`` to the end; results lie in the run folder.

        Raises
        ------
        FedlearnError
            If the run failed, or was never started.
        """
        ...


@runtime_checkable
class WorkerGrid(Protocol):
    """A grid that checks and adds up reports where they are made, and computes for the server."""

    def start_blocks(
        self, messages: Sequence[Message], members: Sequence[Member], plan: FoldPlan, *, seconds: float
    ) -> None:
        """Begin to run the cohort's instructions, block by block, for at most `seconds`."""
        ...

    def pull_blocks(self, *, seconds: float) -> list[BlockResult]:
        """Return the blocks that have ended; wait for one at most `seconds`. Their arrays hold until the next call."""
        ...

    def stop_blocks(self) -> None:
        """Give up whatever is still running."""
        ...

    def call(self, reference: str, state: State, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return ``module:function(settings, state, *arguments)`` for each tuple of arguments, in their order."""
        ...


@runtime_checkable
class VirtualGrid(Protocol):
    """A grid of virtual nodes: it knows what they hold."""

    def nodes_by_partition(self) -> Sequence[int]:
        """Return the ids of all nodes, in the order of their partitions."""
        ...


@runtime_checkable
class NodeKeeper(Protocol):
    """A grid that keeps the nodes' ``Context.state`` for them, as simulations do."""

    def node_states(self) -> bytes:
        """Return what all nodes keep between rounds."""
        ...

    def restore_node_states(self, data: bytes) -> None:
        """Put it back, after a resume."""
        ...
