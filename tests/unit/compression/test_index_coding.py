from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.compression.index_coding import longest, read_positions, write_positions
from fedlearn.core.errors import Refused


@st.composite
def some_positions(draw):
    size = draw(st.integers(1, 5000))
    count = draw(st.integers(0, size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return size, np.sort(rng.choice(size, count, replace=False))


@given(made=some_positions())
def test_positions_come_back_and_never_take_more_than_a_bitmap(made):
    size, positions = made
    written = write_positions(positions)
    assert len(written) <= longest(size)
    np.testing.assert_array_equal(read_positions(written, size=size, count=len(positions)), positions)


@pytest.mark.parametrize("positions", [[2**40], [0, 2**35], [5], list(range(100))])
def test_gaps_of_any_width_come_back(positions):
    written = write_positions(np.array(positions))
    np.testing.assert_array_equal(read_positions(written, size=2**41, count=len(positions)), positions)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_random_positions_take_little_more_than_their_entropy(share):
    size = 1_000_000
    positions = np.flatnonzero(np.random.default_rng(1).random(size) < share)
    entropy = -size * (share * math.log2(share) + (1 - share) * math.log2(1 - share)) / 8
    assert entropy * 0.99 < len(write_positions(positions)) < entropy * 1.04


@given(made=some_positions(), data=st.binary(max_size=80), cut=st.integers(0, 40), count=st.integers(0, 60))
def test_other_bytes_give_positions_of_the_model_or_are_refused(made, data, cut, count):
    size, positions = made
    honest = write_positions(positions).tobytes()
    for written in (data, honest[: len(honest) - cut], data + honest):
        try:
            read = read_positions(np.frombuffer(written, np.uint8), size=size, count=count)
        except Refused:
            continue
        assert len(read) == count
        assert np.all(np.diff(read) > 0)
        assert count == 0 or (read[0] >= 0 and read[-1] < size)
