"""Attacks as they are written outside this repository."""

from typing import ClassVar

import numpy as np

from fedlearn.attacks import Attack


class Fixed(Attack):
    """Reports one number in all entries, and remembers the honest changes that it has seen."""

    seen: ClassVar[list] = []  # of this process

    def __init__(self, *, value: float = 0.5):
        self.value = value

    def lies(self, changes, *, attackers, rng):
        Fixed.seen.append(changes.copy())
        return np.full((attackers, changes.shape[1]), self.value)


class Misshapen(Attack):
    """Forgets that there are several attackers."""

    def lies(self, changes, *, attackers, rng):
        return changes.mean(axis=0)


class NaN(Attack):
    """Sends what is no number."""

    def lies(self, changes, *, attackers, rng):
        return np.full((attackers, changes.shape[1]), np.nan)
