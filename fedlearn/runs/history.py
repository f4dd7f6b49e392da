"""The committed rounds of a run: frozen records that the server makes, stores and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Self

from fedlearn.core.metric import Measured
from fedlearn.core.metrics import NEURAL_CLASSIFIER, Metrics


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One committed round: a row of metrics.csv. Seconds are wall time, bytes are those of serialized messages.

    `measured` holds the columns that depend on the model, as ``{"train_loss": 1.7, "loss": 1.5, "accuracy": 0.4}``.
    """

    round_number: int
    attempts: int
    ready: int
    cohort: int
    reported: int
    failed: int
    refused: int
    late: int
    bytes_down: int
    bytes_up: int  # of all reports that came, counted or not, over all attempts
    uploads: int  # how many reports came
    bytes_protocol: int  # ready queries and answers, notices, what nodes have measured
    selection_seconds: float
    training_seconds: float  # configuration and reporting
    evaluation_seconds: float
    measured: Measured = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Return the record as a flat row."""
        return {name: getattr(self, name) for name in COLUMNS} | dict(self.measured)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the record of a flat row.

        Raises
        ------
        TypeError
            If one of the fixed columns is missing, or a value is no number of its kind.
        """
        for name in COLUMNS:
            kinds = int | float if name.endswith("_seconds") else int
            if name not in row or isinstance(row[name], bool) or not isinstance(row[name], kinds) or not row[name] >= 0:
                raise TypeError(f"{name} is no number from 0 on")
        measured = {name: value for name, value in row.items() if name not in COLUMNS}
        for name, value in measured.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise TypeError(f"{name[:50]} is no number")
        return cls(**{name: row[name] for name in COLUMNS}, measured=measured)


COLUMNS = tuple(each.name for each in fields(RoundRecord) if each.name != "measured")
"""The columns that every run has."""


@dataclass(frozen=True, slots=True)
class History:
    """The committed rounds of a run, in order, and which one was best.

    `best` is the first round of the best evaluation; None if no round was evaluated, or no metric says which value is
    better. It is stored here, as the time of a commit must not grow with the number of rounds.
    """

    rounds: tuple[RoundRecord, ...] = ()
    metrics: Metrics = NEURAL_CLASSIFIER
    best: RoundRecord | None = None

    @classmethod
    def of(cls, rounds: Iterable[RoundRecord], metrics: Metrics) -> Self:
        """Return the history of these rounds."""
        best, kept = None, tuple(rounds)
        for record in kept:
            best = _better(best, record, metrics)
        return cls(kept, metrics, best)

    def plus(self, record: RoundRecord) -> History:
        """Return the history with one more round."""
        return History((*self.rounds, record), self.metrics, _better(self.best, record, self.metrics))

    @property
    def best_round(self) -> int:
        """The number of the best round; -1 where none is best."""
        return -1 if self.best is None else self.best.round_number

    @property
    def evaluated(self) -> RoundRecord | None:
        """The latest round that was evaluated, or None."""
        names = [self.metrics.best_by] if self.metrics.best_by else [each.name for each in self.metrics.evaluated]
        rounds = reversed(self.rounds)
        return next((r for r in rounds if any(r.measured.get(name) is not None for name in names)), None)


def _better(best: RoundRecord | None, record: RoundRecord, metrics: Metrics) -> RoundRecord | None:
    headline = metrics.headline
    value = record.measured.get(headline.name) if headline is not None else None
    if headline is None or value is None or not isfinite(value):
        return best
    before = best.measured[headline.name] if best is not None else None
    return record if before is None or headline.is_better(value, before) else best
