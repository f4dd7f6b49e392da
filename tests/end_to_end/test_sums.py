"""Models of sums as whole runs: the same bytes on every engine and after a kill, never more than the budget."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.data import load_dataset, partition_table
from fedlearn.models import load_model
from fedlearn.models.presets import settings_from
from tests.end_to_end.conftest import Run, some_slow
from tests.oracles.sums import federated

PLUGINS = "tests.adversary.subjects"  # made tables, by name
BAYES = {
    "model.name": "dp-naive-bayes", "data.dataset": f"{PLUGINS}:classes", "clients": 7, "rounds.cohort": 0,
    "rounds.total": 1, "strategy.name": "sums",
}  # fmt: skip
BOOSTING = {**BAYES, "model.name": "dp-boosting", "rounds.total": 6}
NUMBERS = {**BOOSTING, "data.dataset": f"{PLUGINS}:numbers", "model.options": '{"pairs": 2}'}
VARIANTS = {
    "boosting": {**NUMBERS, "privacy.trust": "distributed"},
    "boosting-local": NUMBERS,
    "boosting-classes": {**BOOSTING, "rounds.cohort": 5},
    "naive-bayes": BAYES,
    "naive-bayes-distributed": {**BAYES, "privacy.trust": "distributed"},
}
FULL = {name: settings for name, settings in VARIANTS.items() if not settings["rounds.cohort"]}


@pytest.mark.long
@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_every_engine_adds_up_the_same(execute, undisturbed, settings):
    reference = undisturbed(settings)
    for workers in (2,) if settings is VARIANTS["boosting"] else (1, 3):
        run = execute({**settings, "engine.workers": workers})
        assert run.sha == reference.sha
        for name in ("epsilon", "trust", "rounds", "bytes_up", "bytes_down", "bytes_protocol"):
            assert run.summary[name] == reference.summary[name], name


@pytest.mark.parametrize("settings", some_slow(FULL, ["boosting", "naive-bayes-distributed"]))
def test_the_state_is_what_the_nodes_reports_add_up_to(execute, settings):
    assert_sum_of(execute(settings, engine="inline"), settings)


def assert_sum_of(run, settings, *, silent=()):
    """The run's state is the sum of what its nodes count, but for those who are silent."""
    config = settings_from({**settings, "privacy.noise": "seeded"})
    dataset = load_dataset(settings["data.dataset"], "")
    shards = partition_table(dataset, config.data, num_partitions=7, seed=config.seed)
    model = load_model(settings["model.name"], dataset.spec, config.model.options)
    nodes = [shards.indices(node) for node in range(7)]
    found = load_file(run.folder / "model.safetensors")
    for name, array in federated(model, config, dataset.train, nodes, silent=silent).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


LIED_TO = {
    "naive Bayes": {**BAYES, "gate.max_examples": 200},
    "boosting, distributed": {
        **BOOSTING, "gate.max_examples": 200, "privacy.trust": "distributed", "rounds.total": 3, "rounds.quorum": 0.8,
    },
}  # fmt: skip


def lied_to(settings, lie):
    return {**settings, "training.learner": "lying_sums:Lying", "training.options": f'{{"lie": "{lie}"}}'}


@pytest.mark.parametrize("settings", LIED_TO.values(), ids=LIED_TO.keys())
@pytest.mark.parametrize(
    ("lie", "word"),
    [
        ("largest", "too-large"),
        ("beyond-one", "too-large"),
        ("beyond-all", "norm-too-large"),
        ("all-alike", "norm-too-large"),
    ],
)
def test_B5_a_liar_is_refused_and_the_sums_are_those_of_the_others(execute, settings, lie, word):
    run = execute(lied_to(settings, lie), engine="inline")
    refused = run.events_of("refused")
    assert [(event["partition"], event["reason"].partition(":")[0]) for event in refused] == [(3, word)] * run.committed
    assert_sum_of(run, settings, silent=[3])


