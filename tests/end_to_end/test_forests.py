"""Private forests as whole runs: the same bytes on every engine and after a kill, and never more than the budget."""

from __future__ import annotations

import csv
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedlearn.api import load
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.seeding import seed_for
from fedlearn.data import diabetes, load_dataset, partition_table
from fedlearn.models.presets import settings_from
from fedlearn.private_trees import Domain, DPEnsembleTree, union
from fedlearn.private_trees.numbers.randomness import sources
from fedlearn.private_trees.numbers.relay import add_tree, grow_relay_tree, relay_plan
from tests.end_to_end.conftest import Run, some_slow

UNION = {
    "model.name": "dp-forest", "data.dataset": "diabetes", "strategy.name": "forest_union", "clients": 7,
    "rounds.cohort": 0, "rounds.total": 1,
}  # fmt: skip
RELAY = {
    "model.name": "dp-relay", "data.dataset": "diabetes", "strategy.name": "relay", "clients": 7, "rounds.cohort": 1,
    "rounds.invited": 7, "rounds.total": 7,
}  # fmt: skip
VARIANTS = {
    "union": UNION,
    "relay": RELAY,
    "uneven": {**UNION, "data.partition": "dirichlet", "data.alpha": 0.3, "privacy.public_sizes": True},
    "over-several-rounds": {**UNION, "rounds.cohort": 2, "rounds.total": 3},
    "shared-turns": {**RELAY, "rounds.cohort": 3, "rounds.total": 2},
    "mean-leaves": {**UNION, "model.options": '{"leaf": "mean"}'},
}


@pytest.mark.long
@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_every_engine_makes_the_same_forest(execute, undisturbed, settings):
    reference = undisturbed(settings)
    for workers in (1, 2):
        run = execute({**settings, "engine.workers": workers})
        assert run.sha == reference.sha
        for name in ("mae", "mae_scaled", "epsilon", "rounds", "bytes_up", "bytes_down", "bytes_protocol"):
            assert run.summary[name] == reference.summary[name], name


def test_the_model_of_a_run_predicts_as_it_was_evaluated_and_shows_its_rules(undisturbed):
    run = load(undisturbed(UNION).folder)
    forest, test = run.model(), load_dataset("diabetes", "").test
    error = np.abs(forest.predict(test.inputs) - test.targets).mean()
    assert error == pytest.approx(run.summary["mae"], rel=1e-9)
    assert forest.rules().count("tree ") == 7 and "bmi" in forest.importances()


@pytest.mark.slow
def test_results_are_in_the_unit_of_the_target_and_say_what_was_spent(execute):
    run = execute({**UNION, "privacy.epsilon": 3.0})
    low, high = diabetes.SCHEMA.target_bounds
    assert run.summary["mae"] == pytest.approx(run.summary["mae_scaled"] * (high - low))
    assert (run.summary["epsilon"], run.summary["compression_ratio"]) == (3.0, None)
    assert run.summary["noise_notice"] == "seeded noise: reproducible, protects nobody"
    with (run.folder / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (float(row["epsilon"]), float(row["mae"])) == (3.0, pytest.approx(run.summary["mae"]))
    assert "accuracy" not in row
    (committed,) = run.events_of("committed")
    assert committed["mae"] == run.summary["mae"]


def test_the_forest_is_that_of_the_library_on_the_same_shards(execute):
    run = execute(UNION)
    config, schema = settings_from(UNION), diabetes.SCHEMA
    dataset = load_dataset("diabetes", "")
    shards = partition_table(dataset, config.data, num_partitions=7, seed=config.seed)
    trees = []
    for node in range(7):
        mine = dataset.train.at(shards.indices(node))
        tree = DPEnsembleTree(
            epsilon=1.0, bounds=list(schema.bounds.values()), target_bounds=schema.target_bounds, noise="seeded",
            random_state=seed_for(config.seed, purpose="trees", round_number=1, node=node) % 2**32,
        )  # fmt: skip
        trees.append(tree.fit(mine.inputs, mine.targets).table_)
    expected = union(trees, [1.0] * 7).to_arrays()
    found = load_file(run.folder / "model.safetensors")
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], np.nan_to_num(array), err_msg=name)


