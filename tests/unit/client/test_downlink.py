"""The anchor that a node keeps: which messages it can read, and what it says of it."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from client.handlers.selection_handler import ready
from client.received.received_state import ANCHOR, state_in
from client.request import Request
from fedlearn import flower, wire
from fedlearn.compression import anchor_codec, load_anchor, load_downlink
from fedlearn.compression.anchor import corrected, correction, name_of
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.core.cohort import Instruction
from fedlearn.core.errors import Refused
from fedlearn.core.seeding import anchor_seed, downlink_seed
from fedlearn.core.state import layout_of
from fedlearn.models.loaded import loaded
from fedlearn.wire.decoded_state import name_anchor

SETTINGS = {
    "clients": 4, "data.dataset": "digits", "model.name": "linear", "compression.send": "update", "seed": 7,
    "compression.downlink": "anchor:10:2,eden",
}  # fmt: skip


class Server:
    """Writes instructions to one node, with the anchor or without."""

    def __init__(self):
        self.config = config_from(SETTINGS)
        self.state = loaded(self.config)[1].initial_state(seed=7)
        self.codec = load_downlink(self.config.compression)
        self.anchor_codec = anchor_codec(load_anchor(self.config.compression))

    def anchor(self, number):
        return self.anchor_codec.encode(self.state, seed=anchor_seed(7, number=number))

    def decoded(self, number, round_number):
        layout = layout_of(self.state)
        update = self.anchor_codec.decode(self.anchor(number), layout=layout, seed=anchor_seed(7, number=number))
        anchor, seed = {n: e.dense(layout[n]) for n, e in update.items()}, downlink_seed(7, round_number=round_number)
        payload = self.codec.encode(correction(self.state, anchor), seed=seed)
        return payload, corrected(anchor, self.codec.decode(payload, layout=layout, seed=seed), layout)

    def message(self, round_number, number, *, payload=None, name=None):
        correction_to_anchor, _ = self.decoded(number, round_number)
        content = RecordDict({wire.ARRAYS: wire.pack_arrays(correction_to_anchor)})
        record = None if payload is None else wire.pack_arrays(payload)
        name_anchor(content, name_of(number, self.anchor(number)) if name is None else name, record)
        message = flower.message_to(content, 5, "train", ttl=9.0)
        return wire.with_instruction(message, Instruction(round_number, 1, 0), ttl=9.0)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def context(server):
    return Context(1, 5, {"partition-id": 1, "num-partitions": 4}, RecordDict(), to_flower(server.config))


def read(context, message):
    request = Request.of(message, context)
    state = state_in(request)
    request.keep_memory()
    return state


def said(context):
    query = wire.ready_query(5, round_number=1, attempt=1, ttl=9.0)
    return wire.read_anchor(ready(Request.of(query, context)))


def test_a_node_that_was_sent_an_anchor_reads_corrections_to_it_alone(server, context):
    assert said(context) == ""
    with pytest.raises(Refused, match="lacks-anchor"):
        read(context, server.message(1, 1))
    for round_number, payload in ((1, server.anchor(1)), (7, None), (9, None)):
        state = read(context, server.message(round_number, 1, payload=payload))
        for name, array in server.decoded(1, round_number)[1].items():
            np.testing.assert_array_equal(state[name], array)
    assert said(context) == name_of(1, server.anchor(1))
    with pytest.raises(Refused, match="lacks-anchor"):  # though another node of this process has it
        read(context, server.message(12, 11))
    read(context, server.message(12, 11, payload=server.anchor(11)))
    assert said(context) == name_of(11, server.anchor(11))
    with pytest.raises(Refused, match="lacks-anchor"):
        read(context, server.message(9, 1))


def damaged(server):
    payload = {name: array.copy() for name, array in server.anchor(1).items()}
    payload["float32/codes"][0] ^= 1
    return payload


WRONG = {
    "other bytes": lambda server: {"payload": damaged(server)},
    "another's name": lambda server: {"payload": server.anchor(1), "name": name_of(11, server.anchor(11))},
    "no round": lambda server: {"payload": server.anchor(1), "name": "now"},
    "no arrays": lambda server: {"payload": {}, "name": name_of(1, {})},
    "other arrays": lambda server: {
        "payload": {"float32/codes": np.zeros(9, "u1")}, "name": name_of(1, {"float32/codes": np.zeros(9, "u1")}),
    },
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_anchor_is_refused_and_the_node_keeps_its_own(server, context, wrong):
    read(context, server.message(1, 1, payload=server.anchor(1)))
    with pytest.raises(Refused):
        read(context, server.message(1, 1, **WRONG[wrong](server)))
    assert said(context) == name_of(1, server.anchor(1))
    read(context, server.message(2, 1))


def test_a_message_that_names_no_anchor_is_refused(server, context):
    message = server.message(1, 1, payload=server.anchor(1))
    del message.content["downlink"]
    with pytest.raises(Refused, match="does not say to which anchor"):
        read(context, message)


def test_a_node_keeps_the_anchor_as_it_travelled(server, context):
    read(context, server.message(1, 1, payload=server.anchor(1)))
    kept = Request.of(server.message(2, 1), context).memory.arrays[ANCHOR]
    plain = sum(array.nbytes for array in server.state.values())
    assert sum(array.nbytes for array in kept.values()) < plain / 8
    assert from_flower(context.run_config).compression.downlink == "anchor:10:2,eden"


def test_an_anchor_comes_in_a_box_as_on_a_network(server, context):
    message = server.message(1, 1, payload=server.anchor(1))
    wire.box(message.content)
    state = read(context, message)
    for name, array in server.decoded(1, 1)[1].items():
        np.testing.assert_array_equal(state[name], array)


def test_an_anchor_is_no_parcel_of_a_strategy(server):
    content = server.message(1, 1, payload=server.anchor(1)).content
    assert wire.parcels_of(content) == {}
    content["theirs"] = content.pop(wire.ARRAYS)
    assert wire.state_key(content) == "theirs"  # the only one beside the anchor
    assert {"anchor", "downlink"} <= wire.put_aside(content).keys()


@pytest.mark.parametrize("anchor", [7, 1.5, b"1-ff", "x" * 65, ["1-ff"]])
def test_what_is_no_name_of_an_anchor_is_none(anchor):
    query = wire.ready_query(5, round_number=1, attempt=1, ttl=9.0)
    answer = wire.ready_answer(query, partition_id=1, anchor=anchor)
    assert wire.read_anchor(answer) == ""
