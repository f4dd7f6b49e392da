"""Secure sums in groups: each group has a sum of its own, drops the same entries, and stands or falls alone."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import fedlearn
from fedlearn import flower, wire
from fedlearn.aggregation.modular import MASKED
from fedlearn.config import to_flower
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.state import layout_of
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.prepare import prepared
from fedlearn.models.loaded import initial_state
from fedlearn.secure.groups import drop_seed, groups_of
from fedlearn.secure.packed import unpacked
from fedlearn.secure.summands import Summands
from tests.end_to_end.vanishing import Killed, Remote, run, settings_of

GROUPED = {
    "clients": 12,
    "secure": {"group_size": 4, "dropouts": 0.1},
    "compression": {"codec": "drop", "keep_ratio": 0.2},
    "rounds": {"total": 2, "cohort": 12},
}
AT = At(1, 1)
FIRST, SECOND, THIRD = groups_of(range(12), size=4, seed=3, at=AT)


def grouped(folder, gone=(), **further):
    together = {
        table: {**values, **further.pop(table, {})} if isinstance(values, dict) else further.pop(table, values)
        for table, values in GROUPED.items()
    }
    return run(folder, gone, **together, **further)


def committed(events):
    return next(each for each in events if each["event"] == "committed")


@pytest.mark.parametrize("last", ["shares", "report", "signature", "unmasking"])
def test_one_node_of_a_group_may_vanish_at_any_time_and_masks_leave_no_trace(tmp_path, last):
    gone = {AT: {FIRST[0]: last}}
    masked, events, _ = grouped(tmp_path / "masked", gone)
    without = {} if last in ("signature", "unmasking") else gone
    plain, _, _ = grouped(tmp_path / "plain", without, secure={"sums": "unmasked"})
    assert masked["model_sha256"] == plain["model_sha256"]
    assert committed(events)["reported"] == (12 if last in ("signature", "unmasking") else 11)


def test_group_of_which_too_few_report_is_discarded_whole_and_nothing_of_it_is_unmasked(tmp_path):
    gone = {AT: dict.fromkeys(FIRST[:2], "report")}
    summary, events, grid = grouped(tmp_path / "run", gone)
    assert summary["status"] == "completed"
    assert (committed(events)["attempt"], committed(events)["reported"], committed(events)["refused"]) == (1, 8, 2)
    helped = {partition for *at, kind, partition, _ in grid.heard if kind == "unmasking" and at == [1, 1]}
    assert helped == {*SECOND, *THIRD}
    refused = [each for each in events if each["event"] == "sum-refused"]
    assert {each["partition"] for each in refused} == {*FIRST[2:]}
    assert all("group-discarded" in each["reason"] for each in refused)


def test_group_that_cannot_be_unmasked_leaves_the_sums_of_the_others(tmp_path):
    summary, events, _ = grouped(tmp_path / "run", {AT: dict.fromkeys(FIRST[:2], "unmasking")})
    assert summary["status"] == "completed"
    assert (committed(events)["attempt"], committed(events)["reported"]) == (1, 8)
    assert not [each for each in events if each["event"] == "skipped"]


def test_round_whose_groups_leave_no_quorum_is_skipped_once_unmasked_and_made_again_before(tmp_path):
    late = {AT: dict.fromkeys((*FIRST[:2], *SECOND[:2]), "unmasking")}
    _, events, grid = grouped(tmp_path / "late", late)
    assert [each["round"] for each in events if each["event"] == "skipped"] == [1]
    assert {attempt for round_number, attempt, *_ in grid.heard if round_number == 1} == {1}
    soon = {AT: dict.fromkeys((*FIRST[:2], *SECOND[:2]), "signature")}
    _, events, grid = grouped(tmp_path / "soon", soon)
    assert committed(events)["attempt"] == 2
    assert {attempt for round_number, attempt, kind, *_ in grid.heard if (round_number, kind) == (1, "unmasking")} == {
        2
    }


def test_state_is_the_mean_over_the_groups_that_sent_an_entry_and_others_keep_their_value(tmp_path):
    """An oracle: what each node sends without masks is summed by group, and averaged entry by entry."""
    _, _, grid = grouped(tmp_path / "run", rounds={"total": 1}, secure={"sums": "unmasked"})
    config = prepared(settings_of(tmp_path / "oracle", **GROUPED))
    before, after = initial_state(to_flower(config), {}), fedlearn.load(tmp_path / "run").state
    bits = Summands(config, layout_of(before), ["train_loss"]).fixed.modulus_bits
    sums = {name: np.zeros(array.size) for name, array in before.items()}
    weights = {name: np.zeros(array.size) for name, array in before.items()}
    for group in (FIRST, SECOND, THIRD):
        summands = Summands(config, layout_of(before), ["train_loss"], drop_seed(group, seed=3, at=AT))
        replies = {p: reply for *_, kind, p, reply in grid.heard if kind == "report" and p in group}
        vectors = [vector_in(replies[node], summands.count, bits) for node in group]
        values = summands.fixed.decoded(np.sum(vectors, axis=0).astype(vectors[0].dtype), len(group))
        start = 0
        for name in summands.lengths:
            positions = summands.kept[name]
            sums[name][positions] += values[start : start + len(positions)]
            weights[name][positions] += len(group)
            start += len(positions)
    for name, old in before.items():
        sent = weights[name] > 0
        assert 0 < sent.mean() < 1
        flat = old.reshape(-1)
        mean = np.divide(sums[name], weights[name], out=np.zeros(old.size), where=sent)
        np.testing.assert_allclose(after[name].reshape(-1)[sent], (flat + mean)[sent], rtol=1e-6, atol=1e-7)
        assert after[name].reshape(-1)[~sent].tobytes() == flat[~sent].tobytes()


def vector_in(reply, count, bits):
    return unpacked(wire.unpack_arrays(wire.state_record(reply.content))[MASKED].tobytes(), count, bits)


@pytest.mark.parametrize("kind", ["shares", "report", "signature", "unmasking"])
def test_killed_server_ends_with_the_bytes_of_one_that_lives(tmp_path, kind):
    flower.enter_run()
    further = {**GROUPED, "rounds": {**GROUPED["rounds"], "quorum": 1.0, "max_attempts": 2}}
    config = prepared(settings_of(tmp_path / "run", **further))
    first = Remote(config, kill_at=(kind, 5))
    with pytest.raises(Killed):
        load_server_app()(first, flower.server_context(to_flower(config)))
    resumed = Remote(config, kept=first.kept)
    load_server_app()(resumed, flower.server_context(to_flower(config)))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    asked = Counter((*at[:1], kind) for *at, kind, _, _ in (*first.heard, *resumed.heard) if kind == "unmasking")
    assert summary["status"] == "completed"
    assert asked[2, "unmasking"] == 12
    if kind == "unmasking":  # the same attempt, and so the same groups
        undisturbed, _, _ = grouped(tmp_path / "undisturbed", rounds={"quorum": 1.0})
        assert summary["model_sha256"] == undisturbed["model_sha256"]


@pytest.mark.long
def test_tensors_may_be_dropped_and_groups_need_no_dropping(tmp_path):
    for name, compression in [("tensor", {"granularity": "tensor", "keep_ratio": 0.5}), ("all", {"codec": "identity"})]:
        masked, _, _ = grouped(tmp_path / f"{name}-masked", compression=compression)
        plain, _, _ = grouped(tmp_path / f"{name}-plain", compression=compression, secure={"sums": "unmasked"})
        assert masked["model_sha256"] == plain["model_sha256"]
        assert "3 groups of 4 clients or more, 3 neighbors, threshold 2" in str(masked["notices"])


@pytest.mark.long
def test_same_bytes_whatever_the_engine_and_the_number_of_workers(tmp_path):
    found = set()
    for name, engine in [
        ("inline", {"name": "inline"}),
        *((f"{n}", {"name": "embedded", "workers": n}) for n in (1, 2)),
    ]:
        found.add(fedlearn.run(settings=to_flower(settings_of(tmp_path / name, **GROUPED, engine=engine))).sha256)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("further", "setting"),
    [
        ({"secure": {"group_size": 0}}, "compression.codec"),
        ({"secure": {"group_size": 13}}, "secure.group_size"),
        ({"secure": {"group_size": 2}}, "secure.group_size"),
        ({"secure": {"colluders": 3}}, "secure.group_size"),
        ({"secure": {"coverage": 0.9}}, "secure.coverage"),
        ({"compression": {"codec": "drop,quantize:8", "send": "update"}}, "compression.codec"),
        ({"compression": {"codec": "top-k", "send": "update"}}, "compression.codec"),
        ({"strategy": {"options": '{"decoder":"spatial"}'}, "compression": {"send": "update"}}, "decoder"),
    ],
)
def test_what_groups_cannot_have_is_refused_before_round_1(tmp_path, further, setting):
    with pytest.raises((SettingError, UsageError), match=setting) as refused:
        grouped(tmp_path / "run", **further)
    assert "\n" not in str(refused.value)


def test_report_of_a_group_is_as_small_as_what_it_keeps(tmp_path):
    _, _, grid = grouped(tmp_path / "run", rounds={"total": 1})
    _, _, whole = grouped(tmp_path / "whole", rounds={"total": 1}, compression={"codec": "identity"})
    sizes = [[wire.bytes_of(r.content) for *_, kind, _, r in g.heard if kind == "report"] for g in (grid, whole)]
    assert max(sizes[0]) < 0.5 * min(sizes[1])  # of 650 entries a fifth; the rest is the message


def test_result_says_of_how_few_reports_the_server_saw_a_sum(tmp_path):
    summary, events, _ = grouped(tmp_path / "run", {AT: {FIRST[0]: "report"}})
    assert summary["secure"]["fewest"] == 3
    asked = [(each["nodes"], each["sums"], each["fewest"]) for each in events if each["event"] == "unmasking"]
    assert asked == [(11, 3, 3), (12, 3, 4)]
