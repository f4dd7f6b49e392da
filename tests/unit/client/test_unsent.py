"""A node whose model has other frozen arrays than the server's asks for these, checks them, and trains with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from torch import nn

from client.handlers.selection_handler import ready, unsent
from client.handlers.training import train
from client.request import Request
from fedlearn import flower, wire
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.config.policy import SIMULATED
from fedlearn.core.client_facts import LACKS
from fedlearn.core.cohort import Instruction
from fedlearn.core.errors import Refused
from fedlearn.core.state import digest_of
from fedlearn.models.loaded import loaded

NODE = 5
FLAT = {
    "clients": 4, "data.dataset": "digits", "model.name": f"{__name__}:net", "training.send": "head",
    "training.local_epochs": 1, "seed": 7,
}  # fmt: skip


def net():
    module = nn.Sequential()
    module.add_module("small", nn.AvgPool2d(8))
    module.add_module("flat", nn.Flatten())
    module.add_module("body", nn.Linear(48, 6))
    module.add_module("head", nn.Linear(6, 10))
    return module


@pytest.fixture
def node():
    """Return a node of a network, with the model of a process of its own."""
    return Context(1, NODE, {"partition-id": 1, "num-partitions": 4}, RecordDict(), to_flower(config_from(FLAT)))


@pytest.fixture
def model(node):
    """Return the model of the node's process; a process has one for each run."""
    model = loaded(from_flower(node.run_config))[1]
    own = {name: array.copy() for name, array in model.unsent.items()}
    yield model
    model.hold(own)


@pytest.fixture
def others(model):
    """Return the frozen arrays of a server whose model has other weights."""
    return {name: array + 1 for name, array in model.unsent.items()}


def asked(context, handler, *, unsent, arrays=None):
    about = {"round_number": 1, "attempt": 1, "ttl": 60.0}
    query = flower.with_id(wire.ready_query(NODE, **about, unsent=unsent, arrays=arrays))
    return wire.read_ready_answer(handler(Request.of(query, context)))[1]


def trained(context):
    state = loaded(from_flower(context.run_config))[1].initial_state(seed=7)
    message = flower.message_to(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), NODE, "train", ttl=60.0)
    message = flower.with_id(wire.with_instruction(message, Instruction(1, 1, 0), ttl=60.0))
    return wire.read_state(train(Request.of(message, context)).content)


def test_node_with_the_same_arrays_is_ready(node, model):
    assert asked(node, ready, unsent=digest_of(model.unsent)) == ""
    assert asked(node, ready, unsent="") == ""


def test_node_with_others_says_so_until_it_has_got_them(node, others):
    assert asked(node, ready, unsent=digest_of(others)) == LACKS
    assert asked(node, unsent, unsent=digest_of(others), arrays=others) == ""
    assert asked(node, ready, unsent=digest_of(others)) == ""


def test_node_trains_with_the_arrays_that_it_has_got(node, model, others):
    before = trained(node)
    asked(node, unsent, unsent=digest_of(others), arrays=others)
    model.hold({name: array - 1 for name, array in others.items()})  # as another process makes them
    after = trained(node)
    assert before.keys() == after.keys() == {"head.weight", "head.bias"}
    assert not np.array_equal(before["head.weight"], after["head.weight"])
    assert np.array_equal(model.module.state_dict()["body.weight"], others["body.weight"])
    model.load(model.initial_state(seed=7))
    assert torch.equal(model.module.body.bias, torch.from_numpy(others["body.bias"]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda arrays: {**arrays, "body.bias": arrays["body.bias"][:2]}, "undecodable"),
        (lambda arrays: {**arrays, "head.bias": np.zeros(10, np.float32)}, "undecodable"),
        (lambda arrays: {"body.weight": arrays["body.weight"]}, "undecodable"),
        (lambda arrays: {**arrays, "body.bias": np.full(6, np.nan, np.float32)}, "not-finite"),
    ],
)
def test_arrays_that_are_not_those_of_the_model_are_refused(node, others, change, reason):
    sent = change(others)
    with pytest.raises(Refused, match=reason):
        asked(node, unsent, unsent=digest_of(sent), arrays=sent)
    assert asked(node, ready, unsent=digest_of(sent)) == LACKS


def test_arrays_with_another_digest_are_refused(node, others):
    with pytest.raises(Refused, match="wrong-checksum"):
        asked(node, unsent, unsent=digest_of({}), arrays=others)


def test_model_that_is_sent_as_a_whole_takes_none(others):
    settings = to_flower(config_from({**FLAT, "training.send": "*"}))
    node = Context(1, NODE, {"partition-id": 1, "num-partitions": 4, SIMULATED: True}, RecordDict(), settings)
    with pytest.raises(Refused, match="undecodable"):
        asked(node, unsent, unsent=digest_of(others), arrays=others)
