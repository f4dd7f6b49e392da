"""Tell in words which rows have chosen a run's best round, and how its test rows were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlearn.core.metric import Metric
from fedlearn.core.metrics import Metrics
from fedlearn.report.numbers import text_of

ONCE = "on the test rows, measured once"


def best_in_words(metric: Metric, best: float | None, summary: Mapping[str, Any], round_number: int = 0) -> str:
    """Return the best value of a metric with its round, and the rows that have chosen the round."""
    rows = summary.get("chosen_on")
    chosen = f", chosen on {rows}" if rows else ""
    return f"best {text_of(metric, best)} in round {round_number or summary['best_round']}{chosen}"


def once_in_words(metrics: Metrics, summary: Mapping[str, Any]) -> str:
    """Return how the test rows were measured, and the best round that validation rows have chosen."""
    judge, tested = metrics.headline, metrics.of_model
    if judge is None or tested is None or (best := summary.get(f"best_{judge.name}")) is None:
        return ONCE
    of_best = summary.get(f"best_{tested.name}")
    there = "" if of_best is None else f"{text_of(tested, of_best)} "
    return f"{ONCE} ({there}in round {summary['best_round']}, chosen by {judge.title} {text_of(judge, best)})"
