"""Union of forests: the global forest holds the trees of all nodes.

All nodes have the same weight, or each the number of examples that it reports (see ``strategy.weighting``; nodes of
private models report 1 unless sizes are public). Trees of earlier rounds stay.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flwr.app import RecordDict

from fedlearn import wire
from fedlearn.core.state import Array, Layout, State, Update, UpdateKind, dense_update
from fedlearn.private_trees.node_table import NodeTable, union
from strategies.base import RoundStrategy, Step, Turn
from strategies.collected import Collected

WEIGHT = "weight"


class ForestUnion(RoundStrategy[Collected]):
    """Add the reported trees to the trees of the state; in one-shot training each node sends its trees once.

    Parameters
    ----------
    uniform : bool, default=False
        Whether the trees of all nodes have the same weight; else the weight is the reported number of examples.

    References
    ----------
    Vu and Nguyen 2020, algorithm 2; see `strategies/README.md`.
    """

    accepts = frozenset({UpdateKind.ENSEMBLE})
    accumulator = f"{Collected.__module__}:{Collected.__name__}"

    def __init__(self, *, uniform: bool = False) -> None:
        super().__init__(uniform=uniform)
        self._weight = 0.0  # sum of the weights of all nodes whose trees the state holds

    def next_state(self, turn: Turn[Collected]) -> Step:
        """Return the state's trees and the reported ones, in the order of the cohort."""
        state, updates = turn.state, turn.total.updates
        if not updates:
            return Step(state)
        tables = [NodeTable.from_arrays(members(update, state)) for _, update in updates]
        weights = [weight for weight, _ in updates]
        if len(state["root"]):
            tables, weights = [NodeTable.from_arrays(state), *tables], [self._weight, *weights]
        self._weight = float(sum(weights))
        return Step(union(tables, weights).to_arrays())

    def memory(self) -> dict[str, Array]:
        """Return the weight of the state's trees."""
        return {WEIGHT: np.array([self._weight])} if self._weight else {}

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Restore the weight of the state's trees."""
        self._weight = float(memory[WEIGHT][0]) if WEIGHT in memory else 0.0

    def read(self, content: RecordDict, layout: Layout) -> Update:
        """Return the trees of a reply, under ``Strategy.start``."""
        return dense_update(wire.read_members(content))


def members(update: Update, state: State) -> dict[str, Array]:
    """Return a node's trees as arrays of the state's names and trailing dimensions; lengths are those of its trees."""
    return {name: update[name].values.reshape(-1, *array.shape[1:]) for name, array in state.items()}
