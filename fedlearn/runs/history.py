"""The committed rounds of a run: frozen records that the server makes, stores and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from fedlearn.metrics import NEURAL_CLASSIFIER, Measured, Metrics


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One committed round: a row of metrics.csv. Seconds are wall time, bytes are of serialised messages.

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
    uploads: int  # how many those were
    bytes_protocol: int  # ready queries and answers, notices
    selection_seconds: float
    training_seconds: float  # configuration and reporting
    evaluation_seconds: float
    measured: Measured = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Return the record as a flat row."""
        return {name: getattr(self, name) for name in COLUMNS} | dict(self.measured)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the record of a flat row; raises TypeError if one of the fixed columns is missing."""
        measured = {name: value for name, value in row.items() if name not in COLUMNS}
        return cls(**{name: row[name] for name in COLUMNS if name in row}, measured=measured)


COLUMNS = tuple(each.name for each in fields(RoundRecord) if each.name != "measured")
"""The columns that every run has."""


@dataclass(frozen=True, slots=True)
class History:
    """The committed rounds of a run, in order, and which one was best."""

    rounds: tuple[RoundRecord, ...] = ()
    metrics: Metrics = NEURAL_CLASSIFIER

    def plus(self, record: RoundRecord) -> History:
        """Return the history with one more round."""
        return replace(self, rounds=(*self.rounds, record))

    @property
    def best(self) -> RoundRecord | None:
        """The first round of the best evaluation; None where nothing was evaluated, or nothing says what is better."""
        best, best_value, headline = None, 0.0, self.metrics.headline
        if headline is None:
            return None
        for record in self.rounds:
            value = record.measured.get(headline.name)
            if value is not None and (best is None or headline.is_better(value, best_value)):
                best, best_value = record, value
        return best

    @property
    def evaluated(self) -> RoundRecord | None:
        """The latest round that was evaluated, or None."""
        names = [self.metrics.best_by] if self.metrics.best_by else [each.name for each in self.metrics.evaluated]
        rounds = reversed(self.rounds)
        return next((r for r in rounds if any(r.measured.get(name) is not None for name in names)), None)
