"""Measurements of single nodes: on each evaluation, before and after they train; never of a private model."""

from __future__ import annotations

import csv
import signal

import numpy as np
import pytest

from fedlearn.core.errors import SettingError
from fedlearn.runs.nodes_csv import read_nodes

ALL = {
    "evaluation.nodes": 12,
    "data.node_test_share": 0.25,
    "rounds.total": 2,
    "training.batch_size": 10,
    "training.lr": 0.01,
}
FEDPER = {
    **ALL,
    "training.lr": 0.05,
    "training.learner": "fedper:FedPer",
    "data.partition": "pathological",
    "rounds.cohort": 0,
}


@pytest.fixture(scope="module")
def plain(undisturbed):
    return undisturbed(ALL)


def table_of(run):
    return list(csv.DictReader((run.folder / "metrics.csv").read_text().splitlines()))


def test_every_node_has_a_row_and_those_of_the_cohort_what_they_were_sent_and_made(plain):
    rows = read_nodes(plain.folder)
    assert [row["partition"] for row in rows] == [*range(12)] * 2
    trained = [row for row in rows if row["examples"] is not None]
    assert len(trained) == 10
    assert {name for row in trained for name, value in row.items() if value is None} == set()
    assert {name for row in rows if row not in trained for name, value in row.items() if value is not None} == {
        "round", "partition", "test_examples", "loss", "accuracy",
    }  # fmt: skip
    assert all(row["test_examples"] == pytest.approx(row["examples"] / 3, abs=1) for row in trained)
    assert np.mean([row["loss_after"] - row["loss_before"] for row in trained]) < 0


def test_a_node_is_sent_the_state_that_the_round_before_has_made(plain):
    rows = read_nodes(plain.folder)
    made = {row["partition"]: row["accuracy"] for row in rows if row["round"] == 1}
    sent = {row["partition"]: row["accuracy_before"] for row in rows if row["round"] == 2 and row["examples"]}
    assert sent == {partition: made[partition] for partition in sent}


def test_the_table_of_rounds_says_how_the_headline_is_spread(plain):
    for number, row in enumerate(table_of(plain), start=1):
        of_round = [each for each in read_nodes(plain.folder) if each["round"] == number]
        values, weights = (np.array([each[name] for each in of_round]) for name in ("accuracy", "test_examples"))
        expected = {
            "": np.average(values, weights=weights), "_equal": values.mean(), "_worst": np.sort(values)[:2].mean(),
            "_deviation": values.std(), "_jain": values.sum() ** 2 / (12 * (values**2).sum()),
        }  # fmt: skip
        assert {key: float(row[f"accuracy_nodes{key}"]) for key in expected} == pytest.approx(expected, abs=1e-5)


@pytest.mark.long
def test_measuring_nodes_changes_no_byte_of_the_model_and_is_the_same_on_every_engine(execute, undisturbed, plain):
    assert undisturbed({**ALL, "evaluation.nodes": 0}).sha == plain.sha
    embedded = execute(ALL)
    assert embedded.sha == plain.sha
    assert (embedded.folder / "nodes.csv").read_text() == (plain.folder / "nodes.csv").read_text()


def test_without_being_asked_nodes_measure_nothing_but_what_they_report(undisturbed):
    rows = read_nodes(undisturbed({**ALL, "evaluation.nodes": 0}).folder)
    assert {tuple(row) for row in rows} == {("round", "partition", "examples", "train_loss")}
    assert len(rows) == 10


def test_a_sample_of_nodes_measures_and_only_when_an_evaluation_is_due(execute):
    run = execute({**ALL, "evaluation.nodes": 4, "evaluation.every": 2}, engine="inline")
    rows = read_nodes(run.folder)
    assert {row["round"] for row in rows if row["accuracy"] is not None} == {2}
    assert sum(row["accuracy"] is not None for row in rows) == 4
    assert {row["round"] for row in rows if row["accuracy_before"] is not None} == {2}
    assert [row["accuracy_nodes"] == "" for row in table_of(run)] == [True, False]


@pytest.mark.slow
def test_a_resumed_run_has_the_rows_of_one_that_was_never_stopped(execute):
    settings = {**ALL, "rounds.total": 3}
    stopped = execute({**settings, "rounds.total": 1}, engine="inline")
    whole, again = execute(settings, engine="inline"), execute(settings, engine="inline", out=stopped.folder)
    assert again.sha == whole.sha
    assert (again.folder / "nodes.csv").read_text() == (whole.folder / "nodes.csv").read_text()


@pytest.mark.long
def test_a_killed_run_ends_with_the_rows_of_one_that_was_not(command, execute):
    settings = {**ALL, "rounds.total": 6}
    started = command(settings)
    started.wait_for_round(2)
    started.signal(signal.SIGKILL)
    assert 2 <= started.run.committed < 6
    again = command(resume=started.run.folder)
    assert again.process.wait(60) == 0
    whole = execute(settings, engine="inline")
    assert again.run.sha == whole.sha
    assert (again.run.folder / "nodes.csv").read_text() == (whole.folder / "nodes.csv").read_text()


@pytest.mark.slow
def test_what_a_node_keeps_for_itself_is_what_it_measures_and_never_leaves_it(execute, undisturbed):
    personal = execute(FEDPER)
    assert personal.sha == undisturbed(FEDPER).sha
    shared = undisturbed({**FEDPER, "training.learner": ""})
    own, common = (float(table_of(run)[-1]["accuracy_nodes_equal"]) for run in (personal, shared))
    assert own > common + 0.2  # two classes a node: a last layer of its own knows which


@pytest.mark.slow
def test_measuring_a_model_of_the_nodes_own_does_not_send_it(execute, undisturbed):
    shared = undisturbed({**FEDPER, "training.learner": ""})
    assert execute({**FEDPER, "training.learner": "ditto:Ditto"}).sha == shared.sha


@pytest.mark.usefixtures("adult")
def test_nodes_of_a_private_model_are_never_measured(execute):
    settings = {"model.name": "dp-classifier", "clients": 2, "data.dataset": "adult", "evaluation.nodes": 2}
    with pytest.raises(SettingError, match=r"evaluation\.nodes = 2: clients would send what they measured"):
        execute(settings, engine="inline")


def test_the_scores_of_clients_choose_the_best_round_where_the_server_has_no_test_set(execute):
    grows = {"model.name": "growing:model", "data.dataset": "growing:load", "rounds.total": 5}
    by_clients = execute({**grows, "evaluation.where": "nodes"}, engine="inline").summary
    by_server = execute(grows, engine="inline").summary
    assert (by_clients["best_round"], by_clients["chosen_on"]) == (2, "the nodes' own rows")
    assert (by_server["best_round"], by_server["chosen_on"]) == (4, "the test rows")
    assert by_clients["best_gap"] == by_server["best_gap"] == 0
