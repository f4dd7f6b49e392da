"""The random numbers of a private fit: which records are in each batch, and the noise on their sum.

Which records were drawn is as secret as the noise: the account's amplification by sampling holds only against those who
do not know it. So are dropout and augmentation, as what they do to an example goes by its place in a batch. Secure
noise therefore comes with coins of the operating system.
"""

from __future__ import annotations

import os
import secrets
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from client.learners.learner import LocalTask
from fedlearn.core.seeding import rng_for, seed_for
from fedlearn.privacy import Noise, secure_noise, seeded_noise

BITS = 64


class Draws(Protocol):
    """The random numbers of one fit, in the order in which they are asked for."""

    noise: Noise
    torch_seed: int

    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """Return for each of some records whether it is in the batch: true with probability `rate`, by itself."""
        ...


class SecureDraws:
    """Draws by the operating system's generator, which cannot be drawn again."""

    def __init__(self) -> None:
        self.noise = secure_noise()
        self.torch_seed = secrets.randbits(63)

    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """See Draws; the probability is `rate` rounded down to a multiple of 2^-64.

        >>> bool(SecureDraws().coins(5, 1.0).all())
        True
        """
        below = int(rate * 2.0**BITS)
        if below >= 1 << BITS:
            return np.ones(count, bool)
        return np.frombuffer(os.urandom(count * BITS // 8), np.uint64) < np.uint64(below)


class SeededDraws:
    """Draws by the run's seed, round and node, which can be drawn again and so protect no record."""

    def __init__(self, task: LocalTask) -> None:
        place = {"round_number": task.round_number, "node": task.partition_id}
        self._rng = rng_for(task.seed, purpose="dp-sgd", **place)
        self.noise = seeded_noise(self._rng)
        self.torch_seed = seed_for(task.seed, purpose="torch", **place)

    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """See Draws."""
        return self._rng.random(count) < rate


def draws_for(task: LocalTask, *, is_secure: bool) -> Draws:
    """Return the draws of one fit."""
    return SecureDraws() if is_secure else SeededDraws(task)
