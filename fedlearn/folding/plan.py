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
from typing import Any, Protocol, Self

from flwr.app import Message

from fedlearn.cohort import Member, NodeReport
from fedlearn.registry import load_reference
from fedlearn.state import Array, Layout, Update, UpdateKind


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
