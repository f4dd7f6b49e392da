"""The law of every codec of the table: what was sent comes back, what was not sent comes back as null."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from fedlearn import wire
from fedlearn.compression import CODECS, load_codec
from fedlearn.config.schema import CompressionSettings
from fedlearn.errors import Refused
from fedlearn.state import UpdateKind, layout_of

CASES = [("identity", "entry"), ("drop", "entry"), ("drop", "tensor")]
LAYOUT_STATE = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(3, dtype=np.float32),
    "steps": np.array(7, np.int64),
}


def codec_of(name, granularity, keep_ratio):
    return load_codec(CompressionSettings(codec=name, granularity=granularity, keep_ratio=keep_ratio))


dtypes = st.sampled_from(["float32", "float64", "float16", "int64", "uint8"])
shapes = array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=7)
keep_ratios = st.one_of(st.just(1.0), st.floats(0.001, 1.0))


@st.composite
def states(draw):
    specs = draw(st.lists(st.tuples(shapes, dtypes), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {
        f"p{i}.weight": np.asarray(rng.uniform(0, 200, shape)).astype(dtype) for i, (shape, dtype) in enumerate(specs)
    }


def test_every_codec_is_covered_here():
    assert {name for name, _ in CASES} == set(CODECS)


@pytest.mark.parametrize(("name", "granularity"), CASES)
@given(state=states(), keep_ratio=keep_ratios, seed=st.integers(0, 2**63 - 1))
def test_sent_entries_come_back_exactly_and_the_rest_as_null(name, granularity, state, keep_ratio, seed):
    codec = codec_of(name, granularity, keep_ratio)
    payload = codec.encode(state, seed=seed)
    on_the_wire = wire.unpack_arrays(wire.pack_arrays(payload))
    update = codec.decode(on_the_wire, layout=layout_of(state), seed=seed)
    assert update
    assert update.keys() <= state.keys()
    for parameter, entries in update.items():
        flat = state[parameter].reshape(-1)
        assert entries.values.dtype == flat.dtype
        if entries.positions is None:
            np.testing.assert_array_equal(entries.values, flat)
        else:
            assert np.all(np.diff(entries.positions) > 0)
            np.testing.assert_array_equal(entries.values, flat[entries.positions])
    sent = sum(entries.values.nbytes for entries in update.values())
    assert sum(array.nbytes for array in payload.values()) == sent  # nothing travels that is not used


@pytest.mark.parametrize(("name", "granularity"), CASES)
@given(state=states(), seed=st.integers(0, 2**63 - 1))
def test_keep_ratio_of_one_sends_everything(name, granularity, state, seed):
    codec = codec_of(name, granularity, 1.0)
    update = codec.decode(codec.encode(state, seed=seed), layout=layout_of(state), seed=seed)
    assert update.keys() == state.keys()
    for parameter, entries in update.items():
        np.testing.assert_array_equal(entries.dense(layout_of(state)[parameter]), state[parameter])


@pytest.mark.parametrize(("name", "granularity"), CASES)
@given(state=states(), keep_ratio=keep_ratios, seed=st.integers(0, 2**63 - 1), data=st.data())
def test_order_of_parameters_need_not_be_the_same_on_both_sides(name, granularity, state, keep_ratio, seed, data):
    codec = codec_of(name, granularity, keep_ratio)
    shuffled = {parameter: state[parameter] for parameter in data.draw(st.permutations(list(state)))}
    update = codec.decode(codec.encode(shuffled, seed=seed), layout=layout_of(state), seed=seed)
    for parameter, entries in update.items():
        flat = state[parameter].reshape(-1)
        sent = slice(None) if entries.positions is None else entries.positions
        np.testing.assert_array_equal(entries.values, flat[sent])


@pytest.mark.parametrize(("name", "granularity"), CASES)
def test_encoding_changes_nothing_and_depends_on_the_seed_alone(name, granularity):
    codec = codec_of(name, granularity, 0.4)
    state = {parameter: array.copy() for parameter, array in LAYOUT_STATE.items()}
    for array in state.values():
        array.flags.writeable = False
    first, again = (codec.encode(state, seed=5) for _ in range(2))
    assert {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in again.items()}


@pytest.mark.parametrize(("name", "granularity"), CASES)
def test_kinds_are_declared(name, granularity):
    codec = codec_of(name, granularity, 0.4)
    assert UpdateKind.DENSE in codec.accepts
    assert codec.emits(UpdateKind.DENSE) is (UpdateKind.MASKED if name == "drop" else UpdateKind.DENSE)


def without_first(payload):
    return dict(list(payload.items())[1:])


def longer(payload):
    return {name: np.concatenate([array.reshape(-1), array.reshape(-1)[:1]]) for name, array in payload.items()}


def of_other_dtype(payload):
    return {
        name: array.astype(np.float64 if array.dtype != np.float64 else np.float32) for name, array in payload.items()
    }


WRONG = [
    ("wrong-names", lambda payload: {}),
    ("wrong-names", without_first),
    ("wrong-names", lambda payload: payload | {"more": np.zeros(1, np.float32)}),
    ("wrong-shape", longer),
    ("wrong-shape", lambda payload: {name: array.reshape(1, *array.shape) for name, array in payload.items()}),
    ("wrong-dtype", of_other_dtype),
]


@pytest.mark.parametrize(("reason", "spoil"), WRONG)
@pytest.mark.parametrize(("name", "granularity"), CASES)
def test_payload_that_encode_cannot_have_made_is_refused(name, granularity, reason, spoil):
    codec = codec_of(name, granularity, 0.5)
    payload = dict(codec.encode(LAYOUT_STATE, seed=1))
    with pytest.raises(Refused) as refused:
        codec.decode(spoil(payload), layout=layout_of(LAYOUT_STATE), seed=1)
    assert refused.value.reason == reason
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("granularity", ["entry", "tensor"])
def test_dropping_saves_bytes_on_the_serialised_message(granularity):
    state = {f"w{i}": np.ones((50, 50), np.float32) for i in range(8)}
    plain = wire.bytes_of(wire.plain_report(state))
    sent = wire.bytes_of(wire.plain_report(codec_of("drop", granularity, 0.125).encode(state, seed=3)))
    assert plain / sent > 7  # of 8: headers and metrics count, a mask or an index would halve it
