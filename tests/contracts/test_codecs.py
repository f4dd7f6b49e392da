"""The law of every codec of the table: what was sent comes back, what was not sent comes back as null or zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from fedlearn import wire
from fedlearn.compression import CODECS, load_codec
from fedlearn.compression.parse import words_in
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import Refused
from fedlearn.core.state import UpdateKind, layout_of

EXACT = [("identity", "entry"), ("drop", "entry"), ("drop", "tensor"), ("drop", "all")]
LOSSY = ["quantize:1", "quantize:3", "quantize:8", "rotate,quantize:4", "fp16", "sign", "eden", "eden:4", "rand-k:0.3"]
LOSSY += ["top-k:0.3", "ternary:0.3", "entropy"]
CHAINED = ["drop:0.3,fp16", "drop:0.3,rotate,quantize:5", "top-k:0.3,quantize:4,entropy", "residual,top-k:0.1,eden:2"]
CASES = EXACT + [(name, "entry") for name in LOSSY + CHAINED] + [("drop:0.3,rotate,quantize:2", "tensor")]
MASKING = {"drop"}
LAYOUT_STATE = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(3, dtype=np.float32),
    "steps": np.array(7, np.int64),
    "norm.running_var": np.array([4e4, 0.0, 1e-3], np.float32),
    "norm.running_mean": np.array([-250.0, 0.0, 1e-3], np.float32),
}


FEW = settings(max_examples=15)  # where many chains do the same


def codec_of(name, granularity="entry", keep_ratio=0.1):
    return load_codec(CompressionSettings(codec=name, granularity=granularity, keep_ratio=keep_ratio))


def stages_of(name):
    return [word.partition(":")[0] for word in words_in(name)]


NAMED = {stage for name, _ in CASES for stage in stages_of(name)}
CASES += [(name, "entry") for name in CODECS if name not in NAMED]  # a stage of no chain above, alone


dtypes = st.sampled_from(["float32", "float64", "float16", "int64", "uint8"])
shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)
keep_ratios = st.one_of(st.just(1.0), st.floats(0.001, 1.0))
seeds = st.integers(0, 2**63 - 1)


@st.composite
def states(draw):
    specs = draw(st.lists(st.tuples(shapes, dtypes), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {
        f"p{i}.weight": np.asarray(rng.uniform(0, 200, shape)).astype(dtype) for i, (shape, dtype) in enumerate(specs)
    }


def travelled(codec, state, seed):
    payload = codec.encode(state, seed=seed)
    return codec.decode(wire.unpack_arrays(wire.pack_arrays(payload)), layout=layout_of(state), seed=seed)


@pytest.mark.parametrize(("name", "granularity"), EXACT)
@given(state=states(), keep_ratio=keep_ratios, seed=seeds)
def test_sent_entries_come_back_exactly_and_the_rest_as_null(name, granularity, state, keep_ratio, seed):
    codec = codec_of(name, granularity, keep_ratio)
    payload = codec.encode(state, seed=seed)
    update = travelled(codec, state, seed)
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
@FEW
@given(state=states(), seed=seeds)
def test_what_comes_back_fits_the_layout_is_finite_and_leaves_integers_as_they_are(name, granularity, state, seed):
    codec = codec_of(name, granularity)
    update = travelled(codec, state, seed)
    for parameter, entries in update.items():
        flat = state[parameter].reshape(-1)
        assert entries.values.dtype == flat.dtype
        assert np.isfinite(entries.values).all()
        assert entries.values.shape == flat.shape if entries.positions is None else entries.positions.shape
        if flat.dtype.kind != "f":
            np.testing.assert_array_equal(
                entries.values, flat if entries.positions is None else flat[entries.positions]
            )
    if not MASKING & set(stages_of(name)):
        assert list(update) == list(state)
        assert all(entries.positions is None for entries in update.values())


@pytest.mark.parametrize(("name", "granularity"), EXACT)
@given(state=states(), seed=seeds)
def test_keep_ratio_of_one_sends_everything(name, granularity, state, seed):
    update = travelled(codec_of(name, granularity, 1.0), state, seed)
    assert update.keys() == state.keys()
    for parameter, entries in update.items():
        np.testing.assert_array_equal(entries.dense(layout_of(state)[parameter]), state[parameter])


@pytest.mark.parametrize(("name", "granularity"), CASES)
@FEW
@given(state=states(), keep_ratio=keep_ratios, seed=seeds, data=st.data())
def test_order_of_parameters_need_not_be_the_same_on_both_sides(name, granularity, state, keep_ratio, seed, data):
    codec = codec_of(name, granularity, keep_ratio)
    shuffled = {parameter: state[parameter] for parameter in data.draw(st.permutations(list(state)))}
    update = codec.decode(codec.encode(shuffled, seed=seed), layout=layout_of(state), seed=seed)
    ordered = codec.decode(codec.encode(state, seed=seed), layout=layout_of(state), seed=seed)
    assert update.keys() == ordered.keys()
    for parameter, entries in update.items():
        np.testing.assert_array_equal(entries.values, ordered[parameter].values)
        np.testing.assert_array_equal(entries.positions, ordered[parameter].positions)


@pytest.mark.parametrize(("name", "granularity"), CASES)
def test_running_statistics_come_back_as_they_are_and_put_no_error_into_weights(name, granularity):
    codec, layout = codec_of(name, granularity), layout_of(LAYOUT_STATE)
    update = codec.decode(codec.encode(LAYOUT_STATE, seed=1), layout=layout, seed=1)
    for statistic in ("norm.running_var", "norm.running_mean"):
        assert update[statistic].positions is None
        np.testing.assert_array_equal(update[statistic].values, LAYOUT_STATE[statistic])
    for weights in {"w", "b"} & {*update}:
        assert np.abs(update[weights].values).max() < 100


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
    masked = bool(MASKING & set(stages_of(name)))
    assert codec.emits(UpdateKind.DENSE) is (UpdateKind.MASKED if masked else UpdateKind.DENSE)


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


ABOUT_FORM = {"wrong-shape", "wrong-dtype", "undecodable"}  # several may be true of one payload


@pytest.mark.parametrize(("reason", "spoil"), WRONG)
@pytest.mark.parametrize(("name", "granularity"), CASES)
def test_payload_that_encode_cannot_have_made_is_refused(name, granularity, reason, spoil):
    codec = codec_of(name, granularity, 0.5)
    payload = dict(codec.encode(LAYOUT_STATE, seed=1))
    with pytest.raises(Refused) as refused:
        codec.decode(spoil(payload), layout=layout_of(LAYOUT_STATE), seed=1)
    assert refused.value.reason == reason or {reason, refused.value.reason} <= ABOUT_FORM
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("granularity", ["entry", "tensor", "all"])
def test_dropping_saves_bytes_on_the_serialised_message(granularity):
    state = {f"w{i}": np.ones((50, 50), np.float32) for i in range(8)}
    plain = wire.bytes_of(wire.plain_report(state))
    sent = wire.bytes_of(wire.plain_report(codec_of("drop", granularity, 0.125).encode(state, seed=3)))
    assert plain / sent > 7  # of 8: headers and metrics count, a mask or an index would halve it
