"""Baselines on the engines: all data at one node, and every node alone."""

from __future__ import annotations

import csv

import pytest

from fedlearn.core.errors import SettingError
from tests.end_to_end.conftest import end_of

LINEAR = {"model.name": "linear", "training.batch_size": 20}
ALONE = {**LINEAR, "training.baseline": "local", "data.partition": "dirichlet", "rounds.minimum_ready": 0.5}


def test_central_run_is_the_run_of_one_node_with_as_many_passes(undisturbed):
    central = undisturbed({**LINEAR, "training.baseline": "central", "training.local_epochs": 12, "rounds.cohort": 3})
    alone = undisturbed({**LINEAR, "clients": 1, "training.local_epochs": 3})  # 12 passes of 3 of 12 nodes
    assert central.sha == alone.sha
    assert (central.summary["baseline"], central.summary["clients"]) == ("central", 1)
    assert central.summary["accuracy"] == alone.summary["accuracy"]


def test_part_of_a_pass_is_fewer_steps(undisturbed):
    central = undisturbed({**LINEAR, "training.baseline": "central", "rounds.total": 1})  # 5 of 12 nodes, one pass each
    whole = undisturbed({**LINEAR, "clients": 1, "rounds.total": 1})
    assert central.summary["accuracy"] < whole.summary["accuracy"]


def test_nodes_alone_have_the_same_bytes_on_every_engine_and_after_a_resume(execute, undisturbed):
    reference = undisturbed(ALONE)
    short = execute({**ALONE, "rounds.total": 1})
    assert end_of("simulate", "--quiet", "--resume", short.folder, "--rounds", 2) == 0
    for run in (execute(ALONE), short):
        assert run.sha == reference.sha
        for name in ("accuracy", "accuracy_models_worst", "accuracy_models_deviation"):
            assert run.summary[name] == reference.summary[name], name


def test_first_round_of_nodes_alone_is_that_of_a_federation_of_all_and_no_later_one_is(undisturbed):
    alike = {**LINEAR, "rounds.cohort": 0, "gate.max_ratio": 0, "gate.max_share": 1}
    one, two = ({**alike, "rounds.total": rounds} for rounds in (1, 2))
    alone = {"training.baseline": "local"}
    assert undisturbed({**one, **alone}).sha == undisturbed(one).sha
    assert undisturbed({**two, **alone}).sha != undisturbed(two).sha


def test_one_node_alone_scores_as_all_data_at_one_node(undisturbed):
    alone = undisturbed({**LINEAR, "clients": 1, "training.baseline": "local"}).summary
    central = undisturbed({**LINEAR, "clients": 1, "training.baseline": "central"}).summary
    assert alone["model_sha256"] == central["model_sha256"]
    assert alone["accuracy"] == alone["accuracy_models_worst"] == pytest.approx(central["accuracy"])
    assert alone["accuracy_models_deviation"] == 0


def test_nodes_alone_are_also_measured_on_examples_of_their_own(undisturbed):
    run = undisturbed({**ALONE, "data.node_test_share": 0.2, "evaluation.nodes": 12, "data.partition": "iid"})
    with (run.folder / "nodes.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["round"] == "2"]
    assert len(rows) == 12
    for row in rows:  # after the round a node measures what it has made of its own model
        assert row["accuracy"] == row["accuracy_after"] != ""
    assert run.summary["accuracy_nodes_worst"] is not None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"model.name": "dp-forest", "data.dataset": "diabetes", "training.baseline": "local"}, "--clients 1"),
        ({"training.baseline": "both"}, "central"),
        ({"training.baseline": "central", "data.dataset": "synthetic"}, "no client holds all"),
    ],
)
def test_baseline_that_makes_no_sense_is_refused_in_one_line(execute, settings, why):
    with pytest.raises(SettingError, match=f"training.baseline = .*{why}"):
        execute(settings, engine="inline")