def test_the_relay_is_that_of_the_library_on_the_same_shards_in_the_same_order(execute):
    settings = {**RELAY, "privacy.public_sizes": True}
    run = execute(settings)
    turns = [event["partition"] for event in run.events_of("reported")]
    assert sorted(turns) == list(range(7))
    config, schema = settings_from(settings), diabetes.SCHEMA
    dataset = load_dataset("diabetes", "")
    shards = partition_table(dataset, config.data, num_partitions=7, seed=config.seed)
    domain = Domain.declare(num_features=10, bounds=list(schema.bounds.values()), target_bounds=schema.target_bounds)
    ensemble = None
    for turn, node in enumerate(turns, start=1):
        mine = dataset.train.at(shards.indices(node))
        noise, rng = sources("seeded", seed_for(config.seed, purpose="trees", round_number=turn, node=node) % 2**32)
        plan = relay_plan(1.0, len(mine))
        tree = grow_relay_tree(ensemble, mine.inputs, mine.targets, domain=domain, plan=plan, noise=noise, rng=rng)
        ensemble = add_tree(ensemble, tree)
    found = load_file(run.folder / "model.safetensors")
    for name, array in ensemble.to_arrays().items():
        np.testing.assert_array_equal(found[name], np.nan_to_num(array), err_msg=name)


@pytest.mark.slow
def test_secure_noise_makes_another_forest_each_time(execute):
    secure = {**UNION, "privacy.noise": "secure", "clients": 2}
    first, again = execute(secure, engine="inline"), execute(secure, engine="inline")
    assert first.sha != again.sha
    assert first.summary["noise_notice"] == ""


def test_a_node_takes_one_turn_and_is_not_ready_for_another(execute):
    run = execute({**RELAY, "rounds.total": 3})
    turns = [event["partition"] for event in run.events_of("reported")]
    assert len(set(turns)) == 3
    refusals = {(e["round"], e["partition"]): e["reason"] for e in run.events_of("not-ready")}
    assert set(refusals) == {(2, turns[0]), (3, turns[0]), (3, turns[1])}
    assert set(refusals.values()) == {"budget spent: 1 of epsilon 1"}


@pytest.mark.slow
def test_the_budget_stays_spent_across_a_resume(execute):
    run = execute(UNION)
    with pytest.raises(RunFailed, match=r"only 0 clients were ready .*; first reason: budget spent: 1 of epsilon 1"):
        execute({**UNION, "rounds.total": 2}, out=run.folder)
    assert run.committed == 1
    assert run.summary["epsilon"] == 1.0


@pytest.mark.slow
def test_a_resumed_run_cannot_raise_its_budget(execute):
    run = execute(UNION)
    with pytest.raises(SettingError, match=r"privacy\.epsilon = 2\.0: the run in .* began with 1\.0"):
        execute({**UNION, "rounds.total": 2, "privacy.epsilon": 2.0}, out=run.folder)


@pytest.mark.long
def test_killed_between_turns_it_resumes_to_the_same_bytes(command, execute, undisturbed):
    killed = command({**RELAY, "engine.name": "inline"})
    killed.wait_for_round(3)
    killed.signal(signal.SIGKILL)
    assert Run(killed.run.folder).committed < 7
    resumed = execute(RELAY, out=killed.run.folder)
    assert resumed.sha == undisturbed(RELAY).sha
    assert resumed.summary["epsilon"] == 1.0
    turns = [e["partition"] for e in resumed.events_of("committed") if "partition" in e]
    assert len(turns) == len(set(turns))


HICCUP = {**UNION, "model.name": "faulty_forest:FOREST", "clients": 5, "rounds.max_attempts": 2}


@pytest.mark.long
def test_a_private_run_survives_two_of_five_nodes_failing_once_and_spends_no_more(
    execute, undisturbed, tmp_path, monkeypatch
):
    reference = undisturbed(HICCUP)
    monkeypatch.setenv("ONCE", str(tmp_path))
    monkeypatch.setenv("FAULTS", "kill:1:1 kill:3:1")
    run = execute(HICCUP)
    assert run.sha == reference.sha
    assert [(e["attempts"], e["reported"]) for e in run.events_of("committed")] == [(2, 5)]
    assert (run.summary["epsilon"], run.summary["nodes_spent"]) == (1.0, 5)
    reports = {}
    for event in run.events_of("reported"):
        reports.setdefault(event["partition"], []).append((event["bytes"], event["epsilon"]))
    assert {partition: len(each) for partition, each in reports.items()} == {0: 2, 1: 1, 2: 2, 3: 1, 4: 2}
    assert all(len(set(each)) == 1 and each[0][1] == 1.0 for each in reports.values())


