"""A trained model with its preparation: made once, asked for predictions many times."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.model import Model
from fedlearn.models.predicted import Predicted, predicted
from fedlearn.predicting.lost import Lost
from fedlearn.predicting.predictions_in_words import Wanted, named, probabilities, target_names
from fedlearn.predicting.preparation import Preparation

log = logging.getLogger("fedlearn")


@dataclass(frozen=True, slots=True)
class Predictor:
    """A model with a state, for new rows.

    Parameters
    ----------
    preparation : Preparation
        How rows are prepared.
    model : Model
        The run's model.
    state : State
        Its parameters.
    """

    preparation: Preparation = field(repr=False)
    model: Model
    state: State = field(repr=False)
    _said: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def spec(self) -> DataSpec:
        """The public facts of the run's data."""
        return self.preparation.spec

    def raw(self, rows: Any, *, lost: Lost | None = None) -> Predicted:
        """Return predictions as numbers of classes and probabilities.

        Parameters
        ----------
        rows
            As in `Preparation.arrays`.
        lost
            Counts cells that are not as declared. Without it each line about them is said, once.
        """
        counted = Lost() if lost is None else lost
        found = predicted(self.model, self.state, self.preparation.arrays(rows, lost=counted), self.spec)
        for line in set(counted.lines) - self._said if lost is None else ():
            self._said.add(line)
            log.warning(line)
        return found

    def predict(self, rows: Any, *, threshold: float | None = None, top: int | None = None) -> Any:
        """Return a prediction for each row; see `fedlearn.Run.predict`."""
        wanted = Wanted(threshold, top)
        if self.spec.classes:
            wanted.check(self.spec)
        answers = named(self.spec, self.raw(rows), wanted)
        if answers.ndim != 2 or not self.spec.target_names:
            return answers
        import pandas as pd

        return pd.DataFrame(answers, columns=list(target_names(self.spec)))

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return the probability of each class, or label, for each row; see `fedlearn.Run.predict_proba`."""
        return probabilities(self.raw(rows))
