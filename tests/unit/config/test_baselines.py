from __future__ import annotations

import pytest

from fedlearn.commands.unused_settings import unread
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.baselines import FOLLOWS, as_baseline, note_of, replaced_by

FEDERATION = {
    "clients": 10, "rounds": {"total": 30, "cohort": 4, "over_selection": 1.5, "schedule": "buffered"},
    "data": {"partition": "dirichlet"}, "compression": {"codec": "drop"}, "strategy": {"name": "fedadam"},
    "devices": {"name": "phones"}, "evaluation": {"every": 5, "nodes": 3},
}  # fmt: skip


def baseline(which, **training):
    return as_baseline(RunConfig(**FEDERATION, training={"baseline": which, "local_epochs": 3, **training}))


@pytest.mark.parametrize("which", ["central", "local"])
def test_each_example_is_looked_at_as_often_as_in_the_federation_on_average(which):
    config = baseline(which)
    assert config.training.passes == pytest.approx(3 * 4 / 10)
    assert (config.rounds.total, config.evaluation.every, config.training.lr) == (30, 5, RunConfig().training.lr)


def test_one_node_or_all_of_them_train():
    central, local = baseline("central"), baseline("local")
    assert (central.clients, central.goal_count, central.data.partition, central.evaluation.nodes) == (1, 1, "iid", 0)
    assert (local.clients, local.goal_count, local.data.partition, local.evaluation.nodes) == (10, 10, "dirichlet", 3)


def test_nothing_between_nodes_and_server_is_left_of_the_federation():
    plain = RunConfig()
    for which in ("central", "local"):
        config = baseline(which, proximal_mu=0.1, partial=True)
        assert config.compression == plain.compression
        assert (config.strategy, config.devices) == (plain.strategy, plain.devices)
        assert (config.rounds.schedule, config.rounds.over_selection) == ("synchronous", 1.0)
        assert (config.training.proximal_mu, config.training.partial) == (0.0, False)


def test_stored_settings_of_a_baseline_are_not_changed_again():
    assert as_baseline(baseline("central")) == baseline("central")


def test_federation_is_no_baseline():
    config = RunConfig(**FEDERATION)
    assert as_baseline(config) is config and note_of(config) == "" and replaced_by("none") == set()


@pytest.mark.parametrize("which", ["central", "local"])
def test_every_setting_that_a_baseline_changes_is_named(which):
    """Those that it replaces are noted where they were given; those that follow tell no two runs apart."""
    training = {"baseline": which, "proximal_mu": 0.1, "partial": True, "personal": "norm"}
    given = RunConfig(**FEDERATION, training=training)
    before, after = to_flower(given), to_flower(as_baseline(given))
    assert {name for name in before if before[name] != after[name]} <= replaced_by(which) | FOLLOWS


def test_setting_that_the_baseline_does_not_read_is_noted():
    config = RunConfig(**FEDERATION, training={"baseline": "central"})
    (line,) = unread({"compression.codec": "drop", "rounds.cohort": 4}, config)
    assert line == "compression.codec = 'drop' has no effect: it is for a federation, not its baseline"
