"""Naive Bayes on the noisy counts of all nodes, as a model; see `fedlearn.private_trees.sums.bayes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.state import Array, State
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.model import Evaluation
from fedlearn.models.models_of_tables import table_of
from fedlearn.models.sums import IntArray, SumsModel
from fedlearn.models.torch.measuring import of_classes
from fedlearn.plugins.options import options_for
from fedlearn.private_trees.federated.models.table_checks import views_of, wrong_target
from fedlearn.private_trees.sums.bayes import counts_of, starts_of, tables_of
from fedlearn.private_trees.sums.rounds_search import is_little


class NaiveBayes(SumsModel):
    """Naive Bayes on the counts of all nodes, in one round.

    Parameters
    ----------
    schema
        Declared columns and classes of the table.
    """

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self.views = views_of(schema)
        self.classes = len(schema.classes)
        self.start = 0  # how often each record is counted in its class alone, before the columns are counted

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings; where noise is wide, the classes get half of epsilon."""
        made = super().planned(config)
        local = config.privacy.trust == "local"
        declared, preset = config.gate.max_examples, RunConfig().gate.max_examples
        records = declared * config.clients if declared != preset else None
        is_wide = is_little(config.privacy.epsilon, config.clients if local else 1, records)
        made.start = max(len(self.views.sizes), 1) if is_wide else 0
        return made

    def length(self, round_number: int) -> int:
        """Return the number of counts: of each class one a bin of each column, and its own if `start`."""
        return (int(starts_of(self.views)[-1]) + bool(self.start)) * self.classes

    def unit(self, round_number: int) -> int:
        """Return the number of counts that a record enters: one for each column, and `start` for its class."""
        return max(len(self.views.sizes), 1) + self.start

    def most_of_one(self, round_number: int) -> int:
        """Return the most that a record adds to one count: 1 in a cell, `start` in its class."""
        return max(self.start, 1)

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the counts of these examples, flat: (length,)."""
        codes = self.views.encode(examples.inputs)
        counts = counts_of(codes, examples.targets, self.views, self.classes)
        if self.start:
            first = self.start * np.bincount(examples.targets.astype(np.int64), minlength=self.classes)
            counts = np.concatenate([first[None, :], counts])
        return counts.ravel()

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy on `examples`; only the sums of the first round are used."""
        return of_classes(self.shares(state, examples.inputs), examples)

    def shares(self, state: State, features: Array) -> NDArray[np.float64]:
        """Return the probability of each class, (rows, classes)."""
        if not len(state["reports"]):
            return np.full((len(features), self.classes), 1 / self.classes)
        first = self.released(state)[0]
        counts, start = first.sums.reshape(-1, self.classes), None
        if self.start:
            start, counts = counts[0] / self.start, counts[1:]
        tables = tables_of(counts, self.views, first.variance, start)
        score = tables.score(self.views.encode(features))
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def dp_naive_bayes(spec: DataSpec, options: Mapping[str, Any]) -> NaiveBayes:
    """Return the model ``dp-naive-bayes`` for a table with classes; raise `SettingError` for other data."""
    options_for(NaiveBayes, options, setting="model.options", reserved=("schema",))
    table = table_of("dp-naive-bayes", spec)
    if not spec.classes:
        raise wrong_target("dp-naive-bayes", spec, predicts="classes")
    return NaiveBayes(table)
