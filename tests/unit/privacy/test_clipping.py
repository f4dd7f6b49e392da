"""Clipping of a node's change: one norm over all parameters, whatever their dtypes and shapes hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedlearn.privacy.clipping import SLACK, clipped, is_clipped, norm_of

DTYPES = st.sampled_from([np.float16, np.float32, np.float64])
CHANGES = st.lists(
    DTYPES.flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            hnp.array_shapes(min_dims=0, max_dims=2, max_side=4),
            elements=st.floats(allow_nan=True, allow_infinity=True, width=np.dtype(dtype).itemsize * 8),
        )
    ),
    min_size=1, max_size=4,
).map(lambda arrays: {f"p{place}": array for place, array in enumerate(arrays)})  # fmt: skip


@given(change=CHANGES, clip=st.floats(1e-3, 1e3))
def test_whatever_a_change_holds_it_is_clipped_and_keeps_its_dtypes_and_shapes(change, clip):
    short = clipped(change, clip)
    assert norm_of(short) <= clip * (1 + SLACK) and is_clipped(short, clip)
    assert {name: (array.dtype, array.shape) for name, array in short.items()} == {
        name: (array.dtype, array.shape) for name, array in change.items()
    }


@given(seed=st.integers(0, 1000))
def test_a_long_change_keeps_its_direction_and_has_the_norm(seed):
    rng = np.random.default_rng(seed)
    change = {"w": rng.normal(size=(40, 3)).astype(np.float32), "scale": np.array(rng.normal())}
    short = clipped(change, 0.25)
    assert norm_of(short) == pytest.approx(0.25, rel=1e-6)
    factor = 0.25 / norm_of(change)
    assert all(np.allclose(short[name], change[name] * factor, rtol=1e-6) for name in change)


def test_a_short_change_is_left_as_it_is():
    change = {"w": np.array([0.3, 0.4], np.float32)}
    assert clipped(change, 0.6)["w"] is change["w"]


def test_the_norm_is_that_of_float64_also_of_many_float32():
    many = np.full(2_000_000, 1e-3, np.float32)
    assert norm_of({"w": many}) == pytest.approx(float(np.linalg.norm(many.astype(np.float64))), rel=1e-12)


@given(seed=st.integers(0, 1000), dtype=DTYPES, size=st.integers(1, 3000))
def test_a_norm_is_that_of_the_squares_in_float64_to_the_last_bit(seed, dtype, size):
    array = np.random.default_rng(seed).normal(size=(size, 3)).astype(dtype)
    in_order = np.square(np.asarray(array.T, np.float64).reshape(-1))
    assert norm_of({"w": array.T}) == np.sqrt(in_order.sum())
