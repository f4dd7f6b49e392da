"""A mean that is differentially private for nodes: each change clipped in the L1 norm, Laplace noise on the sum.

Neighboring: add or remove one node. It changes the sum by at most `norm` in the L1 norm, so noise of scale
norm / epsilon on every entry makes a round epsilon-private (Dwork et al. 2006), and T rounds T * epsilon. The sum is
divided by the size of the cohort, which the server has chosen.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from fedlearn.aggregation import StepSpec
from fedlearn.core.metric import Metric
from fedlearn.core.state import Entries
from strategies.base import RoundStrategy, Step

COUNTS_IN = "spent in all rounds so far; add or remove one node; unit: node; trusted server"
Above0 = Annotated[float, Field(gt=0)]


class ClippedL1:
    needs_change = True

    def __init__(self, *, norm: Above0):
        self.norm = norm

    def __call__(self, weight, update):
        length = sum(float(np.abs(entries.values).sum()) for entries in update.values())
        factor = min(1.0, self.norm / length) if length else 1.0
        return weight, {n: Entries(e.values.astype(np.float64) * factor, e.positions) for n, e in update.items()}


class NoisyMean(RoundStrategy):
    metrics = (Metric("epsilon_of_nodes", better="down", is_privacy_loss=True, note=COUNTS_IN),)

    def __init__(self, *, norm: Above0 = 1.0, epsilon: Above0 = 1.0, uniform=True):
        super().__init__(uniform=True)
        self.norm, self.epsilon = norm, epsilon
        self.steps = (StepSpec("noisy_mean:ClippedL1", {"norm": norm}),)

    def next_state(self, turn):
        after = {}
        for name, array in turn.state.items():
            total = turn.total.totals.get(name, np.zeros(array.size))
            noise = turn.noise.laplace(self.norm / self.epsilon, total.shape)
            change = (total + noise) / len(turn.members)
            after[name] = (array + change.reshape(array.shape)).astype(array.dtype)
        return Step(after, {"epsilon_of_nodes": self.epsilon * turn.at.round_number})