def test_a_liar_within_the_bound_counts(execute):
    """It can do what `gate.max_examples` records of its choice can, and noise of its choice."""
    run = execute(lied_to(LIED_TO["naive Bayes"], "as-much-as-may-be"), engine="inline")
    assert not run.events_of("refused")
    assert load_file(run.folder / "model.safetensors")["reports"].tolist() == [7]


@pytest.mark.parametrize(("trust", "words"), [("local", "local noise"), ("distributed", "distributed noise")])
def test_a_result_says_whose_noise_protects_wherever_it_says_epsilon(execute, trust, words):
    run = execute({**BAYES, "privacy.trust": trust}, engine="inline")
    assert run.summary["trust"] == words
    (reported,) = run.summary["metrics"]["reported"]
    counts_in = f"spent; add or remove one record; unit: record; {words}; {run.summary['noise_notice']}"
    assert reported["note"] == counts_in
    assert f",{counts_in}" in (run.folder / "metrics.csv").read_text().splitlines()[1].replace('"', "")
    (started,) = run.events_of("started")
    hidden = "only under secure sums, which this run has not"
    for said in (run.summary["noise_notice"], started["notice"]):
        assert (hidden in said) == (trust == "distributed")


OWN = {**BAYES, "data.dataset": "own.toml", "clients": 3}


@pytest.fixture
def own_table(tmp_path, monkeypatch):
    rows = [f"{'uv'[row % 2]},{('no', 'yes')[row % 3 == 0]}" for row in range(60)]
    (tmp_path / "own.csv").write_text("\n".join(["a,y", *rows]))
    declared = 'data="own.csv"\ntarget="y"\nclasses=["no","yes"]\ncategories={a=["u","v"]}\n'
    (tmp_path / "own.toml").write_text(declared)
    monkeypatch.chdir(tmp_path)


def test_no_hash_of_private_rows_is_stored_where_the_test_rows_are_public(execute, own_table):
    """By such a hash a cell is found by trying, if all other rows are known."""
    Path("public.csv").write_text("a,y\nu,no\nv,yes\n")
    with Path("own.toml").open("a") as file:
        file.write('test="public.csv"\n')
    run = execute({**OWN, "privacy.noise": "secure"}, engine="inline")
    assert run.summary["accuracy"] is not None
    assert json.loads((run.folder / "checkpoint.json").read_text())["data"] == ""


def test_under_noise_that_protects_nothing_exact_of_private_rows_leaves(execute, own_table):
    run = execute({**OWN, "privacy.noise": "secure"}, engine="inline")
    assert not {"classes.json", "best.safetensors"} & {path.name for path in run.folder.iterdir()}
    assert {run.summary[name] for name in ("accuracy", "loss", "best_accuracy", "best_round")} == {None}
    assert run.summary["noise_notice"].startswith("nothing is evaluated: no budget pays for")
    assert json.loads((run.folder / "checkpoint.json").read_text())["data"] == ""
    for event in (*run.events_of("reported"), *run.events_of("committed")):
        assert event.get("examples", 1) == 1
        assert event.get("accuracy") is None


@pytest.mark.parametrize("noise", ["secure", "seeded"])
@pytest.mark.parametrize("test", ["", 'test = "own.csv"\n'], ids=["split", "public test rows"])
def test_no_run_that_protects_stores_a_hash_of_its_rows(execute, own_table, noise, test):
    declared = Path("own.toml")
    declared.write_text(test + declared.read_text())
    for dataset, is_stored in (("own.toml", False), ("adult", True)):  # everybody has the rows of the second
        run = execute({**OWN, "data.dataset": dataset, "privacy.noise": noise}, engine="inline")
        assert bool(json.loads((run.folder / "checkpoint.json").read_text())["data"]) is is_stored


def test_under_seeded_noise_a_result_says_that_rows_were_measured_exactly(execute, own_table):
    run = execute({**OWN, "privacy.noise": "seeded"}, engine="inline")
    assert run.summary["accuracy"] is not None
    (reported,) = run.summary["metrics"]["reported"]
    for said in (run.summary["noise_notice"], reported["note"]):
        assert "test rows are measured exactly" in said


