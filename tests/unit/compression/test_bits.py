from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.compression.bits import pack, packed_size, random_bits, random_bytes, random_fractions, unpack
from fedlearn.core.errors import Refused


@given(bits=st.integers(1, 8), count=st.integers(0, 70), seed=st.integers(0, 2**32 - 1))
def test_numbers_lie_one_after_another_the_lowest_bit_first(bits, count, seed):
    codes = np.random.default_rng(seed).integers(0, 2**bits, count).astype(np.uint8)
    packed = pack(codes, bits)
    assert packed.shape == (packed_size(count, bits),)
    as_one_number = sum(int(code) << bits * place for place, code in enumerate(codes))
    assert int.from_bytes(packed.tobytes(), "little") == as_one_number
    np.testing.assert_array_equal(unpack(packed, count, bits), codes)


@pytest.mark.parametrize("bits", range(1, 8))
def test_bits_behind_the_last_number_are_refused(bits):
    packed = pack(np.zeros(9, np.uint8), bits)
    packed[-1] |= 128
    with pytest.raises(Refused, match="behind the last of 9"):
        unpack(packed, 9, bits)


def test_random_streams_are_pinned():
    # If this fails, a generator has changed: nodes and servers of two versions would not agree.
    assert random_bytes(5, key=7).tolist() == random_bytes(9, key=7)[:5].tolist() == [164, 251, 233, 41, 184]
    assert random_bits(12, key=7).tolist() == np.unpackbits(random_bytes(2, key=7))[:12].tolist()


def test_fractions_are_uniform():
    fractions = random_fractions(200_000, key=1)
    assert fractions.min() > 0
    assert fractions.max() < 1
    counts = np.bincount((fractions * 16).astype(int))
    assert np.abs(counts - 12_500).max() < 6 * 12_500**0.5
