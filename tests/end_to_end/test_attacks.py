"""Runs with attackers: the same lies on every engine, seen by the gate, withstood by defences, said in every result."""

from __future__ import annotations

import csv
import signal
from importlib import import_module

import numpy as np
import pytest

from fedlearn.attacks import attackers_of
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.core.state_files import unpack_state
from fedlearn.models.presets import settings_from
from tests.end_to_end.conftest import CHEAP, some_slow

LYING = {
    "clients": 8, "rounds.cohort": 0, "rounds.total": 3, "model.name": "linear", "strategy.weighting": "uniform",
    "rounds.quorum": 0.5, "attack.name": "alie", "attack.attackers": 0.3,
}  # fmt: skip
LIARS = [2, 5]  # drawn by seed 1 among eight nodes


def states(run):
    """Return the state after each committed round that is stored."""
    return unpack_state((run.folder / "model.safetensors").read_bytes())


def rows_of(run):
    return list(csv.DictReader((run.folder / "metrics.csv").read_text().splitlines()))


@pytest.fixture
def seen():
    """Return the list of honest changes that `liars:Fixed` sees in this process, a round each."""
    changes = import_module("liars").Fixed.seen
    changes.clear()
    return changes


VARIANTS = {
    "alie": {},
    "stale": {"attack.name": "stale", "compression.codec": "drop", "compression.send": "update"},
    "backdoor": {"attack.name": "backdoor", "strategy.name": "median"},
    "min-max-of-dropped": {"attack.name": "min-max", "compression.codec": "drop:0.5", "strategy.name": "multi-krum"},
    "mimic": {"attack.name": "mimic", "strategy.name": "geometric-median", "data.partition": "dirichlet"},
    "gaussian": {"attack.name": "gaussian", "compression.codec": "residual,top-k:0.1", "compression.send": "update"},
    "label-flip": {"attack.name": "label-flip", "training.stack": 3},
    "fltrust": {"attack.name": "sign-flip", "attack.attackers": 0.6, "strategy.name": "fltrust"},
    "in-groups": {"attack.name": "min-sum", "rounds.cohort": 5, "strategy.steps": '{"clip": {"norm": 0.5}}',
                  "compression.send": "update"},
}  # fmt: skip


LONG = ("min-max-of-dropped", "mimic", "gaussian", "fltrust", "in-groups")  # all that is in them is in the others, too


@pytest.mark.parametrize("settings", some_slow(VARIANTS, ("alie", "stale"), long=LONG))
def test_every_engine_hears_the_same_lies(execute, undisturbed, settings):
    reference = undisturbed({**LYING, **settings})
    for workers in (1, 2):
        run = execute({**LYING, **settings, "engine.workers": workers})
        assert run.sha == reference.sha
        for name in ("accuracy", "loss", "attackers", "backdoor_success"):
            assert run.summary.get(name) == reference.summary.get(name), name
    honest = undisturbed({**LYING, **settings, "attack.name": ""})
    assert honest.sha != reference.sha


@pytest.mark.long
@pytest.mark.network
@pytest.mark.parametrize("name", ["min-max", "stale", "backdoor"])
def test_ray_hears_the_same_lies(command, undisturbed, place, name):
    pytest.importorskip("ray")
    started = command({**LYING, "attack.name": name, "engine.name": "ray"}, env={"TMPDIR": str(place)})
    assert started.process.wait(400) == 0, started.process.communicate()
    assert started.run.sha == undisturbed({**LYING, "attack.name": name}).sha


@pytest.mark.long
@pytest.mark.parametrize("name", ["min-sum", "stale"])
def test_a_killed_run_hears_the_same_lies_when_it_goes_on(in_the_middle, execute, undisturbed, name):
    settings = {**LYING, "attack.name": name, "model.name": "faulty:model"}
    killed = in_the_middle(settings, "hang:3:3")
    killed.signal(signal.SIGKILL)
    assert killed.run.committed == 2
    assert execute(settings, out=killed.run.folder).sha == undisturbed(settings).sha


