"""How a metric is spread over the nodes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedlearn.core.metric import Metric

ON_NODES = "_nodes"
"""Suffix of the column of a metric's mean over nodes."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of one metric over nodes, each of which has measured the metric on its own examples.

    Parameters
    ----------
    metric
        The metric that the nodes measure.

    References
    ----------
    Jain et al. 1984, "A quantitative measure of fairness" (DEC-TR-301), for the index: 1 where all are alike, 1 / n
    where one has all. Li et al. 2020 (arXiv:1905.10497), for the deviation and the worst tenth.

    Examples
    --------
    >>> from fedlearn.core.metric import ACCURACY
    >>> Spread(ACCURACY).of([(30, 0.9), (10, 0.5)])["accuracy_nodes_worst"]
    0.5
    """

    metric: Metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The columns of `of`: mean weighted by examples, mean, mean of the worst tenth, deviation, Jain's index."""
        name, title, better, unit = self.metric.name, self.metric.title, self.metric.better, self.metric.unit
        return (
            Metric(
                f"{name}{ON_NODES}", f"{title} on nodes", better, unit=unit, note="mean by examples", is_result=True
            ),
            Metric(f"{name}_nodes_equal", f"{title} on nodes, equal", better, unit=unit, note="mean, each node alike"),
            Metric(f"{name}_nodes_worst", f"{title} of the worst tenth of nodes", better, unit=unit, is_result=True),
            Metric(f"{name}_nodes_deviation", f"deviation of {title} over nodes", "down", unit=unit),
            Metric(f"{name}_nodes_jain", f"Jain index of {title} over nodes", "up"),
        )

    def of(self, measured: Sequence[tuple[int, float]]) -> dict[str, float | None]:
        """Return the columns, from (number of examples, value) of each node; all None without nodes."""
        names = [metric.name for metric in self.metrics]
        if not measured:
            return dict.fromkeys(names)
        examples, values = np.array(measured, np.float64).T
        ordered = np.sort(values) if self.metric.better != "down" else -np.sort(-values)
        worst = ordered[: -(-len(values) // 10)].mean()
        squares = len(values) * np.square(values).sum()
        jain = values.sum() ** 2 / squares if squares else 1.0
        numbers = [np.average(values, weights=examples), values.mean(), worst, values.std(), jain]
        return {name: float(each) for name, each in zip(names, numbers, strict=True)}
