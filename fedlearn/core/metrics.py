"""The metrics of a kind of model: what its nodes report while they learn, and what its evaluation returns.

A model declares them (`Metrics`). The declarations travel
in the event `started` and in summary.json, so that every reader of a run knows its columns, also those of a model
from outside. Runs without declarations are read by the metrics that are known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import isfinite
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fedlearn.core.cohort import NodeReport
from fedlearn.core.metric import (
    ACCURACY,
    AFTER,
    ALL_RIGHT,
    BEFORE,
    BESIDE,
    DEVIANCE,
    EPSILON,
    JUDGING_LOSS,
    LOSS,
    MAE,
    MAE_SCALED,
    MSE,
    PERPLEXITY,
    TEST_EXAMPLES,
    TRAIN_LOSS,
    Combine,
    Measured,
    Metric,
    of_validation,
)

COUNTS_IN = "_counts_in"
"""Suffix of the column that says, in words, what a privacy loss counts in."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of one kind of model.

    Parameters
    ----------
    reported
        Metrics that the nodes of a cohort measure while they learn.
    evaluated
        Metrics that `Model.evaluate` measures, means over examples.
    tested
        Metrics of the test rows that are measured once, after the last round; empty where rounds measure these rows.

    Examples
    --------
    >>> Metrics((TRAIN_LOSS,), (LOSS, ACCURACY)).best_by
    'accuracy'
    """

    reported: tuple[Metric, ...] = ()
    evaluated: tuple[Metric, ...] = ()
    tested: tuple[Metric, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for two metrics of one name."""
        if len({*self.columns}) < len(self.columns):
            raise ValueError(f"two metrics have one name: {', '.join(self.columns)}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all metrics, in the order of the table."""
        return tuple(metric.name for metric in (*self.reported, *self.evaluated))

    @property
    def headline(self) -> Metric | None:
        """The metric that ranks runs: the first evaluated headline, else the first evaluated metric with a better side.

        None where no metric can be ranked.
        """
        return _headline(self.evaluated)

    @property
    def of_model(self) -> Metric | None:
        """The headline as the model declares it: the name that nodes and test rows have it under."""
        return _headline(self.tested or self.evaluated)

    @property
    def best_by(self) -> str:
        """The headline's name; empty without one."""
        return self.headline.name if self.headline else ""

    @property
    def by_interest(self) -> tuple[Metric, ...]:
        """All metrics: first the evaluated metrics, the headline at their head, then the metrics that nodes report."""
        return (*sorted(self.evaluated, key=self._place), *self.reported)

    @property
    def results(self) -> tuple[Metric, ...]:
        """The metrics in a run's result: evaluations, the headline first, scores on nodes, and the privacy loss.

        Those of test rows that are measured once stand behind the headline of the validation rows.
        """
        found = [m for m in self.by_interest if m.is_privacy_loss or m.is_result or m not in self.reported]
        return (*found[:1], *Metrics(evaluated=self.tested).by_interest, *found[1:]) if self.tested else tuple(found)

    @property
    def on_nodes(self) -> tuple[str, ...]:
        """The keys of a node's measurements of the states before and after its training.

        >>> Metrics(evaluated=(ACCURACY,)).on_nodes
        ('test_examples', 'accuracy_before', 'accuracy_after')
        """
        names = [metric.name for metric in self.evaluated]
        return (TEST_EXAMPLES, *(f"{name}_{when}" for when in (BEFORE, AFTER) for name in names))

    @property
    def privacy_loss(self) -> Metric | None:
        """The metric of the privacy loss of a record; None of models without a privacy promise."""
        return next((metric for metric in self.reported if metric.is_privacy_loss), None)

    @property
    def counts_in(self) -> dict[str, str]:
        """The column that says, in words, what the privacy loss counts in; empty without a privacy loss.

        >>> Metrics((EPSILON,)).counts_in
        {'epsilon_counts_in': 'spent per record'}
        """
        loss = self.privacy_loss
        return {} if loss is None else {f"{loss.name}{COUNTS_IN}": loss.note}

    def in_words(self, name: str, value: str) -> str:
        """Return a value for a line of text; behind a privacy loss stands what it counts in.

        >>> Metrics((EPSILON,)).in_words("epsilon", "1.0000")
        '1.0000 (spent per record)'
        """
        loss = self.privacy_loss
        return value if loss is None or loss.name != name else f"{value} ({loss.note})"

    def completed(self, means: Mapping[str, Any]) -> dict[str, Any]:
        """Return the evaluated means, together with the metrics that are computed from means.

        >>> Metrics(evaluated=(LOSS, PERPLEXITY)).completed({"loss": 0.0})
        {'loss': 0.0, 'perplexity': 1.0}
        """
        follow = (metric for metric in self.evaluated if isinstance(means.get(metric.exp_of), int | float))
        return {**means, **{metric.name: float(np.exp(means[metric.exp_of])) for metric in follow}}

    def completed_on_nodes(
        self, reported: Mapping[str, float], kinds: Sequence[str] = (BEFORE, AFTER)
    ) -> dict[str, float]:
        """Return the metrics that are computed from a node's measurements of several states: before training, say."""
        found: dict[str, Any] = {}
        for when in kinds:
            means = {metric.name: reported.get(f"{metric.name}_{when}") for metric in self.evaluated}
            follow = [metric.name for metric in self.evaluated if metric.exp_of]
            found |= {f"{name}_{when}": value for name, value in self.completed(means).items() if name in follow}
        return {name: value for name, value in found.items() if value is not None}

    def of(self, name: str) -> Metric:
        """Return the metric of a name; for an unknown name, a metric that declares no more than this name."""
        return next((m for m in (*self.reported, *self.evaluated, *self.tested) if m.name == name), Metric(name))

    def of_node(self, name: str) -> Metric:
        """Return the metric whose range holds for a node's measurement: for accuracy_before, that of accuracy."""
        known = {metric.name: metric for metric in (*self.reported, *self.evaluated)}
        measured, _, kind = name.rpartition("_")
        of_state = known.get(measured) if kind in (BEFORE, AFTER, *BESIDE) else None
        return known.get(name) or of_state or Metric(name)

    def combined(self, reports: Sequence[NodeReport], before: Measured) -> dict[str, float | None]:
        """Return the metrics of a cohort; None for a metric that no node has measured.

        Parameters
        ----------
        before
            The row of the round before; a privacy loss is never less than in that row.
        """
        return {metric.name: _combined(metric, reports, before) for metric in self.reported}

    def within(self, budget: float, *, note: str = "") -> Metrics:
        """Return these metrics, with a budget as the upper bound of the privacy loss; `note` says what it counts in."""
        limited = (replace(m, high=budget, note=note or m.note) if m.is_privacy_loss else m for m in self.reported)
        return replace(self, reported=tuple(limited))

    def of_other_loss(self) -> Metrics:
        """Return these metrics, without a lower bound of the losses, for losses other than fedlearn's."""
        losses = (TRAIN_LOSS.name, LOSS.name)
        parts = ((replace(m, low=None) if m.name in losses else m for m in p) for p in (self.reported, self.evaluated))
        return Metrics(*map(tuple, parts))

    def judged_by_loss(self) -> Metrics:
        """Return these metrics, with the loss as the headline, before all other evaluated metrics."""
        return replace(self, evaluated=(JUDGING_LOSS, *(m for m in self.evaluated if m.name != LOSS.name)))

    def of_loss_alone(self) -> Metrics:
        """Return these metrics, with the loss as the headline and the only evaluated metric."""
        return replace(self, evaluated=(JUDGING_LOSS,))

    def of_each(self, metric: Metric, targets: Iterable[str]) -> Metrics:
        """Return these metrics, followed by one of them for each of several targets, by their names."""
        return replace(self, evaluated=(*self.evaluated, *map(metric.of, targets)))

    def with_scores(self, scores: Iterable[Metric]) -> Metrics:
        """Return these metrics with scores before the evaluated metrics: the first of them that is ranked ranks runs.

        Raises
        ------
        ValueError
            If a score has the name of another metric.
        """
        return replace(self, evaluated=(*scores, *self.evaluated))

    def on_validation_rows(self) -> Metrics:
        """Return these metrics, the evaluated ones measured on validation rows; those of test rows are measured once.

        >>> Metrics((TRAIN_LOSS,), (LOSS, ACCURACY)).on_validation_rows().columns
        ('train_loss', 'validation_loss', 'validation_accuracy')
        """
        return replace(self, evaluated=tuple(map(of_validation, self.evaluated)), tested=self.evaluated)

    def that_hold(self, names: Iterable[str]) -> Metrics:
        """Return these metrics without those whose names are not given; those of test rows have no column."""
        kept = set(names)
        reported, evaluated = (tuple(m for m in part if m.name in kept) for part in (self.reported, self.evaluated))
        return Metrics(reported, evaluated, self.tested)

    def to_plain(self) -> dict[str, Any]:
        """Return the declarations as plain dictionaries and lists, for JSON."""
        return asdict(self)

    @classmethod
    def of_columns(cls, names: Iterable[str]) -> Metrics:
        """Return metrics for the columns of a run without declarations; an unknown column ranks no run."""
        columns = list(names)
        known = {m.name: m for m in (*KNOWN.reported, *KNOWN.evaluated)}
        reported = {m.name for m in KNOWN.reported}
        return cls(
            tuple(known[name] for name in columns if name in reported),
            tuple(known.get(name, Metric(name)) for name in columns if name not in reported),
        )

    @classmethod
    def of_all(cls, several: Iterable[Metrics]) -> Metrics:
        """Return the metrics of several runs together; of two metrics with one name, the first."""
        evaluated: dict[str, Metric] = {}
        reported: dict[str, Metric] = {}
        tested: dict[str, Metric] = {}
        for metrics in several:
            tested |= {m.name: m for m in metrics.tested if m.name not in tested}
            evaluated |= {m.name: m for m in metrics.evaluated if m.name not in {*evaluated, *reported}}
            reported |= {m.name: m for m in metrics.reported if m.name not in {*evaluated, *reported}}
        once = (m for m in tested.values() if m.name not in {*evaluated, *reported})
        return cls(tuple(reported.values()), tuple(evaluated.values()), tuple(once))

    def _place(self, metric: Metric) -> int:
        return 0 if metric is self.headline else 1 if metric.headline else 2


def _headline(evaluated: Sequence[Metric]) -> Metric | None:
    ranked = [metric for metric in evaluated if metric.better]
    return next((metric for metric in ranked if metric.headline), ranked[0] if ranked else None)


def _combined(metric: Metric, reports: Sequence[NodeReport], before: Measured) -> float | None:
    rows = [(report.num_examples, report.metrics[metric.name]) for report in reports if metric.name in report.metrics]
    if metric.combine is Combine.MEAN:
        weight = sum(num_examples for num_examples, _ in rows)
        value = sum(n * each for n, each in rows) / weight if weight else None
        value = value if value is not None and isfinite(value) else None  # huge losses overflow their mean
    elif metric.combine is Combine.SUM:
        value = sum(each for _, each in rows) if rows else None
    else:
        value = max((each for _, each in rows), default=None)
    if metric.is_privacy_loss:
        value = max((each for each in (before.get(metric.name), value) if each is not None), default=None)
    return value


def declared(plain: object) -> Metrics | None:
    """Return the metrics that `Metrics.to_plain` described; None for anything else, as an older log has."""
    try:
        return _plain().validate_python(plain)
    except (ValidationError, RecursionError):
        return None


@cache
def _plain() -> TypeAdapter[Metrics]:
    return TypeAdapter(Metrics)  # made when it is needed, in 10 ms that no worker waits for


NEURAL_CLASSIFIER = Metrics((TRAIN_LOSS,), (LOSS, ACCURACY))
NEURAL_REGRESSOR = Metrics((TRAIN_LOSS,), (MAE, MSE))
SEVERAL = Metrics((TRAIN_LOSS,), (replace(MAE_SCALED, headline=True),))
"""Of several targets in units of their own, which have no mean."""
COUNTS = Metrics((TRAIN_LOSS,), (DEVIANCE, LOSS, MAE, MSE))
LABELS = Metrics((TRAIN_LOSS,), (LOSS, replace(ACCURACY, note="of single labels"), ALL_RIGHT))
LANGUAGE = Metrics((TRAIN_LOSS,), (LOSS, PERPLEXITY, ACCURACY))
PRIVATE_CLASSIFIER = Metrics((EPSILON,), (LOSS, ACCURACY))
PRIVATE_REGRESSOR = Metrics((EPSILON,), (MAE, MAE_SCALED))
KNOWN = Metrics((TRAIN_LOSS, EPSILON), (ACCURACY, MAE, PERPLEXITY, LOSS, MSE, MAE_SCALED, ALL_RIGHT, DEVIANCE))
