"""What follows from the rounds so far, computed once: a process with many nodes asks for it again for each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from fedlearn.models.sums import IntArray

T = TypeVar("T")


class Remembered(Generic[T]):
    """What follows from some rounds, each step from the step before and the sums of a round.

    Parameters
    ----------
    first
        What there is before round 1.
    step
        Returns what follows from one more round.

    Examples
    --------
    >>> total = Remembered(0, lambda before, sums: before + int(sums.sum()))
    >>> total.after([np.array([1, 2]), np.array([4])])
    7
    """

    def __init__(self, first: T, step: Callable[[T, IntArray], T]) -> None:
        self._step = step
        self._rounds: list[IntArray] = []
        self._after = [first]

    def after(self, rounds: Sequence[IntArray]) -> T:
        """Return what follows from rounds; what followed from the same rounds before is taken from memory."""
        known = 0
        while known < min(len(rounds), len(self._rounds)) and np.array_equal(rounds[known], self._rounds[known]):
            known += 1
        del self._rounds[known:], self._after[known + 1 :]
        for sums in rounds[known:]:
            self._after.append(self._step(self._after[-1], sums))
            self._rounds.append(sums)
        return self._after[-1]
