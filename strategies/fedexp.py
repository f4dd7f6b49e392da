"""FedExP: the server goes beyond the mean where the nodes disagree.

x += max(1, sum p_i ||D_i||^2 / (2 (||D||^2 + eps))) D, with the changes D_i of the nodes that reported and their mean D
= sum p_i D_i. p_i is 1 by their number in the paper, and with ``strategy.weighting = "uniform"``; else, as in its
authors' code, a node's share of the examples. Norms are of whole reports: running statistics of normalization count
in them, as in D, and are averaged.

Source: Jhunjhunwala, Wang, Joshi 2023, "FedExP: speeding up federated averaging via extrapolation"
(arXiv:2301.09604), eq. 7 and algorithm 1.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedlearn.config.fields import NonNegative
from fedlearn.core.metric import Metric
from fedlearn.core.state import Array, UpdateKind
from strategies.base import Step, Turn
from strategies.fedavg import ServerOptimizer, change_of
from strategies.masked_mean import Float64, MaskedSum

STEP = Metric("server_step", note="of the mean change; 1 is FedAvg")


class FedExP(ServerOptimizer):
    """Extrapolates the mean change of the nodes by the norms of their reports."""

    laws = ("walk", "unequal steps", "momentum", "one node", "nodes alike")
    accepts = frozenset({UpdateKind.DENSE})
    takes_stale = False
    reads_reports: ClassVar[bool] = True
    metrics = (STEP,)

    def __init__(self, *, eps: NonNegative = 1e-3, uniform: bool = False) -> None:
        super().__init__(server_lr=1.0, uniform=uniform)
        self.eps = eps

    def next_state(self, turn: Turn[MaskedSum]) -> Step:
        """Return x + step * D."""
        changes = [
            change_of(name, turn, self.decoder)[0] for name, array in turn.state.items() if array.dtype.kind == "f"
        ]
        square = sum(float(np.square(change, dtype=np.float64).sum()) for change in changes)
        counted = [report for report in turn.reports if report.fate == "reported"]
        weights = [1 if self.uniform else report.num_examples for report in counted]
        squares = sum(weight * report.norm**2 for weight, report in zip(weights, counted, strict=True))
        below = 2 * sum(weights) * (square + self.eps)
        step = squares / below if below else 1.0
        self.server_lr = max(1.0, step)
        return Step(super().next_state(turn).state, {STEP.name: self.server_lr})

    def direction(self, name: str, change: Float64, sent: Array) -> Float64:
        """Return the mean change."""
        return change
