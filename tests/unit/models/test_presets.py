from __future__ import annotations

import pytest

from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.core.errors import SettingError
from fedlearn.models import model_spec
from fedlearn.models.presets import settings_from
from fedlearn.models.spec import ModelSpec


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


def test_who_asks_what_nodes_have_alone_gets_all_nodes_and_examples_to_test_on():
    config = settings_from({"evaluation.beside": "alone", "clients": 7})
    assert (config.evaluation.nodes, config.data.node_test_share) == (7, 0.2)
    given = settings_from({"evaluation.beside": "alone", "evaluation.nodes": 3, "data.node_test_share": 0.5})
    assert (given.evaluation.nodes, given.data.node_test_share) == (3, 0.5)
    natural = settings_from({"evaluation.beside": "alone", "data.partition": "natural"})
    assert natural.data.node_test_share == 0  # the groups have test examples of their own


def by_words(flat, defaults):
    raise KeyError("no such words")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("no_such_module:rounds", "model.name = 'no_such_module:rounds': there is no module no_such_module"),
        (f"{__name__}:no_such_function", "has no no_such_function"),
        (f"{__name__}:by_words", "it cannot be used here: .*no such words"),
        ("builtins:dict", "rounds.total|it cannot be used here"),
    ],
)
def test_a_row_whose_function_of_rounds_fails_is_one_line(monkeypatch, function, why):
    monkeypatch.setattr(f"{__name__}.ROW", ModelSpec("x:build", rounds=function), raising=False)
    with pytest.raises(SettingError, match=why) as refused:
        settings_from({"model.name": f"{__name__}:ROW"})
    assert "\n" not in str(refused.value)


def test_a_row_with_an_unknown_word_for_its_rounds_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROW", ModelSpec("x:build", rounds="onec"), raising=False)
    why = f"model.name = '{__name__}:ROW': its ModelSpec has rounds='onec': write 'once', 'turns' or module:function"
    with pytest.raises(SettingError, match=f"^{why}, or leave it out$"):
        model_spec(f"{__name__}:ROW")
