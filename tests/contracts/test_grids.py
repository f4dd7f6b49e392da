"""The contract of a grid with Flower code, for every engine's grid."""

from __future__ import annotations

import os

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg as FlowersFedAvg

from fedlearn import wire
from fedlearn.aggregation.offers import offers_of
from strategies.fedavg import FedAvg


def answers(replies):
    return {reply.metadata.src_node_id: reply.content["answer"] for reply in replies if reply.has_content()}


def codes(replies):
    return {reply.metadata.src_node_id: reply.error.code if reply.has_error() else 0 for reply in replies}


def wait_for_all(grid):
    """Wait until every message has been answered: what the nodes keep is known only then."""
    grid.node_states()


def test_every_node_answers_for_its_own_partition(grid, ask):
    ids = list(grid.get_node_ids())
    told = answers(grid.send_and_receive([ask(node) for node in ids]))
    assert len(ids) == 20
    assert {node: answer["partition"] for node, answer in told.items()} == {node: node - 2 for node in ids}
    assert {(answer["of"], answer["greeting"]) for answer in told.values()} == {(20, "hello")}


def test_a_reply_is_pulled_once_and_by_the_id_of_its_message(grid, ask):
    first, second = grid.push_messages([ask(4), ask(9)])
    assert first != second
    wait_for_all(grid)
    (reply,) = grid.pull_messages([second])
    assert reply.metadata.reply_to_message_id == second
    assert reply.metadata.src_node_id == 9
    assert list(grid.pull_messages([second])) == []
    assert [reply.metadata.src_node_id for reply in grid.pull_messages([first, second])] == [4]


def test_no_messages_have_no_replies(grid):
    assert list(grid.push_messages([])) == []
    assert list(grid.pull_messages([])) == []
    assert list(grid.send_and_receive([])) == []


def test_a_node_that_does_not_exist_gets_no_message_id(grid, ask):
    ids = list(grid.push_messages([ask(1), ask(5), ask(22)]))
    assert [bool(message_id) for message_id in ids] == [False, True, False]
    wait_for_all(grid)
    assert list(answers(grid.pull_messages(ids))) == [5]


def test_a_node_that_raises_answers_with_its_error(grid, ask):
    replies = list(grid.send_and_receive([ask(3, "raise"), ask(4)]))
    assert codes(replies) == {3: 2, 4: 0}
    assert next(r.error.reason for r in replies if r.has_error()) == "ValueError in small_app.py:42: no"


def test_a_client_that_answers_with_nothing_has_failed(grid):
    message = Message(RecordDict({"config": ConfigRecord()}), 3, "query.nothing")
    (reply,) = grid.send_and_receive([message])
    assert reply.error.reason == "TypeError: the client app answered with NoneType, not with a Message"


def test_a_client_that_answers_with_what_cannot_be_sent_has_failed(grid, ask):
    message = Message(RecordDict({"config": ConfigRecord()}), 3, "query.unsayable")
    first, second = grid.send_and_receive([message, ask(4)])
    assert codes([first, second]) == {3: 2, 4: 0}
    assert first.error.reason.startswith("ValueError: ")


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("raise-unspeakable", "_Unspeakable in small_app.py:56"),
        ("leave", "GeneratorExit in small_app.py:60"),
        ("keep-the-unsayable", "ValueError: "),
    ],
)
def test_whatever_a_client_raises_is_its_own_failure(grid, ask, action, reason):
    replies = list(grid.send_and_receive([ask(3, action), ask(4)]))
    assert codes(replies) == {3: 2, 4: 0}
    assert next(reply.error.reason for reply in replies if reply.has_error()).startswith(reason)


def test_a_node_goes_on_with_what_it_kept_before_something_that_cannot_be_stored(grid, ask):
    for action in ("", "keep-the-unsayable"):
        grid.send_and_receive([ask(3, action)])
    assert answers(grid.send_and_receive([ask(3)]))[3]["calls"] == 2


def test_of_a_client_that_forks_only_one_process_goes_on(grid, ask):
    process = os.getpid()
    for calls in (1, 2):
        told = answers(grid.send_and_receive([ask(node, "fork" if node == 3 else "") for node in (2, 3, 4)]))
        assert os.getpid() == process
        assert {node: answer["calls"] for node, answer in told.items()} == {2: calls, 3: calls, 4: calls}


def test_a_message_type_without_handler_is_an_error(grid):
    (reply,) = grid.send_and_receive([Message(RecordDict(), 3, "query.unheard_of")])
    assert reply.error.code == 2


def test_nodes_keep_their_state_between_messages(grid, ask):
    for calls in (1, 2, 3):
        told = answers(grid.send_and_receive([ask(node) for node in range(2, 8)]))
        assert {answer["calls"] for answer in told.values()} == {calls}