def test_who_lies_stands_in_every_result(undisturbed):
    run = undisturbed(LYING)
    assert run.summary["attack"] == "alie"
    assert run.summary["attackers"] == LIARS == sorted(attackers_of(settings_from({**CHEAP, **LYING})))
    assert "a study with attackers: 2 of 8 clients lie by alie: 2, 5" in run.summary["notices"]
    lied = [(event["round"], event["partition"]) for event in run.events_of("lied")]
    assert lied == [(number, node) for number in (1, 2, 3) for node in LIARS]


def test_attackers_see_the_honest_changes_and_the_state_moves_by_their_lie(execute, seen):
    settings = {**LYING, "attack.name": "liars:Fixed", "attack.options.value": 0.01, "rounds.total": 1}
    begin = execute({**LYING, "attack.name": "zero", "attack.attackers": 0.99, "training.lr": 1e-12}, engine="inline")
    lying = execute(settings, engine="inline")
    (changes,) = seen
    before = np.concatenate([array.ravel() for _, array in sorted(states(begin).items())]).astype(np.float64)
    after = np.concatenate([array.ravel() for _, array in sorted(states(lying).items())]).astype(np.float64)
    assert changes.shape == (6, before.size)
    expected = (changes.sum(axis=0) + 2 * 0.01) / 8
    np.testing.assert_allclose(after - before, expected, atol=2e-6)
    # Each honest change is what the node makes alone: no attacker is among them.
    everyone = execute({**settings, "attack.attackers": 0.125}, engine="inline")
    assert set(everyone.summary["attackers"]) < set(LIARS)
    more = seen[1]
    assert all(any((row == other).all() for other in more) for row in changes)


def test_attackers_that_see_all_see_no_report_that_the_gate_refused(execute, seen, monkeypatch):
    monkeypatch.setenv("FAULTS", "raise:1:1")
    run = execute({**LYING, "model.name": "faulty:model", "attack.name": "liars:Fixed", "rounds.total": 1,
                   "attack.options.value": 1e-4}, engine="inline")  # fmt: skip
    assert run.summary["status"] == "completed"
    assert [len(changes) for changes in seen] == [5]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attack.name": "liars:NaN"}, "not-finite"),
        ({"attack.name": "liars:Fixed", "attack.options.value": 1e6}, "norm-too-large"),
        ({"attack.name": "scaled", "attack.options.factor": 1e6}, "norm-too-large"),
        ({"attack.name": "examples", "attack.options.factor": 1e4}, "share-too-large"),
    ],
)
def test_the_gate_refuses_lies_that_go_too_far(execute, settings, reason):
    run = execute({**LYING, "strategy.weighting": "examples", **settings}, engine="inline")
    refused = {(event["round"], event["partition"]) for event in run.events_of("refused") if reason in event["reason"]}
    assert {(number, node) for number in (2, 3) for node in LIARS} <= refused
    assert run.summary["accuracy"] > 0.5
    assert rows_of(run)[-1]["reported"] == "6"


def test_a_defence_stands_what_ruins_the_mean(undisturbed):
    settings = {**LYING, "rounds.total": 6, "attack.name": "ipm", "attack.options.tau": 4.0, "data.partition": "iid"}
    honest = undisturbed({**settings, "attack.name": "", "attack.options": ""}).summary["accuracy"]
    mean = undisturbed(settings).summary["accuracy"]
    krum = undisturbed({**settings, "strategy.name": "multi-krum", "strategy.options.attackers": 2}).summary["accuracy"]
    assert mean < honest - 0.2
    assert krum > honest - 0.1


def test_fltrust_stands_a_majority_and_leaves_it_out(undisturbed):
    settings = {
        **LYING,
        "attack.name": "sign-flip",
        "attack.attackers": 0.6,
        "strategy.name": "fltrust",
        "rounds.total": 5,
    }
    run = undisturbed(settings)
    assert run.summary["accuracy"] > 0.6
    assert undisturbed({**settings, "strategy.name": "median"}).summary["accuracy"] < 0.3
    lying = set(run.summary["attackers"])
    assert len(lying) == 4
    assert all(lying <= set(event["partitions"]) for event in run.events_of("left-out"))
    assert len(run.events_of("left-out")) == 5


