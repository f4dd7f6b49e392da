"""Relay boosting: in each round one node adds one tree, fitted to the residuals of the ensemble that it received.

The order of the nodes is the order in which the server draws its cohorts, fixed by the run's seed. If a cohort has
several nodes, all of them have received the same ensemble, and the mean of their trees is added.

Source: gradient boosting, Friedman 2001 (doi:10.1214/aos/1013203451);
sources and proofs of the rest: `fedlearn.private_trees.numbers.relay`.
"""

from __future__ import annotations

from dataclasses import replace

from fedlearn.core.state import UpdateKind
from fedlearn.private_trees.federated.strategies.forest_union import ForestUnion, members
from fedlearn.private_trees.node_table import NodeTable, union
from strategies.base import Step, Turn
from strategies.collected import Collected


class Relay(ForestUnion):
    """Add the mean of the reported trees to the sum of trees of the state.

    Parameters
    ----------
    uniform : bool, default=False
        Makes no difference: the trees of one round are averaged without weights.

    References
    ----------
    Friedman 2001, "Greedy function approximation: a gradient boosting machine" (doi:10.1214/aos/1013203451).
    """

    accepts = frozenset({UpdateKind.ENSEMBLE})
    sums = True

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the state's trees and the reported trees, whose values are divided by the number of reports."""
        state = turn.state
        grown = [NodeTable.from_arrays(members(update, state)) for _, update in turn.total.updates]
        if not grown:
            return Step(state)
        shared = [replace(table, value=table.value / len(grown)) for table in grown]
        before = [NodeTable.from_arrays(state)] if len(state["root"]) else []
        return Step(union([*before, *shared]).to_arrays())
