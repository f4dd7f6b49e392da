"""The server's anchors: what is said before round 1, and which of them are kept."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import RecordDict

from fedlearn import flower, wire
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At, Member
from fedlearn.core.errors import RunFailed
from fedlearn.core.state import layout_of
from fedlearn.wire.decoded_state import Downlink
from server.features.downlink.anchors import Anchors, Heard, expected

STATE = {"w": np.random.default_rng(1).standard_normal((60, 70), np.float32), "steps": np.array(4, np.int64)}


def config_of(chain, **settings):
    return RunConfig.model_validate({"compression": {"downlink": chain, "send": "update"}, **settings})


def messages(state, nodes):
    record = wire.pack_arrays(state)
    return record, [flower.message_to(RecordDict({wire.ARRAYS: record}), node, "train", ttl=9.0) for node in nodes]


def sent(anchors, round_number, nodes, has):
    record, given = messages(STATE, nodes)
    anchors.correct(given, record, At(round_number, 1), has)
    return [wire.ANCHOR in message.content for message in given]


@pytest.fixture
def anchors():
    return Anchors.of(config_of("anchor:10:4,eden"), STATE, {})


def test_nodes_get_the_anchor_that_they_lack_and_no_other(anchors):
    assert sent(anchors, 1, [2, 3], {}) == [True, True]
    (first,) = anchors.names
    assert sent(anchors, 2, [2, 3, 4], {2: first, 3: "1-0011223344556677", 4: "999-00"}) == [False, True, True]
    assert anchors.measured()["anchors_sent"] == 4
    assert sent(anchors, 11, [2], {2: first}) == [True]
    assert anchors.names[0] == first
    assert set(anchors.memory(())) == {f"anchor/11/{part}" for part in ("float32/codes", "float32/scales", "int64")}
    assert len(anchors.names) == 1


def test_an_anchor_is_kept_as_long_as_a_node_works_on_a_correction_to_it(anchors):
    for round_number in range(1, 45):
        sent(anchors, round_number, [2], {})
        anchors.memory(range(max(0, round_number - 13), round_number))  # the slowest node works on the first of them
        assert len(anchors.names) <= 3
    assert [int(name.partition("-")[0]) for name in anchors.names] == [31, 41]


def test_what_a_checkpoint_holds_makes_the_same_anchors(anchors):
    sent(anchors, 1, [2], {})
    memory = {**anchors.memory(()), "theirs": np.zeros(1)}
    again = Anchors.of(config_of("anchor:10:4,eden"), STATE, memory)
    assert again.names == anchors.names
    np.testing.assert_array_equal(again.serving(9).state["w"], anchors.serving(9).state["w"])


def test_an_anchor_that_moves_is_sent_once_and_again_where_an_attempt_is_made_again():
    anchors = Anchors.of(config_of("ef21,top-k:0.5"), STATE, {})
    assert sent(anchors, 1, [2, 3], {}) == [True, True]
    _, second = anchors.names
    assert sent(anchors, 1, [2, 3], {2: second}) == [True, True], "what nodes have made of it is the next anchor"
    memory = anchors.memory(())
    assert anchors.names == [second]
    for each in (anchors, Anchors.of(config_of("ef21,top-k:0.5"), STATE, memory)):
        assert sent(each, 2, [2, 3, 4], {2: second, 3: second}) == [False, False, True]
    assert anchors.names[1] == each.names[1]


def trained(chain, *, rounds, rate=0.1):
    """Return the state after rounds in which two nodes of opposite slopes step from the state that they decode."""
    slopes, goals = np.array([[1.0, 3.0], [3.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    anchors, x = Anchors.of(config_of(chain, clients=2), {"x": np.zeros(2, np.float32)}, {}), np.zeros(2, np.float32)
    downlink, has = Downlink.of(config_of(chain), layout=layout_of({"x": x})), ""
    for number in range(1, rounds + 1):
        record, (message,) = messages({"x": x}, [2])
        anchors.correct([message], record, At(number, 1), {2: has})
        anchor = anchors.serving(number)
        seen = downlink.state_in(message.content, round_number=number, anchor=anchor.state)
        has = downlink.next_anchor(seen, round_number=number)[0] if downlink.moves else anchor.name
        anchors.memory(())
        x = (x - rate * (slopes * (seen["x"] - goals)).mean(axis=0)).astype(np.float32)
    assert anchors.measured()["anchors_sent"] == 1
    return x


def test_states_that_are_followed_end_at_the_optimum_where_a_fixed_anchor_does_not():
    """The example of two nodes, EF21 against the largest entry alone: its optimum is (1/4, 1/4)."""
    np.testing.assert_allclose(trained("ef21,top-k:0.5", rounds=400), 0.25, rtol=0, atol=1e-6)
    assert np.abs(trained("anchor:1000:32,top-k:0.5", rounds=400) - 0.25).max() > 0.01


def test_a_state_of_other_arrays_is_refused(anchors):
    record, _ = messages(STATE, [])
    with pytest.raises(RunFailed, match="other arrays than the state"):
        anchors.correct(messages({"w": STATE["w"]}, [2])[1], record, At(1, 1), {})


def test_asynchronous_schedules_remember_what_each_node_has_answered(anchors):
    heard, members = Heard(anchors, 4, {}), [Member(10 + each, each, 0) for each in range(4)]
    record, given = messages(STATE, [10])
    anchors.correct(given, record, At(1, 1), {})
    assert set(heard.has(members).values()) == {""}
    reply = flower.reply_from(node_id=10, message_type="train", reply_to="", content=RecordDict(), error=None)
    heard.note(0, At(1, 1), reply)
    assert heard.has(members) == {10: anchors.names[0], 11: "", 12: "", 13: ""}
    again = Heard(anchors, 4, heard.memory())
    assert again.has(members) == heard.has(members)
    assert Heard(None, 4, {}).memory() == {}


@pytest.mark.parametrize(
    ("chain", "cohort", "says"),
    [
        ("identity", 1, ""),
        ("rotate,quantize:8", 1, ""),
        ("anchor:50:4,eden", 10, ""),
        ("anchor:100:4,eden", 1, "0.63 of the instructions are expected to bring the anchor"),
        ("anchor:10:4,eden", 10, "0.65 of the instructions"),
        ("anchor:50:4,rand-k:0.25,eden", 10, "the correction loses 5.2 times its energy"),
        ("anchor:50:4,top-k:0.1,eden", 10, ""),
    ],
)
def test_settings_that_cannot_pay_say_what_to_expect(chain, cohort, says):
    said = expected(config_of(chain, clients=100, rounds={"cohort": cohort}), STATE)
    assert bool(said) == bool(says)
    assert says in said
