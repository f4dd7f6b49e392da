"""Which classes the final and the best state take for which: kept from the evaluations that the rounds make."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedlearn.runs.classes import Confusion


class Confusions:
    """The confusion of the latest evaluated state, and of all before it that may still be the best."""

    def __init__(self) -> None:
        self._of_round: dict[int, NDArray[np.int64]] = {}

    def take(self, round_number: int, counts: NDArray[np.int64] | None, best_round: int | None) -> None:
        """Keep what a round's evaluation has counted.

        Parameters
        ----------
        counts
            Shape (K, K); None of what tells no classes apart.
        best_round
            The best round so far.
        """
        self._of_round = {number: kept for number, kept in self._of_round.items() if number == best_round}
        if counts is not None:
            self._of_round[round_number] = counts

    def of(self, round_number: int) -> Confusion | None:
        """Return the counts after a round; None if they were not made, or not in this process."""
        counts = self._of_round.get(round_number)
        return None if counts is None else Confusion.of(round_number, counts)
