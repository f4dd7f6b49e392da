"""Secure sums: the server learns a sum, with the bytes of the same sum without masks, whoever vanishes and when."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from client.secure_sums import secure_node as summing
from fedlearn import flower, wire
from fedlearn.aggregation.modular import MASKED
from fedlearn.config import to_flower
from fedlearn.core.errors import FedlearnError, SettingError
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.deployment.deployment_keys import make_keys
from fedlearn.engine.prepare import prepared
from fedlearn.models.loaded import loaded
from fedlearn.report.page.account import account
from fedlearn.report.stored import read_run
from fedlearn.secure.key_agreement import NodeKey
from tests.end_to_end.vanishing import Killed, Remote, run, settings_of
from tests.faults.disk import ROOT, Disk


@pytest.mark.parametrize("last", ["shares", "report", "signature", "unmasking"])
def test_nodes_that_vanish_leave_the_sum_of_the_others_to_the_byte(tmp_path, last):
    gone = {(1, 1): {4: last}}
    masked, events, _ = run(tmp_path / "masked", gone)
    # Without masks the same node's report is missing where it was not counted, and nothing else vanishes.
    plain, _, _ = run(
        tmp_path / "plain", {} if last in ("signature", "unmasking") else gone, secure={"sums": "unmasked"}
    )
    assert masked["status"] == plain["status"] == "completed"
    assert masked["model_sha256"] == plain["model_sha256"]
    assert [each["attempt"] for each in events if each["event"] == "committed"] == [1, 1]
    counted = 6 if last in ("signature", "unmasking") else 5
    assert next(each for each in events if each["event"] == "committed")["reported"] == counted


def test_report_holds_nothing_but_what_is_masked(tmp_path):
    _, _, grid = run(tmp_path / "run", rounds={"total": 1})
    replies = [reply for *_, kind, _, reply in grid.heard if kind == "report"]
    values = np.stack([wire.unpack_arrays(wire.state_record(reply.content))[MASKED] for reply in replies])
    assert set(wire.unpack_arrays(wire.state_record(replies[0].content))) == {MASKED}
    for reply in replies:
        assert dict(reply.content[wire.METRICS]) == {wire.NUM_EXAMPLES: 1}
        assert set(reply.content) == {wire.ARRAYS, wire.METRICS, wire.REPORT}
    lowest = values[:, : values.shape[1] // 4]  # the lowest byte of each number, as uniform as its generator
    counts = np.bincount(lowest.reshape(-1), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 370  # chi-square of 255 degrees: 1e-6 beyond


def test_round_without_a_quorum_asks_for_no_sum_and_is_made_again(tmp_path):
    gone = {(1, 1): {each: "report" for each in range(4)}}
    summary, events, grid = run(tmp_path / "run", gone, rounds={"total": 1})
    assert summary["status"] == "completed"
    kinds = Counter((attempt, kind) for _, attempt, kind, _, _ in grid.heard)
    assert kinds[1, "signature"] == kinds[1, "unmasking"] == 0
    assert kinds[2, "unmasking"] == 6
    assert [each["attempt"] for each in events if each["event"] == "committed"] == [2]


def test_quorum_of_the_whole_cohort_is_asked_before_the_sum_is(tmp_path):
    """Eight of ten must report; of a cohort of the eight that must be ready seven would do."""
    gone = {(1, 1): {each: "report" for each in range(3)}}
    rounds = {"total": 1, "cohort": 10, "minimum_ready": 0.8, "quorum": 0.8}
    summary, events, grid = run(tmp_path / "run", gone, clients=10, rounds=rounds, secure={"dropouts": 0.3})
    assert summary["status"] == "completed"
    assert {attempt for _, attempt, kind, *_ in grid.heard if kind == "unmasking"} == {2}
    assert "7 of 10 clients reported, quorum is 8" in next(e["reason"] for e in events if e["event"] == "abandoned")


def test_state_that_is_not_finite_is_skipped_once_its_sum_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("server.committing.next_step", lambda *_: None)
    _, events, grid = run(tmp_path / "run", rounds={"total": 1})
    assert [e["reason"] for e in events if e["event"] == "skipped"] == ["the new state would hold NaN or infinity"]
    assert {attempt for _, attempt, kind, *_ in grid.heard if kind == "unmasking"} == {1}


def test_round_whose_sum_cannot_be_unmasked_is_skipped_and_never_asked_again(tmp_path):
    gone = {(1, 1): {each: "unmasking" for each in range(4)}}
    summary, events, grid = run(tmp_path / "run", gone)
    skipped = [each for each in events if each["event"] == "skipped"]
    assert [each["round"] for each in skipped] == [1]
    assert "shares" in skipped[0]["reason"]
    assert summary["status"] == "completed" and summary["rounds"] == 2
    first, second = (each for each in events if each["event"] == "committed")
    assert (first["attempt"], first["reported"], second["reported"]) == (1, 0, 6)
    assert {attempt for round_number, attempt, *_ in grid.heard if round_number == 1} == {1}


@pytest.mark.parametrize("kind", ["keys", "shares", "report", "signature", "unmasking"])
@pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.long), 3])
def test_killed_server_ends_with_the_bytes_of_one_that_lives(tmp_path, kind, after):
    flower.enter_run()
    config = prepared(settings_of(tmp_path / "run", rounds={"quorum": 1.0, "max_attempts": 2}))
    first = Remote(config, kill_at=(kind, after))
    with pytest.raises(Killed):
        load_server_app()(first, flower.server_context(to_flower(config)))
    resumed = Remote(config, kept=first.kept)
    load_server_app()(resumed, flower.server_context(to_flower(config)))
    undisturbed, _, _ = run(tmp_path / "undisturbed", rounds={"quorum": 1.0})
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["model_sha256"] == undisturbed["model_sha256"]
    asked = {(*at, kind) for *at, kind, _, _ in (*first.heard, *resumed.heard) if kind == "unmasking"}
    assert len(asked) == 2  # one sum of each round
    assert not (tmp_path / "run" / "asked-sum").exists()


def test_killed_server_skips_a_round_whose_nodes_have_forgotten(tmp_path):
    flower.enter_run()
    config = prepared(settings_of(tmp_path / "run"))
    first = Remote(config, kill_at=("unmasking", 3))
    with pytest.raises(Killed):
        load_server_app()(first, flower.server_context(to_flower(config)))
    resumed = Remote(config, kept={})  # all nodes have lost their memories
    load_server_app()(resumed, flower.server_context(to_flower(config)))
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [each["round"] for each in events if each["event"] == "skipped"] == [1]
    assert [each["reported"] for each in events if each["event"] == "committed"] == [0, 6]


@pytest.mark.parametrize("seed", range(4))
def test_server_whose_machine_lost_power_begins_no_attempt_again_that_nodes_know(seed):
    flower.enter_run()
    config = prepared(settings_of(ROOT, rounds={"total": 1, "max_attempts": 1, "quorum": 1.0}))
    loaded(config)  # before the disk answers for Python's functions
    disk = Disk()
    first = Remote(config, kill_at=("report", 3))
    with disk.attached():
        with pytest.raises(Killed):
            load_server_app()(first, flower.server_context(to_flower(config)))
        disk.fail(seed)
        resumed = Remote(config, kept=first.kept)
        load_server_app()(resumed, flower.server_context(to_flower(config)))
        summary = json.loads((ROOT / "summary.json").read_bytes())
    assert summary["status"] == "completed"
    assert {attempt for _, attempt, *_ in first.heard if attempt} == {1}
    assert {attempt for _, attempt, *_ in resumed.heard if attempt} == {2}


def test_nodes_forget_their_secrets_when_a_resumed_server_skips_the_round(tmp_path):
    flower.enter_run()
    config = prepared(settings_of(tmp_path / "run", rounds={"total": 1}))
    first = Remote(config, kill_at=("unmasking", 0))
    with pytest.raises(Killed):
        load_server_app()(first, flower.server_context(to_flower(config)))
    gone = {(1, 1): {each: "unmasking" for each in range(4)}}
    resumed = Remote(config, gone, kept=first.kept)
    load_server_app()(resumed, flower.server_context(to_flower(config)))
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    ends = [(each["event"], each["attempt"]) for each in events if each["event"] in ("skipped", "committed")]
    assert not any(resumed.seed_of(node) for node in resumed.get_node_ids())
    assert ends == [("skipped", 1), ("committed", 1)]


def test_no_secret_of_a_node_lies_in_the_run_folder_or_outlives_its_round(tmp_path):
    _, _, grid = run(tmp_path / "run", {(2, 1): {4: "report"}})
    assert len(grid.seeds) == 12  # of six nodes in two rounds
    stored = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert wire.SECRETS.encode() not in stored
    for seed in grid.seeds:
        assert seed.encode() not in stored
        assert bytes.fromhex(seed) not in stored
    assert not any(grid.seed_of(node) for node in grid.get_node_ids() if node - 2 != 4)


@pytest.mark.long
def test_weights_are_coarse_powers_of_two(tmp_path):
    masked, _, _ = run(tmp_path / "masked", secure={"weights": "coarse", "weight_unit": 50})
    plain, _, _ = run(tmp_path / "plain", secure={"weights": "coarse", "weight_unit": 50, "sums": "unmasked"})
    even, _, _ = run(tmp_path / "even")
    assert masked["model_sha256"] == plain["model_sha256"]
    assert masked["bytes_up"] > even["bytes_up"]


def test_mean_of_fixed_point_numbers_is_near_that_of_floats(tmp_path):
    secure, events, _ = run(tmp_path / "secure", rounds={"total": 1})
    plain, floats, _ = run(
        tmp_path / "plain", secure={"sums": "off"}, rounds={"total": 1}, strategy={"weighting": "uniform"}
    )
    assert secure["loss"] == pytest.approx(plain["loss"], abs=2e-4)
    ours, theirs = (next(e for e in each if e["event"] == "committed") for each in (events, floats))
    assert ours["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-2)


@pytest.mark.parametrize(
    ("further", "setting"),
    [
        ({"compression": {"codec": "drop"}}, "compression.codec"),
        ({"strategy": {"name": "median"}}, "strategy.name"),
        ({"gate": {"max_norm": 1.0}}, "gate.max_norm"),
        ({"evaluation": {"where": "nodes"}}, "evaluation.where"),
        ({"evaluation": {"nodes": 2}}, "evaluation.nodes"),
        ({"rounds": {"selector": "power-of-choice"}}, "rounds.selector"),
        ({"strategy": {"steps": '{"clip":{"norm":1.0}}'}, "compression": {"send": "update"}}, "strategy.steps"),
    ],
)
def test_what_needs_a_single_report_is_refused_before_round_1(tmp_path, further, setting):
    with pytest.raises(SettingError, match=setting) as refused:
        run(tmp_path / "run", **further)
    assert "with secure sums" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("further", [{"secure": {"dropouts": 0.7}}, {"secure": {"colluders": 4}}, {"clients": 2}])
def test_level_that_no_graph_has_is_refused_before_round_1(tmp_path, further):
    with pytest.raises(FedlearnError, match="secure"):
        run(tmp_path / "run", **further)


def test_summary_and_page_say_what_the_server_has_seen(tmp_path):
    gone = {(1, 1): {each: "unmasking" for each in range(4)}, (2, 1): {5: "report"}}
    summary, _, _ = run(tmp_path / "run", gone)
    assert summary["secure"] == {"asked": 2, "skipped": 1, "fewest": 5, "own_keys": False}
    (line,) = (each for each in account([read_run("run", tmp_path / "run")]) if each.startswith("Secure aggregation"))
    assert "the server saw only sums of at least 5 client updates" in line
    assert "keys that the server relays. 1 of 2 rounds were skipped" in line
    assert "against an active one only where clients list one another as peers" in " ".join(summary["notices"])
    plain, _, _ = run(tmp_path / "plain", secure={"sums": "unmasked"})
    assert "secure" not in plain


class Keyed:
    """Nodes with keys of their own that list the first five of one another."""

    def __init__(self, tmp_path, monkeypatch, key_of_5):
        make_keys(tmp_path / "keys", clients=6)
        self.keys = [NodeKey((tmp_path / "keys" / "nodes" / str(each)).read_bytes()) for each in range(6)]
        self.keys[5] = self.keys[5] if key_of_5 else None
        peers = frozenset(key.public for key in self.keys[:5])
        demanded = summing.demands_of
        monkeypatch.setattr(summing, "key_of", lambda request: self.keys[request.partition_id])
        monkeypatch.setattr(
            summing, "demands_of",
            lambda request: replace(demanded(request), peers=None if request.partition_id == 5 else peers),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("key_of_5", "attempt", "why"), [(False, 1, "no-node-key"), (True, 2, "unlisted-peer")], ids=["none", "unlisted"]
)
def test_a_node_that_the_others_refuse_is_left_out_and_named(tmp_path, monkeypatch, key_of_5, attempt, why):
    Keyed(tmp_path, monkeypatch, key_of_5)
    rounds = {"total": 2, "minimum_ready": 0.8, "quorum": 0.8, "backoff": 0.0}
    summary, events, _ = run(tmp_path / "run", rounds=rounds)
    assert summary["status"] == "completed"
    committed = [each for each in events if each["event"] == "committed"]
    assert [(each["attempt"], each["reported"]) for each in committed] == [(attempt, 5), (1, 5)]
    (left_out,) = [each for each in events if each["event"] == "sum-refused" and "left out" in each["reason"]]
    assert left_out["partition"] == 5 and why in left_out["reason"]
    not_ready = [each for each in events if each["event"] == "not-ready" and each["partition"] == 5]
    assert not_ready and all(why in each["reason"] for each in not_ready)


def test_nodes_that_most_others_list_cannot_be_left_out_by_one(tmp_path, monkeypatch):
    """Node 4 lists nobody but itself: it takes no part, and the others do."""
    keyed = Keyed(tmp_path, monkeypatch, key_of_5=True)
    listed, alone = frozenset(key.public for key in keyed.keys), frozenset([keyed.keys[4].public])
    demanded = summing.demands_of
    monkeypatch.setattr(
        summing,
        "demands_of",
        lambda request: replace(demanded(request), peers=alone if request.partition_id == 4 else listed),
    )
    rounds = {"total": 1, "minimum_ready": 0.8, "quorum": 0.8, "backoff": 0.0}
    summary, events, _ = run(tmp_path / "run", rounds=rounds)
    assert summary["status"] == "completed"
    assert not any("left out" in each.get("reason", "") for each in events)
    assert [each["reported"] for each in events if each["event"] == "committed"] == [5]
