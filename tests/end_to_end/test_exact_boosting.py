"""Boosted trees of exact sums as federations: the trees of one table, by every way."""

from __future__ import annotations

import json
import signal
from importlib.util import find_spec

import numpy as np
import pytest

import fedlearn
from fedlearn.core.errors import RunFailed
from fedlearn.data import load_dataset
from fedlearn.private_trees.exact import fit
from tests.end_to_end.conftest import PATIENCE, end_of
from tests.oracles.studies import BOUNDS, WORDS, patients

SMALL = {"max_iter": 3, "max_depth": 3, "min_samples_leaf": 5, "max_bins": 16}


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patients")
    patients(400, seed=2, missing=0.03).to_csv(folder / "patients.csv", index=False)
    bounds = "\n".join(f"{name} = {list(BOUNDS[name])}" for name in ("age", "dose"))
    words = "\n".join(f"{name} = {WORDS[name]}" for name in ("sex", "ward"))
    head = f'data = "patients.csv"\ntarget = "sick"\nclasses = {WORDS["sick"]}'
    text = f"{head}\n[bounds]\n{bounds}\n[categories]\n{words}\n"
    (folder / "patients.toml").write_text(text)
    return str(folder / "patients.toml")


@pytest.fixture
def settings(declared):
    return {
        "clients": 5, "rounds.cohort": 0, "rounds.total": 10, "model.name": "exact-boosting",
        "model.options": SMALL, "data.dataset": declared, "data.partition": "dirichlet", "data.alpha": 0.5,
    }  # fmt: skip


def as_text(settings):
    return {**settings, "model.options": json.dumps(settings["model.options"])}


@pytest.mark.long
def test_masked_trees_of_skewed_clients_are_those_of_one_table(execute, settings):
    run = fedlearn.load(execute({**settings, "secure.sums": "masked"}, engine="inline").folder)
    pooled, rows = fit(load_dataset(settings["data.dataset"], ""), **SMALL), patients(100, seed=7)
    trees = run.model()
    np.testing.assert_array_equal(trees.decision_function(rows), pooled.decision_function(rows))
    assert (trees.trees_.child >= 0).any() and trees.export_text(tree=2) == pooled.export_text(tree=2)
    assert set(run.predict(rows)) <= {"no", "yes"} and 0 < run.summary["accuracy"] < 1
    assert execute(settings, engine="inline").sha == run.sha256


@pytest.mark.long
@pytest.mark.parametrize("sums", ["unmasked", "off"])
def test_the_bytes_are_those_of_workers_without_masks(execute, settings, sums):
    found = execute({**settings, "secure.sums": sums}).sha
    assert found == execute({**settings, "secure.sums": "masked"}, engine="inline").sha


@pytest.mark.long
@pytest.mark.network
@pytest.mark.skipif(not find_spec("ray"), reason="no Ray")
@pytest.mark.parametrize("sums", ["masked", "unmasked", "off"])
def test_the_bytes_are_those_of_ray(command, execute, settings, sums):
    on_ray = command({**as_text(settings), "engine.name": "ray", "secure.sums": sums})
    assert on_ray.process.wait(5 * PATIENCE) == 0  # Ray alone may take two minutes to start
    assert on_ray.run.sha == execute(settings, engine="inline").sha


@pytest.mark.long
def test_a_killed_fit_goes_on_to_the_same_bytes(command, execute, settings):
    killed = command(as_text(settings))
    killed.wait_for_round(3)
    killed.signal(signal.SIGKILL, group=True)
    assert end_of("simulate", "--quiet", "--resume", killed.run.folder) == 0
    assert killed.run.sha == execute(settings, engine="inline").sha


@pytest.mark.long
def test_a_client_that_vanishes_later_ends_the_fit_with_one_line(execute, settings, monkeypatch):
    monkeypatch.setenv("FAULTS", "raise:3:3")
    faulty = {**settings, "data.partition": "iid", "training.learner": "faulty_analysis:FaultyLearner"}
    with pytest.raises(RunFailed, match="round 3 has sums of 4 clients, round 1 of 5") as failed:
        execute({**faulty, "rounds.quorum": 0.5}, engine="inline")
    assert "\n" not in str(failed.value)
