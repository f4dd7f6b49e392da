from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.serde import recorddict_from_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedlearn import flower, wire
from fedlearn.core.cohort import Instruction
from fedlearn.core.errors import Refused

ANY = st.sampled_from(["float32", "float64", "float16", "int64", "int8", "uint8", "bool", ">f4", "<u2"]).flatmap(
    lambda dtype: arrays(np.dtype(dtype), array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
)


@given(array=ANY)
def test_arrays_travel_in_numpys_own_format(array):
    packed = wire.pack(array)
    back = wire.unpack(packed)
    for found in (back, packed.numpy(), wire.unpack(FlowerArray(array))):  # ours by Flower, Flower's by us
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
    assert not back.flags.writeable
    assert packed.data == FlowerArray(np.ascontiguousarray(array).reshape(array.shape)).data


@pytest.mark.parametrize("change", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::-1], np.asfortranarray])
def test_any_memory_layout_is_packed_in_c_order(change):
    array = change(np.arange(12, dtype=np.float32).reshape(3, 4))
    np.testing.assert_array_equal(wire.unpack(wire.pack(array)), array)


def test_unpacking_does_not_copy():
    packed = wire.pack(np.zeros(1000, np.float32))
    assert wire.unpack(packed).base is not None


@given(data=st.binary(max_size=120))
def test_any_bytes_are_an_array_or_refused(data):
    for start in (b"", b"\x93NUMPY\x01\x00"):
        with pytest.raises(Refused, match=r"^undecodable: "):
            wire.unpack(FlowerArray("float32", (1,), "numpy.ndarray", start + data))


def test_parameters_keep_their_order():
    names = ["z", "a", "m"]
    record = wire.pack_arrays({name: np.zeros(1) for name in names})
    assert list(wire.unpack_arrays(flower.from_bytes(flower.to_bytes(RecordDict({"x": record})))["x"])) == names


def test_size_of_a_message_is_that_of_its_serialised_records():
    content = RecordDict({"arrays": wire.pack_arrays({"w": np.ones(100, np.float32)}), "c": ConfigRecord({"a": 1})})
    assert wire.bytes_of(content) == len(flower.to_bytes(content)) > 400


INTS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.sampled_from([0, 63, 64, -64, -65, 2**63 - 1, -(2**63), 2**63]))
NUMBERS = st.one_of(INTS, st.floats(), st.lists(st.integers(0, 300), max_size=3), st.floats().map(np.float64))
SETTINGS = st.one_of(NUMBERS, st.booleans(), st.text(max_size=200), st.binary(max_size=200), st.lists(st.text()))
RECORDS = st.one_of(
    st.dictionaries(st.text(max_size=150), SETTINGS, max_size=4).map(ConfigRecord),
    st.dictionaries(st.text(max_size=9), NUMBERS, max_size=4).map(MetricRecord),
    st.dictionaries(st.text(max_size=9), ANY, max_size=3).map(wire.pack_arrays),
)


@given(content=st.dictionaries(st.text(max_size=9), RECORDS, max_size=3).map(RecordDict))
def test_the_size_of_any_records_is_that_of_their_bytes(content):
    assert wire.bytes_of(content) == len(flower.to_bytes(content))


@given(content=st.dictionaries(st.text(max_size=9), RECORDS, max_size=3).map(RecordDict))
def test_records_are_read_as_flower_reads_them(content):
    data = flower.to_bytes(content)
    ours, theirs = flower.from_bytes(data), recorddict_from_proto(ProtoRecordDict.FromString(data))
    assert flower.to_bytes(ours) == flower.to_bytes(theirs) == data
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, None, {}, object(), "\ud800"])
def test_what_cannot_be_sent_has_no_size(value):
    with pytest.raises((TypeError, ValueError)):
        flower.size_in_bytes("c", flower.filled(ConfigRecord(), {"a": value}))
    for text in ("text", b"bytes", ["text"]):
        with pytest.raises((TypeError, ValueError)):
            flower.size_in_bytes("m", flower.filled(MetricRecord(), {"a": text}))


def test_state_that_goes_to_many_nodes_is_counted_for_each():
    record = wire.pack_arrays({"w": np.ones(100, np.float32)})
    messages = [Message(RecordDict({"a": record, "c": ConfigRecord({"n": n})}), n + 2, "train") for n in range(3)]
    total = sum(wire.bytes_of(message.content) for message in messages)
    assert abs(wire.bytes_of_all(messages) - total) <= 3  # the two parts of each message are measured apart


