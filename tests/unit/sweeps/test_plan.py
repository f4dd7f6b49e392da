"""A plan: every point with every seed, and one clear line for what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.sweeps.command import CONFIGS, NO_PLANS
from fedlearn.core.errors import UsageError
from fedlearn.sweeps.sweep_plan import Plan

PLAN = """
title = "T"
seeds = [1, 2]
[base]
clients = 4
data.dataset = "digits"
[grid]
training.lr = [0.1, 0.2]
[choices.sent]
all = {}
half = { compression.codec = "drop", compression.keep_ratio = 0.5 }
[quick]
seeds = [7]
base = { clients = 2 }
only = { sent = ["half"], training.lr = [0.2] }
"""


@pytest.fixture
def plan_of(tmp_path):
    def plan_of(text: str, *, quick: bool = False) -> Plan:
        path = tmp_path / "plan.toml"
        path.write_text(text)
        return Plan.from_file(path, quick=quick)

    return plan_of


def test_every_point_runs_with_every_seed_all_points_with_the_first_seed_first(plan_of):
    runs = list(plan_of(PLAN).runs())
    assert [run.name for run in runs[:4]] == [
        "training.lr=0.1,sent=all,seed=1",
        "training.lr=0.1,sent=half,seed=1",
        "training.lr=0.2,sent=all,seed=1",
        "training.lr=0.2,sent=half,seed=1",
    ]
    assert [run.seed for run in runs] == [1] * 4 + [2] * 4
    half = runs[3].config
    assert (half.clients, half.seed, half.training.lr) == (4, 1, 0.2)
    assert (half.compression.codec, half.compression.keep_ratio) == ("drop", 0.5)
    assert runs[2].config.compression.codec == "identity"


def test_quick_changes_the_base_and_keeps_some_labels(plan_of):
    (run,) = plan_of(PLAN, quick=True).runs()
    assert run.name == "training.lr=0.2,sent=half,seed=7"
    assert run.config.clients == 2
    assert run.config.data.dataset == "digits"


def test_quick_may_have_other_labels_on_an_axis(plan_of):
    other = PLAN.partition("only =")[0] + "choices.sent.quarter = { compression.keep_ratio = 0.25 }"
    assert [run.labels["sent"] for run in plan_of(other, quick=True).runs()] == ["quarter"] * 2
    assert {run.labels["sent"] for run in plan_of(other).runs()} == {"all", "half"}


def test_written_plan_reads_back_as_the_same_runs(plan_of):
    plan = plan_of(PLAN)
    assert list(plan_of(plan.to_toml()).runs()) == list(plan.runs())


def test_axes_of_a_plan_are_not_set_from_outside(plan_of):
    plan = plan_of(PLAN)
    assert {run.config.rounds.total for run in plan.with_other(base={"rounds.total": 3}).runs()} == {3}
    assert {run.seed for run in plan.with_other(base={}, seeds=[5]).runs()} == {5}
    with pytest.raises(UsageError, match=r"^training.lr: the sweep sets it itself on its axis training.lr$"):
        plan.with_other(base={"training.lr": 1.0})
    with pytest.raises(UsageError, match=r"^seed: the sweep sets it itself$"):
        plan.with_other(base={"seed": 1})


def test_chosen_labels_of_an_axis_are_alternatives_those_of_several_axes_conditions(plan_of):
    plan = plan_of(PLAN)
    chosen = plan.chosen(["training.lr=0.1", "training.lr=0.2", "sent=half"])
    assert {run.name for run in plan.runs() if chosen(run)} == {
        f"training.lr={lr},sent=half,seed={seed}" for lr in (0.1, 0.2) for seed in (1, 2)
    }
    assert all(map(plan.chosen([]), plan.runs()))
    with pytest.raises(UsageError, match=r"^--only sent=none: there is no such point; there are training.lr=0.1; "):
        plan.chosen(["sent=none"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = [1", "not valid TOML"),
        ("sedes = [1]", "there is no sedes; there are title, seeds, base"),
        ("seeds = [1, 1]", "give at least one, and none twice"),
        ("seeds = []", "give at least one, and none twice"),
        ("[quick]\ngrid = {}", "there is no quick.grid"),
        ("[grid]\nclients = 3", "grid.clients = 3: give a list of values"),
        ("[grid]\nclients = []", "clients has no value"),
        ("[choices.seed]\na = {}", "'seed' cannot be the name of an axis"),
        ("[grid]\nclint = [1]", "there is no such setting; did you mean"),
        ("[grid]\nclients = [0]", "clients = 0: expected a whole number from 1 to 10,000,000"),
        ('[choices.x]\n"a:b" = {}\n"a/b" = {}', "two points would have the same folder, x=a_b"),
    ],
)
def test_plan_that_cannot_be_is_refused_in_one_line_that_names_the_file(plan_of, text, message):
    with pytest.raises(UsageError, match=r"plan\.toml: ") as error:
        plan_of(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_quick_names_labels_that_exist(plan_of):
    with pytest.raises(UsageError, match=r"quick.only.sent: there is no 'none'"):
        plan_of(PLAN.replace('sent = ["half"]', 'sent = ["none"]'), quick=True)
    with pytest.raises(UsageError, match="No such file"):
        Plan.from_file(Path("missing.toml"))


PLANS = sorted(path for path in CONFIGS.glob("*.toml") if path.stem not in NO_PLANS)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("quick", [False, True], ids=["full", "quick"])
def test_plans_of_the_experiments_are_sound(path, quick):
    plan = Plan.from_file(path, quick=quick)
    assert plan.title
    assert len(list(plan.runs())) > 1