def test_the_budget_stays_spent_across_a_resume(execute):
    run = execute(BAYES, engine="inline")
    with pytest.raises(RunFailed, match=r"first reason: budget spent: 1 of epsilon 1"):
        execute({**BAYES, "rounds.total": 2}, out=run.folder, engine="inline")
    assert (run.committed, run.summary["epsilon"]) == (1, 1.0)


@pytest.mark.long
def test_killed_between_rounds_it_resumes_to_the_same_bytes(command, execute, undisturbed):
    killed = command({**NUMBERS, "engine.name": "inline"})
    killed.wait_for_round(3)
    killed.signal(signal.SIGKILL)
    assert Run(killed.run.folder).committed < 6
    resumed = execute(NUMBERS, out=killed.run.folder, engine="inline")
    assert resumed.sha == undisturbed(NUMBERS).sha
    assert resumed.summary["epsilon"] == pytest.approx(1.0)


def test_rounds_divide_the_budget_so_a_resume_keeps_them(execute):
    run = execute(NUMBERS, engine="inline")
    assert [event["epsilon"] for event in run.events_of("committed")] == pytest.approx(np.linspace(0.2, 1.0, 6))
    with pytest.raises(SettingError, match=r"rounds\.total = 9: the run in .* began with 6"):
        execute({**NUMBERS, "rounds.total": 9}, out=run.folder, engine="inline")


def test_nodes_that_fail_leave_a_sum_with_the_noise_that_was_promised(execute, monkeypatch):
    """Shares are calibrated to those who must report: 0.7 of seven."""
    monkeypatch.setenv("FAULTS", "raise:2:3 raise:5:3")
    faulty = {**NUMBERS, "privacy.trust": "distributed", "model.name": "faulty_sums:SUMS", "model.options": ""}
    run = execute({**faulty, "rounds.quorum": 0.7}, engine="inline")
    assert [event["reported"] for event in run.events_of("committed")] == [7, 7, 5, 7, 7, 7]
    assert load_file(run.folder / "model.safetensors")["reports"].tolist() == [7, 7, 5, 7, 7, 7]


def test_shares_that_are_to_be_secure_are_refused_in_one_line(execute):
    with pytest.raises(SettingError, match=r"privacy\.noise = 'secure'.*use secure\.sums = 'masked'"):
        execute({**BAYES, "privacy.trust": "distributed", "privacy.noise": "secure"}, engine="inline")


def test_sums_and_trees_do_not_take_each_others_strategies(execute):
    with pytest.raises(SettingError, match=r"'forest_union' unites ensembles; model 'dp-naive-bayes' produces sums"):
        execute({**BAYES, "strategy.name": "forest_union"}, engine="inline")
    with pytest.raises(SettingError, match=r"'sums' adds up sums; model 'dp-forest' produces ensembles"):
        execute({**BAYES, "model.name": "dp-forest", "data.dataset": "diabetes"}, engine="inline")


def test_what_boosting_takes_by_default_follows_from_what_is_public():
    flat = {"model.name": "dp-boosting", "clients": 100}
    local, distributed = (settings_from({**flat, "privacy.trust": trust}) for trust in ("local", "distributed"))
    assert (local.rounds.total, distributed.rounds.total, local.goal_count) == (12, 15, 100)
    assert local.strategy.name == "sums"
    quorum = [(each.rounds.quorum, each.rounds.minimum_ready) for each in (local, distributed)]
    assert quorum == [(0.8, 0.8), (0.95, 0.95)]


@pytest.mark.parametrize("setting", ["compression.send", "gate.max_norm"])
def test_what_is_for_averages_is_refused(execute, setting):
    value = {"compression.send": "update", "gate.max_norm": 1.0}[setting]
    with pytest.raises(SettingError, match=f"{setting} .*the sums of model 'dp-naive-bayes'"):
        execute({**BAYES, setting: value}, engine="inline")
