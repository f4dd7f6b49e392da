from __future__ import annotations

import random

import pytest
from flwr.serverapp.strategy import FedAvg as FlowersFedAvg

from fedlearn.config import RunConfig
from fedlearn.core.cohort import At
from server.strategy_rng import Draws, writes_to_all
from strategies import STRATEGIES
from strategies.fedavg import FedAvg


class Choosing(FedAvg):
    def configure_train(self, *given):
        return random.sample(list(super().configure_train(*given)), 1)


class Asking(FedAvg):
    def answers(self, state):
        random.random()
        return {}


@pytest.mark.parametrize("name", ["fedavg", "fedavgm", "fedadam", "median", "trimmed-mean"])
def test_our_strategies_for_stale_reports_write_to_all_that_they_are_given(name):
    made = STRATEGIES.load(name)
    assert all(getattr(made, hook) is getattr(FedAvg, hook) for hook in ("configure_train", "parcels", "answers"))


@pytest.mark.parametrize("strategy", [Choosing(), Asking(), FlowersFedAvg()])
def test_who_writes_messages_of_its_own_draws_where_the_seed_says(strategy):
    assert not writes_to_all(strategy)
    drawn = []
    for _ in range(2):
        with Draws(RunConfig(), is_virtual=True).to_choose(strategy, "training", At(3, 1)):
            drawn.append(random.random())
    assert drawn[0] == drawn[1]


def test_who_writes_to_all_is_lent_nothing():
    state = random.getstate()
    with Draws(RunConfig(), is_virtual=True).to_choose(FedAvg(), "training", At(3, 1)):
        assert random.getstate() == state
