"""Fixed point, packing and Shamir's shares: what goes into a sum and comes out of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fedlearn.core.errors import Refused, UsageError
from fedlearn.secure import shamir
from fedlearn.secure.fixed_point import FixedPoint, coarse_weight, concatenated
from fedlearn.secure.masks import reduced, zeros
from fedlearn.secure.packed import packed, unpacked


@pytest.mark.parametrize(("nodes", "bits"), [(2, 17), (4, 18), (10, 20), (20, 21), (100, 23), (1000, 26), (10_000, 30)])
def test_the_modulus_holds_the_largest_sum_and_is_as_small_as_can_be(nodes, bits):
    point = FixedPoint(clip=1.0, bits=16, nodes=nodes)
    assert point.modulus_bits == bits == math.ceil(math.log2(nodes * (2**16 - 1) + 1))
    assert FixedPoint(1.0, 8, 100).modulus_bits == 15 and FixedPoint(1.0, 20, 100).modulus_bits == 27
    assert FixedPoint(1.0, 16, 100, 64).modulus_bits == 29 and FixedPoint(1.0, 16, 10_000, 64).modulus_bits == 36


@pytest.mark.parametrize("bits", [2, 8, 12, 16, 24])
def test_a_sum_is_less_than_a_step_off_for_each_node(bits):
    rng = np.random.default_rng(1)
    values = rng.uniform(-3, 3, (5, 1000)).astype(np.float32)
    point = FixedPoint(clip=2.0, bits=bits, nodes=5)
    total = zeros(1000, point.modulus_bits)
    for node in values:
        total += point.encoded(node, rng)
    found = point.decoded(reduced(total, point.modulus_bits), 5)
    assert np.abs(found - values.clip(-2, 2).sum(0, dtype=np.float64)).max() < 5 * point.step


def test_rounding_is_right_on_average():
    point, rng = FixedPoint(clip=1.0, bits=4, nodes=1), np.random.default_rng(2)
    for value in (-0.97, -0.31, 0.0, 0.123, 0.99):
        coded = point.encoded(np.full(40_000, value, np.float32), rng)
        mean = point.decoded(coded, 1).mean()
        assert abs(mean - np.float32(value)) < 5 * point.step / 2 / math.sqrt(40_000)


def test_ends_of_the_range_are_the_smallest_and_the_largest_number():
    point, rng = FixedPoint(clip=0.3, bits=24, nodes=3), np.random.default_rng(3)
    ends = np.array([-0.3, 0.3, -9.0, 9.0], np.float64)
    for _ in range(50):
        assert point.encoded(ends, rng).tolist() == [0, 2**24 - 1, 0, 2**24 - 1]


def test_the_same_generator_rounds_alike():
    values, point = np.linspace(-1, 1, 100_000), FixedPoint(1.0, 16, 10)
    first, again = (point.encoded(values, np.random.default_rng(4)) for _ in range(2))
    assert (first == again).all()


def test_weights_multiply_and_their_sum_decodes():
    point, rng = FixedPoint(1.0, 16, 4, largest_weight=64), np.random.default_rng(5)
    whole = point.encoded(np.ones(3), rng, weight=64) + point.encoded(-np.ones(3), rng, weight=2)
    assert point.decoded(whole, 66) == pytest.approx([62.0] * 3)
    with pytest.raises(Refused, match="wrong-weight"):
        point.encoded(np.ones(3), rng, weight=65)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_encoded(bad):
    with pytest.raises(Refused, match="not-finite"):
        FixedPoint(1.0, 16, 4).encoded(np.array([0.0, bad]), np.random.default_rng(0))


def test_a_sum_beyond_the_range_of_its_nodes_is_refused():
    point = FixedPoint(1.0, 16, 4)
    most = np.array([3 * (2**16 - 1)], np.uint32)
    assert point.decoded(most, 3) == pytest.approx([3.0])
    with pytest.raises(Refused, match="sum-out-of-range"):
        point.decoded(most + np.uint32(1), 3)
    with pytest.raises(Refused, match="sum-out-of-range"):
        point.decoded(most, 5)


@pytest.mark.parametrize("wrong", [{"clip": 0.0}, {"clip": math.nan}, {"bits": 1}, {"bits": 25}, {"largest_weight": 3}])
def test_a_wrong_encoding_is_refused_in_one_line(wrong):
    with pytest.raises(UsageError, match="secure"):
        FixedPoint(**{"clip": 1.0, "bits": 16, "nodes": 4, **wrong})


def test_weights_are_coarsened_to_powers_of_two():
    assert [coarse_weight(n, 64) for n in (0, 1, 2, 3, 63, 64, 10**9)] == [1, 1, 2, 2, 32, 64, 64]
    assert coarse_weight(500, 1) == 1
    assert concatenated([np.ones((2, 2)), np.float64(3)]).tolist() == [1, 1, 1, 1, 3]
    assert concatenated([]).size == 0


@pytest.mark.parametrize("bits", [2, 7, 8, 9, 16, 20, 23, 24, 31, 32, 33, 36, 63, 64])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_packed_numbers_come_back_and_waste_no_bit(bits, count):
    numbers = np.random.default_rng(bits).integers(0, 2**bits, count, np.uint64, endpoint=False)
    vector = numbers.astype(zeros(0, bits).dtype)
    data = packed(vector, bits)
    assert len(data) == math.ceil(count * bits / 8)
    assert (unpacked(data, count, bits) == vector).all()
    for wrong in (data + b"\0", data[:-1]):
        if len(wrong) != len(data):
            with pytest.raises(Refused, match="wrong-size"):
                unpacked(wrong, count, bits)


def test_the_shares_of_a_known_polynomial():
    shares = {1: 1494, 2: 1942, 3: 2578, 4: 3402, 5: 4414, 6: 5614}
    assert shamir.split([1234, 166, 94], [1, 2, 3, 5, 6]) == {p: shares[p] for p in (1, 2, 3, 5, 6)}
    assert {
        shamir.combined({p: 1234 + 166 * p + 94 * p * p for p in some})
        for some in itertools.combinations(range(1, 7), 3)
    } == {1234}


def test_any_threshold_of_shares_gives_the_secret_and_one_fewer_fits_every_secret():
    rng = np.random.default_rng(6)
    drawn = [int.from_bytes(rng.bytes(32), "little") % shamir.PRIME for _ in range(4)]
    shares = shamir.split(drawn, range(1, 8))
    for some in itertools.combinations(shares, 4):
        assert shamir.combined({place: shares[place] for place in some}) == drawn[0]
    three = {place: shares[place] for place in (2, 5, 7)}
    for guess in (0, 1, shamir.PRIME - 1):  # a polynomial of degree 3 through these three, and the guess at 0
        assert shamir.combined(three) != drawn[0]
        fourth = _value_at(1, {0: guess, **three})
        assert shamir.combined({1: fourth, **three}) == guess


def _value_at(place, points):
    """Return the value of the lowest polynomial through some points, term by term."""
    total = 0
    for at, value in points.items():
        for other in points:
            if other != at:
                value = value * (place - other) * pow(at - other, shamir.PRIME - 2, shamir.PRIME)
        total += value
    return total % shamir.PRIME


def test_elements_at_the_ends_of_the_field():
    for secret in (0, 1, shamir.PRIME - 1):
        shares = shamir.split([secret, shamir.PRIME - 1, shamir.PRIME - 1], [1, 2, shamir.PRIME - 1])
        assert shamir.combined(shares) == secret
        assert shamir.from_bytes(shamir.to_bytes(secret)) == secret
