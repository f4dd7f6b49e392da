"""The sums of one attempt at secure sums: one over the whole cohort, or one over each of its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedlearn.folding import STATE, FoldPlan, ParcelPlan
from fedlearn.folding.modular import ModularSum, sum_name
from fedlearn.secure.masks import Words, zeros
from fedlearn.secure.server import Missing, SecureServer
from fedlearn.secure.summands import Flat, Summands, Total
from fedlearn.words.cohort import At, Member
from fedlearn.words.state import ArraySpec, Layout, Positions
from server.attempt import Reporting
from server.phases.reporting import fold_plan
from server.run import ServerRun
from strategies.masked_mean import MaskedSum

T = TypeVar("T")


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
    summands: Summands
    why_not: str = ""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The partition ids of its nodes."""
        return tuple(member.node for member in self.server.roster.members)

    def step(self, result: Mapping[int, T] | Missing) -> Mapping[int, T]:
        """Return what a step of the protocol says to each node; nothing where it ends the sum."""
        if isinstance(result, Missing):
            self.why_not = result.reason
            return {}
        return result

    def total_in(self, reporting: Reporting) -> Words:
        """Return the sum of its nodes' reports, as they have sent them."""
        sums = reporting.sums[STATE]
        assert isinstance(sums, ModularSum)
        nothing = zeros(self.summands.count, self.summands.fixed.modulus_bits)
        total: Words = sums.totals.get(sum_name(self.group), nothing)
        return total


def masked_plan(run: ServerRun, at: At, sums: Sequence[SumOfNodes], *, cohort: Sequence[Member]) -> FoldPlan:
    """Return how masked reports are checked and added up: each into the sum of its node."""
    layout: dict[str, ArraySpec] = {}
    group_of: dict[int, int | None] = {}
    for each in sums:
        dtype = str(zeros(0, each.summands.fixed.modulus_bits).dtype)
        layout[sum_name(each.group)] = ArraySpec((each.summands.count,), dtype)
        group_of |= dict.fromkeys(each.nodes, each.group)
    groups = [group for member in cohort if (group := group_of[member.partition_id]) is not None]
    return replace(
        fold_plan(run, at, cohort=len(cohort)), gate="server.masked_gate:MaskedGate", metrics={}, typical=None,
        parcels={STATE: ParcelPlan(layout, "fedlearn.folding.modular:ModularSum", uniform=True)}, groups=groups,
    )  # fmt: skip


def accumulated(found: Sequence[tuple[SumOfNodes, Total]], layout: Layout) -> MaskedSum:
    """Return the decoded sums as a strategy takes them; an entry that is in none of them keeps its value."""
    whole = MaskedSum.empty(layout)
    for each, total in found:
        part = MaskedSum.empty(layout)
        for name, values in total.changes.items():
            positions, weight = each.summands.kept[name], np.array([float(total.weight)])
            part.totals[name] = _spread(values, positions, layout[name].size)
            part.weights[name] = _spread(weight, positions, layout[name].size)
        part.reports = np.array([float(total.nodes), float(total.weight)])
        whole.merge(part)
    return whole


def means_of(found: Sequence[tuple[SumOfNodes, Total]]) -> Mapping[str, float]:
    """Return the mean of each metric over the nodes of all sums, by weight."""
    totals = [total for _, total in found]
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
