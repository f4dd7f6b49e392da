"""The way down with a shared anchor: the same bytes on every engine, and what each node needs is sent, and counted."""

from __future__ import annotations

import csv
import json
import signal
from collections import defaultdict

import numpy as np
import pytest
from safetensors.numpy import load_file

import client.handlers.selection_handler
import client.handlers.training
from client.learners.learner import LocalFit
from client.received.received_state import ANCHOR
from fedlearn.models.loaded import loaded
from fedlearn.models.presets import settings_from
from fedlearn.runs.file_names import kept_name
from server.features.downlink.anchors import Anchors
from tests.end_to_end.conftest import CHEAP, end_of
from tests.end_to_end.test_asynchronous import PHONES, mixed, table, told
from tests.oracles import anchors as oracle

ANCHORED = {
    "model.name": "linear", "clients": 8, "rounds.total": 5, "rounds.cohort": 3, "compression.send": "update",
    "compression.downlink": "anchor:3:2,drop:0.5,eden", "compression.codec": "eden", "seed": 5,
}  # fmt: skip
VARIANTS = {
    "dropping": {},
    "largest": {"compression.downlink": "anchor:2:1,top-k:0.1,quantize:4,entropy"},
    "exact-anchor": {"compression.downlink": "anchor:4:32,sign", "rounds.cohort": 0},
    "adam": {"strategy.name": "fedadam", "training.learner": "sgd", "training.stack": 3},
    "following": {"compression.downlink": "ef21,top-k:0.1,quantize:4", "rounds.cohort": 0},
    "scaffold": {"strategy.name": "scaffold", "training.learner": "scaffold"},
    "flowers-own-strategy": {"strategy.name": "flwr.serverapp.strategy:FedAvg"},
    "faulty": {"model.name": "faulty:model"},
    "mods": {
        "client.mods": '["flwr.clientapp.mod:fixedclipping_mod"]',
        "strategy.name": "flwr.serverapp.strategy:DifferentialPrivacyClientSideFixedClipping",
        "strategy.options.strategy": "flwr.serverapp.strategy:FedAvg",
        "strategy.options.noise_multiplier": 0.01,
        "strategy.options.clipping_norm": 1.0,
        "strategy.options.num_sampled_clients": 3,
    },
}
SAME = ("accuracy", "loss", "rounds", "bytes_up", "bytes_down", "bytes_protocol")


def most_long(variants, quick):
    """Return parameters of a test of which those that are not quick are `long`."""
    marks = {name: () if name in quick else pytest.mark.long for name in variants}
    return [pytest.param(each, id=name, marks=marks[name]) for name, each in variants.items()]


