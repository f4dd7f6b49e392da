"""The sums of one attempt at secure sums: one over the whole cohort, or one over each of its groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedlearn.aggregation import STATE, FoldPlan, ParcelPlan
from fedlearn.aggregation.fold_plan import Accumulator, MaskedPlan
from fedlearn.aggregation.modular import ModularSum, sum_name
from fedlearn.core.cohort import At, Fate, Member, NodeReport
from fedlearn.core.state import ArraySpec, Layout, Positions, UpdateKind, layout_of
from fedlearn.plugins.registry import load_reference
from fedlearn.secure.key_agreement import NODE_KEY
from fedlearn.secure.masks import Words, zeros
from fedlearn.secure.noisy import NoisyChanges
from fedlearn.secure.server_protocol import Missing, SecureServer
from fedlearn.secure.summands import Flat, Summands, Total
from fedlearn.secure.whole import WholeNumbers
from server.attempt import Reporting
from server.features.secure_sums.group_means import group_means
from server.features.secure_sums.groups_of_cohort import senders_of
from server.phases.reporting import fold_plan
from server.run import ServerRun
from strategies.masked_mean import MaskedSum

T = TypeVar("T")
NO_GROUP = "no-group: too few clients with slices of its ratio are there (secure.group_size)"


class Whole(NamedTuple):
    """The sum of whole numbers over so many nodes, (count,)."""

    nodes: int
    numbers: NDArray[np.int64]


@dataclass
class SumOfNodes:
    """One sum of an attempt.

    Parameters
    ----------
    group
        Which of the groups it is over; None for the whole cohort.
    server
        The server's part in it.
    summands
        What its nodes add to it.
    why_not
        Why it is discarded; empty as long as it stands.
    """

    group: int | None
    server: SecureServer
    summands: Summands | WholeNumbers | NoisyChanges
    why_not: str = ""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The partition ids of its nodes."""
        return tuple(member.node for member in self.server.roster.members)

    @property
    def reported(self) -> tuple[int, ...]:
        """The partition ids of the nodes whose reports are in it."""
        members = self.server.roster.members
        return tuple(members[position].node for position in self.server.agreed.reported)

    def step(self, result: Mapping[int, T] | Missing) -> Mapping[int, T]:
        """Return what a step of the protocol says to each node; nothing where it ends the sum."""
        if isinstance(result, Missing):
            self.why_not = result.reason
            return {}
        return result

    def decoded(self, total: Words, nodes: int) -> Total | Whole:
        """Return what the sum over so many nodes says, of a total without masks; `Refused` if it is none."""
        found = self.summands.decoded(total, nodes)
        return found if isinstance(found, Total) else Whole(nodes, found)

    def total_in(self, reporting: Reporting) -> Words:
        """Return the sum of its nodes' reports, as they have sent them."""
        sums = reporting.sums[STATE]
        assert isinstance(sums, ModularSum)
        nothing = zeros(self.summands.count, self.summands.modulus_bits)
        total: Words = sums.totals.get(sum_name(self.group), nothing)
        return total


def counts_of(sums: Sequence[SumOfNodes]) -> dict[str, int]:
    """Return how many sums there are, over how few reports, of how many nodes, and how many have keys of their own."""
    members = [member for each in sums for member in each.server.roster.members]
    own_keys = sum(len(member.verify) == NODE_KEY for member in members)
    return {
        "sums": len(sums), "fewest": min(len(each.reported) for each in sums), "of": len(members), "own_keys": own_keys,
    }  # fmt: skip


