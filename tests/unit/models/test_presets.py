from __future__ import annotations

from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.models.presets import settings_from


def test_nothing_given_gives_the_defaults():
    assert settings_from({}) == RunConfig()


def test_a_forest_is_united_in_one_round_of_all_nodes():
    config = settings_from({"model.name": "dp-forest", "clients": 25})
    assert (config.strategy.name, config.rounds.total, config.goal_count) == ("forest_union", 1, 25)


def test_relay_gives_every_node_a_turn():
    config = settings_from({"model.name": "dp-relay", "clients": 25})
    assert (config.strategy.name, config.rounds.total, config.goal_count) == ("relay", 25, 1)
    assert settings_from({"model.name": "dp-relay"}).rounds.total == RunConfig().clients


def test_what_is_given_wins():
    given = {"model.name": "dp-forest", "strategy.name": "fedavg", "rounds.cohort": 3}
    config = settings_from(given)
    assert (config.strategy.name, config.rounds.cohort, config.rounds.total) == ("fedavg", 3, RunConfig().rounds.total)


def test_resolved_settings_are_read_back_as_they_are():
    config = settings_from({"model.name": "dp-relay", "rounds.total": 3})
    assert config_from(to_flower(config)) == config
