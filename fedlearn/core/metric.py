"""One metric: its name, title, range, and how nodes' values are combined; and the metrics that fedlearn knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isclose
from typing import Literal

ROUNDING = 1e-9  # relative and absolute distance by which rounded sums and means may miss a bound

Measured = Mapping[str, float | None]
"""Column -> value; None where the column was not measured."""


class Combine(StrEnum):
    """How the values that the nodes of a cohort report become one number.

    >>> Combine("mean") is Combine.MEAN
    True
    """

    MEAN = "mean"  #: weighted by examples
    LARGEST = "largest"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric.

    Parameters
    ----------
    name
        The column of metrics.csv, the key of events and of the summary.
    title
        The name that people read; by default the name with spaces.
    better
        "up" where larger values are better, "down" where smaller ones are, "" where neither is.
    combine
        How the nodes' values become one number.
    headline
        Whether runs are ranked, and the best round is found, by this metric; `better` must be given.
    unit
        The unit beside the title on an axis.
    note
        A few words under the value.
    exp_of
        The metric whose exponential this one is, as perplexity of the mean cross-entropy: it need not be measured.
    is_privacy_loss
        Whether it bounds a record's privacy loss so far: it never falls from round to round, and every result says it.
    low, high
        The smallest and the largest possible value; a value outside is not counted. None: no bound.
    is_result
        Whether it is a result of the run although nodes measure it and not the evaluation.
    is_score
        Whether it is measured on all outputs of a set at once, as AUROC; a set on which it is not defined lacks it.
    is_count
        Whether it counts things, as nodes: whole numbers are written without a point.

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
    is_score: bool = False
    is_count: bool = False

    def __post_init__(self) -> None:
        """Fill in the title; raise ValueError for a headline that cannot be ranked."""
        if not self.title:
            object.__setattr__(self, "title", self.name.replace("_", " "))
        if self.headline and not self.better:
            raise ValueError(f"metric {self.name!r} is a headline: say which is better, 'up' or 'down'")

    def of(self, target: str) -> Metric:
        """Return the metric of one of several targets, or labels; it ranks no run.

        >>> MAE.of("rain").name, MAE.of("rain").title
        ('mae_rain', 'MAE of rain')
        """
        return replace(self, name=f"{self.name}_{target}", title=f"{self.title} of {target}", headline=False, note="")

    @property
    def axis_title(self) -> str:
        """The title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def in_range(self, value: float) -> float | None:
        """Return a value within the bounds, or the bound that it misses by rounding; None for any other value.

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
        """Return whether a value is better than another."""
        return value < than if self.better == "down" else value > than


TRAIN_LOSS = Metric("train_loss", better="down", low=0)
WORK_DONE = Metric("work_done", "share of the work done", note="steps taken, of those asked for", low=0, high=1)
"""Measured in runs with ``training.partial``."""
TOKENS = Metric("tokens", better="", combine=Combine.SUM, note="that clients have trained on", low=0, is_count=True)
"""Measured of texts that have a tokenizer's mask: the tokens that it does not hide, in each pass anew."""
LOSS = Metric("loss", better="down", note="on held-out examples", low=0)
JUDGING_LOSS = replace(LOSS, headline=True, low=None)
"""The loss of a user's own objective, where no other metric says how good a model is."""
ACCURACY = Metric("accuracy", better="up", headline=True, low=0, high=1)
ALL_RIGHT = Metric("all_right", "all labels right", better="up", note="share of examples", low=0, high=1)
MAE = Metric("mae", "MAE", better="down", headline=True, low=0)
MSE = Metric("mse", "MSE", better="down", low=0)
DEVIANCE = Metric("deviance", better="down", headline=True, note="of counts, Poisson", low=0)
PERPLEXITY = Metric("perplexity", better="down", headline=True, exp_of="loss", note="of the next token", low=1)
MAE_SCALED = Metric("mae_scaled", "MAE scaled", better="down", note="of the declared bounds", low=0)
EPSILON = Metric("epsilon", combine=Combine.LARGEST, note="spent per record", is_privacy_loss=True, low=0)
"""The largest epsilon of all nodes, as every record lies on one node."""


TEST_EXAMPLES, BEFORE, AFTER = "test_examples", "before", "after"
"""Keys of a node's own measurements: number of examples; of the state before, and after, the node's training."""

GLOBAL, TUNED, ALONE = "global", "tuned", "alone"
BESIDE = (GLOBAL, TUNED, ALONE)
"""Keys of what a node measures beside the model that it uses (``evaluation.beside``): the state that all have, its own
model after some more passes over its examples, and a model that took the same steps alone."""


VALIDATION = "validation_"
"""Prefix of what is measured on validation rows, by which a round, a stop or settings are chosen."""
VALIDATION_ROWS, TEST_ROWS = "validation rows", "the test rows"
NODE_ROWS, PRIVATE_ROWS = "the nodes' own rows", "private test rows"
"""What a summary says of the rows that have chosen its best round (``chosen_on``)."""


def of_validation(metric: Metric) -> Metric:
    """Return the declaration of a metric as it is measured on validation rows.

    >>> of_validation(ACCURACY).title
    'validation accuracy'
    """
    name, title = f"{VALIDATION}{metric.name}", f"validation {metric.title}"
    return replace(metric, name=name, title=title, exp_of="")


VIRTUAL_SECONDS = Metric("virtual_seconds", "virtual time", unit="s", note="since the run began", low=0)


REPORTS_OF = "reports_"
"""Prefix of the columns that count the reports of devices of a kind."""


def virtual_time(groups: Iterable[str]) -> tuple[Metric, ...]:
    """Return the metrics of a run on virtual time, whose nodes have devices of these kinds.

    >>> [metric.name for metric in virtual_time(["fast"])][2:]
    ['virtual_training_seconds', 'reports_fast']
    """
    of_group = Metric(REPORTS_OF, "updates that count, devices", low=0, is_count=True)
    return (
        VIRTUAL_SECONDS,
        Metric("virtual_selection_seconds", "selection in virtual time", "down", unit="s", low=0),
        Metric("virtual_training_seconds", "training in virtual time", "down", unit="s", low=0),
        *(replace(of_group, name=f"{REPORTS_OF}{group}", title=f"{of_group.title}: {group}") for group in groups),
    )


def is_of_devices(name: str) -> bool:
    """Return whether a column is of virtual time.

    >>> is_of_devices("virtual_seconds"), is_of_devices("reports_phone"), is_of_devices("accuracy")
    (True, True, False)
    """
    return name.startswith(REPORTS_OF) or name in {metric.name for metric in virtual_time(())}


ANCHORS_SENT = Metric(
    "anchors_sent", "clients that were sent the anchor", note="the others had it", low=0, is_count=True
)
DOWNLINK_ERROR = Metric(
    "downlink_error", "error of the downlink state", better="down", low=0,
    note="L2 norm of what clients decode less the exact state, by that of the exact state",
)  # fmt: skip
"""Measured where the state travels as a correction to an anchor."""

STALE = "commits between a state and its report"
STALENESS_MEAN = Metric("staleness_mean", "mean staleness", note=STALE, low=0)
STALENESS_LARGEST = Metric("staleness_largest", "largest staleness", note=STALE, low=0, is_count=True)
"""Measured in asynchronous runs, over the reports that were counted."""
