"""What nodes measure beside their model: the common state, their model tuned, and a model alone; who gains."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fedlearn.core.errors import SettingError
from fedlearn.runs.nodes_csv import read_nodes

ALL = {
    "model.name": "linear",
    "clients": 6,
    "rounds.cohort": 0,
    "evaluation.nodes": 6,
    "data.node_test_share": 0.25,
    "data.partition": "pathological",
    "training.batch_size": 10,
    "training.lr": 0.01,
}
BESIDE = {**ALL, "evaluation.beside": "alone,tuned,global"}
PART = {**BESIDE, "rounds.cohort": 2, "rounds.total": 3}


def by_round_and_node(run, name):
    return {(row["round"], row["partition"]): row[name] for row in read_nodes(run.folder)}


def test_alone_is_the_local_baseline_number_for_number(undisturbed):
    beside, local = undisturbed(BESIDE), undisturbed({**BESIDE, "training.baseline": "local"})
    for name in ("accuracy", "loss"):
        assert by_round_and_node(beside, f"{name}_alone") == by_round_and_node(local, name)
    assert not [name for name in read_nodes(local.folder)[0] if name.endswith(("_alone", "_tuned", "_global"))]


def test_it_changes_no_byte_of_the_model_and_is_the_same_on_every_engine(undisturbed, execute):
    beside, embedded = undisturbed(BESIDE), execute(BESIDE)
    assert undisturbed(ALL).sha == beside.sha == embedded.sha
    assert (embedded.folder / "nodes.csv").read_text() == (beside.folder / "nodes.csv").read_text()


def test_the_table_of_rounds_says_who_gains(undisturbed):
    run = undisturbed(BESIDE)
    last = [row for row in read_nodes(run.folder) if row["round"] == 2]
    gains = np.array([row["accuracy"] - row["accuracy_alone"] for row in last])
    row = list(csv.DictReader((run.folder / "metrics.csv").read_text().splitlines()))[-1]
    found = [float(row[f"accuracy_{end}"]) for end in ("gain", "gain_worst", "losing", "compared", "support")]
    support = min(row["test_examples"] for row in last)
    assert found == pytest.approx([gains.mean(), gains.min(), (gains < 0).mean(), 6, support], abs=1e-5)
    assert run.summary["accuracy_losing"] == pytest.approx((gains < 0).mean())


def test_a_node_that_has_not_trained_has_no_model_alone_and_is_not_compared(undisturbed):
    run = undisturbed(PART)
    rows = read_nodes(run.folder)
    trained: set[float] = set()
    for number in (1, 2, 3):
        of_round = [row for row in rows if row["round"] == number]
        trained |= {row["partition"] for row in of_round if row["examples"]}
        assert {row["partition"] for row in of_round if row["accuracy_alone"] is not None} == trained
        assert all(row["accuracy_tuned"] is not None for row in of_round)
    assert not run.events_of("evaluation-refused")


@pytest.mark.long
def test_a_resumed_run_has_the_numbers_of_one_that_was_never_stopped(undisturbed, execute):
    stopped = execute({**PART, "rounds.total": 1}, engine="inline")
    again = execute(PART, engine="inline", out=stopped.folder)
    assert (again.folder / "nodes.csv").read_text() == (undisturbed(PART).folder / "nodes.csv").read_text()
    assert again.sha == undisturbed(PART).sha


@pytest.mark.long
def test_personal_layers_are_in_what_the_node_uses_and_tunes_and_not_in_what_all_have(undisturbed):
    common = {**BESIDE, "model.name": "cnn", "training.lr": 0.02, "rounds.total": 3}
    rows = read_nodes(undisturbed({**common, "strategy.name": "fedper"}).folder)[-6:]
    used, tuned, of_all = (np.mean([row[f"accuracy{kind}"] for row in rows]) for kind in ("", "_tuned", "_global"))
    assert used > of_all + 0.2 and tuned > of_all + 0.2
    plain = read_nodes(undisturbed(common).folder)
    assert all(row["accuracy"] == row["accuracy_global"] for row in plain)
    alone = [row["loss_alone"] for row in plain[-6:]]
    assert alone == [row["loss_alone"] for row in rows]  # whatever is personal, alone is alone


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"evaluation.nodes": 0}, r"evaluation\.beside = .*: no client measures"),
        ({"evaluation.beside": "alone,better"}, "'better' is none of global, tuned, alone"),
        ({"evaluation.tune_epochs": 0}, r"evaluation\.tune_epochs"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_round_1(execute, settings, said):
    with pytest.raises(SettingError, match=said):
        execute({**BESIDE, **settings}, engine="inline")
