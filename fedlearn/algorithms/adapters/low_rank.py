"""Local SGD of adapters of the node's own rank.

A slot is a row of A with its column of B. Where both are zero, so are their gradients: a slot that a node does not have
is zero, and stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedlearn.algorithms.adapters.factors import RANKS
from fedlearn.core.adapters import DOWN, UP, Pair, pairs_of
from fedlearn.extend import SGD, Array, LocalFit, LocalTask, RunConfig, State, TorchModel, Update, layout_of, owned


class LowRankSGD(SGD):
    """Trains the first slots of each adapter, as many as the node's rank; all of them where no ranks were sent.

    Parameters
    ----------
    down, up : str
        As in the strategy's options.
    """

    def __init__(self, model: TorchModel, config: RunConfig, *, down: str = DOWN, up: str = UP, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.down, self.up = down, up

    def fit(self, state: State, task: LocalTask) -> LocalFit:
        """Return the fit of the slots that the node has."""
        return super().fit({**state, **self.had(state, task)}, task)

    def had(self, state: State, task: LocalTask) -> Mapping[str, Array]:
        """Return the factors as the node has them: zero beyond its rank."""
        found: dict[str, Array] = {}
        for pair in pairs_of(layout_of(state), self.down, self.up) if RANKS in task.parcels else ():
            down, up = state[pair.down].copy(), state[pair.up].copy()
            first = self.held(pair, task) + rank_of(task)
            down[first:], up[:, first:] = 0, 0
            found |= {pair.down: down, pair.up: up}
        return found

    def held(self, pair: Pair, task: LocalTask) -> int:
        """Return how many slots are still in a fit."""
        return 0


class FLoRASGD(LowRankSGD):
    """Trains the slots behind those that hold what was learned before."""

    def held(self, pair: Pair, task: LocalTask) -> int:
        """Return the number of slots that hold what was learned before."""
        return pair.rank - int(task.parcels[RANKS][RANKS].max())

    def change_for(self, parameters: list[Tensor], task: LocalTask) -> Update:
        """Return the function that changes all but the slots that hold what was learned before."""
        change = super().change_for(parameters, task)
        parts = [(place, where, parameters[place].detach()[where].clone()) for place, where in self._still(task)]

        def changed(gradients: list[Tensor]) -> None:
            gradients = owned(gradients)
            for place, where, _ in parts:
                gradients[place][where] = 0
            change(gradients)
            with torch.no_grad():
                for place, where, before in parts:  # weight decay shrinks them
                    parameters[place][where] = before

        return changed

    def _still(self, task: LocalTask) -> list[tuple[int, tuple[slice, ...]]]:
        """Return the place of each factor among the parameters, and its entries that are still."""
        arrays = self.model.arrays()
        found: list[tuple[int, tuple[slice, ...]]] = []
        for pair in pairs_of(layout_of(arrays), self.down, self.up) if RANKS in task.parcels else ():
            held = slice(0, self.held(pair, task))
            down, up = (self.model.names.index(name) for name in (pair.down, pair.up))
            found += [(down, (held,)), (up, (slice(None), held))]
        return found


def rank_of(task: LocalTask) -> int:
    """Return the rank of the task's node."""
    ranks = task.parcels[RANKS][RANKS]
    return int(ranks[task.partition_id % len(ranks)])
