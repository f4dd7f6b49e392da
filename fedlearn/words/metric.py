"""One thing that is measured: its name, how it is read, which values it can have; and those that are known here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isclose
from typing import Literal

ROUNDING = 1e-9  # by which sums and means may miss a bound

Measured = Mapping[str, float | None]
"""Column -> value; None where it was not measured."""


class Combine(StrEnum):
    """How one number is made of what the nodes of a cohort report."""

    MEAN = "mean"  # weighted by examples
    LARGEST = "largest"


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is measured.

    Parameters
    ----------
    name
        The column of metrics.csv, the key of events and of the summary.
    title
        For people; the name with spaces unless given.
    better
        Whether larger values are better, smaller ones, or neither.
    combine
        What becomes of the nodes' values.
    headline
        Runs are judged by it, and the best round is found by it; it must say what is better.
    unit
        Stands beside the title on an axis.
    note
        A few words under its value.
    exp_of
        The metric that it is e to the power of, as the perplexity of a mean cross-entropy: it need not be measured.
    is_privacy_loss
        An upper bound on what a record has lost so far: it never falls from round to round, and every result says it.
    low, high
        The smallest and the largest value that it can have; a node that says another is not counted. None: no bound.
    is_result
        It stands in the result of a run though the state was not evaluated for it, but measured by nodes.

    Examples
    --------
    >>> Metric("mean_rank", better="down", headline=True).title
    'mean rank'
    """

    name: str
    title: str = ""
    better: Literal["up", "down", ""] = ""
    combine: Combine = Combine.MEAN
    headline: bool = False
    unit: str = ""
    note: str = ""
    exp_of: str = ""
    is_privacy_loss: bool = False
    low: float | None = None
    high: float | None = None
    is_result: bool = False

    def __post_init__(self) -> None:
        """Fill in the title; refuse a headline that cannot be ranked."""
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " "))
        if self.headline and not self.better:
            raise ValueError(f"metric {self.name!r} is a headline: say which is better, 'up' or 'down'")

    @property
    def axis_title(self) -> str:
        """The title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def in_range(self, value: float) -> float | None:
        """Return a finite value, or the bound that it misses by rounding; None where it cannot be.

        >>> [ACCURACY.in_range(value) for value in (0.5, 1.0 + 1e-15, 7.0)]
        [0.5, 1.0, None]
        """
        bound = min(max(value, -inf if self.low is None else self.low), inf if self.high is None else self.high)
        return float(bound) if isclose(value, bound, rel_tol=ROUNDING, abs_tol=ROUNDING) else None

    @property
    def range(self) -> str:
        """The bounds, in words."""
        return " ".join(f"{word} {b:g}" for word, b in (("from", self.low), ("to", self.high)) if b is not None)

    def is_better(self, value: float, than: float) -> bool:
        """Return whether one value beats another."""
        return value < than if self.better == "down" else value > than


TRAIN_LOSS = Metric("train_loss", better="down", low=0)
WORK_DONE = Metric("work_done", "share of the work done", note="steps taken, of those asked for", low=0, high=1)
"""Of runs with ``training.partial``."""
LOSS = Metric("loss", better="down", note="on held-out examples", low=0)
JUDGING_LOSS = replace(LOSS, headline=True, low=None)
"""Of a user's own, where it alone says how good a model is."""
ACCURACY = Metric("accuracy", better="up", headline=True, low=0, high=1)
ALL_RIGHT = Metric("all_right", "all labels right", better="up", note="share of examples", low=0, high=1)
MAE = Metric("mae", "MAE", better="down", headline=True, low=0)
MSE = Metric("mse", "MSE", better="down", low=0)
PERPLEXITY = Metric("perplexity", better="down", headline=True, exp_of="loss", note="of the next token", low=1)
MAE_SCALED = Metric("mae_scaled", "MAE scaled", better="down", note="of the declared bounds", low=0)
EPSILON = Metric("epsilon", combine=Combine.LARGEST, note="spent per record", is_privacy_loss=True, low=0)
"""The largest that any node has reported, as every record lies on one node."""


TEST_EXAMPLES, BEFORE, AFTER = "test_examples", "before", "after"
"""On how many examples a node has measured a state; and which state: the one it was sent, or what it made of it."""


VIRTUAL_SECONDS = Metric("virtual_seconds", "virtual time", unit="s", note="since the run began", low=0)


def virtual_time(groups: Iterable[str]) -> tuple[Metric, ...]:
    """Return the columns of a run whose nodes have devices of these kinds.

    >>> [metric.name for metric in virtual_time(["fast"])][2:]
    ['virtual_training_seconds', 'reports_fast']
    """
    return (
        VIRTUAL_SECONDS,
        Metric("virtual_selection_seconds", "selection in virtual time", "down", unit="s", low=0),
        Metric("virtual_training_seconds", "training in virtual time", "down", unit="s", low=0),
        *(Metric(f"reports_{group}", f"reports that count, devices: {group}", low=0) for group in groups),
    )


STALE = "commits between a state and its report"
STALENESS_MEAN = Metric("staleness_mean", "mean staleness", note=STALE, low=0)
STALENESS_LARGEST = Metric("staleness_largest", "largest staleness", note=STALE, low=0)
"""Of asynchronous runs: over the reports that were counted."""
