"""A model alone takes the steps of a round once, and only where the settings ask for it."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import MetricRecord

from client.features.evaluation.comparison_models import states_beside, train_alone
from client.handlers.evaluation_handler import evaluate
from client.handlers.training import task_of
from client.request import Request
from fedlearn import wire
from fedlearn.core.cohort import Instruction
from fedlearn.core.state import is_same
from fedlearn.models.loaded import first_state
from tests.unit.client.test_examples import context

ASKED = {
    "model.name": "linear",
    "data.dataset": "digits",
    "training.local_epochs": 1,
    "evaluation.nodes": 4,
    "evaluation.beside": "alone",
}


def asked(round_number, settings, memory=None):
    sent = wire.evaluation(7, wire.pack_arrays({"w": np.zeros(3)}), round_number=round_number, ttl=60.0, beside=True)
    message = wire.with_instruction(sent, Instruction(round_number, 1, 0), ttl=60.0)
    request = Request.of(message, context(settings=settings))
    if memory is not None:
        request.memory.arrays, request.memory.texts = dict(memory.arrays), dict(memory.texts)
    train_alone(request, task_of(request, message.content))
    return request


def test_a_node_that_is_asked_again_for_a_round_takes_no_further_steps_alone():
    first = asked(1, ASKED)
    again, later = asked(1, ASKED, first.memory), asked(2, ASKED, first.memory)
    assert is_same(first.memory.arrays["alone/state"], again.memory.arrays["alone/state"])
    assert not is_same(first.memory.arrays["alone/state"], later.memory.arrays["alone/state"])
    assert not is_same(first.memory.arrays["alone/state"], first_state(first.config))


@pytest.mark.parametrize("settings", [{"evaluation.beside": ""}, {"evaluation.nodes": 0}])
def test_a_node_trains_nothing_and_measures_nothing_that_the_settings_do_not_ask_for(settings):
    request = asked(1, {**ASKED, **settings})
    assert not request.memory.arrays and not list(states_beside(request, first_state(request.config)))


def test_a_model_alone_that_went_to_nan_costs_its_node_no_other_measure():
    state = first_state(Request.of(asked(1, ASKED).message, context(settings=ASKED)).config)
    sent = wire.evaluation(7, wire.pack_arrays(state), round_number=1, ttl=60.0, beside=True)
    request = Request.of(sent, context(settings=ASKED))
    request.memory.arrays["alone/state"] = {name: np.full_like(array, np.nan) for name, array in state.items()}
    measured = wire.only(evaluate(request).content, MetricRecord)
    assert {"loss", "accuracy"} <= set(measured) and "loss_alone" not in measured
