"""How the reports of one attempt are checked and added up, in any process.

An engine that runs nodes in its own workers checks and adds up a block of nodes in the worker that trained them, and
sends only the block's sum and small reports to the server's process. On other engines the server does the same with
every reply that comes in.

A report is made of *parcels*, named groups of arrays: the state's, and others that a strategy asks for. Each parcel is
added up by an accumulator of its own. Before that it may go through *fold steps*, which see one parcel at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from flwr.app import Message, RecordDict

from fedlearn.core.cohort import At, Member, NodeReport, Typical
from fedlearn.core.metric import Metric
from fedlearn.core.state import Array, Layout, Update, UpdateKind

STATE = "state"
"""The name of the parcel that every report has: the node's update of the global model."""

BLOCK = 2
"""The smallest number of positions that are added up together; few, so that few workers wait for the last block."""


class Accumulator(Protocol):
    """The sum, or collection, that a strategy builds from updates as they arrive."""

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Return the accumulator of no update."""
        ...

    def add(self, parts: Sequence[tuple[float, Update]]) -> None:
        """Add weighted updates in the order given; the bytes are those of updates that are added apart and merged."""
        ...

    def clear(self) -> None:
        """Forget all updates, and keep the memory for the next ones."""
        ...

    def merge(self, later: Self) -> None:
        """Add the content of another accumulator to this one; its nodes follow the nodes of this one."""
        ...

    def to_arrays(self) -> dict[str, Array]:
        """Return the content as named arrays, to be sent between processes of one engine."""
        ...

    @classmethod
    def from_arrays(cls, layout: Layout, arrays: Mapping[str, Array]) -> Self:
        """Return the accumulator that `to_arrays` described.

        The accumulator may keep the arrays, but changes none; it is merged or dropped before their memory is reused.
        """
        ...


class FoldStep(Protocol):
    """Changes one node's parcel before the parcel is added up, in the process that adds it up.

    A fold step is made once in each process, from its options, and has no memory from node to node.

    Attributes
    ----------
    needs_change
        Whether the step makes sense for the change of the weights only.

    Examples
    --------
    >>> class Halved:
    ...     needs_change = False
    ...     def __call__(self, weight, update):
    ...         return weight / 2, update
    >>> Halved()(2.0, {})
    (1.0, {})
    """

    needs_change: bool

    def __call__(self, weight: float, update: Update) -> tuple[float, Update]:
        """Return the weight and the update to be added instead; the given arrays are not changed."""
        ...


class StepSpec(NamedTuple):
    """A fold step by name and options, in a form that can be sent to every worker.

    Parameters
    ----------
    reference
        ``"module:Class"``, or a name in `fedlearn.aggregation.steps.FOLD_STEPS`.
    options
        Keyword arguments of the class.

    Examples
    --------
    >>> StepSpec("clip", {"norm": 1.0}).reference
    'clip'
    """

    reference: str
    options: Mapping[str, Any] = {}  # never changed


@dataclass(frozen=True, slots=True)
class ParcelPlan:
    """The layout that one named parcel of a report must have, and how parcels are added up.

    Parameters
    ----------
    layout
        Names, shapes and dtypes of the parcel's arrays.
    accumulator
        ``"module:Class"`` of an Accumulator.
    uniform
        Whether every node has weight one; else the weight is its number of examples.
    codec
        The chain by which the parcel travels, as in ``compression.codec``. The state travels by that of the settings.
        ``"like-state"`` sends those entries of the parcel that are sent of the state (`fedlearn.compression.alike`).
    steps
        The fold steps that each node's parcel goes through before it is added, in this order.

    Examples
    --------
    >>> from fedlearn.core.state import ArraySpec
    >>> ParcelPlan({"control": ArraySpec((2,), "float32")}, "strategies.masked_mean:MaskedSum", uniform=True).codec
    'identity'
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
        Name -> update, for all planned parcels; empty where the reply was not accepted.
    """

    report: NodeReport
    parcels: Mapping[str, Update] = field(default_factory=dict)


class Gate(Protocol):
    """Decides which replies may change the model."""

    def check(self, reply: Message, member: Member, sent: RecordDict) -> Verdict:
        """Return the verdict on the reply of `member`, to whom the content `sent` went out."""
        ...


class MaskedPlan(NamedTuple):
    """How the masked reports of a secure sum are read.

    Parameters
    ----------
    bits
        Of the modulus.
    groups
        The group of each position, where a cohort has groups with sums of their own; empty where there is one sum.
    """

    bits: int
    groups: Sequence[int] = ()


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
        The kind of an update of the run's model.
    metrics
        Name -> metric with its range: the nodes' metrics that the server reads; others are left out of reports.
    reads_all_metrics
        Whether the server reads the others, too.
    cohort
        How many nodes were sent an instruction.
    typical
        The medians with which reports are compared; None before there are any.
    block
        How many positions are added up together, by the worker that trains them.
    masked
        How masked reports are read; None where reports are plain.
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
    masked: MaskedPlan | None = None

    @property
    def layout(self) -> Layout:
        """The layout of the state."""
        return self.parcels[STATE].layout


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The result of one block, from its worker: the reports of its nodes, and the sum of their updates as arrays."""

    reports: Sequence[NodeReport]
    arrays: Mapping[str, Array]