def test_instruction_travels_beside_the_strategys_own_records():
    message = Message(RecordDict({"arrays": wire.pack_arrays({}), "config": ConfigRecord({"mu": 0.1})}), 5, "train")
    told = wire.with_instruction(message, Instruction(3, 2, 7), ttl=60.0)
    assert wire.read_instruction(told.content) == Instruction(3, 2, 7)
    assert wire.read_config(told.content)["mu"] == 0.1
    assert told.metadata.dst_node_id == 5
    assert told.metadata.ttl == 60.0
    assert "instruction" not in message.content  # the strategy's message is as it was


def test_without_our_server_the_round_number_is_flowers():
    content = RecordDict({"config": ConfigRecord({"server-round": 4})})
    assert wire.read_instruction(content) == Instruction(round_number=4, attempt=1, position=0)
    assert wire.read_instruction(RecordDict()) == Instruction(1, 1, 0)


@pytest.mark.parametrize("value", [7, 7.0])
def test_whole_numbers_of_examples_are_read(value):
    assert wire.read_num_examples(RecordDict({"m": MetricRecord({"num-examples": value})})) == 7


def test_state_is_parsed_once_for_all_nodes_of_a_process():
    content = RecordDict({"arrays": wire.pack_arrays({"w": np.zeros(3)})})
    assert wire.read_state(content) is wire.read_state(RecordDict({"arrays": content["arrays"]}))


# --- boxes ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0, wire.boxes.SMALL], ids=["large", "small"])
def kind(request, monkeypatch):
    """Boxes of one kind, whatever they hold."""
    monkeypatch.setattr(wire.boxes, "SMALL", request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(st.text(max_size=9), ANY, max_size=4), whole=st.booleans())
def test_a_box_gives_back_what_was_put_in(values, whole, kind):
    content = RecordDict({"arrays": wire.pack_arrays(values), "metrics": MetricRecord({"loss": 1.0})})
    before = flower.to_bytes(content)
    if whole:
        wire.box(content)
    else:
        wire.replace_arrays([content], wire.boxed)
    assert all(len(record) == 1 for record in content.values())
    assert wire.unbox(content)
    assert flower.to_bytes(content) == before
    assert not wire.unbox(content)


def test_a_small_reply_is_one_record_of_one_value():
    content = RecordDict({"arrays": wire.pack_arrays({"w": np.zeros(9)}), "metrics": MetricRecord({"loss": 1.0})})
    wire.box(content)
    assert [(key, list(record)) for key, record in content.items()] == [(wire.BOX, [wire.BOX])]


def test_what_is_sent_twice_has_two_names_and_one_size(kind):
    arrays = {"arrays": wire.pack_arrays({"w": np.zeros(9)})}
    for content in ({"config": ConfigRecord({"round_number": 1})}, arrays):
        made = [RecordDict(dict(content)) for _ in range(2)]
        for each in made:
            wire.box(each)
        assert made[0].object_id != made[1].object_id
        assert wire.bytes_of(made[0]) == wire.bytes_of(made[1])


def test_all_records_of_a_message_are_in_boxes_and_those_of_arrays_are_shared(kind):
    content = RecordDict({"config": ConfigRecord({"a": 1}), "arrays": wire.pack_arrays({"w": np.zeros(9)})})
    wire.replace_arrays([content], wire.boxed)
    shared = content["arrays"]
    wire.box_rest(content)
    assert content["arrays"] is shared and list(content) == ["arrays", wire.BOX]
    wire.unbox(content)
    assert sorted(content) == ["arrays", "config"] and content["config"]["a"] == 1


def test_a_box_of_a_model_is_hardly_larger_than_its_arrays():
    arrays = wire.pack_arrays({f"layer{n}": np.zeros((64, n), np.float32) for n in range(1, 9)})
    plain, inside = RecordDict({"arrays": arrays}), RecordDict({"arrays": wire.boxed(arrays)})
    assert 0 < wire.bytes_of(inside) - wire.bytes_of(plain) < 100


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 40,
        flower.to_bytes({"a": wire.pack_arrays({}), "b": wire.pack_arrays({})}),
        flower.to_bytes({"a": MetricRecord({"loss": 1.0})}),
    ],
    ids=["empty", "garbage", "two-records", "metrics"],
)
@pytest.mark.parametrize("is_small", [True, False])
def test_a_box_that_holds_something_else_is_refused(data, is_small):
    packed = flower.array_of("uint8", (len(data),), wire.BOX, data)
    bad = ConfigRecord({wire.BOX: data}) if is_small else flower.filled(ArrayRecord(), {wire.BOX: packed})
    content = RecordDict({"arrays": bad})
    with pytest.raises(Refused, match="box 'arrays'"):
        wire.unbox(content)
    assert content["arrays"] is bad
    if not is_small:
        with pytest.raises(Refused, match=wire.BOX):  # and whoever reads it closed refuses it, too
            wire.unpack_arrays(content["arrays"])
