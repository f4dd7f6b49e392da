"""An algorithm is refused, by one line, with what it is not defined for."""

import pytest

from client.isolated_fits import learner_of
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from fedlearn.models.loaded import Traits, loaded
from fedlearn.models.presets import settings_from
from server.feature import features_of
from server.planning.compatibility import check_fitting, check_parcels
from server.rules import Asked
from strategies import STRATEGIES, load_strategy

SMALL = {"data.dataset": "digits", "clients": 4, "rounds.cohort": 0}


def checked(name, further=()):
    config = settings_from({**SMALL, "strategy.name": name, **dict(further)})
    strategy, model = load_strategy(config.strategy), loaded(config)[1]
    traits = Traits(UpdateKind.DENSE, model.metrics, model.spec)
    check_fitting(config, traits, strategy)
    check_parcels(strategy, model.initial_state(seed=1), personal=config.training.personal)
    for each in features_of(config, strategy):
        each.check(Asked(config, traits, strategy, is_virtual=True))
    learner_of(config)


@pytest.mark.parametrize(
    ("name", "further", "said"),
    [
        ("fednova", {"compression.codec": "drop"}, "averages dense updates"),
        ("fedexp", {"compression.codec": "drop"}, "averages dense updates"),
        ("qfedavg", {"compression.codec": "drop"}, "averages dense updates"),
        ("fednova", {"training.optimizer": "adam"}, "FedNova is defined for 'sgd'"),
        ("feddyn", {"training.proximal_mu": 0.0}, "it is FedDyn's alpha"),
        ("scaffold", {"training.personal": "last"}, "would tell|which a learner makes of all"),
        ("scaffold", {"secure.sums": "unmasked"}, "needs more than the sum of the states"),
        ("feddyn", {"secure.sums": "unmasked"}, "needs more than the sum of the states"),
        ("scaffold", {"training.learner": "sgd"}, "needs clients that learn by 'scaffold'"),
        ("ditto", {"training.options.pul": 1.0}, "pul"),
        ("fedbn", {}, "no layer of normalization"),
        ("fedper", {"training.personal": ""}, "strategy 'fedper' is nothing without it"),
        ("fedrs", {"data.dataset": "diabetes", "model.name": "linear"}, "these data have none"),
        ("heterofl", {"compression.downlink": "fp16"}, "is sent its slice of the state"),
        ("heterofl", {"evaluation.nodes": 2}, "no whole state that it could measure"),
        ("heterofl", {"training.send": "last"}, "slices are of the whole module"),
        ("fedrolex", {"training.personal": "last"}, "another one in each round"),
        ("fjord", {"secure.sums": "unmasked"}, "send the same entries"),
        ("heterofl", {"strategy.options.ratios": [1.5]}, "at most 1"),
        ("fedlc", {"model.loss": "torch.nn:BCEWithLogitsLoss"}, "model.loss is of others"),
    ],
)
def test_it_is_refused_with_what_it_is_not_defined_for(name, further, said):
    with pytest.raises(SettingError, match=said):
        checked(name, further)


@pytest.mark.parametrize(
    "name", ["scaffold", "fednova", "feddyn", "moon", "ditto", "fedper", "fedrep", "fedala", "heterofl", "fjord"]
)
def test_it_fits_alone(name):
    checked(name)


def test_a_strategy_from_outside_brings_its_learner():
    class_name = STRATEGIES["scaffold"]
    assert settings_from({**SMALL, "strategy.name": class_name}).training.learner == "scaffold"
