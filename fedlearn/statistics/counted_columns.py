"""Statistics of all nodes, as models of sums in one round; see `fedlearn.statistics.column_histograms`.

``dp-statistics`` is private: noise is in the sums, and nodes pay for it. ``statistics`` has no noise, and is for secure
sums alone: a real node adds its own only among listed peers, and into no sum that with those before would tell what a
single node has added (`client.owner.signed_sets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.metric import EPSILON, LOSS
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation
from fedlearn.models.models_of_tables import table_of
from fedlearn.models.sums import IntArray, SumsModel
from fedlearn.plugins.options import options_for
from fedlearn.statistics.column_histograms import UNIT, Columns, Statistics


class PrivateStatistics(SumsModel):
    """Number of records, and mean, deviation and histogram of each declared column, with noise.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    bins : int, default=20
        Bins of each numeric column, from 1 to 1000.
    """

    metrics = Metrics((EPSILON,), (LOSS,))

    def __init__(self, schema: TableSchema, *, bins: Annotated[int, Field(ge=1, le=1000)] = 20) -> None:
        super().__init__(schema)
        self._columns = Columns(schema, bins)

    def length(self, round_number: int) -> int:
        """Return the number of sums."""
        return self._columns.length

    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums, in the L1 norm: one UNIT to each statistic."""
        return self._columns.most

    def most_of_one(self, round_number: int) -> int:
        """Return the most that a record adds to a single sum."""
        return UNIT

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the sums of these examples."""
        return self._columns.sums(examples.inputs, examples.targets)

    def fitted(self, state: State) -> Statistics:
        """Return the statistics that the sums of a run tell; reading them costs no epsilon.

        Raises
        ------
        UsageError
            If no round has been committed.
        """
        for first in self.released(state):
            return self._columns.read(first.sums, first.variance)
        raise UsageError("no round was committed: there are no statistics to read")

    def statistics(self, state: State) -> dict[str, object]:
        """Return what `fitted` tells, as plain values for the result of the run."""
        return self.fitted(state).to_plain()

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return how surprising rows are: -log of the share of a row's cell, mean over columns, as the loss."""
        found = self.fitted(state).columns.values() if len(state["reports"]) else ()
        counts = [np.maximum(each.counts, 0) + 1 for each in found] or [np.ones(size) for size in self._columns.sizes]
        cells = self._columns.cells(examples.inputs, examples.targets)
        losses = [-np.log((part / part.sum())[cell]) for part, cell in zip(counts, cells, strict=True)]
        return Evaluation({LOSS.name: float(np.mean(losses, axis=0).sum())}, len(examples))


class ExactStatistics(PrivateStatistics):
    """The same without noise, for secure sums."""

    learner = "exact-sums"
    metrics = Metrics((), (LOSS,))

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings; raise `SettingError` without secure sums."""
        if not config.is_secure:
            why = "exact statistics of single clients would be seen: use 'masked', or model.name = 'dp-statistics'"
            raise SettingError("secure.sums", config.secure.sums, why)
        return super().planned(config)

    def _scale(self, round_number: int) -> float:
        return 0.0

    def _variance(self, round_number: int) -> float:
        return 0.0


def dp_statistics(spec: DataSpec, options: Mapping[str, Any]) -> PrivateStatistics:
    """Return the model ``dp-statistics`` for a table; raise `SettingError` for other data."""
    options = options_for(PrivateStatistics, options, setting="model.options", reserved=("schema",))
    return PrivateStatistics(table_of("dp-statistics", spec, of_one_target=False), **options)


def exact_statistics(spec: DataSpec, options: Mapping[str, Any]) -> ExactStatistics:
    """Return the model ``statistics`` for a table; raise `SettingError` for other data."""
    options = options_for(ExactStatistics, options, setting="model.options", reserved=("schema",))
    return ExactStatistics(table_of("statistics", spec, of_one_target=False), **options)
