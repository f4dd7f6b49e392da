"""Randomness as a function of the run, round, attempt, node and purpose.

No generator is ever shared or carried along: code that needs random numbers asks for the generator of (run seed, round,
attempt, node, purpose). Round 3 is therefore the same after a resume, on any engine and in any order of work.

The key is a BLAKE2b hash of those values, the generator is Philox 4x64 (Salmon et al. 2011, "Parallel random numbers:
as easy as 1, 2, 3"), a counter-based generator whose stream NumPy keeps stable across versions and platforms.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray


class _Key(ISeedSequence):
    """A key of Philox, in the form from which NumPy takes seeds."""

    def __init__(self, key: int) -> None:
        self._words = np.array([key, 0], np.uint64)

    def generate_state(self, n_words: int, dtype: object = np.uint32) -> NDArray[np.uint64]:
        """Return the key, which is all that Philox asks for."""
        return self._words


def philox(key: int) -> np.random.Philox:
    """Return ``np.random.Philox(key=key)``, without the entropy that NumPy would ask for first and not use."""
    return np.random.Philox(_Key(key))  # type: ignore[arg-type]  # NumPy's stubs know its own SeedSequence alone


def seed_for(seed: int, *, purpose: str, round_number: int = 0, attempt: int = 0, node: int = 0) -> int:
    """Return a 63-bit seed for one purpose of one node in one round.

    63 bits, because the seed travels in a signed 64-bit field of Flower's ConfigRecord.

    Parameters
    ----------
    seed
        The run's seed.
    purpose
        The use of the numbers, as ``"shuffle"``; two purposes never share a stream.
    round_number, attempt
        From 1; 0 for numbers that belong to no round.
    node
        The node's partition id, which is the same on every engine (Flower's node id is not).
    """
    words = f"{seed}/{purpose}/{round_number}/{attempt}/{node}".encode()
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "little") >> 1


def report_seed(seed: int, *, round_number: int, node: int) -> int:
    """Return the seed of one node's codec in one round: node and server compute it, and the gate compares the two."""
    return seed_for(seed, purpose="codec", round_number=round_number, node=node)


def parcel_seed(seed: int, parcel: str) -> int:
    """Return the seed of the codec of a parcel beside the state; `seed` is the report's."""
    return seed_for(seed, purpose=f"parcel/{parcel}")


def downlink_seed(seed: int, *, round_number: int) -> int:
    """Return the seed of the codec by which one round's state travels to all nodes."""
    return seed_for(seed, purpose="downlink", round_number=round_number)


def anchor_seed(seed: int, *, number: int) -> int:
    """Return the seed of the codec by which the anchor that was fixed in a round travels."""
    return seed_for(seed, purpose="anchor", round_number=number)


def rng_for(seed: int, *, purpose: str, round_number: int = 0, attempt: int = 0, node: int = 0) -> np.random.Generator:
    """Return a random generator for one purpose of one node in one round; the same arguments give the same numbers.

    >>> first, again = (rng_for(7, purpose="shuffle", node=3) for _ in range(2))
    >>> bool((first.integers(100, size=9) == again.integers(100, size=9)).all())
    True
    """
    key = seed_for(seed, purpose=purpose, round_number=round_number, attempt=attempt, node=node)
    return np.random.Generator(philox(key))
