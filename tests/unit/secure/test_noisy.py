"""Changes with noise as numbers of a secure sum."""

import numpy as np
import pytest

from fedlearn.core.errors import Refused, SettingError
from fedlearn.core.state import layout_of
from fedlearn.privacy import seeded_noise
from fedlearn.privacy.local_dp import OwnNoise
from fedlearn.secure.masks import reduced
from fedlearn.secure.noisy import NoisyChanges

STATE = {"w": np.zeros((3, 4), np.float32), "b": np.array(0.0)}


def changes(reach=2**15, nodes=5, multiplier=2.0, shares=4):
    return NoisyChanges(layout_of(STATE), OwnNoise(8.0, 1e-5, 0.5, 10, shares, reach, multiplier), nodes)


def test_the_sum_of_all_nodes_is_that_of_their_numbers_whatever_their_signs():
    noisy, rng = changes(), np.random.default_rng(2)
    sent = [{name: rng.normal(size=array.shape) for name, array in STATE.items()} for _ in range(5)]
    numbers = [noisy.shared(each, seeded_noise(place)) for place, each in enumerate(sent)]
    total = noisy.encoded(numbers[0])
    for each in numbers[1:]:
        total = total + noisy.encoded(each)
    found = noisy.decoded(reduced(total, noisy.modulus_bits), 5)
    flat = np.concatenate([found.changes["w"], found.changes["b"]])
    np.testing.assert_array_equal(flat, np.sum(numbers, axis=0) * (0.5 / 2**15))
    assert (found.nodes, found.weight, found.metrics) == (5, 5, {})


def test_no_change_reaches_farther_than_clip_before_its_noise():
    silent = OwnNoise(8.0, 1e-5, 0.5, 10, 4, 2**15, 1e-3)
    noisy = NoisyChanges(layout_of(STATE), silent, 5)
    numbers = noisy.shared({"w": np.full((3, 4), 1e30), "b": np.array(-1e30)}, seeded_noise(1))
    assert np.linalg.norm(numbers) == pytest.approx(2**15, rel=0.01)


def test_a_sum_beyond_honest_numbers_is_refused():
    noisy = changes()
    total = np.zeros(13, np.uint32)
    total[3] = noisy.largest + 1
    with pytest.raises(Refused, match="one of them has lied"):
        noisy.decoded(total, 5)
    with pytest.raises(Refused, match="numbers where 13 are due"):
        noisy.encoded(np.zeros(12, np.int64))


def test_the_modulus_holds_changes_and_noise_in_few_bits():
    assert changes().modulus_bits == 21
    assert changes(nodes=100, shares=95).modulus_bits == 23
    noisy = changes(multiplier=1e9)
    assert noisy.modulus_bits > 32 and noisy.encoded(np.zeros(13, np.int64)).dtype == np.uint64


@pytest.mark.parametrize(
    ("more", "why"),
    [({"reach": 4}, "hide a change of 13 entries"), ({"multiplier": 1e14}, "do not fit into 63 bits")],
)
def test_grids_that_carry_nothing_are_refused(more, why):
    with pytest.raises(SettingError, match=why):
        changes(**more)
