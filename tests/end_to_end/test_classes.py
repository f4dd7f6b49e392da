"""classes.json: what the evaluations of a run have counted, at no cost and without a word in the result."""

from __future__ import annotations

import pytest

from fedlearn.runs.classes_json import read_classes


def shares(results):
    return [float(each.counts.trace() / each.counts.sum()) for each in (results.final, results.best)]


def test_confusion_is_that_of_the_last_and_the_best_evaluation(execute):
    run = execute({"rounds.total": 3, "training.lr": 0.5}, engine="inline")
    results = read_classes(run.folder)
    assert shares(results) == pytest.approx([run.summary["accuracy"], run.summary["best_accuracy"]])
    assert results.best.round_number == run.summary["best_round"]
    assert results.classes == [str(digit) for digit in range(10)]


def test_rounds_that_are_not_evaluated_count_nothing(execute):
    run = execute({"rounds.total": 3, "evaluation.every": 2}, engine="inline")
    results = read_classes(run.folder)
    assert shares(results) == pytest.approx([run.summary["accuracy"], run.summary["best_accuracy"]])


@pytest.mark.slow
def test_workers_count_what_one_process_counts(execute):
    results = [read_classes(execute(engine=engine).folder) for engine in ("inline", "embedded")]
    assert results[0] == results[1]


def test_a_resumed_run_has_the_matrix_of_what_it_has_evaluated(execute):
    run = execute({"training.lr": 0.1}, engine="inline")
    execute({"training.lr": 0.1, "rounds.total": 3}, engine="inline", out=run.folder)
    results = read_classes(run.folder)
    assert results.final.round_number == 3
    assert results.best is None or results.best.round_number == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"evaluation.where": "none"},
        {"evaluation.where": "nodes"},
        {"data.dataset": "diabetes", "model.name": "dp-forest", "clients": 3, "rounds.total": 1},
    ],
)
def test_without_classes_or_a_test_set_on_the_server_there_is_no_file(execute, settings):
    assert not (execute(settings, engine="inline").folder / "classes.json").exists()