def test_a_backdoor_succeeds_and_its_success_is_a_column(undisturbed):
    settings = {**LYING, "attack.name": "backdoor", "attack.attackers": 0.5, "rounds.total": 8,
                "training.local_epochs": 5, "attack.options": '{"target": 3}'}  # fmt: skip
    run = undisturbed(settings)
    success = [float(row["backdoor_success"]) for row in rows_of(run)]
    assert success[-1] == pytest.approx(run.summary["backdoor_success"], abs=1e-6)
    assert success[-1] > 0.3
    assert run.summary["accuracy"] > 0.7
    assert "backdoor_success" not in undisturbed(LYING).summary


def test_success_is_measured_when_accuracy_is(execute):
    run = execute({**LYING, "attack.name": "backdoor", "evaluation.every": 3}, engine="inline")
    assert [row["backdoor_success"] != "" for row in rows_of(run)] == [False, False, True]
    nowhere = execute({**LYING, "attack.name": "backdoor", "evaluation.where": "nodes"}, engine="inline")
    assert "backdoor_success" not in rows_of(nowhere)[0]


def test_liars_hide_in_a_secure_sum(execute, undisturbed):
    settings = {**LYING, "attack.name": "sign-flip", "compression.send": "update", "rounds.total": 2}
    masked = execute({**settings, "secure.sums": "masked"}, engine="inline")
    assert masked.sha == execute({**settings, "secure.sums": "unmasked"}, engine="inline").sha
    assert masked.sha != execute({**settings, "secure.sums": "masked", "attack.name": ""}, engine="inline").sha


def test_liars_of_an_asynchronous_run_lie_alone(execute):
    settings = {**LYING, "attack.name": "sign-flip", "rounds.schedule": "buffered",
                "compression.send": "update", "devices.name": "phones"}  # fmt: skip
    assert execute(settings, engine="inline").summary["attackers"] == LIARS


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rounds.schedule": "buffered", "compression.send": "update"}, "counts them as they come: use 'synchronous'"),
        ({"rounds.schedule": "immediate", "compression.send": "update"}, "counts them as they come"),
        ({"secure.sums": "masked", "compression.send": "update"}, "which a secure sum hides"),
        ({"attack.attackers": 0.1}, "of 8 clients that is none"),
        ({"strategy.name": "scaffold", "model.name": "cnn"}, "beside the state"),
        ({"model.name": "dp-forest", "data.dataset": "diabetes"}, "attacks change the entries of a network's state"),
        ({"attack.name": "backdoor", "attack.options.target": 10}, "the classes are 0 to 9"),
        ({"attack.name": "backdoor", "data.dataset": "topics", "model.name": "lstm"}, "a square in images"),
        ({"attack.name": "nothing"}, "choose one of"),
    ],
)
def test_what_no_attacker_can_do_is_refused_before_round_1(execute, settings, said):
    given = {**LYING, **settings}
    if "dp-" in given["model.name"]:
        given = {name: value for name, value in given.items() if not name.startswith("strategy.")}
    with pytest.raises(SettingError, match=said):
        execute(given, engine="inline")


def test_lies_of_another_shape_name_the_attack(execute):
    with pytest.raises(RunFailed, match=r"Misshapen.lies returned an array of shape \(30730,\)"):
        execute({**LYING, "attack.name": "liars:Misshapen"}, engine="inline")


def test_a_run_does_not_go_on_with_other_attackers(execute):
    run = execute({**LYING, "rounds.total": 1}, engine="inline")
    for other in ({"attack.name": "ipm"}, {"attack.attackers": 0.5}, {"attack.options.z": 1.0}):
        with pytest.raises(SettingError, match=next(iter(other)).rpartition(".")[0]):
            execute({**LYING, **other}, engine="inline", out=run.folder)