def test_what_nodes_keep_goes_through_a_checkpoint(grid, ask):
    assert offers_of(grid).keep is grid
    assert grid.node_states() == b""
    grid.send_and_receive([ask(7), ask(3), ask(3)])
    stored = grid.node_states()
    grid.send_and_receive([ask(7), ask(8)])
    assert grid.node_states() != stored
    grid.restore_node_states(stored)
    assert grid.node_states() == stored
    told = answers(grid.send_and_receive([ask(7), ask(8)]))
    assert (told[7]["calls"], told[8]["calls"]) == (2, 1)
    grid.restore_node_states(b"")
    assert grid.node_states() == b""


def test_what_has_changed_is_told_once_and_restored_behind_the_rest(grid, ask):
    grid.send_and_receive([ask(7), ask(3)])
    first = grid.changed_node_states()
    assert first == grid.node_states() != b""
    assert grid.changed_node_states() == b""
    grid.send_and_receive([ask(7), ask(3, "forget")])
    later, whole = grid.changed_node_states(), grid.node_states()
    grid.restore_node_states(first + later)
    assert grid.node_states() == whole
    assert grid.changed_node_states() == b""
    told = answers(grid.send_and_receive([ask(7), ask(3)]))
    assert (told[7]["calls"], told[3]["calls"]) == (3, 1)


def test_a_node_may_forget_what_it_has_kept(grid, ask):
    grid.send_and_receive([ask(7)])
    grid.send_and_receive([ask(7, "forget")])
    assert grid.node_states() == b""


def test_a_node_cannot_change_what_other_nodes_are_sent(grid, ask):
    shared = RecordDict({"config": ConfigRecord({"do": "spoil"})})
    replies = list(grid.send_and_receive([Message(shared, node, "query") for node in range(2, 12)]))
    assert set(codes(replies).values()) == {0}
    assert shared == RecordDict({"config": ConfigRecord({"do": "spoil"})})


ODD_ARRAYS = {
    "none": np.zeros((0, 3), np.float32),
    "number": np.array(2.5),
    "flags": np.array([True, False]),
    "one-byte": np.array([7], np.uint8),
    "many": np.arange(100_000, dtype=np.int64),
    "last-and-empty": np.zeros(0, np.float16),
}


@pytest.mark.parametrize("arrays", [{}, {"only": np.zeros(0)}, ODD_ARRAYS], ids=["none", "empty", "odd"])
def test_arrays_of_any_shape_reach_every_node(grid, ask, arrays):
    record = wire.pack_arrays(arrays)
    for reply in grid.send_and_receive([ask(node, x=record) for node in range(2, 7)]):
        returned = wire.unpack_arrays(reply.content["x"])
        assert list(returned) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(returned[name], array)
            assert returned[name].dtype == array.dtype


def test_an_array_without_any_bytes_reaches_the_node(grid, ask):
    record = ArrayRecord({"nothing": Array("float32", (0,), "somebody's own", b"")})
    (reply,) = grid.send_and_receive([ask(2, x=record)])
    assert reply.content["x"]["nothing"].data == b""


def test_every_node_can_be_sent_arrays_of_its_own(grid, ask):
    records = {node: wire.pack_arrays({"w": np.full(1000, node, np.float32)}) for node in grid.get_node_ids()}
    shared = wire.pack_arrays({"w": np.ones(3)})
    for _ in range(2):
        replies = grid.send_and_receive([ask(node, mine=records[node], ours=shared) for node in records])
        for reply in replies:
            assert wire.unpack_arrays(reply.content["mine"])["w"][0] == reply.metadata.src_node_id
            assert len(wire.unpack_arrays(reply.content["ours"])["w"]) == 3


def test_arrays_may_grow_and_shrink_from_batch_to_batch(grid, ask):
    for size in (1, 10_000, 10, 300_000, 5):
        record = wire.pack_arrays({"w": np.arange(size)})
        for reply in grid.send_and_receive([ask(node, x=record) for node in (2, 3, 4)]):
            np.testing.assert_array_equal(wire.unpack_arrays(reply.content["x"])["w"], np.arange(size))


@pytest.mark.parametrize("strategy", [FlowersFedAvg, FedAvg], ids=["flower's", "ours"])
def test_a_strategy_starts_as_flower_starts_it(grid, strategy):
    start = ArrayRecord([np.zeros(3, np.float32)])
    result = strategy().start(grid, start, num_rounds=2)
    # Flower's FedAvg adds up in float32, in the order in which the replies come.
    mean_of_node_ids = np.mean(list(grid.get_node_ids()))
    np.testing.assert_allclose(result.arrays.to_numpy_ndarrays()[0], 2 * mean_of_node_ids, rtol=1e-6)
    assert result.evaluate_metrics_clientapp[2]["loss"] == pytest.approx(0.5)
