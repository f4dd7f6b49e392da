"""Boosted trees of a run or of one table, which read like a fitted estimator of scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.data_spec import Examples
from fedlearn.private_trees.exact.coded_records import Records, Table
from fedlearn.private_trees.exact.column_bins import Cells
from fedlearn.private_trees.exact.exact_losses import FloatArray, Loss
from fedlearn.private_trees.exact.flat_trees import LARGEST, Trees
from fedlearn.private_trees.exact.xgboost_json import Column, as_xgboost, thresholds
from fedlearn.private_trees.federated.models.fitted_forest import FittedClassifier, FittedForest, FittedRegressor
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.tree_drawing import Words

NOTICE = "trees of exact sums, without a promise of privacy: splits and leaves tell of the records (exact_sums.md)"


class _Boosted(FittedForest):
    """What both kinds have in common.

    Parameters
    ----------
    table, cells, loss
        How columns are used, their cells, and the loss.
    edges, start, trees
        Edges of the bins of numbers, the score before the first tree, and the trees.
    """

    notice_: ClassVar[str] = NOTICE

    def __init__(
        self, table: Table, cells: Cells, loss: Loss, edges: list[FloatArray], start: FloatArray, trees: Trees
    ) -> None:
        FittedForest.__init__(self, table.schema, _node_table(trees, edges, len(start)), self._predicted)
        self._table, self._cells, self._loss, self._start = table, cells, loss, start
        self.edges_, self.trees_ = edges, trees

    @property
    def feature_importances_(self) -> FloatArray:
        """(features,) the share of each feature in the gains of all splits; they sum to 1, or all are 0."""
        inner = self.trees_.child >= 0
        gains = np.bincount(self.trees_.feature[inner], self.trees_.gain[inner], self.n_features_in_)
        return np.asarray(gains / gains.sum() if gains.sum() > 0 else gains)

    def decision_function(self, X: Any) -> FloatArray:
        """Return (rows,) scores, or (rows, classes) of more than two classes; `X` as in `predict`."""
        scores = self._scores(self._rows(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def to_xgboost(self, path: str | Path | None = None) -> dict[str, Any]:
        """Return the trees as XGBoost's JSON model, and write them to a file if one is named.

        XGBoost takes columns in the order of `feature_names_in_`, as float32, with the places of categories among the
        declared ones (``enable_categorical=True``), and NaN for what is missing.
        """
        columns = [
            *(Column(name, edges=edges) for name, edges in zip(self.schema.bounds, self.edges_, strict=True)),
            *(Column(name, words=len(words)) for name, words in self.schema.categories.items()),
        ]
        made = as_xgboost(self.trees_, columns, self._loss, self._start)
        if path is not None:
            Path(path).write_text(json.dumps(made))
        return made

    def _predicted(self, rows: FloatArray) -> FloatArray:
        scores = self._scores(rows)
        return self._loss.shares(scores) if self._loss.classes else self._loss.predicted(scores)

    def _scores(self, rows: FloatArray) -> FloatArray:
        examples = Examples(rows, np.zeros(len(rows)))
        records = Records(self._table, self._cells, examples, self.edges_, self._start)
        records.move_to(self.trees_)
        return records.scores

    def _words(self, decimals: int) -> Words:
        schema = self.schema
        is_multiple = len(self._start) > 1
        return _Tests(
            list(schema.features), None, list(schema.classes) if is_multiple else None, decimals,
            left=np.unpackbits(self.trees_.left, axis=1, bitorder="little").astype(bool),
            sizes=[*(len(each) + 1 for each in self.edges_), *self._cells.words],
            names=[()] * len(self.edges_) + [tuple(words) for words in schema.categories.values()],
        )  # fmt: skip


class BoostedRegressor(_Boosted, FittedRegressor):
    """Boosted trees that predict a number: `predict`, `decision_function`, `export_text`, `plot`, `to_xgboost`."""


class BoostedClassifier(_Boosted, FittedClassifier):
    """Boosted trees that predict classes: `predict_proba`, and what `BoostedRegressor` has."""

    def __init__(self, table: Table, *args: Any) -> None:
        super().__init__(table, *args)
        self.classes_ = np.array(table.schema.classes, dtype=object)


@dataclass(frozen=True, slots=True)
class _Tests(Words):
    """Words of tests that say which categories go where, and missing values, too."""

    left: NDArray[np.bool_] | None = None
    sizes: Sequence[int] = ()
    names: Sequence[tuple[str, ...]] = ()

    def tests(self, table: NodeTable, node: int) -> Sequence[str]:
        """Return the condition on the edge to each child."""
        assert self.left is not None
        feature, left = int(table.feature[node]), self.left[node]
        name, size, words = self.feature(table, node), self.sizes[feature], self.names[feature]
        if words:
            shown = (*words, "missing")
            sides = (
                [word for word, is_left in zip(shown, left, strict=False) if is_left is side] for side in (True, False)
            )
            return [f"{name} in {{{', '.join(side)}}}" for side in sides]
        if left[:size].all():
            return [f"{name} is known", f"{name} is missing"]
        threshold, missing = f"{table.threshold[node]:.{self.decimals}f}", " or missing"
        return [
            f"{name} <= {threshold}{missing * int(left[size])}",
            f"{name} > {threshold}{missing * int(not left[size])}",
        ]


def _node_table(trees: Trees, edges: Sequence[FloatArray], outputs: int) -> NodeTable:
    """Return trees as text and pictures take them; a test of categories has the threshold 0."""
    tree = np.searchsorted(trees.root, np.arange(len(trees.feature)), side="right") - 1
    value = np.zeros((len(trees.feature), outputs))
    value[np.arange(len(value)), tree % outputs] = trees.value
    is_inner = trees.child >= 0
    return NodeTable.of_nodes(
        root=trees.root,
        weight=np.ones(len(trees.root)),
        feature=trees.feature,
        threshold=np.where(is_inner, np.minimum(thresholds(trees, edges), LARGEST), np.nan),
        first_child=trees.child,
        num_children=2 * is_inner,
        value=value,
    )
