"""Parts that do not fit together are refused before anything is sent, with the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedlearn.core.errors import SettingError
from fedlearn.core.metrics import NEURAL_CLASSIFIER, PRIVATE_REGRESSOR
from fedlearn.core.state import UpdateKind
from fedlearn.data.cifar10 import SPEC
from fedlearn.models.loaded import Traits
from fedlearn.models.presets import settings_from
from server.feature import features_of
from server.planning.compatibility import check_fitting, check_parcels
from server.planning.plan_rules import OF_MODELS, OF_TRUST
from server.rules import Asked, check_rules
from strategies import load_strategy
from strategies.fedavg import FedAvg

CNN = Traits(UpdateKind.DENSE, NEURAL_CLASSIFIER, SPEC)
FOREST = Traits(UpdateKind.ENSEMBLE, PRIVATE_REGRESSOR, SPEC, is_private=True)
RELAY = Traits(UpdateKind.ENSEMBLE, PRIVATE_REGRESSOR, SPEC, sums=True, is_private=True)


def check(traits, **flat):
    named = {name.replace("__", "."): value for name, value in flat.items()}
    config = settings_from(named)
    strategy = load_strategy(config.strategy)
    check_fitting(config, traits, strategy)
    check_rules(OF_MODELS, Asked(config, traits, strategy, is_virtual=True))
    check_features(traits, named)


def check_trust(config, *, is_virtual):
    check_rules(OF_TRUST, Asked(config, CNN, load_strategy(config.strategy), is_virtual))


def check_features(traits, flat, *, is_virtual=True):
    config = settings_from(flat)
    strategy = load_strategy(config.strategy)
    for each in features_of(config, strategy):
        each.check(Asked(config, traits, strategy, is_virtual))


@pytest.mark.parametrize(
    ("traits", "flat"),
    [
        (CNN, {}),
        (CNN, {"compression__codec": "drop"}),
        (CNN, {"compression__codec": "drop", "strategy__name": "median", "evaluation__where": "nodes"}),
        (CNN, {"compression__codec": "residual,top-k:0.01,quantize:4,entropy", "compression__send": "update"}),
        (CNN, {"compression__codec": "ternary", "compression__send": "update", "strategy__name": "median"}),
        (CNN, {"compression__codec": "drop", "compression__send": "update", "strategy__options__decoder": "spatial"}),
        (CNN, {"strategy__name": "flwr.serverapp.strategy:FedAvg", "compression__codec": "eden"}),
        (CNN, {"compression__downlink": "rotate,quantize:8,entropy", "compression__codec": "drop"}),
        (CNN, {"compression__downlink": "anchor:50:4,top-k:0.01,eden", "compression__send": "update"}),
        (CNN, {"compression__downlink": "anchor:50:4,drop:0.25,eden", "secure__sums": "unmasked"}),
        (CNN, {"compression__downlink": "ef21,top-k:0.1", "compression__send": "update", "clients": 4}),
        (FOREST, {"model__name": "dp-forest"}),
        (RELAY, {"model__name": "dp-relay"}),
        (FOREST, {"model__name": "dp-forest", "evaluation__where": "none"}),
    ],
)
def test_what_fits_passes(traits, flat):
    check(traits, **flat)


@pytest.mark.parametrize(
    ("traits", "flat", "said"),
    [
        (
            FOREST,
            {"model__name": "dp-forest", "strategy__name": "fedavg"},
            "strategy 'fedavg' averages dense or masked updates; model 'dp-forest' produces ensembles: "
            "use 'forest_union'",
        ),
        (
            CNN,
            {"strategy__name": "forest_union"},
            "strategy 'forest_union' unites ensembles; model 'cnn' produces dense updates: use 'fedavg'",
        ),
        (
            CNN,
            {"strategy__name": "flwr.serverapp.strategy:FedAvg", "compression__codec": "drop"},
            "averages dense updates; model 'cnn' with codec 'drop' produces masked updates: use 'fedavg'",
        ),
        (
            FOREST,
            {"model__name": "dp-forest", "strategy__name": "relay"},
            "strategy 'relay' adds up trees; model 'dp-forest' is a mean: use 'forest_union', or model 'dp-relay'",
        ),
        (
            RELAY,
            {"model__name": "dp-relay", "strategy__name": "forest_union"},
            "strategy 'forest_union' takes the mean of trees; model 'dp-relay' is a sum: use 'relay'",
        ),
        (
            FOREST,
            {"model__name": "dp-forest", "compression__codec": "drop"},
            "compression.codec = 'drop': it cannot send what model 'dp-forest' produces (ensembles): use 'identity'",
        ),
        (
            CNN,
            {"compression__codec": "drop,sign"},
            "compression.send = 'weights': codec 'drop,sign' wants the change of the weights, as 'sign' is biased "
            "or takes what is not sent for no change: use 'update'",
        ),
        (
            CNN,
            {"strategy__options__decoder": "spatial", "strategy__name": "median"},
            "strategy.options.decoder = 'spatial': there is no such option; choose of attackers, mixing",
        ),
        (
            CNN,
            {"strategy__options__decoder": "spatial", "compression__codec": "drop"},
            "strategy.options.decoder = 'spatial': it divides single entries of the change by those who sent them: "
            "use compression.codec = 'drop', ",
        ),
        *(
            (CNN, {"compression__downlink": chain}, f"compression.downlink = {chain!r}: clients need the whole state")
            for chain in ("drop:0.5", "top-k:0.5", "sign", "residual,eden")
        ),
        *(
            (CNN, {"compression__send": "update", "clients": 4} | settings, f"compression.downlink = {chain!r}: {why}")
            for chain, settings, why in (
                (
                    "ef21,eden",
                    {"compression__downlink": "ef21,eden", "rounds__cohort": 3},
                    "all clients must take part in",
                ),
                (
                    "ef21,eden",
                    {"compression__downlink": "ef21,eden", "rounds__schedule": "buffered"},
                    "all clients must take part in all rounds, and with rounds.schedule = 'buffered' they do not",
                ),
                (
                    "ef21,eden",
                    {"compression__downlink": "ef21,eden", "devices__name": "phones"},
                    "all clients must take part in all rounds, and devices 'phones' are away at times",
                ),
                (
                    "ef21,rand-k:0.1",
                    {"compression__downlink": "ef21,rand-k:0.1"},
                    "of a normal vector the correction loses 8.9 times its energy, so that its errors grow",
                ),
                ("ef21:3,eden", {"compression__downlink": "ef21:3,eden"}, "stage 'ef21:3': ef21 takes no argument"),
                (
                    "ef21",
                    {"compression__downlink": "ef21"},
                    "an anchor saves bytes where the correction to it is coded",
                ),
            )
        ),
        (CNN, {"compression__downlink": "fp61"}, "compression.downlink = 'fp61': choose one of identity, "),
        (
            CNN,
            {"compression__downlink": "anchor:50,eden"},
            "compression.send = 'weights': the server keeps the exact state, and clients train from a decoded one",
        ),
        (
            CNN,
            {"compression__downlink": "anchor:50,residual,top-k:0.1", "compression__send": "update"},
            "compression.downlink = 'anchor:50,residual,top-k:0.1': the corrections of two rounds are not added up",
        ),
        (
            FOREST,
            {"model__name": "dp-forest", "compression__downlink": "anchor:50,eden"},
            "compression.downlink = 'anchor:50,eden': it cannot send the state of model 'dp-forest': use 'identity'",
        ),
        (
            FOREST,
            {"model__name": "dp-forest", "compression__downlink": "fp16"},
            "compression.downlink = 'fp16': it cannot send the state of model 'dp-forest': use 'identity'",
        ),
        (FOREST, {"model__name": "dp-forest", "compression__send": "update"}, "have no change: use 'weights'"),
        (FOREST, {"model__name": "dp-forest", "gate__max_norm": 1.0}, "gate.max_norm = 1.0: "),
        (
            FOREST,
            {"model__name": "dp-forest", "evaluation__where": "nodes"},
            "keeps private, and no budget covers that",
        ),
        (CNN.of_private_learner(), {"evaluation__where": "nodes"}, "keeps private, and no budget covers that"),
        (CNN.of_private_learner(), {"evaluation__nodes": 2}, "keeps private, and no budget covers that"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(traits, flat, said):
    with pytest.raises(SettingError) as error:
        check(traits, **flat)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["state", "arrays", "config", "metrics", "report"])
@pytest.mark.parametrize("way", ["parcels", "answers"])
def test_parcel_under_the_name_of_a_messages_own_record_is_refused(monkeypatch, name, way):
    strategy = FedAvg()
    monkeypatch.setattr(strategy, way, lambda state: {name: {}})
    with pytest.raises(SettingError, match=f"strategy.name = 'FedAvg': it names a parcel '{name}'"):
        check_parcels(strategy, {})


DISTRIBUTED = {"model.name": "dp-naive-bayes", "privacy.trust": "distributed", "privacy.noise": "seeded"}


def test_distributed_noise_is_hidden_by_a_secure_sum_or_for_studies():
    check_trust(settings_from(DISTRIBUTED), is_virtual=True)
    with pytest.raises(SettingError, match=r"privacy\.trust = 'distributed'.*secure\.sums = 'masked'.*'local'"):
        check_trust(settings_from(DISTRIBUTED), is_virtual=False)
    for noise in ("seeded", "secure"):
        hidden = settings_from({**DISTRIBUTED, "privacy.noise": noise, "secure.sums": "masked"})
        check_trust(hidden, is_virtual=True)
        check_trust(hidden, is_virtual=False)


@pytest.mark.parametrize("sums", ["off", "unmasked"])
def test_secure_shares_of_noise_want_masks(sums):
    with pytest.raises(SettingError, match=r"privacy\.noise = 'secure'.*protect nobody.*'masked', or 'seeded'"):
        check_trust(settings_from({**DISTRIBUTED, "privacy.noise": "secure", "secure.sums": sums}), is_virtual=True)


def test_models_of_no_sums_do_not_care():
    check_trust(settings_from({"model.name": "dp-forest", "privacy.trust": "distributed"}), is_virtual=False)


def test_baseline_of_real_or_private_nodes_is_refused():
    local = {"training.baseline": "local"}
    check_features(CNN, local)
    with pytest.raises(SettingError, match=r"^training.baseline = 'local': a baseline is made in a simulation"):
        check_features(CNN, local, is_virtual=False)
    with pytest.raises(SettingError, match="no budget pays"):
        check_features(replace(CNN, is_private=True), local)
