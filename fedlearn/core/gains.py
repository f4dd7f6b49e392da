"""Who gains: what each node has of a federation, beside what the same steps alone have given it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fedlearn.core.metric import ALONE, BESIDE, Metric
from fedlearn.core.spread import Spread


class Compared(NamedTuple):
    """One node's model and its model alone, measured on the same examples of the node."""

    examples: int
    got: float
    alone: float


@dataclass(frozen=True, slots=True)
class Gains:
    """The gains of nodes in one metric: what a node has, minus what it has alone; positive where it is better off.

    Parameters
    ----------
    metric
        The metric that the nodes measure.

    Examples
    --------
    >>> from fedlearn.core.metric import ACCURACY
    >>> found = Gains(ACCURACY).of([Compared(30, 0.9, 0.75), Compared(10, 0.5, 0.75)])
    >>> found["accuracy_gain"], found["accuracy_gain_worst"], found["accuracy_losing"], found["accuracy_support"]
    (-0.05, -0.25, 0.5, 10)
    """

    metric: Metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The columns of `of`: mean, mean of the worst tenth, share of nodes that lose, nodes, fewest examples."""
        name, title, unit = self.metric.name, self.metric.title, self.metric.unit
        over, counted = "over training alone", Metric("count", low=0, is_result=True, is_count=True)
        return (
            Metric(f"{name}_gain", f"gain of {title}", "up", unit=unit, note=f"{over}, mean of nodes", is_result=True),
            Metric(f"{name}_gain_worst", f"gain of {title}, worst tenth", "up", unit=unit, note=over, is_result=True),
            Metric(f"{name}_losing", "share of nodes that lose", "down", note=f"by {title}", low=0, is_result=True),
            replace(counted, name=f"{name}_compared", title="nodes compared", note="with themselves alone"),
            replace(counted, name=f"{name}_support", title="fewest test examples", note="of a node compared"),
        )

    def gain(self, node: Compared) -> float:
        """Return what a node gains."""
        return node.alone - node.got if self.metric.better == "down" else node.got - node.alone

    def of(self, nodes: Sequence[Compared]) -> dict[str, float | None]:
        """Return the columns; all None without nodes."""
        names = [metric.name for metric in self.metrics]
        if not nodes:
            return dict.fromkeys(names)
        gains = np.sort([self.gain(node) for node in nodes])
        worst = gains[: -(-len(gains) // 10)].mean()
        numbers = (round(float(gains.mean()), 12), float(worst), float((gains < 0).mean()), len(nodes))
        return dict(zip(names, (*numbers, min(node.examples for node in nodes)), strict=True))


NOT_ASKED = "not measured: --beside alone says it, for at most twice the training"
"""The sentence of a result whose nodes have test examples, and no model alone to compare theirs with."""


def beside(metric: Metric, kind: str) -> Metric:
    """Return the metric of what nodes measure beside their model, of `BESIDE`.

    >>> from fedlearn.core.metric import ACCURACY
    >>> beside(ACCURACY, "tuned").name
    'accuracy_tuned'
    """
    return replace(metric, name=f"{metric.name}_{kind}", title=f"{metric.title}, {kind}", headline=False, exp_of="")


def columns_on_nodes(metric: Metric, kinds: Sequence[str] = BESIDE) -> tuple[Metric, ...]:
    """Return all columns of rounds that say how a metric is spread over nodes: of their models, and beside them."""
    spreads = (Spread(metric), *(Spread(beside(metric, kind)) for kind in kinds))
    gains = Gains(metric).metrics if ALONE in kinds else ()
    return (*(column for spread in spreads for column in spread.metrics), *gains)
