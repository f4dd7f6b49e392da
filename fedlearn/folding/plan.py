"""How the reports of one attempt are checked and added up, in any process.

An engine that runs nodes in its own workers checks and adds up a block where it was trained, and sends home only the
block's sum and small reports. Elsewhere the server does the same with every reply that comes in.

A report is made of *parcels*, named groups of arrays: the state's, and whatever else a strategy has asked for. Each is
added up by an accumulator of its own. Before that it may go through *fold steps*, which see one parcel at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from flwr.app import Message, RecordDict

from fedlearn.words.cohort import At, Member, NodeReport, Typical
from fedlearn.words.metric import Metric
from fedlearn.words.state import Array, Layout, Update, UpdateKind

STATE = "state"
"""The name of the parcel that every report has: what the node has made of the global model."""

BLOCK = 2
"""Positions that are added up together at least; few, so that the last block to end keeps few workers waiting."""


class Accumulator(Protocol):
    """The sum, or collection, that a strategy builds from updates as they arrive."""

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


class FoldStep(Protocol):
    """Changes one node's parcel before it is added up, where it is added up.

    It is made once in each process, from its options, and keeps nothing from node to node.

    Attributes
    ----------
    needs_change
        Whether it makes sense for the change of the weights only.
    """

    needs_change: bool

    def __call__(self, weight: float, update: Update) -> tuple[float, Update]:
        """Return weight and update to be added instead; the arrays that came stay as they are."""
        ...


class StepSpec(NamedTuple):
    """Which fold step, in a form that goes to every worker.

    Parameters
    ----------
    reference
        ``"module:Class"``, or a name in `fedlearn.folding.steps.FOLD_STEPS`.
    options
        Keyword arguments of the class.
    """

    reference: str
    options: Mapping[str, Any] = {}  # never changed


@dataclass(frozen=True, slots=True)
class ParcelPlan:
    """The layout that one named parcel of a report must have, and how parcels are added up.

    Parameters
    ----------
    layout
        Names, shapes and dtypes of its arrays.
    accumulator
        ``"module:Class"`` of an Accumulator.
    uniform
        Every node weighs one; else its number of examples.
    codec
        The chain by which it travels, as in ``compression.codec``. The state's is that of the settings.
    steps
        What each node's parcel goes through before it is added, in this order.
    """

    layout: Layout
    accumulator: str
    uniform: bool = False
    codec: str = "identity"
    steps: tuple[StepSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's verdict on one reply: the report, and the parcels that may be added.

    Parameters
    ----------
    parcels
        Name -> update, of all planned parcels; empty where the reply was not accepted.
    """

    report: NodeReport
    parcels: Mapping[str, Update] = field(default_factory=dict)


class Gate(Protocol):
    """Decides which replies may touch the model."""

    def check(self, reply: Message, member: Member, sent: RecordDict) -> Verdict:
        """Return the verdict on what came from `member`, who was sent an instruction of this content."""
        ...


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """How replies of one attempt are checked and added; small enough to go to every worker.

    Parameters
    ----------
    gate
        ``"module:Class"`` of the Gate; it is called with this plan.
    parcels
        Name -> plan of each parcel of a report; the first is `STATE`.
    settings
        The run's flat settings.
    kind
        What an update of the run's model means.
    metrics
        Name -> what may be said of it: the nodes' metrics that somebody reads; others are left behind.
    reads_all_metrics
        Somebody reads the others, too.
    cohort
        How many nodes were sent an instruction.
    typical
        What reports are compared with; None where nothing is known yet.
    block
        How many positions are added up together, where they are trained.
    """

    gate: str
    at: At
    parcels: Mapping[str, ParcelPlan]
    settings: Mapping[str, Any]
    kind: UpdateKind = UpdateKind.DENSE
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    reads_all_metrics: bool = False
    cohort: int = 0
    typical: Typical | None = None
    block: int = BLOCK

    @property
    def layout(self) -> Layout:
        """The layout of the state."""
        return self.parcels[STATE].layout


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The result of one block, from its worker: reports of its nodes, and their sum as arrays."""

    block: int
    reports: Sequence[NodeReport]
    arrays: Mapping[str, Array]
