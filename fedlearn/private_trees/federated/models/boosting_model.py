"""Boosting on the noisy sums of all nodes, as a model; see `fedlearn.private_trees.sums.cyclic`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.config import RunConfig
from fedlearn.core.metrics import PRIVATE_CLASSIFIER, PRIVATE_REGRESSOR
from fedlearn.core.state import Array, State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation
from fedlearn.models.models_of_tables import table_of
from fedlearn.models.sums import IntArray, SumsModel
from fedlearn.models.torch.measuring import of_classes, of_numbers
from fedlearn.plugins.options import options_for
from fedlearn.private_trees.federated.models.table_checks import views_of
from fedlearn.private_trees.sums.boosted import WIDTH
from fedlearn.private_trees.sums.cyclic import FIRST_SHARE, CyclicBoosting, CyclicModel
from fedlearn.private_trees.sums.losses import UNIT, LogCosh, Logistic

PAIRS_FOR_CLASSES, PAIRS_FOR_NUMBERS = 0, 3


class Boosting(SumsModel):
    """Boosting of one column after another on the sums of all nodes.

    Parameters
    ----------
    schema
        Declared columns of the table, with classes or with bounds of its target.
    pairs
        Number of pairs of columns that are boosted, too; None: 3 if the target is a number, else 0.
    """

    first_share = FIRST_SHARE

    def __init__(self, schema: TableSchema, *, pairs: Annotated[int, Field(ge=0)] | None = None) -> None:
        super().__init__(schema)
        self.views = views_of(schema)
        self.classes = len(schema.classes)
        loss = Logistic(self.classes) if self.classes else LogCosh(WIDTH)
        if pairs is None:
            pairs = PAIRS_FOR_CLASSES if self.classes else PAIRS_FOR_NUMBERS
        self.cyclic = CyclicBoosting(self.views, loss, pairs)
        self._last: tuple[State, CyclicModel | None] | None = None
        self.metrics = PRIVATE_CLASSIFIER if self.classes else PRIVATE_REGRESSOR

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        made = super().planned(config)
        if config.rounds.total == 1:  # one round can learn the start alone, which gets all of epsilon
            made.plan, made.cyclic = replace(made.plan, first=1.0), replace(self.cyclic, alone=True)
        made._last = None  # it was computed under another plan
        return made

    def length(self, round_number: int) -> int:
        """Return the number of sums: in round 1 those of all columns, later those of the largest group of columns."""
        return self.cyclic.length(round_number)

    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums of a round in the L1 norm, in units of 2^-20."""
        return self.cyclic.sensitivity(round_number)

    def most_of_one(self, round_number: int) -> int:
        """Return the weight of one record, `UNIT`: it lies in one cell of each column, with a row of that norm."""
        return UNIT

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the sums of these examples, flat: (length,), filled up with zeros."""
        return self.cyclic.asked_by(self._model_of(state), examples.inputs, self._target(examples))

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy for classes, the absolute error for a number as target."""
        if self.classes:
            return of_classes(self.shares(state, examples.inputs), examples)
        return of_numbers(self.predict(state, examples.inputs), examples, self._bounds)

    def shares(self, state: State, features: Array) -> NDArray[np.float64]:
        """Return the probability of each class, (rows, classes)."""
        assert isinstance(self.cyclic.loss, Logistic)
        return self.cyclic.loss.shares(self.score(state, features))

    def predict(self, state: State, features: Array) -> NDArray[np.float64]:
        """Return predictions (rows,) of a number in the target's unit, inside its bounds."""
        low, high = self._bounds
        return np.asarray(low + np.clip(self.score(state, features)[:, 0], 0, 1) * (high - low))

    def score(self, state: State, features: Array) -> NDArray[np.float64]:
        """Return the scores, (rows, outputs); before round 1 those of equal classes, or of the bounds' middle."""
        model = self._model_of(state)
        if model is None:
            return np.full((len(features), self.cyclic.loss.outputs), 0.0 if self.classes else 0.5)
        return model.score(self.views.encode(features))

    def _model_of(self, state: State) -> CyclicModel | None:
        """Return the boosted model of a state, None before round 1; the model of the last state is kept."""
        if self._last is None or self._last[0] is not state:
            self._last = state, self.cyclic.model(self.released(state)) if len(state["reports"]) else None
        return self._last[1]

    @property
    def _bounds(self) -> tuple[float, float]:
        assert self.schema.target_bounds is not None
        return self.schema.target_bounds

    def _target(self, examples: Examples) -> NDArray[np.float64]:
        targets = examples.targets.astype(np.float64)
        if self.classes:
            return targets
        low, high = self._bounds
        return (np.clip(targets, low, high) - low) / (high - low)


def dp_boosting(spec: DataSpec, options: Mapping[str, Any]) -> Boosting:
    """Return the model ``dp-boosting`` for a table; raise `SettingError` for other data."""
    given = options_for(Boosting, options, setting="model.options", reserved=("schema",))
    return Boosting(table_of("dp-boosting", spec), **given)
