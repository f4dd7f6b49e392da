"""Which classes the final and the best state take for which: kept from the evaluations that the rounds make."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedlearn.models.loaded import dataset_of
from fedlearn.runs.classes_json import ClassResults, Confusion, write_classes
from server.feature import Feature, Measure, Measures, NewState
from server.run import ServerRun


class Confusions(Feature):
    """The confusion of the latest evaluated state, and of all before it that may still be the best."""

    run: ServerRun

    def __init__(self) -> None:
        self._of_round: dict[int, NDArray[np.int64]] = {}

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return the measures, and keep their confusion."""
        found = measure(new)
        best = self.run.store.history.best_round
        if found.confusion is not None:
            self._of_round = {number: counts for number, counts in self._of_round.items() if number == best}
            self._of_round[new.at.round_number] = found.confusion
        return found

    def summary(self) -> Mapping[str, object]:
        """Store the confusion of the final and of the best state in a file of its own; summary.json says nothing of it.

        Nothing is evaluated again. So a run that was resumed after its best round has none of that; one of which
        nothing was evaluated since, as there was no round left, keeps what it had stored.
        """
        history = self.run.store.history
        final = self._of(history.evaluated.round_number) if history.evaluated else None
        if final is not None:
            best = self._of(history.best.round_number) if history.best else None
            write_classes(self.run.store.folder, ClassResults(self._names(len(final.confusion)), final, best))
        return {}

    def _of(self, round_number: int) -> Confusion | None:
        """Return the counts after a round; None if they were not made, or not in this process."""
        counts = self._of_round.get(round_number)
        return None if counts is None else Confusion.of(round_number, counts)

    def _names(self, count: int) -> list[str]:
        names = list(dataset_of(self.config).spec.class_names)
        return names if len(names) == count else [str(number) for number in range(count)]
