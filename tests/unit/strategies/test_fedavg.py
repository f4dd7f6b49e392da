from __future__ import annotations

import numpy as np
import pytest

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Entries, Sends, layout_of
from strategies import load_strategy
from strategies.fedavg import FedAdam, FedAvg, FedAvgM
from strategies.masked_mean import MaskedSum
from tests.oracles.cohorts import after as next_of

STATE = {"w": np.float32([1, 2, 3])}


def report_of(values, positions=None):
    total = MaskedSum.empty(layout_of(STATE))
    at = None if positions is None else np.array(positions)
    total.add([(4, {"w": Entries(np.float32(values), at)})])
    return total


def after(strategy, report, sends=Sends.WEIGHTS):
    return next_of(strategy, STATE, report, sends=sends)["w"].tolist()


def test_one_node_is_local_learning():
    assert after(FedAvg(), report_of([5, 6, 7])) == [5, 6, 7]


def test_change_is_added_to_the_state():
    assert after(FedAvg(), report_of([10], [1]), Sends.UPDATE) == [1, 12, 3]


def test_momentum_without_momentum_and_a_step_of_one_is_fedavg():
    assert after(FedAvgM(momentum=0.0), report_of([5, 6, 7])) == [5, 6, 7]


def test_momentum_goes_on_where_the_nodes_stop():
    strategy = FedAvgM(momentum=0.5)
    assert after(strategy, report_of([2], [0])) == [2, 2, 3]  # velocity 1
    assert after(strategy, report_of([1, 2, 3])) == [1.5, 2, 3]  # no change was sent; half the velocity is left


def test_first_step_of_adam_is_bounded_by_the_learning_rate_over_the_root_of_the_decay():
    strategy = FedAdam(server_lr=0.1, beta1=0.9, beta2=0.99, tau=1e-9)
    np.testing.assert_allclose(after(strategy, report_of([9, 2, -9])), [1.1, 2, 2.9], rtol=1e-6)


@pytest.mark.parametrize(("name", "lr"), [("fedavgm", 1.0), ("fedadam", 0.01)])
def test_each_optimizer_has_a_step_of_its_own(name, lr):
    assert load_strategy(StrategySettings(name=name)).server_lr == lr
    assert load_strategy(StrategySettings(name=name, options='{"server_lr": 0.3}')).server_lr == 0.3


def test_options_reach_the_strategy():
    settings = StrategySettings(name="fedadam", options='{"beta1": 0.5, "beta2": 0.6, "tau": 1}', weighting="uniform")
    strategy = load_strategy(settings)
    assert (strategy.beta1, strategy.beta2, strategy.tau, strategy.uniform) == (0.5, 0.6, 1.0, True)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("fedadam", '{"server_Ir": 1}', "server_Ir = 1: there is no such option; did you mean server_lr?"),
        ("fedadam", '{"beta2": 1.0}', "beta2 = 1.0: expected a number of at least 0 and below 1"),
        ("fedavgm", '{"server_lr": 0}', "server_lr = 0: expected a number above 0"),
        ("fedavgm", '{"momentum": "much"}', "momentum = 'much': expected a number"),
        ("trimmed-mean", '{"trim": 0.5}', "trim = 0.5: expected a number of at least 0 and below 0.5"),
        ("trimmed-mean", '{"uniform": true}', "uniform = True: there is no such option; choose of trim"),
        ("fedavg", '{"decoder": "spacial"}', "decoder = 'spacial': expected 'survivors' or 'spatial'"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it(name, options, said):
    with pytest.raises(SettingError) as error:
        load_strategy(StrategySettings(name=name, options=options))
    assert str(error.value).startswith(f"strategy.options.{said}")
    assert "\n" not in str(error.value)
