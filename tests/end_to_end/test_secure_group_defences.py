"""Defences over sums of groups: the mean of a group stands for a report, and a liar spoils its group alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedlearn
from fedlearn import flower
from fedlearn.config import to_flower
from fedlearn.core.cohort import At
from fedlearn.core.errors import SettingError
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.prepare import prepared
from fedlearn.models.loaded import initial_state
from fedlearn.secure.groups import groups_of
from fedlearn.secure.summands import Summands
from tests.end_to_end.vanishing import Killed, Remote, run, settings_of

AT = At(1, 1)
FIRST, SECOND, THIRD = groups_of(range(12), size=4, seed=3, at=AT)
LYING = {"name": "sign-flip", "options": '{"scale": 1000.0}', "attackers": 1 / 12}
DROPPING = {"codec": "drop", "keep_ratio": 0.8}


def settled(**further):
    """Return settings of 12 nodes in three groups under a median, which stands a lying group."""
    given = {
        "clients": 12,
        "secure": {"group_size": 4, "dropouts": 0.1},
        "strategy": {"name": "median", "options": '{"attackers": 1}'},
        "rounds": {"total": 2, "cohort": 12},
    }
    for table, values in further.items():
        given[table] = {**given.get(table, {}), **values}
    return given


def grouped(folder, gone=(), **further):
    return run(folder, gone, **settled(**further))


def only(events, name):
    return [each for each in events if each["event"] == name]


def test_one_liar_is_out_voted_where_it_moves_the_plain_mean(tmp_path):
    found = {}
    for name, strategy in {"mean": {"name": "fedavg", "options": "{}"}, "median": {}}.items():
        for attack in ({}, LYING):
            folder = tmp_path / f"{name}{len(attack)}"
            grouped(folder, strategy=strategy, attack=attack, rounds={"total": 1}, secure={"clip": 10.0})
            found[name, bool(attack)] = np.concatenate([a.reshape(-1) for a in fedlearn.load(folder).state.values()])
    moved = {name: np.abs(found[name, True] - found[name, False]).max() for name in ("mean", "median")}
    assert moved["mean"] > 10 * moved["median"]


def test_same_bytes_with_and_without_masks(tmp_path):
    masked, _, _ = grouped(tmp_path / "masked", attack=LYING, compression=DROPPING)
    plain, _, _ = grouped(tmp_path / "plain", attack=LYING, compression=DROPPING, secure={"sums": "unmasked"})
    assert masked["model_sha256"] == plain["model_sha256"]


@pytest.mark.slow
def test_same_bytes_on_every_engine(tmp_path):
    found = {grouped(tmp_path / "inline", attack=LYING)[0]["model_sha256"]}
    settings = settings_of(tmp_path / "two", **settled(attack=LYING), engine={"name": "embedded", "workers": 2})
    found.add(fedlearn.run(settings=to_flower(settings)).sha256)
    assert len(found) == 1


def test_state_is_the_median_of_the_means_of_groups(tmp_path):
    """An oracle: three runs in which one group alone is averaged."""
    one_round = {"total": 1, "quorum": 0.3}
    grouped(tmp_path / "median", rounds=one_round)
    before = initial_state(to_flower(prepared(settings_of(tmp_path / "x", **settled()))), {})
    alone = []
    for group in (FIRST, SECOND, THIRD):
        gone = {AT: {node: "report" for node in range(12) if node not in group}}
        mean = {"name": "fedavg", "options": "{}"}
        grouped(tmp_path / f"{group[0]}", gone, rounds={**one_round, "max_attempts": 1}, strategy=mean)
        alone.append(fedlearn.load(tmp_path / f"{group[0]}").state)
    after = fedlearn.load(tmp_path / "median").state
    for name, old in before.items():
        changes = [state[name].astype(np.float64) - old for state in alone]
        np.testing.assert_allclose(after[name], old + np.median(changes, axis=0), atol=1e-6)


def test_the_whole_group_of_a_liar_is_left_out_and_named(tmp_path):
    strategy = {"name": "multi-krum", "options": '{"attackers": 1}'}
    given = settled(strategy=strategy, secure={"group_size": 3}, attack=LYING, rounds={"total": 1, "cohort": 15})
    summary, events, _ = run(tmp_path / "run", **given | {"clients": 15})
    (liar,) = summary["attackers"]
    (left_out,) = only(events, "left-out")
    assert liar in left_out["partitions"]
    assert len(left_out["partitions"]) == 3


def test_round_with_too_few_groups_is_tried_again_before_the_unmasking_and_skipped_after_it(tmp_path):
    soon = {AT: dict.fromkeys(FIRST[:2], "report")}  # two groups are left, and the median needs three
    _, events, grid = grouped(tmp_path / "soon", soon)
    assert "2 groups are left, and strategy 'median' needs 3" in only(events, "abandoned")[0]["reason"]
    assert [(each["round"], each["attempt"]) for each in only(events, "committed")] == [(1, 2), (2, 1)]
    assert not [at for *at, kind, _, _ in grid.heard if kind == "unmasking" and at == [1, 1]]
    late = {AT: dict.fromkeys(FIRST[:2], "unmasking")}
    _, events, _ = grouped(tmp_path / "late", late)
    (skipped,) = only(events, "skipped")
    assert (skipped["round"], skipped["reason"]) == (1, "2 groups are left, and strategy 'median' needs 3")


@pytest.mark.parametrize(("nodes", "size", "committed"), [(15, 3, True), (12, 4, False)])
def test_liar_that_spoils_its_sum_costs_its_group_and_the_round_only_without_a_spare_group(
    tmp_path, monkeypatch, nodes, size, committed
):
    honest = Summands.encoded

    def encoded(self, *given, node, **further):
        vector = honest(self, *given, node=node, **further)
        if node == 5:
            vector[:] = np.random.default_rng(1).integers(0, 1 << self.modulus_bits, len(vector))
        return vector

    monkeypatch.setattr(Summands, "encoded", encoded)
    given = settled(secure={"group_size": size}, rounds={"total": 1, "cohort": nodes})
    summary, events, _ = run(tmp_path / "run", **given | {"clients": nodes})
    assert summary["status"] == "completed"
    assert len(only(events, "skipped")) == (not committed)
    if committed:
        (row,) = only(events, "committed")
        assert (row["reported"], row["refused"]) == (12, 3)
        assert all("one of them has lied" in each["reason"] for each in only(events, "sum-refused"))


@pytest.mark.slow
def test_killed_server_ends_with_the_bytes_of_one_that_lives(tmp_path):
    flower.enter_run()
    config = prepared(settings_of(tmp_path / "run", **settled(rounds={"quorum": 1.0, "max_attempts": 2})))
    first = Remote(config, kill_at=("unmasking", 5))
    with pytest.raises(Killed):
        load_server_app()(first, flower.server_context(to_flower(config)))
    load_server_app()(Remote(config, kept=first.kept), flower.server_context(to_flower(config)))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    undisturbed, _, _ = grouped(tmp_path / "undisturbed", rounds={"quorum": 1.0})
    assert summary["model_sha256"] == undisturbed["model_sha256"]


@pytest.mark.parametrize(
    ("further", "setting", "said"),
    [
        ({"secure": {"group_size": 0}}, "strategy.name", "one sum leaves nothing to compare: use secure.group_size"),
        ({"secure": {"group_size": 6}}, "secure.group_size", "has 2 groups, .* needs 3 of them"),
        ({"strategy": {"name": "krum"}}, "secure.group_size", "has 3 groups, .* needs 5 of them"),
        ({"strategy": {"name": "fltrust", "options": "{}"}}, "strategy.name", "would need each report"),
        (
            {"compression": {"codec": "drop", "keep_ratio": 0.5}, "secure": {"coverage": 0.3}},
            "secure.coverage", "3 or more of the groups of a full cohort are expected to send 0.1",
        ),
    ],
)  # fmt: skip
def test_what_defences_over_groups_cannot_have_is_refused_before_round_1(tmp_path, further, setting, said):
    with pytest.raises(SettingError, match=f"{setting}.*{said}") as refused:
        grouped(tmp_path / "run", **further)
    assert "\n" not in str(refused.value)
