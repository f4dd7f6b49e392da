"""What the phases of one attempt at a round hand to one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from fedlearn.aggregation.fold import Sums, merge
from fedlearn.core.cohort import Fate, Member, NodeReport, raised_alike
from fedlearn.core.state import State


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of one selection window.

    Parameters
    ----------
    ready
        How many nodes said in time that they are ready.
    cohort
        The chosen nodes, sorted by partition id; empty where too few were ready, or the selector drew none.
    why_not
        Why the cohort is empty.
    raised_alike
        Whether all nodes that were asked have raised, and all the same.
    keys
        Node id -> the keys for a secure sum that the node has sent with its answer; empty without one.
    anchors
        Node id -> the name of the anchor that the node says it keeps.
    """

    ready: int
    cohort: tuple[Member, ...]
    why_not: str = ""
    raised_alike: bool = False
    keys: Mapping[int, bytes] = field(default_factory=dict)
    anchors: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The messages of an attempt and the members they go to, in the order of positions; their size in bytes.

    Parameters
    ----------
    anchor
        The decoded anchor to which they bring the state as a correction; None where they bring it itself.
    """

    messages: Sequence[Message]
    members: Sequence[Member]
    bytes_down: int
    anchor: State | None = None


@dataclass(frozen=True, slots=True)
class Reporting:
    """The reports of a cohort, one for each member, in the order of positions, and the sums of their parcels.

    Parameters
    ----------
    seconds
        How long each took from its instruction on, None of those that were late.
    means
        The nodes' metrics where the server knows none of a single node: metric -> mean, of a secure sum.
    skipped
        Why the round may neither be committed nor tried again: a secure sum was asked for, and there is none.
    groups
        The partition ids of the nodes of each secure sum; empty without one.
    is_final
        Whether no other attempt may be made at the round: where it cannot be committed, it is skipped.
    """

    members: Sequence[Member]
    reports: Sequence[NodeReport]
    sums: Sums
    seconds: Sequence[float | None] = ()
    means: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""
    groups: Sequence[tuple[int, ...]] = ()
    is_final: bool = False

    def count(self, fate: Fate) -> int:
        """Return how many members met this fate."""
        return Counter(report.fate for report in self.reports)[fate]

    @property
    def answered(self) -> frozenset[int]:
        """The ids of the nodes that have sent a report, counted or not; the others have failed, or hang."""
        fates = {member.node_id: report.fate for member, report in zip(self.members, self.reports, strict=True)}
        return frozenset(node for node, fate in fates.items() if fate in (Fate.REPORTED, Fate.REFUSED))

    @property
    def counted(self) -> Sequence[tuple[int, ...]]:
        """The partition ids behind each change that a defence gets: of one node, or of a group."""
        both = zip(self.members, self.reports, strict=True)
        return self.groups or [(member.partition_id,) for member, report in both if report.fate is Fate.REPORTED]

    @property
    def raised_alike(self) -> bool:
        """Whether every member's own code has raised, and all the same."""
        return all(r.raised for r in self.reports) and raised_alike([report.reason for report in self.reports])

    @property
    def outcome(self) -> str:
        """Every node with its report, as a text; empty if a node has failed, or was late."""
        if self.count(Fate.REPORTED) + self.count(Fate.REFUSED) < len(self.members):
            return ""
        return repr([(m.partition_id, report) for m, report in zip(self.members, self.reports, strict=True)])

    def joined(self, later: Reporting) -> Reporting:
        """Return the reports of both cohorts; add the sums of `later` to these sums, in place."""
        merge(self.sums, later.sums)
        seconds = [*self.seconds, *later.seconds]
        return Reporting([*self.members, *later.members], [*self.reports, *later.reports], self.sums, seconds)


RUN_AGAIN = ": the round is run again, and judged by what was typical of this attempt"


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """An attempt that was not committed, which leaves the state unchanged.

    Parameters
    ----------
    reason
        Why.
    raised_alike
        Whether all nodes that were asked have raised, and all the same: another attempt would end like this one.
    is_judged_anew
        The server had the wrong thing to compare the reports with, or nothing, and has learned better from them.
    outcome
        What the nodes of a simulation have reported, as a text; empty where time, faults or a network took part in it.
        Another attempt with the same outcome would end like this one.

    Examples
    --------
    >>> NotCommitted("3 of 10 reports came").reason
    '3 of 10 reports came'
    """

    reason: str
    raised_alike: bool = False
    is_judged_anew: bool = False
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """The results of selection and reporting.

    Parameters
    ----------
    ready
        How many nodes were ready.
    selection_seconds, training_seconds
        How long selection took, and configuration with reporting; in real time.
    virtual
        The same in virtual time, where there is any.
    """

    ready: int
    reporting: Reporting
    selection_seconds: float
    training_seconds: float
    virtual: tuple[float, float] = (0.0, 0.0)

    def joined(self, later: Collected) -> Collected:
        """Return both results as one; add the second's sums to the first's, in place."""
        return Collected(
            self.ready + later.ready,
            self.reporting.joined(later.reporting),
            self.selection_seconds + later.selection_seconds,
            self.training_seconds + later.training_seconds,
            (self.virtual[0] + later.virtual[0], self.virtual[1] + later.virtual[1]),
        )
