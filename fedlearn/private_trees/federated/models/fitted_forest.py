"""A federated forest with its trees, which reads like a fitted estimator of scikit-learn.

All that it shows is computed from the published trees of the run's state, so that reading it costs no epsilon beyond
what the run has spent (post-processing).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import TableSchema
from fedlearn.private_trees.node_table import NodeTable
from fedlearn.private_trees.table_cells import columns_of, numbers_of
from fedlearn.private_trees.tree_drawing import Drawable, Words

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], FloatArray]

NOTICE = (
    "read from published trees: it costs no further epsilon; their values hold noise, so that a feature without "
    "influence may have some importance"
)


class FittedForest(Drawable):
    """The forest of a run: `rules`, `export_text`, `plot`, `feature_importances_`, `predict`.

    Parameters
    ----------
    schema : TableSchema
        The declared columns and target.
    table : NodeTable
        The trees; the value of a leaf is in the target's unit, or holds the shares of the classes.
    predict : callable
        Returns the model's outputs for rows (rows, features), as the run evaluates them.

    Attributes
    ----------
    table_ : NodeTable
        The trees, as flat arrays.
    feature_names_in_ : ndarray of str
        The declared features: numeric ones, then categorical ones.
    n_features_in_ : int
        Number of features.
    notice_ : str
        What importances cost, and what they are worth.
    """

    notice_: ClassVar[str] = NOTICE

    def __init__(self, schema: TableSchema, table: NodeTable, predict: Predict) -> None:
        self.schema = schema
        self.table_ = table
        self._outputs = predict
        self.feature_names_in_ = np.array(schema.features, dtype=object)
        self.n_features_in_ = len(schema.features)

    def importances(self) -> dict[str, float]:
        """Return feature -> importance, the largest first; no epsilon is spent (`notice_`)."""
        pairs = zip(self.schema.features, self.feature_importances_.tolist(), strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """Return (rows,) the prediction for each row.

        Parameters
        ----------
        X : DataFrame or array of shape (rows, features)
            A frame's columns are found by their names, and hold categories as they were declared. An array has the
            columns of `feature_names_in_`, with the places of the categories among the declared ones. What is not
            declared is missing.
        """

    def __repr__(self) -> str:
        """Return the number of trees, their features and their target in one line."""
        trees = f"{self.table_.num_trees} trees of {self.n_features_in_} features"
        return f"<{type(self).__name__}: {trees} for {self.schema.target!r}>"

    def _rows(self, X: Any) -> FloatArray:
        """Return rows as the model takes them: numbers, places of categories, NaN where a value is missing."""
        is_frame, names = hasattr(X, "columns"), self.schema.features
        if is_frame:
            if absent := [name for name in names if name not in X.columns]:
                raise UsageError(f"the data frame has no column {absent[0]!r}, from which the run has learned")
            X = X[list(names)]
        columns = columns_of(X)
        if len(columns) != len(names):
            raise UsageError(f"X has {len(columns)} columns: the run has learned from {len(names)}")
        words = self.schema.categories if is_frame else {}
        of_each = [
            _places(column, words[name]) if name in words else numbers_of(column, else_missing=True)
            for name, column in zip(names, columns, strict=True)
        ]
        return np.column_stack(of_each)

    def _check_is_fitted(self) -> None:
        """Accept every forest: before round 1 it has no tree."""

    def _words(self, decimals: int) -> Words:
        return Words(features=list(self.schema.features), decimals=decimals)


class FittedRegressor(FittedForest):
    """A forest that predicts numbers."""

    def predict(self, X: Any) -> FloatArray:
        """Return (rows,) predictions in the target's unit, inside its declared bounds; `X` as in `FittedForest`."""
        return self._outputs(self._rows(X))

    def _words(self, decimals: int) -> Words:
        first = len(self.schema.bounds)
        names = {first + place: words for place, words in enumerate(self.schema.categories.values())}
        orders = {feature: np.arange(len(words)) for feature, words in names.items()}
        return replace(super()._words(decimals), orders=orders, categories=names)


class FittedClassifier(FittedForest):
    """A forest that predicts classes.

    Parameters
    ----------
    schema, table, predict
        As in `FittedForest`; `predict` returns the shares of the trees' votes, (rows, classes).
    codes : sequence of sequences of str
        For each feature, the test of each of its codes in words, as "job = clerk" or "age <= 30".

    Attributes
    ----------
    classes_ : ndarray of str
        The declared classes.
    """

    def __init__(
        self, schema: TableSchema, table: NodeTable, predict: Predict, *, codes: Sequence[Sequence[str]]
    ) -> None:
        super().__init__(schema, table, predict)
        self._codes = codes
        self.classes_ = np.array(schema.classes, dtype=object)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return (rows,) the likeliest class of each row; `X` as in `FittedForest`."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return (rows, classes) the shares of the trees' votes, in the order of `classes_`; `X` as in `predict`."""
        return self._outputs(self._rows(X))

    def _words(self, decimals: int) -> Words:
        return replace(super()._words(decimals), codes=self._codes, classes=list(self.schema.classes))


def _places(column: Any, categories: Sequence[str]) -> FloatArray:
    """Return the place of each value among the declared categories, NaN for any other; 1.0 is the category "1".

    >>> _places(np.array(["b", " a", "z", None], object), ("a", "b"))
    array([ 1.,  0., nan, nan])
    """
    place = {word: float(number) for number, word in enumerate(categories)}
    return np.array([place.get(_text(value), np.nan) for value in np.asarray(column).tolist()], np.float64)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).strip()