def column(run, name):
    with (run.folder / "metrics.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def cohorts(run):
    """The partitions of each attempt whose nodes have answered: (round, attempt) -> partitions."""
    found = defaultdict(list)
    for event in run.events:
        if event["event"] in ("reported", "refused"):
            found[event["round"], event["attempt"]].append(event["partition"])
    return found


@pytest.mark.parametrize("variant", most_long({name: name for name in VARIANTS}, ["dropping"]))
@pytest.mark.parametrize("workers", most_long({"one worker": 1, "two workers": 2}, ["two workers"]))
def test_model_and_bytes_do_not_depend_on_who_runs_the_nodes(execute, undisturbed, variant, workers):
    settings = {**ANCHORED, **VARIANTS[variant]}
    run, alone = execute({**settings, "engine.workers": workers}), undisturbed(settings)
    assert run.sha == alone.sha
    assert {name: run.summary[name] for name in SAME} == {name: alone.summary[name] for name in SAME}
    assert table(run) == table(alone)


@pytest.fixture
def states_seen(monkeypatch):
    """What each node has trained from: (round, partition) -> state."""
    seen, decode = {}, client.handlers.training.state_in

    def state_in(request):
        state = decode(request)
        seen[request.instruction.round_number, request.partition_id] = state
        return state

    monkeypatch.setattr(client.handlers.training, "state_in", state_in)
    return seen


def test_nodes_train_from_what_an_oracle_decodes_and_get_the_anchor_when_it_says(execute, states_seen):
    run = execute({**ANCHORED, "rounds.keep_every": 1, "rounds.total": 7}, engine="inline")
    config = settings_from({**CHEAP, **ANCHORED})
    exact = [loaded(config)[1].initial_state(seed=config.seed)]
    exact += [load_file(run.folder / kept_name(number)) for number in range(1, 7)]
    expected = oracle.seen(exact, every=3, anchor_code="eden:2", code="drop:0.5,eden", seed=config.seed)
    errors = column(run, "downlink_error")
    assert {number for number, _ in states_seen} == set(range(1, 8))
    for (number, _), state in states_seen.items():
        for name, array in expected[number - 1].items():
            np.testing.assert_array_equal(state[name], array)
    for number, (state, exactly) in enumerate(zip(expected, exact, strict=True)):
        both = [np.concatenate([each[name].reshape(-1) for name in exactly]).astype("f8") for each in (state, exactly)]
        assert errors[number] == pytest.approx(np.linalg.norm(both[0] - both[1]) / np.linalg.norm(both[1]), rel=1e-5)
    assert column(run, "anchors_sent") == oracle.anchors_sent(cohorts(run), every=3)


FOLLOWING = {**ANCHORED, **VARIANTS["following"], "rounds.total": 4}


def test_nodes_that_follow_all_rounds_are_sent_the_state_once_and_then_corrections_alone(execute, states_seen):
    run = execute({**FOLLOWING, "rounds.keep_every": 1}, engine="inline")
    config = settings_from({**CHEAP, **FOLLOWING})
    exact = [loaded(config)[1].initial_state(seed=config.seed)]
    exact += [load_file(run.folder / kept_name(number)) for number in range(1, 4)]
    expected = oracle.followed(exact, code="top-k:0.1,quantize:4", seed=config.seed)
    assert len(states_seen) == 8 * 4
    for (number, _), state in states_seen.items():
        for name, array in expected[number - 1].items():
            np.testing.assert_array_equal(state[name], array)
    assert column(run, "anchors_sent") == [8, 0, 0, 0]
    assert column(run, "downlink_error")[0] == 0 < column(run, "downlink_error")[1]


def test_a_node_that_has_lost_the_state_that_it_followed_is_sent_it_again_and_counted(
    execute, undisturbed, monkeypatch
):
    kept_anchor = client.handlers.selection_handler.kept_anchor

    def forgotten(request):
        lost = request.partition_id == 2 and '"round_number": 3' in json.dumps(dict(request.content["config"]))
        return "" if lost else kept_anchor(request)

    run = undisturbed(FOLLOWING)
    monkeypatch.setattr(client.handlers.selection_handler, "kept_anchor", forgotten)
    again = execute(FOLLOWING, engine="inline")
    assert column(again, "anchors_sent") == [8, 0, 1, 0]
    assert again.sha == run.sha
    down, more = column(run, "bytes_down"), column(again, "bytes_down")
    assert [after > before for before, after in zip(down, more, strict=True)] == [False, False, True, False]


def test_a_run_with_states_that_are_followed_is_gone_on_with_to_the_same_bytes(execute, undisturbed):
    run = execute({**FOLLOWING, "rounds.total": 2}, engine="inline")
    assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", 4) == 0
    assert run.sha == undisturbed(FOLLOWING).sha
    assert table(run) == table(undisturbed(FOLLOWING))


def test_what_nodes_do_not_change_stays_exact_however_coarse_their_states_are(execute, monkeypatch):
    def fit(request, state, task, made):
        return LocalFit({name: array.copy() for name, array in state.items()}, num_examples=1, metrics={})

    monkeypatch.setattr(client.handlers.training, "_fit", fit)
    still = {**ANCHORED, "compression.downlink": "anchor:3:1,top-k:0.01,sign"}
    run = execute(still, engine="inline")
    initial = loaded(settings_from({**CHEAP, **still}))[1].initial_state(seed=5)
    for name, array in load_file(run.folder / "model.safetensors").items():
        np.testing.assert_array_equal(array, initial[name])
    assert min(column(run, "downlink_error")) > 0.05


def test_a_run_that_is_gone_on_with_sends_what_an_undisturbed_one_sends(execute, undisturbed):
    run = execute({**ANCHORED, "rounds.total": 2}, engine="inline")
    assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", 5) == 0
    assert run.sha == undisturbed(ANCHORED).sha
    assert table(run) == table(undisturbed(ANCHORED))


@pytest.mark.long
def test_killed_in_the_middle_of_an_anchors_life_it_resumes_to_the_same_bytes(in_the_middle, execute, undisturbed):
    settings = {**ANCHORED, "model.name": "faulty:model", "clients": 6, "rounds.cohort": 0}
    killed = in_the_middle(settings, "hang:3:3")
    killed.signal(signal.SIGKILL)
    run = execute(settings, out=killed.run.folder)
    assert run.sha == undisturbed(settings).sha
    assert table(run) == table(undisturbed(settings))


ASYNCHRONOUS = {
    "buffered": {**PHONES, "compression.downlink": "anchor:2:2,eden"},
    "immediate": {**mixed(), "compression.send": "update", "compression.downlink": "anchor:2:2,eden"},
}


@pytest.mark.parametrize("variant", most_long({name: name for name in ASYNCHRONOUS}, []))
def test_asynchronous_rounds_resume_with_the_anchors_that_nodes_work_on(execute, undisturbed, monkeypatch, variant):
    settings, alive = {**ASYNCHRONOUS[variant], "model.name": "linear"}, []
    memory = Anchors.memory
    monkeypatch.setattr(Anchors, "memory", lambda self, versions: [memory(self, versions), alive.append(self.names)][0])
    alone = undisturbed({**settings, "seed": 3})
    assert 1 < max(map(len, alive)) <= 2 + settings["rounds.total"] // 2
    run = execute({**settings, "seed": 3, "rounds.total": 3})
    for total in (5, settings["rounds.total"]):
        assert end_of("simulate", "--quiet", "--resume", run.folder, "--rounds", total) == 0
    assert run.sha == alone.sha
    assert told(run) == told(alone)
    assert table(run) == table(alone)


GUARDED = {
    "secure-sums": {"secure.sums": "masked", "compression.codec": "identity", "rounds.cohort": 6},
    "protected-nodes": {
        "privacy.protects": "nodes", "privacy.epsilon": 4.0, "privacy.delta": 1e-5, "privacy.clip": 0.5,
        "compression.codec": "identity", "privacy.noise": "seeded",
    },
    "protected-records": {
        "privacy.protects": "records", "training.learner": "dp-sgd",
        "privacy.epsilon": 8.0, "privacy.delta": 1e-3, "privacy.clip": 1.0,
        "compression.codec": "identity", "privacy.noise": "seeded",
    },
}  # fmt: skip


@pytest.mark.parametrize("variant", most_long({name: name for name in GUARDED}, []))
def test_secure_sums_and_private_nodes_get_their_states_in_the_same_way(execute, undisturbed, variant):
    settings = {**ANCHORED, **GUARDED[variant]}
    run, alone = execute(settings), undisturbed(settings)
    assert run.sha == alone.sha
    if variant == "secure-sums":  # whose keys have no seed, and other sizes each time
        assert run.sha == undisturbed({**settings, "secure.sums": "unmasked"}).sha
    else:
        assert {name: run.summary[name] for name in SAME} == {name: alone.summary[name] for name in SAME}
    assert sum(column(run, "anchors_sent")) < sum(map(len, cohorts(run).values()))


ASKED = {
    "one of the future": lambda _: "999-0011223344556677",
    "a number": lambda _: 51,
    "a megabyte": lambda _: "1-" + "f" * 2**20,
    "an older one": lambda kept: kept.replace("4-", "1-"),
    "none": lambda _: "",
    "bytes": lambda kept: kept.encode(),
}


@pytest.mark.parametrize("wrong", most_long(ASKED, ["a number"]))
def test_a_node_that_asks_for_a_wrong_anchor_gets_the_right_one_and_nothing_else(
    execute, undisturbed, monkeypatch, wrong
):
    everyone = {**ANCHORED, "rounds.cohort": 0}
    honest = undisturbed(everyone)
    kept_anchor = client.handlers.selection_handler.kept_anchor
    monkeypatch.setattr(client.handlers.selection_handler, "kept_anchor", lambda request: wrong(kept_anchor(request)))
    run = execute(everyone, engine="inline")
    assert run.sha == honest.sha
    assert column(honest, "anchors_sent") == [8, 0, 0, 8, 0]
    assert max(column(run, "anchors_sent")) == 8  # one anchor for each instruction, whatever it says
    assert run.summary["bytes_down"] <= 2.6 * honest.summary["bytes_down"]


def test_a_node_that_says_it_has_an_anchor_that_it_lacks_fails_alone(execute, monkeypatch):
    kept_anchor = client.handlers.selection_handler.kept_anchor

    def forgotten(request):
        if request.partition_id == 2 and request.memory.arrays.pop(ANCHOR, None):
            request.keep_memory()
        return kept_anchor(request)

    monkeypatch.setattr(client.handlers.selection_handler, "kept_anchor", forgotten)
    run = execute({**ANCHORED, "rounds.cohort": 0, "rounds.quorum": 0.5}, engine="inline")
    failed = run.events_of("failed")
    assert {(event["partition"], event["round"]) for event in failed} == {(2, 2), (2, 3), (2, 5)}
    assert all("lacks-anchor" in event["reason"] for event in failed)
    assert run.summary["rounds"] == 5