def masked_plan(run: ServerRun, at: At, sums: Sequence[SumOfNodes], *, cohort: Sequence[Member]) -> FoldPlan:
    """Return how masked reports are checked and added up: each into the sum of its node."""
    layout: dict[str, ArraySpec] = {}
    group_of: dict[int, int | None] = {}
    bits = sums[0].summands.modulus_bits
    dtype = str(zeros(0, bits).dtype)
    for each in sums:
        layout[sum_name(each.group)] = ArraySpec((each.summands.count,), dtype)
        group_of |= dict.fromkeys(each.nodes, each.group)
    plan = fold_plan(run, at, cohort=len(cohort))
    groups = [group for member in cohort if (group := group_of[member.partition_id]) is not None]
    return replace(
        plan, gate="server.features.secure_sums.masked_gate:MaskedGate", typical=None, kind=UpdateKind.DENSE,
        metrics={name: metric for name, metric in plan.metrics.items() if metric.is_privacy_loss},
        parcels={STATE: ParcelPlan(layout, "fedlearn.aggregation.modular:ModularSum", uniform=True)},
        masked=MaskedPlan(bits, groups),
    )  # fmt: skip


def with_absent(reporting: Reporting, cohort: Iterable[Member], ungrouped: Collection[int]) -> Reporting:
    """Return the reports, and failed ones for the nodes of the cohort that are in no sum.

    Parameters
    ----------
    ungrouped
        Partitions of those that are in no group; the others have not shared their secrets in time.
    """
    there = {member.partition_id for member in reporting.members}
    members, reports, seconds = [*reporting.members], [*reporting.reports], [*reporting.seconds]
    for member in cohort:
        if member.partition_id not in there:
            members.append(member._replace(position=len(members)))
            why = NO_GROUP if member.partition_id in ungrouped else "it has not shared its secrets in time"
            reports.append(NodeReport(len(reports), Fate.FAILED, reason=why))
            seconds.append(None)
    return replace(reporting, members=members, reports=reports, seconds=seconds)


def added_up(
    run: ServerRun, found: Sequence[tuple[SumOfNodes, Total | Whole]]
) -> tuple[Accumulator, Mapping[str, float]]:
    """Return the decoded sums as the run's strategy takes them, and the mean of each metric over their nodes."""
    layout = layout_of(run.state)
    totals = [(each.summands, total) for each, total in found]
    changes = [(s, total) for s, total in totals if isinstance(total, Total) and isinstance(s, Summands | NoisyChanges)]
    if changes and run.config.sums_groups and run.strategy.takes_groups:
        of_groups = [(s, total) for s, total in changes if isinstance(s, Summands)]
        sums: Accumulator = group_means(of_groups, layout, senders=senders_of(run.strategy))
        return sums, _means_of([total for _, total in changes])
    if changes:
        return _of_changes(changes, layout), _means_of([total for _, total in changes])
    kind: type[Accumulator] = load_reference(run.strategy.accumulator)
    (_, whole), *_ = totals  # they have no groups
    reports = np.array([whole.nodes], np.int64)
    assert isinstance(whole, Whole)
    return kind.from_arrays(layout, {"sums": whole.numbers, "reports": reports}), {}


def _of_changes(found: Sequence[tuple[Summands | NoisyChanges, Total]], layout: Layout) -> MaskedSum:
    """Return sums of changes; an entry that is in none of them keeps its value."""
    sums = MaskedSum.empty(layout)
    for summands, total in found:
        part = MaskedSum.empty(layout)
        for name, values in total.changes.items():
            positions, weight = summands.kept[name], np.array([float(total.weight)])
            part.totals[name] = _spread(values, positions, layout[name].size)
            part.weights[name] = _spread(weight, positions, layout[name].size)
        part.reports = np.array([float(total.nodes), float(total.weight)])
        sums.merge(part)
    return sums


def _means_of(totals: Sequence[Total]) -> Mapping[str, float]:
    """Return the mean of each metric over the nodes of all sums, by weight."""
    if len(totals) == 1:
        return totals[0].metrics
    weight = sum(total.weight for total in totals)
    return {name: sum(each.weight * each.metrics[name] for each in totals) / weight for name in totals[0].metrics}


def _spread(values: Flat, positions: Positions | None, size: int) -> Flat:
    """Return values at their positions among so many entries, and zero elsewhere; without positions, the values."""
    if positions is None:
        return values
    whole = np.zeros(size)
    whole[positions] = values
    return whole
