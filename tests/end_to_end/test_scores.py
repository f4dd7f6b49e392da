"""Scores of all outputs in whole runs: those of scikit-learn, whoever computes, and of the nodes that have them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score

import fedlearn
from fedlearn.core.errors import SettingError
from fedlearn.data import from_arrays
from fedlearn.runs.nodes_csv import read_nodes

SCORED = {"model.name": "linear", "evaluation.scores": "roc_auc_ovr,f1_macro"}


def of_scikit_learn(run, examples):
    opened = fedlearn.load(run.folder)
    with torch.inference_mode():
        logits = opened.model()(opened.inputs(np.asarray(examples.inputs))).double()
    auroc = roc_auc_score(examples.targets, logits.softmax(1), multi_class="ovr")
    return auroc, f1_score(examples.targets, logits.argmax(1), average="macro")


def measured(run):
    return [(event["roc_auc_ovr"], event["f1_macro"]) for event in run.events_of("committed")]


def test_scores_in_the_history_of_a_run_are_those_of_scikit_learn(execute):
    run = execute(SCORED, engine="inline")
    wanted = of_scikit_learn(run, fedlearn.data.load_dataset("digits", "").test)
    assert measured(run)[-1] == pytest.approx(wanted, abs=1e-9)
    assert (run.summary["roc_auc_ovr"], run.summary["f1_macro"]) == measured(run)[-1]
    assert run.summary["best_roc_auc_ovr"] == max(each[0] for each in measured(run))
    history = fedlearn.load(run.folder).history
    assert history[["roc_auc_ovr", "f1_macro"]].to_numpy().tolist() == [list(each) for each in measured(run)]


@pytest.mark.long
def test_scores_do_not_depend_on_workers(execute):
    runs = [execute({**SCORED, "engine.workers": workers}) for workers in (1, 2)]
    assert measured(runs[0]) == measured(runs[1]) == measured(execute(SCORED, engine="inline"))
    assert runs[0].sha == runs[1].sha == execute({"model.name": "linear"}, engine="inline").sha


def test_scores_of_stacked_nodes_are_those_of_their_model(execute):
    run = execute({**SCORED, "training.stack": 4}, engine="inline")
    assert measured(run)[-1] == pytest.approx(
        of_scikit_learn(run, fedlearn.data.load_dataset("digits", "").test), abs=1e-9
    )


ON_NODES = {
    **SCORED, "clients": 20, "rounds.cohort": 0, "rounds.total": 1, "evaluation.nodes": 20, "evaluation.where": "nodes",
    "data.partition": "pathological", "data.classes_per_node": 1,
}  # fmt: skip


def test_nodes_of_one_class_have_no_score(execute):
    run = execute(ON_NODES, engine="inline")
    assert all(row["roc_auc_ovr"] is row["f1_macro"] is None and row["loss"] > 0 for row in read_nodes(run.folder))
    (event,) = run.events_of("committed")
    assert event["roc_auc_ovr"] is event["f1_macro"] is None and event["accuracy"] > 0
    assert not run.events_of("evaluation-refused")


def test_mean_of_nodes_is_that_of_those_that_have_the_score(execute):
    run = execute({**ON_NODES, "data.classes_per_node": 2, "evaluation.scores": "f1_macro"}, engine="inline")
    rows = read_nodes(run.folder)
    weights, values = zip(*((row["test_examples"], row["f1_macro"]) for row in rows), strict=True)
    (event,) = run.events_of("committed")
    assert event["f1_macro"] == pytest.approx(np.average(values, weights=weights), abs=1e-5)  # nodes.csv has six digits
    assert event["f1_macro_nodes"] == pytest.approx(event["f1_macro"], abs=1e-9)


@pytest.mark.parametrize("where", ["server", "nodes"])
def test_outputs_that_take_too_much_are_refused_before_round_1(where, tmp_path):
    many = from_arrays(np.zeros((200_000, 2), np.float32), np.arange(200_000) % 10)
    settings = {"evaluation.scores_mb": 1, "evaluation.where": where}
    with pytest.raises(SettingError, match=r"evaluation\.scores_mb = 1: the outputs of \d+ examples, 40 bytes each"):
        fedlearn.run(
            1, data=many, model="linear", scores="f1_macro", settings=settings, engine="inline", out=tmp_path / "run"
        )
