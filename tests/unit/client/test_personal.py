"""Personal layers: a node trains and measures with its own, and no report holds them, whatever a server sends."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from torch import nn

from client.isolated_fits import PERSONAL, Fits
from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from client.memory import NodeMemory
from client.owner.owner_refusals import refused
from client.request import Request
from fedlearn import flower
from fedlearn.config import config_from, to_flower
from fedlearn.config.policy import SIMULATED
from fedlearn.core.errors import SettingError
from fedlearn.core.refusals import word_for
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.torch.torch_model import TorchModel
from server.planning.compatibility import check_parcels
from strategies.fedavg import FedAvg

SPEC = DataSpec("rows", (3,), "float32", classes=3)
DATA = Examples(np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), np.arange(8) % 3)
CONFIG = config_from({"training.personal": "1, 2", "training.lr": 0.5})
BODY, HEAD = "0.weight", "2.weight"


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


@pytest.fixture
def model():
    return TorchModel(net, SPEC).planned(CONFIG)


@pytest.fixture
def fits(model):
    return Fits(SGD.from_settings(model, CONFIG), model, CONFIG, are_secret=False)


def task(memory, round_number=1, node=0):
    return LocalTask(DATA, np.arange(8), 1, round_number, node, {}, memory)


def test_report_has_no_personal_array_and_the_memory_has_no_other(fits, model):
    memory = NodeMemory()
    fit = fits.fit(model.initial_state(seed=1), task(memory))
    assert list(fit.arrays) == list(model.parts.shared)
    assert list(memory.arrays[PERSONAL]) == list(model.parts.personal)
    assert memory.arrays[PERSONAL]["1.num_batches_tracked"] > 0


def test_node_goes_on_with_its_own_layers_whichever_node_was_trained_in_between(fits, model):
    state, mine, others = model.initial_state(seed=1), NodeMemory(), NodeMemory()
    fits.fit(state, task(mine))
    kept = {name: array.copy() for name, array in mine.arrays[PERSONAL].items()}
    fits.fit(state, task(others, node=1))
    assert all(np.array_equal(fits.personal(state, mine)[name], array) for name, array in kept.items())
    once = fits.fit(state, task(mine, 2)).arrays[BODY].copy()
    again = fits.fit(state, task(NodeMemory(arrays={PERSONAL: kept}), 2)).arrays[BODY]
    assert np.array_equal(once, again)


def test_node_that_has_none_yet_begins_with_the_first_ones(fits, model):
    state = model.initial_state(seed=1)
    one, other = NodeMemory(), NodeMemory()
    first = fits.fit(state, task(one)).arrays[BODY].copy()
    assert np.array_equal(first, fits.fit(state, task(other)).arrays[BODY])
    assert fits.personal(state, NodeMemory()) == state


def test_server_that_sends_a_personal_layer_neither_sets_it_nor_is_sent_it(fits, model):
    state, memory = model.initial_state(seed=1), NodeMemory()
    planted = {**state, HEAD: np.full((3, 4), 7, np.float32)}
    honest = fits.fit(state, task(NodeMemory())).arrays[BODY].copy()
    fit = fits.fit(planted, task(memory))
    assert HEAD not in fit.arrays and np.array_equal(fit.arrays[BODY], honest)
    assert abs(memory.arrays[PERSONAL][HEAD]).max() < 7
    assert np.array_equal(fits.personal(planted, memory)[HEAD], memory.arrays[PERSONAL][HEAD])


def test_array_in_the_memory_that_is_not_personal_any_more_is_not_used(fits, model):
    state = model.initial_state(seed=1)
    memory = NodeMemory(arrays={PERSONAL: {BODY: np.full((4, 3), 7, np.float32)}})
    assert np.array_equal(fits.personal(state, memory)[BODY], state[BODY])


def test_model_without_torch_has_no_layers_that_could_be_named():
    from fedlearn.models.loaded import loaded

    config = config_from({"model.name": "dp-forest", "data.dataset": "diabetes", "training.personal": "norm"})
    with pytest.raises(SettingError, match="'dp-forest' is no torch module"):
        loaded(config)


def test_strategy_that_asks_for_more_than_the_state_is_refused(monkeypatch):
    strategy = FedAvg()
    monkeypatch.setattr(strategy, "answers", lambda state: {"control": {}})
    with pytest.raises(SettingError, match="strategy FedAvg asks clients for control beside the state"):
        check_parcels(strategy, {}, personal="fc3")
    check_parcels(strategy, {})


def test_node_of_a_network_without_a_folder_for_its_memory_says_so():
    message = flower.received(RecordDict(), node_id=7, message_type="train", message_id="1", ttl=60.0)

    def word(personal, **node_config):
        settings = to_flower(config_from({"training.personal": personal}))
        return refused(Request.of(message, Context(1, 7, {"partition-id": 3, **node_config}, RecordDict(), settings)))

    assert word("norm") == "no-memory-folder" == word_for(word("norm"))
    assert word("norm", memory="/memory") == word("norm", **{SIMULATED: True}) == word("") == ""
