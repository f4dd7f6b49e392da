"""Nodes that train alone: a state of their own, trained once a round, and told to no stranger."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ArrayRecord

from client.features.evaluation.local_baseline import made_once
from client.handlers.evaluation_handler import evaluate_on_test_set
from client.handlers.training import task_of
from client.isolated_fits import why_not_stacked
from client.learners.learner import LocalFit
from client.memory import NodeMemory
from client.node_feature import own_state
from client.owner.error_disclosure import Withheld
from client.request import Request
from fedlearn import wire
from fedlearn.config import config_from
from fedlearn.core.cohort import Instruction
from fedlearn.models.loaded import initial_state
from tests.unit.client.test_examples import context, request

LOCAL = {"model.name": "linear", "training.baseline": "local", "training.stack": 4}


def fit_of(value, calls):
    def fit():
        calls.append(value)
        return LocalFit({"w": np.full(3, value, np.float32)}, 10, {"train_loss": 0.5})

    return fit


def test_node_that_is_asked_again_for_a_round_is_not_trained_twice():
    memory, calls = NodeMemory(), []
    first = made_once(memory, 1, fit_of(1.0, calls))
    again = made_once(memory, 1, fit_of(2.0, calls))
    later = made_once(memory, 2, fit_of(3.0, calls))
    assert calls == [1.0, 3.0]
    assert (again.arrays["w"] == first.arrays["w"]).all() and (again.num_examples, again.metrics) == (10, first.metrics)
    assert later.arrays["w"][0] == 3.0


def test_own_state_is_the_servers_at_first_and_in_a_federation_always():
    theirs, own = {"w": np.zeros(3)}, {"w": np.ones(3)}
    alone, federated = request_with(LOCAL), request_with({})
    assert own_state(alone.config, theirs, alone.memory) is theirs
    for each in (alone, federated):
        each.memory.arrays["apart"] = own
    assert own_state(alone.config, theirs, alone.memory) is own
    assert own_state(federated.config, theirs, federated.memory) is theirs


def request_with(settings, message=None, **about):
    return Request.of(message or request().message, context(settings=settings, **about))


def test_nodes_with_models_of_their_own_are_not_trained_together():
    assert why_not_stacked(config_from({**LOCAL, "data.dataset": "digits"})) == "each client trains a model of its own"


@pytest.mark.parametrize(("passes", "limit"), [(0.0, None), (0.5, 0.5), (2.5, 2.5)])
def test_passes_of_a_baseline_limit_the_examples_of_a_fit(passes, limit):
    sent = wire.evaluation(7, wire.pack_arrays({"w": np.zeros(3)}), round_number=1, ttl=60.0)
    message = wire.with_instruction(sent, Instruction(1, 1, 0), ttl=60.0)
    task = task_of(request_with({"training.passes": passes}, message), message.content)
    assert task.most_examples == (None if limit is None else round(limit * len(task.indices)))


@pytest.mark.parametrize(("time_for", "passes", "limit"), [(0, 0.0, 0), (3, 2.0, 3), (10**6, 0.0, 10**6)])
def test_device_that_has_less_time_takes_fewer_examples_than_the_passes(time_for, passes, limit):
    sent = wire.evaluation(7, wire.pack_arrays({"w": np.zeros(3)}), round_number=1, ttl=60.0)
    message = wire.with_instruction(sent, Instruction(1, 1, 0), ttl=60.0)
    message = wire.with_most_examples(message, time_for)
    assert task_of(request_with({"training.passes": passes}, message), message.content).most_examples == limit


@pytest.mark.parametrize(
    ("settings", "about"),
    [({}, {"own-data": True}), ({"model.name": "dp-forest", "data.dataset": "diabetes"}, {})],
    ids=["its own test examples", "a private model"],
)
def test_no_server_has_a_node_measure_what_is_no_common_test_set(settings, about):
    state = initial_state({**context(settings={"model.name": "linear"}).run_config}, {})
    asked = wire.evaluation(7, ArrayRecord(), round_number=1, ttl=60.0, on="evaluate.on_test_set")
    asked.content["arrays"] = wire.pack_arrays(state)
    with pytest.raises(Withheld, match="private-model"):
        evaluate_on_test_set(request_with({"model.name": "linear", **settings}, asked, **about))