@pytest.mark.long  # in short: tests/unit/server/test_spending.py
def test_what_abandoned_attempts_have_published_is_in_the_summary(execute, tmp_path, monkeypatch):
    monkeypatch.setenv("FAULTS", "kill:1:1 kill:3:1")
    with pytest.raises(RunFailed, match="3 of 5 clients reported, quorum is 4"):
        execute({**HICCUP, "privacy.noise": "secure"}, out=tmp_path / "run")
    run = Run(tmp_path / "run")
    reported = run.events_of("reported")
    assert len(reported) == 3 * 2  # attempts
    assert len({(event["partition"], event["bytes"]) for event in reported}) == 3
    assert (run.summary["rounds"], run.summary["epsilon"], run.summary["nodes_spent"]) == (0, 1.0, 3)


@pytest.mark.long
def test_where_sizes_are_public_a_record_is_replaced_and_loses_twice_as_much(execute):
    run = execute({**UNION, "privacy.public_sizes": True})
    assert (run.summary["epsilon"], run.summary["neighboring"]) == (2.0, "replace one record")
    (declared,) = [each for each in run.summary["metrics"]["reported"] if each["name"] == "epsilon"]
    assert declared["high"] == 2.0
    assert declared["note"].startswith("spent; replace one record; unit: record; local noise")


COUNTS = {
    "model.name": "linear", "training.learner": "noisy_counts:NoisyCounts", "clients": 4, "rounds.cohort": 0,
    "rounds.total": 2, "strategy.name": "fedavg",
}  # fmt: skip


def test_a_private_learner_from_outside_makes_a_run_private_whatever_its_model(execute):
    run = execute(COUNTS, engine="inline")
    assert (run.summary["epsilon"], run.summary["nodes_spent"], run.summary["noise"]) == (1.0, 4, "seeded")
    assert {(event["examples"], event["epsilon"]) for event in run.events_of("reported")} == {(1, 0.5), (1, 1.0)}
    assert run.summary["accuracy"] > 0.05  # on the server's own examples
    assert execute(COUNTS, engine="inline").sha == run.sha  # as of our own private models, in a simulation
    for name, value in {"evaluation.where": "nodes", "evaluation.nodes": 2}.items():
        with pytest.raises(SettingError, match="no budget covers that"):
            execute({**COUNTS, name: value}, engine="inline")


def test_a_strategy_that_averages_is_refused_before_round_1(execute):
    with pytest.raises(SettingError, match="produces ensembles: use 'forest_union'"):
        execute({**UNION, "strategy.name": "fedavg"})


CLASSIFIERS = ("dp-classifier", "dp-random-forest", "pf-forest")


@pytest.mark.parametrize("model", some_slow({name: name for name in CLASSIFIERS}, ["pf-forest"]))
def test_classifiers_report_loss_and_accuracy(execute, tmp_path, model):
    rng = np.random.default_rng(1)
    job, age = rng.integers(0, 3, 400), rng.integers(0, 100, 400)
    rows = [f"{'abc'[j]},{a},{'yes' if j == 1 or a > 60 else 'no'}" for j, a in zip(job, age, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["job,age,rich", *rows]))
    (tmp_path / "t.toml").write_text(
        'data = "t.csv"\ntarget = "rich"\nclasses = ["no", "yes"]\n[bounds]\nage = [0, 100]\n'
        '[categories]\njob = ["a", "b", "c"]\n'
    )
    settings = {**UNION, "clients": 4, "model.name": model, "data.dataset": str(tmp_path / "t.toml")}
    run = execute({**settings, "privacy.epsilon": 5.0})
    assert run.summary["accuracy"] > 0.7
    assert run.sha == execute({**settings, "privacy.epsilon": 5.0}, engine="inline").sha
