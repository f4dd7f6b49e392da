from __future__ import annotations

import pytest

from fedlearn.core.metrics import NEURAL_CLASSIFIER, PRIVATE_REGRESSOR
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.history import COLUMNS, History, RoundRecord

BEFORE = ["train_loss", "loss", "accuracy"]  # what a neural run measured when its columns were first stored


def record(number, **measured):
    counts = dict.fromkeys([name for name in COLUMNS if name != "round_number"], 1)
    return RoundRecord(round_number=number, **counts, measured=measured)


def history_of(metrics, name, values):
    history = History(metrics=metrics)
    for number, value in enumerate(values, start=1):
        history = history.plus(record(number, **{name: value}))
    return history


@pytest.mark.parametrize(
    ("metrics", "name", "values", "best", "evaluated"),
    [
        (NEURAL_CLASSIFIER, "accuracy", [0.1, None, 0.7, 0.7, None], 3, 4),
        (NEURAL_CLASSIFIER, "accuracy", [0.0, None], 1, 1),
        (NEURAL_CLASSIFIER, "accuracy", [float("nan"), 0.7], 2, 2),
        (PRIVATE_REGRESSOR, "mae", [9.0, 3.0, None, 3.0, 4.0], 2, 5),
        (PRIVATE_REGRESSOR, "mae", [0.0, 3.0], 1, 2),
        (PRIVATE_REGRESSOR, "mae", [None, None], None, None),
    ],
)
def test_best_is_the_first_round_of_the_best_value(metrics, name, values, best, evaluated):
    history = history_of(metrics, name, values)
    assert (history.best.round_number if history.best else None) == best
    assert (history.evaluated.round_number if history.evaluated else None) == evaluated


def test_a_record_survives_being_a_row():
    before = record(3, epsilon=1.0, mae=2.5, mae_scaled=None)
    assert RoundRecord.from_row(before.as_row()) == before
    assert list(before.as_row()) == [*COLUMNS, "epsilon", "mae", "mae_scaled"]


def test_columns_of_a_neural_run_are_what_they_always_were(tmp_path):
    RunStore(tmp_path).begin({})
    assert (tmp_path / "metrics.csv").read_text() == (
        "round_number,attempts,ready,cohort,reported,failed,refused,late,bytes_down,bytes_up,uploads,bytes_protocol,"
        f"selection_seconds,training_seconds,evaluation_seconds,{','.join(NEURAL_CLASSIFIER.columns)}\n"
    )
    assert [name for name in NEURAL_CLASSIFIER.columns if name in BEFORE] == BEFORE


def test_columns_of_a_private_regression(tmp_path):
    RunStore(tmp_path, PRIVATE_REGRESSOR).begin({})
    assert (
        (tmp_path / "metrics.csv")
        .read_text()
        .strip()
        .endswith("evaluation_seconds,epsilon,mae,mae_scaled,epsilon_counts_in")
    )
