from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.seeding import philox, rng_for, seed_for


def test_seed_is_pinned():
    # If this fails, every stored run resumes to other bytes.
    assert seed_for(1, purpose="shuffle", round_number=3, attempt=2, node=17) == 1048459396458129028
    assert rng_for(1, purpose="shuffle").integers(0, 1000, 4).tolist() == [97, 388, 548, 721]


def test_each_argument_makes_another_stream():
    calls = [
        {"seed": 1, "purpose": "a"},
        {"seed": 2, "purpose": "a"},
        {"seed": 1, "purpose": "b"},
        {"seed": 1, "purpose": "a", "round_number": 1},
        {"seed": 1, "purpose": "a", "attempt": 1},
        {"seed": 1, "purpose": "a", "node": 1},
    ]
    assert len({seed_for(**call) for call in calls}) == len(calls)


def test_seed_fits_a_signed_64_bit_field():
    assert all(0 <= seed_for(seed, purpose="x") < 2**63 for seed in range(1000))


@given(st.integers(0, 2**63 - 1))
def test_a_generator_is_what_numpy_makes_of_the_key(key):
    assert str(philox(key).state) == str(np.random.Philox(key=key).state)
    assert (philox(key).random_raw(9) == np.random.Philox(key=key).random_raw(9)).all()
