"""Adding up reports where they are made.

A round's sum runs in a fixed tree: the cohort, sorted by partition id, is cut into blocks of `BLOCK` positions; each
block is added up in order, and the blocks are added in order. The tree depends on nothing but the cohort, so the sum
is the same to the bit whether one process does all of it or each worker its own blocks, in whatever order they end.

An engine that runs nodes in its own workers checks and adds up a block where it was trained, and sends home only the
block's sum and small reports. Elsewhere the server does the same with every reply that comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from flwr.app import Message

from fedlearn.registry import load_reference
from fedlearn.rounds import NodeReport
from fedlearn.state import Array, Layout, Update, UpdateKind

BLOCK = 2  # positions; small, so that the last block to end keeps few workers waiting


class Accumulator(Protocol):
    """What a strategy makes of updates while they come in."""

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the accumulator of no update."""
        ...

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Take in updates with their weights, in this order."""
        ...

    def clear(self) -> None:
        """Forget all updates, but not the memory that they took."""
        ...

    def merge(self, later: Self) -> None:
        """Take in all that another accumulator holds; its nodes come after ours."""
        ...

    def to_arrays(self) -> dict[str, Array]:
        """Return the content as named arrays, to be sent between processes of one engine."""
        ...

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the accumulator that `to_arrays` described.

        It may keep the arrays, but changes none, and is merged or dropped before their memory is used again.
        """
        ...


class Member(NamedTuple):
    """One place in a cohort."""

    node_id: int
    partition_id: int
    position: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of one reply: the report, and the update if it may be added."""

    report: NodeReport
    update: Update | None = None
    weight: float = 0.0


class Gate(Protocol):
    """Decides which replies may touch the model."""

    def check(self, reply: Message, member: Member) -> Verdict:
        """Return the verdict on what came from `member`."""
        ...


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """How replies of one attempt are checked and added, in any process.

    Parameters
    ----------
    gate
        ``"module:Class"`` of the Gate; it is called with this plan.
    accumulator
        ``"module:Class"`` of the strategy's Accumulator.
    uniform
        Every node weighs one; else its number of examples.
    settings
        The run's flat settings.
    kind
        What an update of the run's model means.
    """

    gate: str
    accumulator: str
    uniform: bool
    round_number: int
    attempt: int
    layout: Layout
    settings: Mapping[str, Any]
    kind: UpdateKind = UpdateKind.DENSE

    def build_gate(self) -> Gate:
        """Return the gate of this attempt."""
        gate: Gate = load_reference(self.gate)(self)
        return gate

    def empty(self) -> Accumulator:
        """Return the accumulator of no update."""
        empty: Accumulator = load_reference(self.accumulator).empty(self.layout)
        return empty

    def filled(self, arrays: Mapping[str, Array]) -> Accumulator:
        """Return the accumulator that arrays describe."""
        filled: Accumulator = load_reference(self.accumulator).from_arrays(self.layout, arrays)
        return filled

    def fold(self, verdicts: Iterable[Verdict], total: Accumulator | None = None) -> Accumulator:
        """Return the sum of one block, whose verdicts come in the order of positions.

        A worker gives the accumulator of the block before, whose memory is then used again.
        """
        total = total or self.empty()
        total.clear()
        total.add([(verdict.weight, verdict.update) for verdict in verdicts if verdict.update is not None])
        return total


def blocks_of(cohort_size: int) -> list[range]:
    """Return the positions of each block.

    >>> blocks_of(5)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(start + BLOCK, cohort_size)) for start in range(0, cohort_size, BLOCK)]


class FoldingTree:
    """Adds up a cohort in the fixed order, whatever the order in which its parts come in.

    A part is held until all before it have come, then it is added and forgotten.
    """

    def __init__(self, plan: FoldPlan, cohort_size: int) -> None:
        self._plan = plan
        self._blocks = blocks_of(cohort_size)
        self._verdicts: dict[int, Verdict | None] = {}  # by position, of blocks that are not complete
        self._sums: dict[int, Accumulator | None] = {}  # by block, waiting for their turn
        self._next = 0
        self.total = plan.empty()

    def place(self, position: int, verdict: Verdict | None) -> None:
        """Take in what came of one position; None where nothing did."""
        self._verdicts[position] = verdict
        block = position // BLOCK
        if all(other in self._verdicts for other in self._blocks[block]):
            verdicts = [self._verdicts.pop(other) for other in self._blocks[block]]
            self.place_block(block, self._plan.fold(v for v in verdicts if v is not None))

    def is_next(self, block: int) -> bool:
        """Return whether a block would be added at once, not held."""
        return block == self._next

    def place_block(self, block: int, total: Accumulator | None) -> None:
        """Take in the sum of one block; None where nothing came of it."""
        self._sums[block] = total
        while self._next in self._sums:
            ready = self._sums.pop(self._next)
            if ready is not None:
                self.total.merge(ready)
            self._next += 1

    def close(self) -> Accumulator:
        """Return the total; what has not come by now counts as nothing."""
        for block in range(self._next, len(self._blocks)):
            if block in self._sums:
                continue
            verdicts = [self._verdicts.pop(position, None) for position in self._blocks[block]]
            self.place_block(block, self._plan.fold(v for v in verdicts if v is not None))
        return self.total


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What a worker sends home of one block: reports of its nodes, and their sum as arrays."""

    block: int
    reports: Sequence[NodeReport]
    arrays: Mapping[str, Array]
